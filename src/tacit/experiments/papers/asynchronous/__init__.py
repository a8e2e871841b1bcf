"""001 ch. 4: clients that are mostly away, late and poorly connected, and share 2 % of a model."""
