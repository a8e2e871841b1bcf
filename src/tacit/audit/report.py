"""Findings of an audit, as a value and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tacit.audit.attacked import Attacked, exact_epsilon
from tacit.audit.bounds import Finding
from tacit.audit.problem import Problem
from tacit.privacy.accounting import NEIGHBOURS, Guarantee

Verdict = Literal["holds", "broken", "refused", "not conclusive", "not private"]
CONCLUSIVE = 0.5
"""Power below which an attack that found nothing shows nothing."""
_RARE = 0.05
"""Share of trials below which the most telling event is rare."""


class Outcome(NamedTuple):
    """Outcome of one problem of an audit."""

    problem: str
    claim: float | None = None
    """Epsilon that is claimed of its runs."""
    promised: float | None = None
    """The bound on epsilon that its best test promises, by the trials on which it was chosen."""
    test: str = ""
    seconds: float = 0.0
    refused: str | None = None
    """Why the runtimes refuse the method."""
    skipped: str | None = None
    """Why it was left out."""

    @classmethod
    def of(cls, found: Attacked) -> Outcome:
        """Return that of a problem that was run."""
        claim = found.claim.epsilon if found.claim is not None and found.claim.private else None
        test = f"{found.test.statistic}, {found.test.group}"
        return cls(found.problem.name, claim, found.promised, test, found.seconds, found.refused)


@dataclass(frozen=True, repr=False)
class Audit:
    """Outcome of an attack on one method with one mechanism; made by `audit`.

    `verdict` is "holds" (the attack stays below the claim and reaches at least half of it), "not conclusive" (it stays
    further below), "broken" (the lower bound is above the claim), "refused" (the runtimes would not run the method) or
    "not private" (nothing is claimed). `words()` says it in sentences, `to_json()` as plain values.
    """

    algorithm: str
    """Name of the method."""
    mechanism: str
    """Name of its noise."""
    claim: Guarantee | None
    """The accounts' guarantee for the runs of the strongest attack; None: no promise is made."""
    finding: Finding | None
    """The strongest test with its finding; None: there was nothing to attack."""
    confidence: float
    """With which the lower bound holds."""
    problem: Problem | None
    """The problem that it was found on."""
    limit: str
    """Main reason why the attack stays below the claim."""
    tried: tuple[Outcome, ...]
    """All problems that were run, and those that were left out, with the reason."""
    refused: str | None
    """Why the runtimes refuse the method; None: they do not."""
    seed: int
    """Of the runs."""
    seconds: float
    """That it took."""
    sees: str = "every message of the victim"
    """The attacker's view."""

    def __repr__(self) -> str:
        found = "" if self.finding is None else f", epsilon >= {_down(self.lower_bound)}"
        claimed = f" of {self.claim.epsilon:.4g} claimed" if found and self.claim is not None and self.private else ""
        return f"Audit({self.algorithm} with {self.mechanism}: {self.verdict}{found}{claimed})"

    @property
    def lower_bound(self) -> float:
        """Epsilon is at least this, at the claim's delta, with the stated confidence."""
        return 0.0 if self.finding is None else self.finding.epsilon

    @property
    def private(self) -> bool:
        """Whether anything is claimed."""
        return self.claim is not None and self.claim.private

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the claim; where nothing is claimed nothing can break."""
        return self.verdict not in ("broken", "refused")

    @property
    def power(self) -> float | None:
        """The share of the claim that the attack reaches; None where nothing is claimed, or nothing leaves.

        Of a run that does what it declares it says how small a fault would have shown: at 0.8 releases that cost a
        quarter more than they declare would break the claim.
        """
        if self.claim is None or not self.claim.private or self.claim.epsilon == 0:
            return None
        return self.lower_bound / self.claim.epsilon

    @property
    def verdict(self) -> Verdict:
        """Standing of the claim."""
        claim = self.claim
        if claim is not None and claim.private and self.lower_bound > claim.epsilon:
            return "broken"
        if self.refused is not None:
            return "refused"
        if claim is None or not claim.private:
            return "not private"
        return "holds" if self.power is None or self.power >= CONCLUSIVE else "not conclusive"

    def words(self) -> str:
        """Return the finding in sentences that stand alone."""
        refused = "" if self.refused is None else f"Refused before round 0: {self.refused}."
        if self.finding is None:
            return refused
        (n, hits), (m, misses) = self.finding.right, self.finding.wrong
        bound = f"epsilon >= {_down(self.lower_bound)} with {100 * self.confidence:g} % confidence"
        attack = (
            f"An attacker who sees {self.sees} tells two neighbouring data sets apart by its test in "
            f"{hits:,} of {n:,} trials, and is misled in {misses:,} of {m:,}: {bound}"
        )
        if self.claim is None or not self.claim.private:
            if self.lower_bound == 0:
                return _joined(f"Not private by any claim, and nothing was told apart: {bound}.", refused)
            return _joined(f"{attack}; not private: nothing is claimed.", refused)
        return _joined(f"{attack}; {self._judgement(self.claim)}", refused)

    def _judgement(self, claim: Guarantee) -> str:
        at_delta = "" if claim.delta == 0 else f" at delta = {claim.delta:g}"
        what = f"claimed {claim.epsilon:.4g}{at_delta} per {claim.unit}"
        if self.verdict == "broken":
            return f"{what}: the claim is BROKEN."
        power = "" if self.power is None else f" Power: {_down(self.power)} of the claim"
        power += f"; {self.limit}." if self.limit else "." if power else ""
        said = {"holds": "consistent", "refused": "not broken by this attack"}.get(self.verdict, self.verdict)
        return f"{what}: {said}.{power}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; None stands for infinite or not claimed."""
        claim, finding, problem = self.claim, self.finding, self.problem
        return {
            "algorithm": self.algorithm,
            "mechanism": self.mechanism,
            "verdict": self.verdict,
            "power": self.power,
            "limit": self.limit,
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
            if claim is not None and claim.private
            else None,
            "refused": self.refused,
            "problem": None if problem is None else problem.name,
            "statistic": None if finding is None else finding.test.statistic,
            "curve": None if finding is None else finding.test.curve,
            "position": None if finding is None else finding.test.group,
            "right": None if finding is None else {"trials": finding.right[0], "yes": finding.right[1]},
            "wrong": None if finding is None else {"trials": finding.wrong[0], "yes": finding.wrong[1]},
            "trials": None if problem is None else problem.trials,
            "rounds": None if problem is None else problem.rounds,
            "coordinates": None if problem is None else problem.coordinates,
            "records": None if problem is None else problem.records,
            "tried": [outcome._asdict() for outcome in self.tried],
            "seed": self.seed,
            "sees": self.sees,
            "seconds": self.seconds,
            "words": self.words(),
        }


def limit_of(found: Attacked, finding: Finding) -> str:
    """Name the main reason why an attack stays below the claim: the account, the data sets, or the trials."""
    claim = found.claim
    if claim is None or not claim.private or claim.epsilon == 0 or finding.epsilon > claim.epsilon:
        return ""
    exact = min(exact_epsilon(claim), claim.epsilon)
    reach = min(found.reach, exact)
    lost = {
        "account": 1 - exact / claim.epsilon,
        "data": (exact - reach) / claim.epsilon,
        "trials": (reach - finding.epsilon) / claim.epsilon,
    }
    most = max(lost, key=lambda part: lost[part])
    if most == "account":
        return f"the account is loose: Gaussian noise of that rho is worth {exact:.3g} (conversion from zCDP)"
    if most == "data":
        most_moved = f"{reach / claim.epsilon:.2g} of what is charged"
        return f"no data sets that were tried move what is released by more than {most_moved}"
    n, hits = finding.right
    if hits < _RARE * n:
        several = (
            f" (all of {found.problem.coordinates} coordinates must agree)" if found.problem.coordinates > 1 else ""
        )
        return f"the most telling event is rare, {hits:,} of {n:,} trials{several}: more trials show more"
    return f"{n:,} trials of either data set leave it open: more show more"


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _down(value: float) -> str:
    """Two decimals, rounded down: a bound must not be overstated."""
    return f"{math.floor(100 * value) / 100:.2f}"
