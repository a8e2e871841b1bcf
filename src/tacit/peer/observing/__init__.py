"""Status of a peer for observers and operators elsewhere: an HTTPS door of its own, by mutual TLS 1.3."""
