"""001 ch. 6: a model per cluster without a server, and how hard other clusters pull, tuned as it learns."""

from tacit_reproduction.networked.tuned import TUNED

__all__ = ["TUNED"]
