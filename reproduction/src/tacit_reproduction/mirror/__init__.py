"""Private online mirror descent: three clients, budgets, links that come and go, and MNIST (Dissertation)."""

from tacit_reproduction.mirror.constrained import CONSTRAINED
from tacit_reproduction.mirror.dynamic import DYNAMIC
from tacit_reproduction.mirror.lagrangian import LAGRANGIAN
from tacit_reproduction.mirror.mnist import MNIST
from tacit_reproduction.mirror.three_clients import THREE_CLIENTS

__all__ = ["CONSTRAINED", "DYNAMIC", "LAGRANGIAN", "MNIST", "THREE_CLIENTS"]
