"""Steps that several methods share; nobody's API."""
