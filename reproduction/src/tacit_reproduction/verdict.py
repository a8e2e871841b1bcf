"""From paired differences to verdicts: claims with one rule each, and headlines with one of five verdicts.

Methods meet the same graphs, data and orders of samples, seed by seed, so that an interval is that of the difference
(95 %, Student's t). A claim names the range in which the mean difference has to lie. It holds if the whole interval
does, it fails if none of it does, and is open in between; a difference that is not finite supports nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.metrics import Interval, mean_interval
from tacit_reproduction.table import Floats

Outcome = Literal["holds", "open", "fails"]
Verdict = Literal["reproduced", "direction only", "depends on an open setting", "refuted", "not tested"]
VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "direction only",
    "depends on an open setting",
    "refuted",
    "not tested",
)
Named = tuple[str, ArrayLike]
"""Name, and value per seed."""


class Rule(NamedTuple):
    """Range in which a mean difference has to lie."""

    low: float
    high: float

    def outcome(self, found: Interval) -> Outcome:
        """Judge an interval."""
        if not math.isfinite(found.mean):
            return "fails"
        if self.low <= found.low and found.high <= self.high:
            return "holds"
        return "fails" if found.high < self.low or found.low > self.high else "open"

    def leans(self, found: Interval) -> bool:
        """Whether the mean itself lies in the range."""
        return self.low <= found.mean <= self.high


def below(limit: float = 0.0) -> Rule:
    """The first is lower than the second, by at least -limit."""
    return Rule(-math.inf, limit)


def above(limit: float = 0.0) -> Rule:
    """The first is higher than the second, by at least the limit."""
    return Rule(limit, math.inf)


def within(limit: float) -> Rule:
    """The two are no further apart."""
    return Rule(-limit, limit)


class Claim(NamedTuple):
    """One statement and what was found."""

    claim: str
    holds: bool
    figure: str
    """The numbers behind the verdict, with intervals."""
    text: str = ""
    """Statement of the text, with its place; empty for a question of our own, which counts for or against no text."""
    seen_in: str = ""
    """Name of the figure that shows it; empty if only numbers do."""
    outcome: Outcome = "fails"
    leans: bool = False
    """Whether all mean differences are on the claimed side, whatever their intervals."""

    @property
    def ours(self) -> bool:
        """Whether the text does not ask this."""
        return not self.text


class Pair(NamedTuple):
    """Two samples to compare, with one value per seed; the second may be a number."""

    name: str
    first: Floats
    second: Floats | float = 0.0

    @property
    def interval(self) -> Interval:
        """Interval of the first minus the second, paired over seeds."""
        return mean_interval(np.asarray(self.first, np.float64) - np.asarray(self.second, np.float64))


def judged(
    claim: str,
    pairs: Sequence[Pair] | Pair,
    rule: Rule,
    *,
    unit: str = "",
    text: str = "",
    seen_in: str = "",
    note: str = "",
) -> Claim:
    """Put a claim to the test: every pair's difference lies in the rule's range.

    Args:
      claim: What is claimed, in one sentence.
      pairs: What is compared.
      rule: `below()`, `above()` or `within(...)`.
      unit: Of the values, e.g. " dB" or " %".
      text: Statement of the text with its place; empty for a question of our own.
      seen_in: Name of the figure that shows it.
      note: Further words on the numbers.
    """
    several = [pairs] if isinstance(pairs, Pair) else list(pairs)
    found = [pair.interval for pair in several]
    outcomes = [rule.outcome(one) for one in found]
    outcome: Outcome = "fails" if "fails" in outcomes else "open" if "open" in outcomes else "holds"
    shown = "; ".join(_compared(pair, one, unit) for pair, one in zip(several, found, strict=True))
    figure = f"{shown} (95 %, {found[0].n} seeds)"
    return Claim(
        claim,
        outcome == "holds",
        f"{figure}. {note}" if note else figure,
        text,
        seen_in,
        outcome,
        all(rule.leans(one) for one in found),
    )


def ordered(claim: str, values: Sequence[Named], **words: str) -> Claim:
    """Values rise from each to the next; `words` as for `judged`."""
    pairs = [
        Pair(f"{second[0]} over {first[0]}", np.asarray(second[1]), np.asarray(first[1]))
        for first, second in pairwise(values)
    ]
    return judged(claim, pairs, above(), **words)


NOT_WORSE = 0.01
"""Share of the second's mean by which the first may be above it."""


def not_worse(claim: str, pair: Pair, **words: str) -> Claim:
    """The first is at most 1 % of the second's mean above it; `words` as for `judged`."""
    return judged(claim, pair, below(NOT_WORSE * abs(float(np.mean(pair.second)))), **words)


def fact(claim: str, holds: bool, figure: str, text: str = "", seen_in: str = "") -> Claim:
    """Return a claim about something that has no interval: equality to the bit, a sum, a count."""
    return Claim(claim, holds, figure, text, seen_in, "holds" if holds else "fails", holds)


def slopes(x: ArrayLike, values: Floats) -> Floats:
    """Return (seeds,) the least-squares slope of values (seeds, points) over x (points,)."""
    at = np.asarray(x, np.float64)
    at = at - at.mean()
    return np.asarray(values @ at / (at @ at))


class Headline(NamedTuple):
    """One result of a text, and what became of it."""

    headline: str
    """One sentence."""
    place: str
    """In the text: "figure 4.4"."""
    verdict: Verdict
    text: str
    """Numbers of the text, or its words."""
    ours: str
    """Our numbers beside them."""
    why: str
    """One sentence; where it is not reproduced a paragraph that a reviewer of the text would accept."""
    seen_in: str
    """Name of the figure that is drawn like the text's."""
    settings: Mapping[str, Outcome]
    """Settings that the text leaves open and that were swept -> outcome."""
    claims: tuple[str, ...]
    """The claims that it rests on."""


def headline(
    statement: str,
    *,
    place: str,
    text: str,
    ours: str,
    why: str,
    claims: Sequence[Claim] = (),
    size: Sequence[Claim] = (),
    sweep: Mapping[str, Sequence[Claim]] | None = None,
    seen_in: str = "",
) -> Headline:
    """Return a headline with its verdict.

    Args:
      statement: The result, in one sentence.
      place: Where the text has it.
      text: Its numbers, or its words.
      ours: Ours.
      why: The reason of the verdict: a sentence, or a paragraph where the result is not reproduced.
      claims: What has to hold at the settings that the text gives. None: it was not tested.
      size: Claims on how large an effect is, where the text has a number: without them it is the direction only.
      sweep: Setting that the text leaves open -> claims there.
      seen_in: Name of the figure.
    """
    swept = {setting: _together(there) for setting, there in (sweep or {}).items()}
    return Headline(
        statement,
        place,
        verdict(claims, size, swept),
        text,
        ours,
        why,
        seen_in,
        swept,
        tuple(dict.fromkeys(claim.claim for claim in (*claims, *size))),
    )


def verdict(claims: Sequence[Claim], size: Sequence[Claim], swept: Mapping[str, Outcome]) -> Verdict:
    """Return one of five verdicts, by this rule alone.

    reproduced: all claims hold, at all swept settings, and sizes too. direction only: they do but for a size, or
    no claim fails and all means lie on the claimed side. depends on an open setting: some swept settings have all that
    was claimed and some have not. refuted: a claim fails and no swept setting has it. not tested: nothing was run, or
    the intervals are too wide to tell.
    """
    outcomes = [*swept.values(), *([_together(claims)] if claims else [])]
    if not outcomes:
        return "not tested"
    if all(outcome == "holds" for outcome in outcomes):
        return "reproduced" if all(claim.holds for claim in size) else "direction only"
    if "holds" in swept.values():
        return "depends on an open setting"
    if "fails" in outcomes:
        return "refuted"
    return "direction only" if all(claim.leans for claim in claims) else "not tested"


def _together(claims: Sequence[Claim]) -> Outcome:
    outcomes = {claim.outcome for claim in claims}
    return "fails" if "fails" in outcomes else "open" if "open" in outcomes else "holds"


def shown(values: ArrayLike, digits: int = 4) -> str:
    """Return a mean with half of its 95 % interval: "0.1234 ± 0.0012"; what is not finite has diverged."""
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        return f"diverged for {int((~np.isfinite(numbers)).sum())} of {numbers.size} seeds"
    interval = mean_interval(numbers)
    half = interval.high - interval.mean
    return (
        brief(interval.mean, digits) if not np.isfinite(half) else f"{brief(interval.mean, digits)} ± {brief(half, 2)}"
    )


def brief(value: float, digits: int = 4) -> str:
    """Return a number to some significant digits; larger ones are whole, with commas up to a million."""
    return f"{value:,.0f}" if min(1e3, 10**digits) <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _compared(pair: Pair, found: Interval, unit: str) -> str:
    first = brief(float(np.mean(np.asarray(pair.first, np.float64))))
    second = np.asarray(pair.second, np.float64)
    against = f" against {brief(float(second.mean()))}" if second.ndim or float(second) else ""
    name = f"{pair.name}: " if pair.name else ""
    ends = f"[{found.low:+.3g}, {found.high:+.3g}]"
    return f"{name}{first}{against}{unit}" + (f", {found.mean:+.3g} {ends}" if against else f" {ends}")


def as_json(item: Claim | Headline) -> dict[str, Any]:
    """Return what summary.json holds of it."""
    found = item._asdict()
    if isinstance(item, Claim):
        found["ours"] = item.ours
    return found
