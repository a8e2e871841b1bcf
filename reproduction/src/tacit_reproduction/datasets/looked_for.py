"""Record of the data files that a process has asked for, present or absent: results depend on both."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

_ASKED: set[str] = set()


def looked_for(more: Iterable[str] = ()) -> frozenset[str]:
    """Return the files that this process has asked for, having taken in some more."""
    _ASKED.update(more)
    return frozenset(_ASKED)


def digests(files: Iterable[str], folders: Sequence[Path]) -> dict[str, str | None]:
    """Return the SHA-256 of each file as it lies in the first folder that has it; None where none has."""
    found = {file: next((f / file for f in folders if (f / file).is_file()), None) for file in sorted(files)}
    return {file: None if path is None else _sha256(path, _stamp(path)) for file, path in found.items()}


def _stamp(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@functools.cache
def _sha256(path: Path, stamp: tuple[int, int, int]) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
