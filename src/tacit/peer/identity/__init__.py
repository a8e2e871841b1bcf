"""Names, keys and certificates of peers."""
