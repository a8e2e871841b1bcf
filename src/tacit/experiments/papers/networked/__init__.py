"""001 ch. 6: a model per cluster without a server, and how hard other clusters pull, tuned as it learns."""

from tacit.experiments.papers.networked.tuned import TUNED

__all__ = ["TUNED"]
