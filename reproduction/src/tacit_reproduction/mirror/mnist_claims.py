"""Verdicts of `omd-mnist`: pure functions of the measurements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_interval, paired_difference
from tacit.privacy.spending import DELTA
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import Chain, brief, rising
from tacit_reproduction.mirror.mnist_cells import (
    GAUSSIAN,
    METHODS,
    PLAIN,
    PURE,
    TEXT,
    Cell,
    Design,
    Method,
    Noise,
    Outcome,
    honest,
)
from tacit_reproduction.verdicts import lower

Evidence = Mapping[Cell, Outcome]

PRINTED: dict[tuple[Method, float], float] = {
    ("proposed", 0.1): 93.28,
    ("fedavg", 0.1): 91.47,
    ("proposed", 0.5): 94.01,
    ("fedavg", 0.5): 92.59,
}
"""Test accuracy in per cent as printed (Dissertation, sec. 5.5)."""
DRAWN = {0.1: "figure 5.1", 0.5: "figure 5.2"}
"""Eps -> the text's figure."""
PICTURE = "accuracy"
OF_PROMISE = "theorem 1 of section 5.3: eps-local differential privacy, for gradients that differ in one component"
NEAR = 1.0
"""Points of per cent within which a figure counts as the text's."""
GUESSING, LEARNT = 20.0, 50.0
"""Per cent: below the one a model of ten digits has learnt nothing to speak of, above the other it has."""


def judge(evidence: Evidence, design: Design) -> list[Claim]:
    """Return every claim with its verdict."""
    of_text = [noise for noise in TEXT if noise in design.noises]
    claims = [c for noise in of_text for c in seen_in(PICTURE, _beats(evidence, noise), text=in_text(noise.epsilon))]
    everything = "; ".join(map(in_text, DRAWN))
    if len(of_text) == len(TEXT):
        claims += seen_in(PICTURE, _as_printed(evidence), text=everything)
    ladder = [*of_text, *(noise for noise in (PLAIN,) if noise in design.noises)]
    if len(ladder) > 1:
        claims += seen_in(PICTURE, _less_with_noise(evidence, ladder), text=everything)
    if of_text:
        claims.append(_promised(evidence, of_text, design)._replace(text=OF_PROMISE))
    if PURE in design.noises:
        claims += seen_in(PICTURE, _nobody_learns(evidence))
    if GAUSSIAN in design.noises:
        claims += seen_in(PICTURE, _both_learn(evidence))
    return claims


def in_text(epsilon: float) -> str:
    """Return both accuracies of the text at one eps, with their place."""
    ours, theirs = (PRINTED[method, epsilon] for method in METHODS)
    return f"{ours:.2f} % against {theirs:.2f} % at eps = {epsilon:g} (section 5.5, {DRAWN[epsilon]})"


def accuracy(evidence: Evidence, method: Method, noise: Noise) -> NDArray[np.float64]:
    """Return (seeds,) accuracies in per cent."""
    return 100 * evidence[Cell(method, noise)].accuracy


def shown(values: NDArray[np.float64]) -> str:
    """Return "93.28 ± 0.10"."""
    found = mean_interval(values)
    half = found.high - found.mean
    return f"{found.mean:.2f} ± {half:.2f}" if np.isfinite(half) else f"{found.mean:.2f}"


def _beats(evidence: Evidence, noise: Noise) -> Claim:
    ours, theirs = (accuracy(evidence, method, noise) for method in ("proposed", "fedavg"))
    printed = ", ".join(f"{name} {PRINTED[method, noise.epsilon]:.2f}" for method, name in METHODS.items())
    note = f"Per cent; the text has {printed}."
    if Cell("fedavg", PLAIN) in evidence:
        free = PLAIN
        gap = paired_difference(accuracy(evidence, "proposed", free), accuracy(evidence, "fedavg", free))
        note += f" The same difference with {free.words()}: {gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]."
    apart = float(np.mean(evidence[Cell("proposed", noise)].apart))
    note += (
        " Both are the same steps with another average: a server's exact mean of ten models, against the mean of five "
        f"neighbours, which leaves the models {brief(apart, 3)} apart (mean square distance from their mean)."
    )
    claim = f"At {noise.words()} {METHODS['proposed']} is more accurate than {METHODS['fedavg']}"
    return lower(claim, (METHODS["fedavg"], theirs), (METHODS["proposed"], ours), note)


def _as_printed(evidence: Evidence) -> Claim:
    parts, near = [], True
    for (method, epsilon), printed in PRINTED.items():
        found = accuracy(evidence, method, Noise("text", epsilon))
        off = float(found.mean()) - printed
        near &= abs(off) <= NEAR
        parts.append(f"{METHODS[method]} at {epsilon:g}: {shown(found)} (text: {printed:.2f}, {off:+.2f})")
    figure = f"test accuracy in %, {'; '.join(parts)}; near means within {NEAR:g} point"
    if not near:
        figure += ". The text gives neither its network's first weights nor where its noise enters"
    return Claim("All four accuracies are near those of the text", near, figure)


def _less_with_noise(evidence: Evidence, ladder: list[Noise]) -> Claim:
    chains = [
        Chain(name, [(noise.words(), accuracy(evidence, method, noise)) for noise in ladder])
        for method, name in METHODS.items()
    ]
    return rising("More noise, less accuracy", chains, " %")


def _promised(evidence: Evidence, noises: list[Noise], design: Design) -> Claim:
    parts, kept = [], True
    for noise in noises:
        outcome = evidence[Cell("proposed", noise)]
        found = honest(noise, outcome.coordinates, design.batch, outcome.reads)
        kept &= found.pure <= noise.epsilon
        parts.append(
            f"eps = {noise.epsilon:g} of the text is a pure {brief(found.pure)} for a record, or "
            f"{brief(found.approximate, 3)} at delta = {DELTA:g}"
        )
    reads = f"{outcome.reads} time{'' if outcome.reads == 1 else 's'}"
    figure = (
        f"{'; '.join(parts)}: a record moves all {outcome.coordinates:,} components and is read up to {reads}, while "
        "the text counts one component and one round"
    )
    return Claim("The text's epsilon is what a record loses over the whole run", kept, figure)


def _nobody_learns(evidence: Evidence) -> Claim:
    found = {(PURE, m): accuracy(evidence, m, PURE) for m in METHODS}
    guessed = all(mean_interval(values).high < GUESSING for values in found.values())
    return Claim(
        f"With a pure record-level total of {PURE.epsilon:g} nobody learns anything",
        guessed,
        f"test accuracy in %, {_listed(found)}; learning nothing means an interval below {GUESSING:g} %",
    )


def _both_learn(evidence: Evidence) -> Claim:
    found = {(GAUSSIAN, m): accuracy(evidence, m, GAUSSIAN) for m in METHODS}
    learnt = all(mean_interval(values).low > LEARNT for values in found.values())
    return Claim(
        f"With a record-level total of ({GAUSSIAN.epsilon:g}, {DELTA:g}) both methods learn",
        learnt,
        f"test accuracy in %, {_listed(found)}; learning means an interval above {LEARNT:g} %",
    )


def _listed(found: Mapping[tuple[Noise, Method], NDArray[np.float64]]) -> str:
    return "; ".join(f"{noise.words()}, {METHODS[m]}: {shown(values)}" for (noise, m), values in found.items())
