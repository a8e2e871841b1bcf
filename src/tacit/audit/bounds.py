"""Lower bounds on epsilon from scores of trials, with a stated confidence.

A test says "it was this data set" when a score is on one side of a threshold. Of an (epsilon, delta)-private run

    P(yes | one data set) <= e^epsilon P(yes | the other) + delta

for every test. Three ways to bound epsilon from below, all with Clopper and Pearson's bounds on probabilities:

- epsilon-delta: a lower bound on the one probability and an upper bound on the other.
- odds, where delta = 0 and a fair coin has chosen each trial's data set: of the trials with a yes a share of at most
  e^epsilon / (1 + e^epsilon) may be right. One probability to bound instead of two, which tells in rare events.
- gaussian: Phi^-1(one) - Phi^-1(other) <= mu, and epsilon by the exact curve of Gaussian noise. Tighter where noise is
  Gaussian, and a bound only on claims of that kind (Dong, Roth and Su 2022).

The test and the way are chosen on a part of the trials; what counts are other trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.conversions import gaussian_epsilon

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Curve = Literal["epsilon-delta", "odds", "gaussian"]

_TAIL = np.geomspace(1e-4, 0.02, 16)
_QUANTILES = np.unique(np.concatenate([[0.0, 1.0], _TAIL, 1 - _TAIL, np.linspace(0, 1, 64)]))
"""Of the scores: thresholds that are tried, more of them where events are rare."""
_CHOOSING = 1e-2
"""Of the probability of error, where a test is chosen among thousands."""
_DIGITS = 9
"""Scores are rounded to so many decimals: of Laplace noise most are the same number but for the last places."""


class Test(NamedTuple):
    """Says yes to trials of a group whose score is on one side of a threshold."""

    statistic: str
    group: str
    """Which trials it is for."""
    above: bool
    threshold: float
    yes_means_other: bool
    """Whether a yes speaks for the other data set."""
    curve: Curve


class Finding(NamedTuple):
    """Result of a test on trials that it was not chosen on."""

    test: Test
    epsilon: float
    right: tuple[int, int]
    """Of how many trials, and how often it said yes, where yes was right."""
    wrong: tuple[int, int]


def at_least(successes: Any, trials: Any, alpha: float) -> Any:
    """Return Clopper and Pearson's lower bound on a probability, wrong with probability alpha at most."""
    from scipy.special import betaincinv

    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, alpha), 0.0)


def at_most(successes: Any, trials: Any, alpha: float) -> Any:
    """Return Clopper and Pearson's upper bound on a probability, wrong with probability alpha at most."""
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return 1.0 - at_least(n - k, n, alpha)


def epsilon_at_least(right: Any, wrong: Any, delta: float, alpha: float, curve: Curve) -> float:
    """Bound epsilon from (number of trials, number of yes) where yes was right and where it was wrong.

    The bound is wrong with probability alpha at most.
    """
    value = float(_comparable(right, wrong, delta, alpha, curve))
    if curve == "gaussian":
        return gaussian_epsilon(value, delta) if value > 0 else 0.0
    return max(0.0, value)


class Trials(NamedTuple):
    """Scores of many trials, and what each of them is for."""

    scores: Mapping[str, Floats]
    """Statistic -> score of each trial."""
    groups: Mapping[str, Bools]
    """Name -> trials that may be looked at by themselves."""
    other: Bools
    """Whether a trial was of the other data set, by the toss of a fair coin."""
    chosen_on: Bools
    """Trials on which a test is chosen."""
    counted: Bools
    """Trials on which it is then tried: none of the former."""


def strongest(trials: Trials, *, delta: float, alpha: float, curves: Sequence[Curve]) -> tuple[Test, float]:
    """Choose the test with the largest bound on the trials that it is chosen on, and return it with that bound.

    So many tests are tried that the best of them is so by luck too: bounds are stricter by as much as it takes. Of
    equal bounds that of the smaller group is taken, which says more of where the loss is.
    """
    best, most = None, (-math.inf, 0)
    other, chosen_on, strict = trials.other, trials.chosen_on, alpha * _CHOOSING
    for group, members in trials.groups.items():
        for statistic, values in trials.scores.items():
            rounded = np.round(values, _DIGITS)
            given, others = (np.sort(rounded[members & chosen_on & (other == world)]) for world in (False, True))
            for curve in curves:
                found, value = _best_threshold(given, others, delta, strict, curve)
                if found is not None and (value, -members.sum()) > most:
                    best, most = Test(statistic, group, *found, curve), (value, -members.sum())
    if best is None:
        raise ValueError("a part of the trials of one data set is empty")
    return best, max(0.0, most[0])


def tried(test: Test, trials: Trials, *, delta: float, alpha: float) -> Finding:
    """Return what a test shows on the trials that count."""
    scores = np.round(trials.scores[test.statistic], _DIGITS)
    says_yes = scores >= test.threshold if test.above else scores <= test.threshold
    counts = []
    for world in (False, True):
        mine = trials.groups[test.group] & trials.counted & (trials.other == world)
        counts.append((int(mine.sum()), int((mine & says_yes).sum())))
    right, wrong = (counts[1], counts[0]) if test.yes_means_other else (counts[0], counts[1])
    return Finding(test, epsilon_at_least(right, wrong, delta, alpha, test.curve), right, wrong)


def _best_threshold(
    given: Floats, others: Floats, delta: float, alpha: float, curve: Curve
) -> tuple[tuple[bool, float, bool] | None, float]:
    """Return (above, threshold, yes means other) with the largest bound on sorted scores, and that bound."""
    if not (given.size and others.size):
        return None, -math.inf
    both = np.sort(np.concatenate([given, others]))
    thresholds = np.unique(np.quantile(both, _QUANTILES, method="nearest"))
    best, best_value = None, -math.inf
    for above in (True, False):
        side: Literal["left", "right"] = "left" if above else "right"
        below = [np.searchsorted(scores, thresholds, side) for scores in (given, others)]
        yes = [scores.size - b if above else b for scores, b in zip((given, others), below, strict=True)]
        for yes_means_other in (False, True):
            one, two = (1, 0) if yes_means_other else (0, 1)
            sizes = (given.size, others.size)
            right, wrong = ((sizes[k], yes[k]) for k in (one, two))
            value = _comparable(right, wrong, delta, alpha, curve)
            k = int(np.argmax(value))
            if value[k] > best_value:
                best, best_value = (above, float(thresholds[k]), yes_means_other), float(value[k])
    if curve == "gaussian" and best is not None:
        best_value = gaussian_epsilon(best_value, delta) if best_value > 0 else 0.0
    return best, best_value


def _comparable(right: tuple[float, Any], wrong: tuple[float, Any], delta: float, alpha: float, curve: Curve) -> Floats:
    """Return what grows with the bound on epsilon: epsilon itself, or mu."""
    if curve == "odds":
        share = at_least(right[1], right[1] + wrong[1], alpha)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(share) - np.log1p(-share))
    low, high = at_least(right[1], right[0], alpha / 2), at_most(wrong[1], wrong[0], alpha / 2)
    return _mu(low, high) if curve == "gaussian" else _log_ratio(low, high, delta)


def _mu(low: Any, high: Any) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(low) - np.where(np.asarray(high) < 1, ndtri(high), np.inf))


def _log_ratio(low: Any, high: Any, delta: float) -> Floats:
    above = np.maximum(np.asarray(low, np.float64) - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(above) - np.log(high))
