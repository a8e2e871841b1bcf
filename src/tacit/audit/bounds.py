"""From scores of trials to a lower bound on epsilon that holds with a stated confidence.

A test says "it was this data set" when a score is on one side of a threshold. Of an (epsilon, delta)-private run

    P(yes | one data set) <= e^epsilon P(yes | the other) + delta

for every test, so that a lower bound on the one probability and an upper bound on the other bound epsilon from below.
The Gaussian variant bounds mu instead, Phi^-1(one) - Phi^-1(other) <= mu, and reads epsilon off the exact curve of
Gaussian noise: tighter where noise is Gaussian, and a bound only on claims of that kind (Dong, Roth and Su 2022). The
test is chosen on one half of the trials; probabilities are bounded by Clopper and Pearson on the other half.
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
Curve = Literal["epsilon-delta", "gaussian"]

_THRESHOLDS = 64
"""Tried per statistic, at the quantiles of its scores."""
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
    """What a test has shown on trials that it was not chosen on."""

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

    Either probability's bound is wrong with probability alpha / 2 at most.
    """
    low = float(at_least(right[1], right[0], alpha / 2))
    high = float(at_most(wrong[1], wrong[0], alpha / 2))
    if curve == "gaussian":
        mu = float(_mu(low, high))
        return gaussian_epsilon(mu, delta) if mu > 0 else 0.0
    return max(0.0, float(_log_ratio(low, high, delta)))


def strongest(
    scores: Mapping[str, Floats],
    groups: Mapping[str, Bools],
    other: Bools,
    chosen_on: Bools,
    *,
    delta: float,
    alpha: float,
    curves: Sequence[Curve],
) -> Finding:
    """Choose the test with the largest bound on the trials `chosen_on`, and return what it shows on the rest."""
    best, best_value = None, -math.inf
    for group, members in groups.items():
        for statistic, values in scores.items():
            rounded = np.round(values, _DIGITS)
            given, others = (np.sort(rounded[members & chosen_on & (other == world)]) for world in (False, True))
            for curve in curves:
                found, value = _best_threshold(given, others, delta, alpha, curve)
                if found is not None and value > best_value:
                    best, best_value = Test(statistic, group, *found, curve), value
    if best is None:
        raise ValueError("a half of the trials of one data set is empty")
    says_yes = _says_yes(best, np.round(scores[best.statistic], _DIGITS))
    counts = []
    for world in (False, True):
        mine = groups[best.group] & ~chosen_on & (other == world)
        counts.append((int(mine.sum()), int((mine & says_yes).sum())))
    right, wrong = (counts[1], counts[0]) if best.yes_means_other else (counts[0], counts[1])
    return Finding(best, epsilon_at_least(right, wrong, delta, alpha, best.curve), right, wrong)


def _best_threshold(
    given: Floats, others: Floats, delta: float, alpha: float, curve: Curve
) -> tuple[tuple[bool, float, bool] | None, float]:
    """Return (above, threshold, yes means other) with the largest bound on sorted scores, and a figure to compare."""
    if not (given.size and others.size):
        return None, -math.inf
    both = np.concatenate([given, others])
    thresholds = np.unique(np.quantile(both, np.linspace(0, 1, _THRESHOLDS), method="nearest"))
    best, best_value = None, -math.inf
    for above in (True, False):
        side: Literal["left", "right"] = "left" if above else "right"
        below = [np.searchsorted(scores, thresholds, side) for scores in (given, others)]
        yes = [scores.size - b if above else b for scores, b in zip((given, others), below, strict=True)]
        for yes_means_other in (False, True):
            one, two = (1, 0) if yes_means_other else (0, 1)
            sizes = (given.size, others.size)
            low = at_least(yes[one], sizes[one], alpha / 2)
            high = at_most(yes[two], sizes[two], alpha / 2)
            value = _comparable(low, high, delta, curve)
            k = int(np.argmax(value))
            if value[k] > best_value:
                best, best_value = (above, float(thresholds[k]), yes_means_other), float(value[k])
    if curve == "gaussian" and best is not None:
        best_value = gaussian_epsilon(best_value, delta) if best_value > 0 else 0.0
    return best, best_value


def _comparable(low: Floats, high: Floats, delta: float, curve: Curve) -> Floats:
    """Return what grows with the bound on epsilon."""
    return _mu(low, high) if curve == "gaussian" else _log_ratio(low, high, delta)


def _mu(low: Any, high: Any) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(low) - np.where(np.asarray(high) < 1, ndtri(high), np.inf))


def _log_ratio(low: Any, high: Any, delta: float) -> Floats:
    above = np.maximum(np.asarray(low, np.float64) - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(above) - np.log(high))


def _says_yes(test: Test, scores: Floats) -> Bools:
    return np.asarray(scores >= test.threshold if test.above else scores <= test.threshold)
