"""Slopes of means; the studies of mirror descent are in `tacit_reproduction.dissertation`."""
