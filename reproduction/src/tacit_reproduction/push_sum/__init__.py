"""Online push-sum over one-sided trust, on Room Occupancy and on SUSY (OPS paper)."""

from tacit_reproduction.push_sum.study import OCCUPANCY, SUSY

__all__ = ["OCCUPANCY", "SUSY"]
