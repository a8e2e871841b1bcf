"""Private distributed online learning on synthetic data and RCV1, and with mini-batches (Li et al.)."""

from tacit_reproduction.dola.minibatch import MINIBATCH
from tacit_reproduction.dola.rcv1 import RCV1
from tacit_reproduction.dola.synthetic import SYNTHETIC

__all__ = ["MINIBATCH", "RCV1", "SYNTHETIC"]
