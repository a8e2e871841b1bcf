"""Verdicts of `pao-variants` on Gauthier (2023), sec. 4.4.2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from tacit.metrics import paired_difference
from tacit_reproduction.asynchronous.curves import Floats, early_error, gap, steady_error
from tacit_reproduction.asynchronous.setting import Curve
from tacit_reproduction.asynchronous.variants_limit import CLIENTS, COORDINATES, SWEEP, Limit
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import above, decibels, judged, within
from tacit_reproduction.judging import Chain, rising

ALIKE = 0.25
"""In dB: what "the same performance" is taken to mean."""
SIZES = (1, 4, 32)
"""The text's m."""
PICTURE, LONG_PICTURE = "variants", "long"
"""Names of figures."""
HIGHER_END = "figure 4.2 (b), m = 1, 4, 32: sharing more lowers the final accuracy"

Curves = Mapping[str, Curve]
Limits = Mapping[Limit, float]
"""Predicted deviations in dB."""


def sized(size: int) -> str:
    """Return the label of U1 with so many coordinates in a message."""
    return "U1" if size == 4 else f"U1, m = {size}"


def long(label: str) -> str:
    """Return the label of a long run."""
    return f"{label}, long"


def judge(curves: Curves, limits: Limits) -> list[Claim]:
    """Put every claim to the test; `limits` are empty where none were predicted."""
    refined = judged(
        "Clients that refine what they share (C1, U1) settle below those that return what they got (C0, U0)",
        [gap(curves["C0"], curves["C1"]), gap(curves["U0"], curves["U1"])],
        above(0),
    )
    own = judged(
        "In asynchronous settings windows of one's own (U1) settle below common ones (C1)",
        [gap(curves["C1"], curves["U1"])],
        above(0),
    )
    faster = rising(
        "The larger m, the faster U1 falls at first", [_by_size(curves, early_error, _same, SIZES[::-1])], " dB"
    )
    higher = rising(
        f"The larger m, the higher U1 ends, after {_length(curves, 'U1'):,} iterations",
        [_by_size(curves, steady_error, _same, SIZES)],
        " dB",
        _still_falling(curves, "U1"),
    )
    fading = judged(
        "Late updates that count less (C2, U2) settle below those that count in full (C1, U1)",
        [gap(curves["C1"], curves["C2"]), gap(curves["U1"], curves["U2"])],
        above(0),
        why=_slower(curves, limits),
    )
    alike = judged(f"C2 and U2 perform alike (within {ALIKE:g} dB)", [gap(curves["C2"], curves["U2"])], within(ALIKE))
    return [
        *seen_in(PICTURE, refined, text="figure 4.2 (a): C1 and U1 outperform C0 and U0"),
        *seen_in(PICTURE, own, text="figure 4.2 (a): uncoordinated sharing is best among asynchronous clients"),
        *seen_in(PICTURE, faster, text="figure 4.2 (b), m = 1, 4, 32: sharing more speeds up the beginning"),
        *seen_in(PICTURE, higher, text=HIGHER_END),
        *_after_long(curves),
        *_in_the_limit(limits),
        *seen_in(PICTURE, fading, text="figure 4.2 (c): weights 0.2^l improve the performance significantly"),
        *seen_in(PICTURE, alike, text="figure 4.2 (c): C2 and U2 show the same performance"),
    ]


def _after_long(curves: Curves) -> list[Claim]:
    if long("U1") not in curves:
        return []
    times = _length(curves, long("U1")) // _length(curves, "U1")
    claim = rising(
        f"The larger m, the higher U1 ends, where all have {times} times as long",
        [_by_size(curves, steady_error, long, SIZES)],
        " dB",
        _still_falling(curves, long("U1")),
    )
    return seen_in(LONG_PICTURE, claim, text=HIGHER_END)


def _in_the_limit(limits: Limits) -> list[Claim]:
    if not limits:
        return []
    ends = [limits[case] for case in SWEEP]
    parts = ", ".join(f"m = {case.share} {end:.2f}" for case, end in zip(SWEEP, ends, strict=True))
    return [
        Claim(
            "The larger m, the higher U1 ends, in the steady state that the theory predicts for a small case",
            all(low < high for low, high in pairwise(ends)),
            f"deviation of the server's model in dB: {parts} ({CLIENTS} clients, {COORDINATES} coordinates, none of "
            "them slow). None of the runs above has come that far",
            HIGHER_END,
        )
    ]


def _slower(curves: Curves, limits: Limits) -> str:
    """Say what late updates that count less cost at first, and what they gain in the end."""
    words = (
        "what counts less brings less noise, and less to learn from. U2 against U1: early "
        f"{_apart(early_error, curves['U2'], curves['U1'])}"
    )
    if long("U2") in curves:
        words += f", after the long run {_apart(steady_error, curves[long('U2')], curves[long('U1')])}"
    if limits:
        ends = ", ".join(f"{v} {limits[Limit(v, 1)]:.2f}" for v in ("C1", "C2", "U1", "U2"))
        words += f". Predicted steady states of the small case in dB: {ends}"
    return words


def _apart(error: Callable[[Curve], Floats], curve: Curve, reference: Curve) -> str:
    found = paired_difference(decibels(error(curve)), decibels(error(reference)))
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}] dB"


def _by_size(
    curves: Curves, error: Callable[[Curve], Floats], name: Callable[[str], str], sizes: tuple[int, ...]
) -> Chain:
    return Chain("", [(f"m = {m}", decibels(error(curves[name(sized(m))]))) for m in sizes])


def _same(label: str) -> str:
    return label


def _length(curves: Curves, label: str) -> int:
    return int(curves[label].rounds[-1])


def _still_falling(curves: Curves, label: str) -> str:
    """Say by how much a curve fell over the last half of its rounds."""
    curve = curves[label]
    middle = curve.mse[:, np.searchsorted(curve.rounds, curve.rounds[-1] // 2)]
    fell = float(np.mean(decibels(middle) - decibels(steady_error(curve))))
    return f"The second half of the run still takes {label} down by {fell:.2f} dB"
