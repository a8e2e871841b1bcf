"""002: private distributed online learning, on synthetic data and on RCV1, and its version with mini-batches."""

from tacit_reproduction.dola.minibatch import MINIBATCH
from tacit_reproduction.dola.rcv1 import RCV1
from tacit_reproduction.dola.synthetic import SYNTHETIC

__all__ = ["MINIBATCH", "RCV1", "SYNTHETIC"]
