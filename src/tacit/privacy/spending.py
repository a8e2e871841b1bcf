"""What a whole run has spent, from what its releases declared: figures that every table, plot and report carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.contract import Adjacency, Mechanism, PrivacyStatement
from tacit.errors import PrivacyError
from tacit.privacy.accounting import NEIGHBOURS, Guarantee, guarantee
from tacit.privacy.events import Event, Loss

DELTA = 1e-5
"""At which Gaussian noise is shown."""


class Release(Protocol):
    """What a phase releases, as the runtime settles it before the run."""

    @property
    def mechanism(self) -> Mechanism:
        """What its noise comes from."""

    @property
    def coordinates(self) -> int:
        """How many numbers are released."""

    @property
    def from_data(self) -> bool:
        """Whether it depends on data."""


@dataclass(frozen=True)
class RunPrivacy:
    """What is said of a method's privacy, and what one run of it has spent."""

    statement: PrivacyStatement
    guarantee: Guarantee | None = None
    """None: the method makes no promise."""
    reads: int | None = None
    """In how many rounds a record was read at most, counted twice where one round reads it twice."""
    public: tuple[str, ...] = ()
    """What was learnt from all rows before the run and is declared public, so that it is not charged."""

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.guarantee is not None and self.guarantee.private

    def words(self) -> str:
        """Say what was spent, on what that stands, and what the source says."""
        statement = self.statement
        source = f"The source: {_sentence(statement.text_claims, capital=False)}"
        if self.guarantee is None:
            return f"{_sentence(statement.holds)} {source}"
        spent = _sentence(self.guarantee.words())
        if not self.guarantee.private:
            return f"{spent} {source}"
        assumed = f" Assumed: {'; '.join(statement.assumptions)}." if statement.assumptions else ""
        public = f" Declared public, and not charged: {'; '.join(self.public)}." if self.public else ""
        return f"{spent} {_sentence(statement.holds)}{assumed}{public} {source}"

    def summary(self) -> dict[str, Any]:
        """Return all of it as it stands in summary.json; what is infinite or unknown is None."""
        statement, found = self.statement, self.guarantee
        return {
            "private": self.private,
            "words": self.words(),
            "epsilon": None if found is None else _finite(found.epsilon),
            "delta": found.delta if found is not None and found.private else None,
            "rho": None if found is None else _finite(found.rho),
            "theorem": "none" if found is None else found.theorem,
            "unit": "none" if found is None else found.unit,
            "adjacency": "none" if found is None else NEIGHBOURS[found.adjacency][1],
            "composition": "none" if found is None else composition_in_words(statement, found.adjacency),
            "assumptions": list(statement.assumptions),
            "text_claims": statement.text_claims,
            "holds": statement.holds,
            "reads": self.reads,
            "public": list(self.public),
        }


def spent_in_run(
    statement: PrivacyStatement,
    specs: Sequence[Release],
    costs: ArrayLike,
    reads: int,
    delta: float = DELTA,
) -> Guarantee | None:
    """Return what the releases of a run promise together; None where the method makes no promise.

    `costs` (rounds, phases, 2) holds of the dearest release in each round and phase its sensitivity and minus its
    bound, both in units of the noise's scale. The loss of a round is the sum over its phases; a phase that does not
    depend on data is free. Where records compose in parallel, one is charged for the `reads` dearest rounds, and
    otherwise for all. A record that is read more often than there are rounds is several times in one batch, and moves
    the released mean by that many times the declared sensitivity.
    """
    if not statement.private:
        return None
    charged = [(phase, spec) for phase, spec in enumerate(specs) if spec.from_data]
    adjacency = _one_adjacency([spec for _, spec in charged] or specs)
    for phase, spec in charged:
        if spec.mechanism.distribution is None:
            return _nothing(f"phase {phase} releases values as they were computed", adjacency)
        if spec.mechanism.clip is None and np.isinf(np.asarray(costs)[:, phase, 0]).any():
            return _nothing(f"phase {phase} adds noise, but no clip bounds what a record can change", adjacency)
    table = np.asarray(costs, np.float64)
    rounds = len(table)
    losses = np.zeros((rounds, len(Loss._fields)))
    copies = 1 if adjacency == "dataset" else max(1, -(-reads // max(1, rounds)))
    for phase, spec in charged:
        losses += _losses(spec, table[:, phase], copies)
    unprotected = np.flatnonzero(np.isinf(losses[:, Loss._fields.index("rho")]))
    if unprotected.size:
        return _nothing(f"no noise was added in round {unprotected[0] + 1:,}", adjacency)
    uses = rounds if charges_all(statement, adjacency) else min(reads, rounds)
    dearest = np.sort(losses, axis=0)[rounds - uses :]
    total = Loss(*(math.fsum(column) for column in dearest.T))
    return guarantee(total, adjacency, delta, max(1, uses * len(charged)))


def charges_all(statement: PrivacyStatement, adjacency: Adjacency) -> bool:
    """Whether every release is charged to every record."""
    return statement.composition != "parallel" or adjacency == "dataset"


def composition_in_words(statement: PrivacyStatement, adjacency: Adjacency) -> str:
    """Say how losses add up."""
    if charges_all(statement, adjacency):
        return "sequential: every release is charged to every record"
    return "parallel: each release is charged to the records of its round alone"


def _losses(spec: Release, costs: NDArray[np.float64], copies: int) -> NDArray[np.float64]:
    """(rounds, 3) losses of one phase; events are made of the different rows only."""
    rows, where = np.unique(costs, axis=0, return_inverse=True)
    found = [_event(spec, copies * float(ratio), -float(minus_bound)).loss for ratio, minus_bound in rows]
    return np.array(found, np.float64).reshape(len(rows), len(Loss._fields))[where.reshape(-1)]


def _event(spec: Release, ratio: float, bound: float) -> Event:
    known = math.isfinite(ratio)  # not a number: 0 / 0, or a scale that was none; nothing may be said for it
    mechanism = spec.mechanism
    return Event(
        mechanism.name,
        mechanism.distribution,
        sensitivity=ratio if known else 1.0,
        scale=1.0 if known else 0.0,
        coordinates=max(1, spec.coordinates),
        bound=bound if mechanism.distribution == "bounded_laplace" else None,
        adjacency=mechanism.adjacency,
    )


def _nothing(reason: str, adjacency: Adjacency) -> Guarantee:
    return replace(guarantee(Loss(math.inf, math.inf), adjacency), theorem=reason)


def _one_adjacency(specs: Sequence[Release]) -> Adjacency:
    found = sorted({spec.mechanism.adjacency for spec in specs})
    if len(found) > 1:
        raise PrivacyError(
            f"phases with adjacency {' and '.join(map(repr, found))} in one run: their losses do not add; give every "
            "mechanism of the algorithm the same adjacency"
        )
    return found[0]


def _sentence(words: str, capital: bool = True) -> str:
    words = words.strip().rstrip(".")
    return (words[:1].upper() + words[1:] if capital else words) + "."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


SUMMARY_KEYS = frozenset(RunPrivacy(PrivacyStatement.none()).summary())
"""What a summary says of privacy."""
