"""Idempotent asynchronous close."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class CloseOnce(ABC):
    """Base of services that close once, even if the caller that asked for it is cancelled."""

    _closing: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Finish the step under way, commit, let neighbours confirm for a while, and close everything.

        It may be called again, and a caller that is cancelled does not interrupt it.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """Close everything; runs once."""
