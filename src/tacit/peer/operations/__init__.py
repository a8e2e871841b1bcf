"""Operation of a peer: status, metrics, logs, and HTTP for programs on the same machine."""
