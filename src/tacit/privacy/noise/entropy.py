"""Random bits of a peer's noise: a ChaCha20 key stream, keyed by the operating system."""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES = 32
_NONCE = bytes(16)  # a key is used once, so its nonce need not differ


class NoiseSource:
    """Uniform 64-bit words that cannot be foreseen, nor computed again later.

    Each request has a key of its own, fresh from the operating system, which is forgotten when the request is answered.
    So there is no state: nothing in memory leads back to an earlier draw, and neither a forked process nor a restored
    snapshot of a machine can draw the same noise again.

    Example:
      >>> from tacit.privacy.noise import NoiseSource
      >>> NoiseSource().words(3).dtype, NoiseSource().predictable
      (dtype('uint64'), False)
    """

    def __init__(self) -> None:
        self._next_key: bytes | None = None

    @classmethod
    def seeded_for_simulation(cls, seed: int) -> NoiseSource:
        """Return a source that repeats itself, for simulation and tests: noise that can be computed hides nothing."""
        source = cls()
        source._next_key = hashlib.sha256(f"tacit noise {seed}".encode()).digest()
        return source

    @property
    def predictable(self) -> bool:
        """Whether it was seeded, so that no peer may use it."""
        return self._next_key is not None

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh uniform words, from 0 on."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        key = os.urandom(_KEY_BYTES) if self._next_key is None else self._next_key
        stream = Cipher(ChaCha20(key, _NONCE), mode=None).encryptor().update(bytes(_KEY_BYTES + 8 * count))
        if self._next_key is not None:
            self._next_key = stream[:_KEY_BYTES]
        return np.frombuffer(stream, "<u8", count, offset=_KEY_BYTES)
