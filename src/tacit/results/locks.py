"""One writer at a time for a directory of results, or for one file.

The lock is the system's (flock on a small file, which works on network drives too): it is free again however its holder
ends. The file names the holder, and goes when the work is done; so a reader that finds it, and the holder alive,
waits for what is about to be put in place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from tacit.core.errors import ResultError

LOCK, STAGED = ".tacit-lock", ".tacit-new"
"""In a directory: the lock, and the folder in which what is to come is made ready."""

_held: dict[Path, tuple[int, int]] = {}
"""Lock file -> process and thread that hold it here: a holder may save into its directory."""


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Be the only writer of a directory, which is made if it is not there.

    Leftovers of a killed writer are removed first. A directory that was made here and stays empty is removed.
    """
    made = not directory.exists()
    with contextlib.ExitStack() as held:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if made:
                held.callback(_remove_if_empty, directory)
            held.enter_context(_alone(directory / LOCK, directory))
            clear(directory / STAGED)
        except OSError as error:
            raise ResultError(f"{directory} cannot be written ({error}); give another directory with --out") from error
        yield


@contextlib.contextmanager
def writing_file(path: Path) -> Iterator[None]:
    """Be the only writer of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.with_name(f"{path.name}.lock"), path):
        yield


def being_written(directory: Path) -> bool:
    """Whether a writer is at work in a directory, as far as can be told without getting into its way."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            words = file.read(20).decode("ascii", "replace").strip()
        if words:
            os.kill(_process(words), 0)
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)  # another user's process
    return True


def _process(words: str) -> int:
    number = int(words)
    if not 0 < number < 2**31:
        raise ValueError(f"{number} is no process")
    return number


def clear(path: Path) -> None:
    """Remove a file or a folder, whatever it is; a link, not where it leads."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_if_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        directory.rmdir()


@contextlib.contextmanager
def _alone(lock: Path, what: Path) -> Iterator[None]:
    place = lock.parent.resolve() / lock.name
    own = os.getpid(), threading.get_ident()
    if _held.get(place) == own:
        yield
        return
    descriptor = _locked(place, what)
    _held[place] = own
    try:
        yield
    finally:
        del _held[place]
        place.unlink(missing_ok=True)  # before it is let go: a process that has it open sees that it is gone
        os.close(descriptor)


def _locked(place: Path, what: Path) -> int:
    while True:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(place, descriptor):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, b"%d\n" % os.getpid())
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "another"
            os.close(descriptor)
            raise ResultError(
                f"{what} is being written by process {holder}; wait until it has ended, or name another place"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has just removed it: lock the next one


def _is_still(place: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(place))
    return False
