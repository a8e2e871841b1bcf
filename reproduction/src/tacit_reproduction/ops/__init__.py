"""OPS paper: online push-sum where trust goes one way."""
