"""From paired differences to verdicts: claims with one rule each, and headlines with one of five verdicts.

Methods meet the same graphs, data and orders of samples, seed by seed, so that an interval is that of the difference
(95 %, Student's t). A claim names the range in which the mean difference has to lie: it holds if all of the interval
does, it fails if none of it does, and is open in between. A difference that is not finite supports nothing.

At the edge of its range a claim holds by chance for 2.5 % of all sets of seeds at most, as all pairs have to lie
within, and fails for 2.5 % at most, as each of k pairs is refused by an interval of 1 - 0.05 / k.
"""

import math
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction.table import Floats

Outcome = Literal["holds", "open", "fails"]
Verdict = Literal["reproduced", "direction only", "depends on an open setting", "refuted", "not tested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
WORST_LAST = (*VERDICTS[:3], *reversed(VERDICTS[3:]))
SPENT = 0.05  # share of all sets of seeds for which an interval misses


class Rule(NamedTuple):
    """Range in which a mean difference has to lie."""

    low: float
    high: float
    closed: bool = False  # whether its ends belong to it: no difference at all is neither above nor below

    def outcome(self, found: Interval) -> Outcome:
        """Judge an interval: wholly inside, wholly outside (or none at all), or neither."""
        if (self.low < found.low and found.high < self.high) or (
            self.closed and self.low <= found.low and found.high <= self.high
        ):
            return "holds"
        touching = not self.closed and (found.high == self.low or found.low == self.high)
        outside = found.high < self.low or found.low > self.high or touching
        return "fails" if outside or not math.isfinite(found.mean) else "open"

    @property
    def asked(self) -> str:
        """What is to be said of a limit that is not 0."""
        limit = self.low if math.isfinite(self.low) and not self.closed else self.high
        side = "within" if self.closed else "above" if limit == self.low else "below"
        return f"; {side} {brief(limit, 3)} is asked" if limit else ""

    def leans(self, found: Interval) -> bool:
        """Whether the mean itself lies inside."""
        return self.low < found.mean < self.high or (self.closed and self.low <= found.mean <= self.high)


def below(limit: float = 0.0) -> Rule:
    """The first is lower than the second, by at least -limit."""
    return Rule(-math.inf, limit)


def above(limit: float = 0.0) -> Rule:
    """The first is higher than the second, by at least the limit."""
    return Rule(limit, math.inf)


def within(limit: float) -> Rule:
    """The two are no further apart."""
    return Rule(-limit, limit, closed=True)


class Claim(NamedTuple):
    """One statement and what was found."""

    claim: str
    holds: bool
    figure: str  # the numbers behind the verdict, with intervals
    text: str = ""
    """Statement of the text, with its place; empty for a question of our own, which counts for or against no text."""
    seen_in: str = ""  # name of the figure that shows it; empty if only numbers do
    outcome: Outcome = "fails"
    leans: bool = False  # whether all mean differences are on the claimed side, whatever their intervals

    @property
    def ours(self) -> bool:
        """Whether no text asks this."""
        return not self.text


class Pair(NamedTuple):
    """Two samples to compare, with one value per seed; the second may be a number."""

    name: str
    first: Floats
    second: Floats | float = 0.0

    @property
    def interval(self) -> Interval:
        """Interval of the first minus the second, paired over seeds."""
        return self.at(1 - SPENT)

    def at(self, confidence: float) -> Interval:
        """The same at another confidence."""
        first = np.asarray(self.first, np.float64)
        second = np.asarray(self.second, np.float64)
        return paired_difference(first, second if second.ndim else np.full_like(first, second), confidence)


def judged(
    claim: str,  # what is claimed, in one sentence
    pairs: Sequence[Pair] | Pair,  # what is compared
    rule: Rule,  # `below()`, `above()` or `within(...)`
    *,
    unit: str = "",  # of the values, e.g. " dB" or " %"
    text: str = "",  # statement of the text with its place; empty for a question of our own
    seen_in: str = "",  # name of the figure that shows it
    note: str = "",  # further words on the numbers
) -> Claim:
    """Put a claim to the test: every pair's difference lies in the rule's range."""
    several = [pairs] if isinstance(pairs, Pair) else list(pairs)
    with np.errstate(invalid="ignore"):  # of what has left all bounds
        found = [pair.interval for pair in several]
        strict = [pair.at(1 - SPENT / len(several)) for pair in several]
    outcomes = {rule.outcome(one) for one in found}
    if "fails" in outcomes:  # of any pair, by the stricter intervals
        outcomes = {"fails" if any(rule.outcome(one) == "fails" for one in strict) else "open"}
    outcome = _worst(outcomes)
    shown = "; ".join(_compared(pair, one, unit) for pair, one in zip(several, found, strict=True))
    figure = f"{shown} (95 %, {found[0].n} seeds{rule.asked})"
    if note:
        figure = f"{figure}. {note}"
    leans = all(rule.leans(one) for one in found)
    return Claim(claim, outcome == "holds", figure, text, seen_in, outcome, leans)


def ordered(claim: str, values: Sequence[tuple[str, ArrayLike]], **words: str) -> Claim:
    """Values rise from each to the next; `words` as for `judged`."""
    arrays = [(name, np.asarray(each, np.float64)) for name, each in values]
    pairs = [Pair(f"{upper} over {lower}", more, less) for (lower, less), (upper, more) in pairwise(arrays)]
    return judged(claim, pairs, above(), **words)


NOT_WORSE = 0.01  # share of the second's mean by which the first may be above it


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

    headline: str  # one sentence; studies of a text that state the same one share it, with the worst of their verdicts
    place: str  # in the text: "figure 4.4"
    verdict: Verdict
    detail: str  # how many of the swept settings hold, or why nothing can be told
    text: str  # numbers of the text, or its words
    ours: str  # our numbers beside them
    why: str  # one sentence; where it is not reproduced a paragraph that a reviewer of the text would accept
    seen_in: str  # name of the figure that is drawn like the text's
    settings: Mapping[str, Outcome]  # settings that the text leaves open and that were swept -> outcome
    claims: tuple[str, ...]  # the claims that it rests on


Claims = Sequence[Claim]


def headline(
    statement: str,
    *,
    place: str,
    text: str,
    ours: str,
    why: str,
    claims: Claims = (),  # what has to hold at the settings that the text gives; none: it was not tested
    size: Claims | Mapping[str, Claims] = (),  # on how large an effect is, where the text has a number; or by setting
    sweep: Mapping[str, Claims] | None = None,  # setting that the text leaves open -> claims there
    seen_in: str = "",
) -> Headline:
    """Return a headline with its verdict; words are as in `Headline`."""
    sizes, sweep = size if isinstance(size, Mapping) else {"": size}, sweep or {}
    found = verdict(claims, sizes, sweep)
    swept = {setting: _together(there) for setting, there in {**sizes, **sweep}.items() if there and setting}
    held, open_, failed = (list(swept.values()).count(outcome) for outcome in get_args(Outcome))
    detail = f"holds at {held} of {len(swept)}" if found == "depends on an open setting" else ""
    if found == "not tested":
        detail = "intervals too wide" if claims or swept else "no data"
        detail = f"fails at {failed} of {len(swept)}, too wide at {open_}" if failed else detail
    named = tuple(dict.fromkeys(claim.claim for claim in (*claims, *(one for of in sizes.values() for one in of))))
    return Headline(statement, place, found, detail, text, ours, why, seen_in, swept, named)


def verdict(claims: Claims, sizes: Mapping[str, Claims], sweep: Mapping[str, Claims]) -> Verdict:
    """Return one of five verdicts, by this rule alone.

    The claims themselves count as one setting more. Then

    - direction only: everywhere nothing fails, and whatever is open has its mean on the claimed side;
    - reproduced: moreover nothing is open, and all sizes hold; where they hold at some settings only, it depends;
    - depends on an open setting: neither, yet all holds at one of the swept settings;
    - refuted: something fails at every swept setting (where none was swept: at all);
    - not tested: no claims, or intervals too wide to tell any of these.
    """
    swept, main = [there for there in sweep.values() if there], [claims] if claims else []
    outcomes = [_together(there) for there in (*main, *swept)]
    if not outcomes:
        return "not tested"
    if all(map(_likely, (*main, *swept))):
        large = {_together(there) for there in sizes.values() if there}
        if large <= {"holds"} or "holds" not in large:
            return "reproduced" if {*outcomes, *large} == {"holds"} else "direction only"
        return "depends on an open setting"
    if "holds" in outcomes[len(main) :]:
        return "depends on an open setting"
    return "refuted" if set(outcomes[len(main) if swept else 0 :]) == {"fails"} else "not tested"


def _likely(claims: Sequence[Claim]) -> bool:
    """Whether all of them hold, or could by the means."""
    return all(claim.holds or (claim.outcome == "open" and claim.leans) for claim in claims)


def _together(claims: Sequence[Claim]) -> Outcome:
    return _worst({claim.outcome for claim in claims})


def _worst(outcomes: Set[Outcome]) -> Outcome:
    return "fails" if "fails" in outcomes else "open" if "open" in outcomes else "holds"


def shown(values: ArrayLike, digits: int = 4) -> str:
    """Return a mean with half of its 95 % interval: "0.1234 ± 0.0012"; what is not finite has diverged."""
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        return f"diverged for {int((~np.isfinite(numbers)).sum())} of {numbers.size} seeds"
    interval = mean_interval(numbers)
    half = interval.high - interval.mean
    return brief(interval.mean, digits) + (f" ± {brief(half, 2)}" if np.isfinite(half) else "")


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
