"""Messages that need no masks; the interface is that of `Masker`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tacit.privacy.noise import hides

if TYPE_CHECKING:
    from tacit.peer.masking.masker import Masker, Pads
    from tacit.peer.node.assignment import Plan
    from tacit.peer.node.exchange import Parcel
    from tacit.privacy.events import Event
    from tacit.runtime import MessageSpec


class NoMasks:
    """Passes on what leaves. (The codec refuses a message without masks where a phase has them.)"""

    needed = False

    def partners(self) -> dict[str, set[str]]:
        """Return the partners with which secrets are needed: none."""
        return {}

    def booked(self, parcels: Sequence[Parcel]) -> list[tuple[str, Event]]:
        """Return the entries to book with these parcels: none."""
        return []

    def masked(self, receiver: str, parcels: Sequence[Parcel]) -> tuple[Parcel, ...]:
        """Return the parcels as they are."""
        return tuple(parcels)


def masks_of(plan: Plan, specs: Sequence[MessageSpec], pads: Callable[[str], Pads | None] | None) -> Masker | NoMasks:
    """Return what masks the messages of a peer, loaded where there are masks at all."""
    if not any(hides(phase.mechanism) for phase in plan.algorithm.phases):
        return NoMasks()
    from tacit.peer.masking.masker import masker_of

    return masker_of(plan, specs, pads)
