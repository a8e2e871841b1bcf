"""Share of an event loop's time for connections that nobody knows yet.

Accepting connections and their handshakes is work that anybody can cause. Where a crowd does, one piece of it is done
after the other, and so seldom that all take no more than their share of the time; what waits longer is not lost: it
waits in the kernel's queue, or for its turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

SHARE = 0.15
"""Of the time of the thread, at most."""
AHEAD = 0.02
"""Seconds of work that may be done at once by a crowd that has just come."""


class Turns:
    """Pieces of work for strangers, which wait for their turn where these are a crowd."""

    def __init__(self, crowded: Callable[[], bool]) -> None:
        """Hold nobody back unless it is `crowded`."""
        self._crowded, self._one = crowded, asyncio.Lock()
        self._due = 0.0
        """When all that was done so far is within the share."""

    @property
    def wait(self) -> float:
        """Seconds until the next piece may be done."""
        return max(0.0, self._due - AHEAD / SHARE - time.monotonic()) if self._crowded() else 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time of a piece of work that does not wait."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._due = max(self._due, time.monotonic()) + (time.thread_time() - began) / SHARE

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """Wait for a turn, first come, first served, and count the time of what is done in it."""
        async with self._one:
            while (seconds := self.wait) > 0:
                await asyncio.sleep(seconds)
            with self.counted():
                yield
