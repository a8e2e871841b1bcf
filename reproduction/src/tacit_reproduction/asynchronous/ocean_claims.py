"""Verdicts of `pao-calcofi` on Gauthier (2023), sec. 4.4.4."""

from __future__ import annotations

from tacit.metrics import Interval
from tacit_reproduction.asynchronous.comparison import FED, SGD, STEP, mean_db
from tacit_reproduction.asynchronous.curves import gap
from tacit_reproduction.asynchronous.ocean_runs import NAMES, Evidence
from tacit_reproduction.asynchronous.setting import Data
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import above, judged

AS_GOOD = 0.1
"""dB by which U1 may be above Online-FedSGD and still be as good."""
SAVED = 0.98
PICTURE = "calcofi"
"""Name of a figure."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    said = "figure 4.4: U1 has the accuracy of Online-FedSGD with 98 % less communication"
    best = "figure 4.4: C2 outperforms all other methods"
    return [
        claim
        for data in evidence.design.data
        for claim in (
            *seen_in(PICTURE, _as_good(evidence, data), text=said),
            *seen_in(PICTURE, *_best_of_all(evidence, data), text=best),
        )
    ]


def _not_above(found: Interval) -> bool:
    return found.high < AS_GOOD


def saved(evidence: Evidence, data: Data) -> float:
    """Return which share of Online-FedSGD's bits U1 does without."""
    pao, sgd = evidence.of("U1", data), evidence.of(SGD, data, evidence.fair)
    return 1 - (pao.up + pao.down) / (sgd.up + sgd.down)


def _as_good(evidence: Evidence, data: Data) -> Claim:
    share = saved(evidence, data)
    claim = judged(
        f"U1 is as good as {SGD} (at most {AS_GOOD:g} dB above it) with {SAVED:.0%} less communication: {NAMES[data]}",
        [gap(evidence.of("U1", data), evidence.of(SGD, data, evidence.fair))],
        _not_above,
        _why(evidence, data),
        _note(evidence, data, SGD, "U1") + f". U1 sends and receives {share:.1%} fewer bits",
    )
    return claim._replace(holds=claim.holds and share >= SAVED - 1e-9)


def _best_of_all(evidence: Evidence, data: Data) -> list[Claim]:
    own = evidence.of("C2", data)
    rivals = {
        SGD: evidence.of(SGD, data, evidence.fair),
        FED: evidence.of(FED, data, evidence.fair),
        "U1": evidence.of("U1", data),
    }
    return [
        judged(
            f"C2 ends below {name}: {NAMES[data]}",
            [gap(rival, own)],
            above(0),
            _why(evidence, data) if name == SGD else "",
            _note(evidence, data, name, "C2"),
        )
        for name, rival in rivals.items()
    ]


def _why(evidence: Evidence, data: Data) -> str:
    """Say what changes if the same bottles are in other hands."""
    other: Data = "calcofi, dealt"
    if data == other or other not in evidence.design.data:
        return ""
    pair: tuple[Data, ...] = ("calcofi", other)
    told = ", ".join(
        f"{NAMES[d]} U1 {mean_db(evidence.of('U1', d)):.2f}, C2 {mean_db(evidence.of('C2', d)):.2f}, {SGD} "
        f"{mean_db(evidence.of(SGD, d, evidence.fair)):.2f} dB"
        for d in pair
    )
    return (
        "it is that clients differ: with the same bottles in the same iterations dealt to clients by chance, and "
        f"nothing else changed, the order turns or the distance goes: {told}"
    )


def _note(evidence: Evidence, data: Data, *methods: str) -> str:
    steps = evidence.steps
    told = [f"{m} has step {steps.matched.get((data, m), STEP):g}" for m in methods]
    best = [
        f"{m} {mean_db(evidence.of(m, data, 'best')):.2f} dB at {steps.best[data, m]:g}"
        for m in methods
        if (data, m) in steps.best
    ]
    words = ", ".join(told)
    return f"{words}. Each with the best step of a grid: {', '.join(best)}" if best else words
