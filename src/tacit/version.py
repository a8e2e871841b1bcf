"""The package's version, in a module of its own that any layer may read."""

__version__ = "0.2.0"
