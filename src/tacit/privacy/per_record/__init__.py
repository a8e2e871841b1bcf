"""Clipped gradients of networks: norms of single records without their gradients, in memory that stays."""
