"""File descriptors: how many are left, and waiting for one where none is.

A process that has none left can go on as soon as it has one again: nothing is lost while nothing was written. So a
charge that must open a file waits here instead of failing.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

SHORT = (errno.EMFILE, errno.ENFILE)
"""No descriptor left, in this process or in the whole system."""
PAUSE = 0.05
"""Seconds between two attempts."""
LISTED = Path("/dev/fd")

_waiting: dict[object, float] = {}
"""Waiting caller -> since when."""


def when_free(act: Callable[[], T]) -> T:
    """Return what `act` returns, tried again for as long as no descriptor is left for it.

    `act` must have done nothing when it fails so: it opens, and does not write.
    """
    me = object()
    try:
        while True:
            try:
                return act()
            except OSError as error:
                if error.errno not in SHORT:
                    raise
            if me not in _waiting:  # a status page that asks for `shortage` may not be up yet
                _waiting[me] = time.monotonic()
                _LOG.warning("%s", shortage())
            time.sleep(PAUSE)
    finally:
        _waiting.pop(me, None)


def await_free(count: int) -> None:
    """Wait until `count` files can be opened; for libraries that open them and do not say why they cannot."""

    def probe() -> None:
        opened: list[int] = []
        try:
            opened += (os.open(os.devnull, os.O_RDONLY) for _ in range(count))
        finally:
            for descriptor in opened:
                os.close(descriptor)

    when_free(probe)


def shortage() -> str | None:
    """Return a warning while a caller waits for a descriptor; None where none does."""
    since = min(_waiting.copy().values(), default=None)
    if since is None:
        return None
    return (
        f"no file can be opened for {time.monotonic() - since:.0f} s, so that nothing is charged and nothing leaves: "
        "the process has as many open as it may (`ulimit -n`); raise the limit, or close what holds them"
    )


def descriptors_left() -> int | None:
    """Return how many descriptors this process may still open; None where that is unknown."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = sum(1 for _ in LISTED.iterdir()) - 1  # the listing itself is one
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - used)


def raise_limit(wanted: int = 65_536) -> None:
    """Let this process open as many files as the system allows it to, up to `wanted`."""
    try:
        import resource
    except ImportError:  # no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
