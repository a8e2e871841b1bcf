"""Steps of a peer's rounds: short ones in the event loop, longer ones in a thread, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor

SHORT_STEP = 0.02
"""Seconds up to which the event loop does a step itself."""


def compute_at_once() -> None:
    """Have JAX compute in the thread that asks, from now on in this process: it waits for each result anyway.

    Otherwise another thread is woken for each computation, and this one for its result. For processes that are a peer,
    or several, and nothing else; and before anything is computed.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)


class Steps:
    """Steps of one peer, each done where it takes least time."""

    def __init__(self, worker: Executor, short: float = SHORT_STEP) -> None:
        """Take the worker, which does one thing at a time; the loop does steps of up to `short` seconds itself."""
        self.worker, self.short = worker, short
        self._effort = 1.0
        """Seconds that the longest of the last steps took; a long one is forgotten in time."""

    async def do(self, work: Callable[[], None]) -> None:
        """Do a step."""
        if self._effort < self.short:
            self._timed(work)  # a thread would take longer to be woken
        else:
            await self.in_worker(lambda: self._timed(work))

    async def in_worker(self, work: Callable[[], None]) -> None:
        """Do a step in the worker; not to be left half-way: the turn is over when the thread is."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self.worker, work))

    def _timed(self, work: Callable[[], None]) -> None:
        """Do a step, and note how long it took if it is among the longest of late."""
        began = time.monotonic()
        try:
            work()
        finally:
            self._effort = max(time.monotonic() - began, 0.9 * self._effort)
