"""Charges between draw and commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger

T = TypeVar("T")


class StagedLedger:
    """Books for a `BookedReleaser` that draws before the commit; the values may leave when the commit has returned."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._staged: list[tuple[str, Event]] = []

    @property
    def charges(self) -> tuple[tuple[str, Event], ...]:
        """Charges for values that were drawn and are not booked yet."""
        return tuple(self._staged)

    def release(self, release: str, event: Event, draw: Callable[[], T]) -> T:
        """Draw, to be charged with the next commit; if it could not be booked then, `draw` is not called."""
        self._ledger.refuse([*self._staged, (release, event)])
        drawn = draw()
        self._staged.append((release, event))
        return drawn

    def booked(self, number: int) -> None:
        """Forget the first `number` charges: they are on the disk."""
        del self._staged[:number]
