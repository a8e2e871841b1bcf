"""Steps that several methods share; not part of the API."""
