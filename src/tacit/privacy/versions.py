"""A mapping of which old versions stay."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Versions(Generic[_K, _V]):
    """A mapping that never changes; the newest version holds the entries and an older one what differs from it.

    Baker's persistent array (1978): reading and extending the newest version costs O(1), and an old version without
    references is freed, since references go from old to new.
    """

    __slots__ = ("_differs", "_entries", "_lock", "_newer")

    def __init__(self, entries: dict[_K, _V], lock: threading.RLock | None = None) -> None:
        self._entries = entries
        self._newer: Versions[_K, _V] | None = None
        self._differs: Mapping[_K, _V | None] = {}
        self._lock = lock or threading.RLock()

    def extended(self, changes: Mapping[_K, _V | None]) -> Versions[_K, _V]:
        """Return a version with other entries; None takes one out."""
        with self._lock:
            entries = self._current()
            newer = Versions(entries, self._lock)
            self._differs = {key: entries.get(key) for key in changes}
            entries.update({key: entry for key, entry in changes.items() if entry is not None})
            for key in [key for key, entry in changes.items() if entry is None]:
                entries.pop(key, None)
            self._newer, self._entries = newer, {}
            return newer

    def get(self, key: _K, default: _V) -> _V:
        """Return an entry of this version."""
        with self._lock:
            return self._current().get(key, default)

    def items(self) -> list[tuple[_K, _V]]:
        """Return all of them."""
        with self._lock:
            return list(self._current().items())

    def _current(self) -> dict[_K, _V]:
        """Make this version the one that holds the entries, and return them."""
        path = []
        version = self
        while version._newer is not None:
            path.append(version)
            version = version._newer
        for older in reversed(path):
            newer, entries = version, version._entries
            newer._differs = {key: entries.get(key) for key in older._differs}
            for key, entry in older._differs.items():
                if entry is None:
                    entries.pop(key, None)
                else:
                    entries[key] = entry
            newer._newer, newer._entries = older, {}
            older._newer, older._entries, older._differs = None, entries, {}
            version = older
        return self._entries
