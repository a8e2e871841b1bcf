"""Data sets of the texts."""
