"""Masks that cancel at a receiver, and the keys that its senders share."""

REASONS = frozenset(
    {
        "content",
        "version",
        "address",
        "sender",
        "receiver",
        "job",
        "certificate",
        "revoked",
        "signature",
        "key",
        "stale",
    }
)
"""Every `MessageRefused.reason` of a key agreement, whose modules only a peer with masks imports."""
LARGEST_PAD = 1 << 28
"""Words of one pad (2 GiB): the 32-bit block counter of ChaCha20 stays far from its end."""
