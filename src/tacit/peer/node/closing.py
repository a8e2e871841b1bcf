"""Ending once, whoever asks and how often."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class CloseOnce(ABC):
    """What closes by itself once it was told to stop, whether or not the caller stays to see it."""

    _closing: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Finish the step under way, commit, let neighbours confirm for a while, and close everything.

        May be called again, and by a caller that gives up: all is closed nevertheless.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """Close everything; runs once."""
