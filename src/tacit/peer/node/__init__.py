"""A whole peer: round machine, store and outbox, and the service that drives them."""
