"""Files that belong together: put in place whole or not at all, and known again when they are read.

A summary holds the digest of every file that was written with it, and comes last. So whatever happens to a writer, or
to several at once, a directory holds one whole set of results, or none: a reader compares what it reads with the
summary. A lock keeps a second writer out (`locks`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from tacit.core.errors import ResultError
from tacit.models.tensor_file import parsed
from tacit.privacy.ledger.store import sync
from tacit.results.locks import STAGED, being_written, clear, writing

SUMMARY, FILES = "summary.json", "files"
"""The file that comes last, and the key in it under which the digests of the others stand."""
LARGEST = 2**28
"""Bytes of a file of results that are read, at most."""
DEEPEST = 50
"""Tables within tables."""
LOOKS, NAP = 100, 0.02
"""How often a reader looks again while a writer puts files in place, and the seconds in between."""

AGAIN = "run again into a new directory"
Result = TypeVar("Result")


class TornError(ResultError):
    """Files of a directory that do not belong together, or are missing."""


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return JSON whose bytes depend on the content only."""
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def seal(files: Mapping[str, bytes], summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files with a summary that holds their digests."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**files, SUMMARY: json_bytes({**summary, FILES: digests})}


def put(directory: Path, files: Mapping[str, bytes], last: str = SUMMARY, stale: frozenset[str] = frozenset()) -> None:
    """Put files in place by renaming, `last` as the last and its old form gone first; a name may be "folder/name".

    Of the files that were written with the old summary, those that have no successor are removed, and what `stale`
    names; all else in the directory stays as it is.
    """
    with writing(directory):
        try:
            _stage(directory / STAGED, files)
            _commit(directory, files, last, stale | _listed(directory))
        except OSError as error:
            raise ResultError(f"{directory} cannot be written ({error}); give another directory with --out") from error
        finally:
            clear(directory / STAGED)


def _stage(staged: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = staged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _commit(directory: Path, files: Mapping[str, bytes], last: str, stale: frozenset[str]) -> None:
    folders = {(directory / name).parent for name in files} - {directory}
    for folder in folders:
        if folder.is_symlink():
            raise ResultError(f"{folder} is a link, expected a folder; remove it, or name another directory")
        folder.mkdir(exist_ok=True)
    for name in files:
        if (directory / name).is_dir():
            raise ResultError(
                f"{directory / name} is a directory, expected a file; remove it, or name another directory"
            )
    # Summaries are last, that of the whole after those of its parts; they go in the reverse order.
    order = sorted(files, key=lambda name: (name == last, PurePosixPath(name).name == last))
    for name in (name for name in reversed(order) if PurePosixPath(name).name == last):
        (directory / name).unlink(missing_ok=True)
    for name in sorted(stale - files.keys()):
        _remove(directory, name)
    for name in order:
        (directory / STAGED / name).replace(directory / name)
    for folder in (*folders, directory):
        sync(folder)


def _remove(directory: Path, name: str) -> None:
    path = directory / name
    if path.parent.is_symlink() or (path.is_dir() and not path.is_symlink()):
        return  # nothing that was written here
    path.unlink(missing_ok=True)
    if path.parent != directory and path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _listed(directory: Path) -> frozenset[str]:
    """Return the files that were written with the summary that is there; a file changed since is not among them."""
    try:
        return frozenset(Sealed.read(directory).intact())
    except ResultError:
        return frozenset()


class Sealed:
    """One set of files as a summary lists them."""

    def __init__(self, folder: Path, content: bytes) -> None:
        self.folder = folder
        self._content = content
        self.summary = _parsed(folder / SUMMARY, content)
        """Content of summary.json."""
        self.digests: dict[str, str] = _checked_list(folder / SUMMARY, self.summary.get(FILES))

    @classmethod
    def read(cls, folder: Path) -> Sealed:
        """Read the summary of a directory."""
        try:
            content = read_file(folder / SUMMARY)
        except TornError as error:
            raise TornError(
                f"{folder} is not a finished run: there is no {SUMMARY} in it; give a directory that "
                "`tacit run --out` wrote"
            ) from error
        return cls(folder, content)

    def file(self, name: str) -> bytes:
        """Return what a file holds, if it is the one that was written with this summary."""
        path = self.folder / name
        if name not in self.digests:
            raise ResultError(f"{self.folder / SUMMARY}: {FILES!r} does not list {name!r}; {AGAIN}")
        content = read_file(path)
        if hashlib.sha256(content).hexdigest() != self.digests[name]:
            raise TornError(f"{path} was not written with the {SUMMARY} beside it, or was changed since; {AGAIN}")
        return content

    def intact(self) -> list[str]:
        """Return the names of the files that are as they were written."""
        return [name for name in self.digests if self._is_intact(name)]

    def _is_intact(self, name: str) -> bool:
        try:
            self.file(name)
        except ResultError:
            return False
        return True

    def part(self, folder: str) -> Sealed:
        """Return the files of a folder within."""
        return Sealed(self.folder / folder, self.file(f"{folder}/{SUMMARY}"))


def settled(folder: Path, read: Callable[[Sealed], Result]) -> Result:
    """Read a directory, and once more where a writer has replaced files in the meantime."""
    for _ in range(LOOKS):
        found: Sealed | None = None
        try:
            found = Sealed.read(folder)
            return read(found)
        except TornError as error:
            fault = error
            if being_written(folder):
                time.sleep(NAP)
            elif not _was_replaced(folder, found):
                break
    raise fault


def _was_replaced(folder: Path, found: Sealed | None) -> bool:
    try:
        return Sealed.read(folder)._content != (b"" if found is None else found._content)
    except TornError:
        return found is not None or being_written(folder)


def read_file(path: Path, most: int = LARGEST) -> bytes:
    """Return what a plain file holds."""
    try:
        # Not blocking: something else than a file might keep its reader waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ResultError(f"{path} is no plain file; {AGAIN}")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TornError(f"{path} is not there; {AGAIN}") from error
    except OSError as error:
        raise ResultError(f"{path} cannot be read ({error.strerror}); {AGAIN}") from error
    if len(content) > most:
        raise ResultError(f"{path} holds more than {most:,} bytes, the most that is read; {AGAIN}")
    return content


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        summary = parsed(content)
    except ValueError as error:
        raise ResultError(f"{path} cannot be read ({error}); {AGAIN}") from error
    if not isinstance(summary, dict):
        raise ResultError(f"{path} holds a {type(summary).__name__}, expected an object; {AGAIN}")
    refuse_deep(path, summary)
    return summary


def refuse_deep(path: Path, content: Any) -> None:
    """Refuse tables within tables that go too deep to be handled."""
    level = [content]
    for _ in range(DEEPEST):
        tables = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [inner for table in tables for inner in table]
        if not level:
            return
    raise ResultError(f"{path} has more than {DEEPEST} tables within each other; {AGAIN}")


def _checked_list(path: Path, files: Any) -> dict[str, str]:
    if files is None:
        raise ResultError(
            f"{path} has no {FILES!r}, the digests of the files beside it; it was written by an older tacit or by "
            "another program: run again, which its config.toml does"
        )
    if not isinstance(files, dict) or not all(is_file(k) and isinstance(v, str) for k, v in files.items()):
        raise ResultError(f"{path}: {FILES!r} is {str(files)[:80]!r}, expected digests by names of files; {AGAIN}")
    return files


def is_file(name: str) -> bool:
    """Whether this is the name of a file of results, or of one in a folder."""
    folder, _, file = name.rpartition("/")
    return is_name(file) and (not folder or is_name(folder))


def is_name(name: Any) -> bool:
    """Whether something is a name that files and folders of results have."""
    return isinstance(name, str) and re.fullmatch(r"\w[\w.+ -]{0,199}", name, re.ASCII) is not None
