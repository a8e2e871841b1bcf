"""One model per cluster without a server, with mixing tuned as it learns (Gauthier 2023, ch. 6)."""

from tacit_reproduction.networked.tuned import TUNED

__all__ = ["TUNED"]
