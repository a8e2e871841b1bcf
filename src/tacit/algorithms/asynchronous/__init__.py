"""Clients that are mostly away, and messages that hold a part of a model."""
