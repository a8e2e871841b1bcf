"""000: private online mirror descent: three clients, budgets, links that come and go, and MNIST."""

from tacit.experiments.papers.mirror.constrained import CONSTRAINED
from tacit.experiments.papers.mirror.dynamic import DYNAMIC
from tacit.experiments.papers.mirror.lagrangian import LAGRANGIAN
from tacit.experiments.papers.mirror.mnist import MNIST
from tacit.experiments.papers.mirror.three_clients import THREE_CLIENTS

__all__ = ["CONSTRAINED", "DYNAMIC", "LAGRANGIAN", "MNIST", "THREE_CLIENTS"]
