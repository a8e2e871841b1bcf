"""Private learning of objectives that need not be smooth, over a network of peers (Gauthier 2023, ch. 3)."""

from tacit_reproduction.nonsmooth.study import ELASTIC_NET, LAD, RIDGE

__all__ = ["ELASTIC_NET", "LAD", "RIDGE"]
