"""Models of the user's own as objectives: Flax, Equinox and plain functions behind one form (`networks.Network`)."""
