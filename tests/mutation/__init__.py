"""Mutants: faults put into the privacy code on purpose, each of which a named test must notice."""
