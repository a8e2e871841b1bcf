"""What an audit has found, as a value and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.audit.bounds import Finding
from tacit.privacy.accounting import NEIGHBOURS, Guarantee


@dataclass(frozen=True)
class Audit:
    """The outcome of an attack on one method with one mechanism."""

    algorithm: str
    """Name of the method."""
    mechanism: str
    """Name of its noise."""
    claim: Guarantee | None
    """What the accounts say of the run that was attacked; None: no promise is made."""
    finding: Finding
    """The strongest test, and what it found."""
    confidence: float
    """With which the lower bound holds."""
    trials: int
    """Both halves together, of all groups."""
    rounds: int
    """Of each run that was attacked."""
    coordinates: int
    """Parameters of the model that was learnt."""
    seed: int
    """Of the runs."""
    seconds: float
    """That it took."""
    sees: str = "every message of the victim"
    """What the attacker has."""

    @property
    def lower_bound(self) -> float:
        """Epsilon is at least this, at the claim's delta, with the stated confidence."""
        return self.finding.epsilon

    @property
    def private(self) -> bool:
        """Whether anything is claimed."""
        return self.claim is not None and self.claim.private

    @property
    def holds(self) -> bool:
        """Whether the claim is consistent with what was found; where nothing is claimed nothing can break."""
        return not (self.claim is not None and self.claim.private and self.lower_bound > self.claim.epsilon)

    def words(self) -> str:
        """Say what was found, in sentences that stand alone."""
        (n, hits), (m, misses) = self.finding.right, self.finding.wrong
        bound = f"epsilon >= {_down(self.lower_bound)} with {100 * self.confidence:g} % confidence"
        attack = (
            f"An attacker who sees {self.sees} tells two neighbouring data sets apart by its test in "
            f"{hits:,} of {n:,} trials, and is misled in {misses:,} of {m:,}: {bound}"
        )
        claim = self.claim
        if claim is None or not claim.private:
            if self.lower_bound == 0:
                return f"Not private by any claim, and nothing was told apart: {bound}."
            return f"{attack}; not private: nothing is claimed."
        at_delta = "" if claim.delta == 0 else f" at delta = {claim.delta:g}"
        what = f"claimed {claim.epsilon:.4g}{at_delta} per {claim.unit}"
        if self.holds:
            return f"{attack}; {what}: consistent."
        return f"{attack}; {what}: the claim is BROKEN."

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; what is infinite or not claimed is None."""
        claim, test = self.claim, self.finding.test
        claimed = claim is not None and claim.private
        return {
            "algorithm": self.algorithm,
            "mechanism": self.mechanism,
            "private": self.private,
            "holds": self.holds,
            "lower_bound": self.lower_bound,
            "confidence": self.confidence,
            "claim": {
                "epsilon": claim.epsilon,
                "delta": claim.delta,
                "unit": claim.unit,
                "neighbours": NEIGHBOURS[claim.adjacency][1],
                "theorem": claim.theorem,
            }
            if claim is not None and claimed
            else None,
            "statistic": test.statistic,
            "curve": test.curve,
            "position": test.group,
            "right": {"trials": self.finding.right[0], "yes": self.finding.right[1]},
            "wrong": {"trials": self.finding.wrong[0], "yes": self.finding.wrong[1]},
            "trials": self.trials,
            "rounds": self.rounds,
            "coordinates": self.coordinates,
            "seed": self.seed,
            "sees": self.sees,
            "seconds": self.seconds,
            "words": self.words(),
        }


def _down(value: float) -> str:
    """Two decimals, rounded down: a bound must not be overstated."""
    return f"{math.floor(100 * value) / 100:.2f}"
