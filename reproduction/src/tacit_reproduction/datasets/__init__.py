"""The texts' data sets."""
