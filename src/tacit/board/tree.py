"""Files of results below a directory, folder by folder: a folder is listed anew only where it has changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

DEEPEST = 8
"""Folders within folders."""
MOST_FOLDERS = 50_000
JUST_NOW = 10**9
"""Nanoseconds after a change within which another one may have the same time."""


@dataclass
class Folder:
    """What a folder held when it was last listed."""

    changed: int
    """Its time of change, in nanoseconds."""
    seen: int
    """When it was listed."""
    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def holds(self, status: os.stat_result) -> bool:
        """Whether a listing is still that of the folder."""
        return self.changed == status.st_mtime_ns and self.seen - self.changed > JUST_NOW


@dataclass
class Tree:
    """Folders below a directory. Links are not followed, so that nothing outside of it is found."""

    root: Path
    wanted: Callable[[str], object]
    """Whether a file of this name is told of."""
    entered: frozenset[str] = frozenset()
    """Hidden folders that are looked into."""
    _known: dict[str, Folder] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Path, frozenset[str]]]:
        """Yield each folder that has something that is wanted, with the names of it."""
        known, self._known = self._known, {}
        waiting = [("", 0)]
        while waiting and len(self._known) < MOST_FOLDERS:
            place, depth = waiting.pop()
            folder = self._folder(place, known.get(place))
            if folder is None:
                continue
            self._known[place] = folder
            if folder.files:
                yield self.root / place, folder.files
            if depth < DEEPEST:
                waiting += [(f"{place}/{name}" if place else name, depth + 1) for name in folder.folders]

    def _folder(self, place: str, before: Folder | None) -> Folder | None:
        path = f"{self.root}/{place}" if place else str(self.root)
        try:
            status = os.lstat(path) if place else self.root.stat()
            if not stat.S_ISDIR(status.st_mode):
                return None
            if before is not None and before.holds(status):
                return before
            seen = time.time_ns()
            with os.scandir(path) as entries:
                found = [(each.name, each.is_dir()) for each in entries if not each.is_symlink()]
        except OSError:  # it is gone, or not ours to read
            return None
        return Folder(
            status.st_mtime_ns,
            seen,
            frozenset(name for name, inner in found if not inner and self.wanted(name)),
            tuple(sorted(name for name, inner in found if inner and (name[:1] != "." or name in self.entered))),
        )
