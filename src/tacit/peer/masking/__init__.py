"""Masks that cancel at a receiver, and the keys that its senders share."""
