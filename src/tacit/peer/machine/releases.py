"""Releases of a peer: noise and charge, both from one declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import jax
import numpy as np

from tacit.core.contract import Array, Batch, Mechanism, Memory, Tree
from tacit.core.errors import PrivacyError
from tacit.privacy.charges import Held, event_of, series_of
from tacit.privacy.events import Event
from tacit.runtime import Declared, ReleaseSpec

if TYPE_CHECKING:
    from tacit.privacy.noise import NoiseSource

T = TypeVar("T")

LARGEST_ROUNDING = 0.1
"""Largest share by which rounding may raise the sensitivity of a release; beyond it a peer refuses."""


class Releaser(Protocol):
    """Turns a value into its released form, or raises."""

    def __call__(
        self,
        name: str,
        spec: ReleaseSpec,
        round_: int,
        declared: Declared | None,
        value: Tree,
        held: Held,
        cut: bool = False,
        memory: Memory | None = None,
    ) -> tuple[Tree, Memory | None]:
        """Release a value under a unique name; `held` are the records that it was computed from.

        `cut`: it exceeded its declaration and was cut down to it (`tacit.privacy.enforcement`). `memory`: of correlated
        noise; the next one is returned beside the value.
        """


class Books(Protocol):
    """Books of releases: a `Ledger`, or the `StagedLedger` of a peer's store."""

    def release(self, release: str, event: Event, draw: Callable[[], T], /) -> T:
        """Return the result of `draw`, or raise without calling it where the release cannot be booked."""


class NothingBooked:
    """Books that accept every release and keep none, for runs that only inspect releases."""

    def release(self, release: str, event: Event, draw: Callable[[], T], /) -> T:
        """Draw."""
        return draw()


class BookedReleaser:
    """Draws noise from a cryptographic source on a fixed grid, for releases that are booked.

    The books decide on the order. A `Ledger` charges, commits and then draws, and the value may leave at once. A
    `StagedLedger` refuses what does not fit, draws, and charges with the next commit of its store; the value goes into
    that commit and may leave when it has returned, so that after a crash the same bytes are sent or none.
    """

    def __init__(self, ledger: Books, source: NoiseSource) -> None:
        """Take the open ledger and the source; a seeded source is refused, since its noise can be computed again."""
        if source.predictable:
            raise PrivacyError(
                "the noise source was seeded, so that its noise can be computed again and subtracted; outside "
                "simulation make it with NoiseSource(), which takes its key from the operating system"
            )
        self.ledger, self.source = ledger, source
        self.cut = 0
        """Releases since the start that were cut down to their declaration."""

    def __call__(
        self,
        name: str,
        spec: ReleaseSpec,
        round_: int,
        declared: Declared | None,
        value: Tree,
        held: Held,
        cut: bool = False,
        memory: Memory | None = None,
    ) -> tuple[Tree, Memory | None]:
        """Draw as declared, unless the books refuse it."""
        self.cut += cut
        mechanism, correlation = spec.mechanism, spec.mechanism.correlation
        if not spec.from_data:
            return value, memory
        if mechanism.distribution is not None and (mechanism.perturbs == "model" or mechanism.per_slot):
            remedy = "use laplace or gaussian noise on the update" if mechanism.per_slot else "say perturbs='update'"
            raise PrivacyError(
                f"mechanism {mechanism.name!r} perturbs the model, whose rounding errors grow with its size and are "
                f"not in the declared sensitivity; {remedy} (docs/privacy.md)"
            )
        sensitivity, scale = (0.0, 0.0) if declared is None else _in_double(mechanism, round_, declared)
        # What no record moves has no place in the noise, whose memory does not go on either.
        series = None if memory is None or sensitivity == 0 else series_of(spec, int(memory.releases))
        event = event_of(spec, round_, sensitivity, scale, held, series)
        # Rounding adds to the sensitivity; more noise makes up for it, so that the cost stays as declared.
        share = 0.0 if declared is None else rounding(spec.records, value) + remembering(spec)
        if declared is not None and sensitivity == 0:  # no record moves it: it is zeros, and needs no noise
            return self.ledger.release(name, event, lambda: value), memory
        if correlation is None:
            return self.ledger.release(name, event, lambda: self._noisy(event, scale * (1 + share), value)), None
        if memory is None:
            raise PrivacyError(
                f"correlated noise of {mechanism.name!r} goes on from the agent's last release, which is not known"
            )
        # The centre of the draw is what past noise leaves of the value; with what was released, it gives this noise.
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), value)
        centre = jax.tree.map(lambda leaf, past: leaf - scale * past, wide, correlation.recalled(memory, np))
        noisy = self.ledger.release(name, event, lambda: self._noisy(event, scale * (1 + share), centre))
        noisy = jax.tree.map(lambda exact, leaf: exact.astype(leaf.dtype), noisy, value)
        added = jax.tree.map(lambda leaf, given: (leaf.astype(np.float64) - given) / scale, noisy, wide)
        return noisy, correlation.after(memory, added, np)

    def _noisy(self, event: Event, scale: float, value: Tree) -> Tree:
        from tacit.privacy.noise import release_on_grid

        distribution = event.distribution
        if distribution is None:
            return value
        bound = None if event.bound is None else event.bound * scale

        def drawn(leaf: Array) -> np.ndarray:
            exact = release_on_grid(np.asarray(leaf), distribution, scale, self.source, bound=bound)
            return exact.astype(leaf.dtype)  # rounding what is released already is post-processing

        return jax.tree.map(drawn, value)


def _in_double(mechanism: Mechanism, round_: int, declared: Declared) -> tuple[float, float]:
    """Return sensitivity and scale in double precision: calibrated noise is calibrated anew, without rounding.

    Of correlated noise it is the sensitivity of all that a block releases.
    """
    sensitivity, ratio = float(declared.sensitivity), mechanism.ratio_in(round_)
    if ratio is None:
        return sensitivity, float(declared.scale)
    sensitivity *= mechanism.gain
    return sensitivity, sensitivity / ratio


def rounding(records: int, value: Tree) -> float:
    """Return the share by which rounding in floats may raise the sensitivity of a clipped mean, or of a step by it.

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


def remembering(spec: ReleaseSpec) -> float:
    """Return the share by which rounding in the memory of correlated noise may raise the sensitivity of a block."""
    correlation, ratio = spec.mechanism.correlation, spec.mechanism.ratio
    if correlation is None or ratio is None:
        return 0.0
    share = correlation.rounding(spec.coordinates) / ratio
    if share > LARGEST_ROUNDING:
        raise PrivacyError(
            f"the memory of noise over {correlation.rounds:,} rounds may round by {share:.2g} of the sensitivity; "
            f"expected at most {LARGEST_ROUNDING:g}: say fewer rounds, after which a new block begins"
        )
    return share


def refuse_unnumbered(batch: Batch, round_: int) -> None:
    """Refuse a batch that is said to hold no record and holds some: its release would be booked at no cost."""
    weight = getattr(batch, "weight", None)
    if weight is None or np.any(np.asarray(weight) != 0):
        raise PrivacyError(
            f"the batch of round {round_} holds records, but their numbers say that it holds none; number them from 0 "
            "on, or give None for records that never come again"
        )
