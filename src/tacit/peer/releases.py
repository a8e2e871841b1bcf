"""How a peer lets a value out: what is drawn and what is charged come from one declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import jax
import numpy as np

from tacit.contract import Array, Tree
from tacit.errors import ContractError, PrivacyError
from tacit.privacy.events import EVERYONE, Event
from tacit.runtime import Declared, ReleaseSpec

if TYPE_CHECKING:
    from tacit.privacy.entropy import NoiseSource

T = TypeVar("T")

LARGEST_ROUNDING = 0.1
"""Peers release nothing whose sensitivity rounding might raise by more than this share."""


class Releaser(Protocol):
    """Turns a value into what may leave, or raises and lets nothing out."""

    def __call__(self, name: str, spec: ReleaseSpec, declared: Declared | None, value: Tree, records: str) -> Tree:
        """Release a value under a name that is used once, computed from the records of a label."""


class Books(Protocol):
    """Where releases are booked: a `Ledger`, or the `StagedLedger` of a peer's store."""

    def release(self, release: str, event: Event, draw: Callable[[], T], /) -> T:
        """Return what `draw` gives, or raise without calling it where the release cannot be booked."""


class BookedReleaser:
    """Draws noise from a cryptographic source on a fixed grid, for releases that are booked.

    The books decide on the order. A `Ledger` charges, commits and then draws, and what comes back may leave at once. A
    `StagedLedger` refuses what does not fit, draws, and charges with the next commit of its store; what comes back may
    leave when that commit has returned, and goes into it, so that after a crash the same bytes are sent or none.
    """

    def __init__(self, ledger: Books, source: NoiseSource) -> None:
        """Take the open ledger and the source; a seeded one is refused: whoever knows the seed knows the noise."""
        if source.predictable:
            raise PrivacyError(
                "the noise source was seeded, so that its noise can be computed again and subtracted; outside "
                "simulation make it with NoiseSource(), which takes its key from the operating system"
            )
        self.ledger, self.source = ledger, source

    def __call__(self, name: str, spec: ReleaseSpec, declared: Declared | None, value: Tree, records: str) -> Tree:
        """Draw as declared, unless the books refuse it."""
        if not spec.from_data:
            return value
        if spec.mechanism.distribution is not None and spec.mechanism.perturbs == "model":
            remedy = (
                "use laplace or gaussian noise on the update" if spec.mechanism.per_slot else "say perturbs='update'"
            )
            raise PrivacyError(
                f"mechanism {spec.mechanism.name!r} perturbs the model, whose rounding errors grow with its size and "
                f"are not in the declared sensitivity; {remedy} (docs/privacy.md)"
            )
        if declared is not None:
            declared = widened(declared, rounding(spec.records, value))
        event = booked(spec, declared, records)
        return self.ledger.release(name, event, lambda: self._noisy(event, value))

    def _noisy(self, event: Event, value: Tree) -> Tree:
        from tacit.privacy.sampling import release_on_grid

        distribution = event.distribution
        if distribution is None:
            return value

        def drawn(leaf: Array) -> np.ndarray:
            exact = release_on_grid(np.asarray(leaf), distribution, event.scale, self.source, bound=event.bound)
            return exact.astype(leaf.dtype)  # rounding what is released already is post-processing

        return jax.tree.map(drawn, value)


def rounding(records: int, value: Tree) -> float:
    """Return by which share rounding in floats may raise the sensitivity of a clipped mean, or of a step made of it.

    A sum of h numbers rounds by h - 1 times u of what is added, the division and a step size once more each, and two
    neighbours differ by twice that: h (h + 2) u of 2 C / h (docs/privacy.md). A few u for the declaration itself.
    """
    unit = max((float(np.finfo(np.asarray(leaf).dtype).eps) / 2 for leaf in jax.tree.leaves(value)), default=0.0)
    share = (records * (records + 2) + 8) * unit
    if share > LARGEST_ROUNDING:
        raise PrivacyError(
            f"a mean over {records:,} records in floats of {unit:.1g} may round by {share:.2g} of its sensitivity; "
            f"expected at most {LARGEST_ROUNDING:g}: compute in float64, or take smaller batches"
        )
    return share


def widened(declared: Declared, share: float) -> Declared:
    """Return a declaration of the same cost for a value more sensitive by a share, with that much more noise."""
    raised = (np.float64(number) * (1 + share) for number in declared)  # in double precision whatever the run's is
    return Declared(*raised)  # type: ignore[arg-type]


def booked(spec: ReleaseSpec, declared: Declared | None, records: str) -> Event:
    """Return the event that stands for a release; everyone sees it, since what leaves is passed on in mixtures."""
    mechanism = spec.mechanism
    if mechanism.per_slot:
        raise ContractError(
            f"mechanism {mechanism.name!r} draws link by link, which peers do not do: it perturbs models, whose "
            "rounding is not in the declared sensitivity; use laplace or gaussian on the update"
        )
    if declared is None:
        return Event(mechanism.name, None, 0.0, 0.0, spec.coordinates, adjacency=mechanism.adjacency, records=records)
    bound = float(declared.bound)
    return Event(
        mechanism.name,
        mechanism.distribution,
        float(declared.sensitivity),
        float(declared.scale),
        spec.coordinates,
        bound if np.isfinite(bound) else None,
        mechanism.adjacency,
        records,
        (EVERYONE,),
    )
