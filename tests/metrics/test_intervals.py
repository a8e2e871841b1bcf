from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.metrics import mean_band, mean_interval, paired_difference


def test_interval_is_students() -> None:
    values = np.random.default_rng(0).normal(size=7)
    interval = mean_interval(values, confidence=0.9)
    low, high = scipy.stats.t.interval(0.9, 6, loc=values.mean(), scale=scipy.stats.sem(values))
    assert interval == pytest.approx((values.mean(), low, high, 7))


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_covers_the_mean_as_often_as_it_says(confidence: float) -> None:
    # 20,000 trials of 5 repeats: the binomial deviation is below 0.3 points, so that 1.5 points off (five
    # deviations) is a false alarm in fewer than one of 1e6 runs with other seeds.
    trials = np.random.default_rng(1).normal(3.0, 2.0, size=(5, 20_000))
    band = mean_band(trials, confidence)
    covered = np.mean((band.low <= 3.0) & (band.high >= 3.0))
    assert covered == pytest.approx(confidence, abs=0.015)


def test_one_repeat_says_nothing_about_the_spread() -> None:
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf, 1)


def test_band_is_the_interval_of_every_point() -> None:
    curves = np.random.default_rng(2).normal(size=(6, 3))
    band = mean_band(curves)
    for point in range(3):
        assert mean_interval(curves[:, point]) == pytest.approx(
            (band.mean[point], band.low[point], band.high[point], 6)
        )


def test_pairing_sees_what_the_scatter_between_seeds_hides() -> None:
    rng = np.random.default_rng(3)
    of_seed = 10 * rng.normal(size=10)
    a, b = of_seed + 0.1 * rng.normal(size=10), of_seed + 0.5 + 0.1 * rng.normal(size=10)
    assert paired_difference(a, b).high < 0
    assert paired_difference(b, a).low > 0
    assert paired_difference(a, a + rng.normal(size=10) - 0.1).high > 0
    assert mean_interval(a).high > mean_interval(b).low


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mean_interval([1.0, 2.0], confidence=95), ConfigError, "confidence = 95"),
        (lambda: mean_interval([]), DataError, "at least one repeat"),
        (lambda: mean_interval([[1.0]]), DataError, "mean_band"),
        (lambda: paired_difference([1.0, 2.0], [1.0]), DataError, "same seeds"),
    ],
)
def test_bad_arguments_are_refused_by_name(call: Any, error: type[TacitError], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
