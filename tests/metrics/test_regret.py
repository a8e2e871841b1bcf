from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import DataError
from tacit.metrics import loglog_slope, static_regret


def test_regret_is_the_difference_in_total_and_per_round() -> None:
    regret = static_regret([1, 10], [[3.0, 30.0], [4.0, 24.0]], [2.0, 20.0])
    np.testing.assert_array_equal(regret.rounds, [1, 10])
    np.testing.assert_array_equal(regret.total, [[1, 10], [2, 4]])
    np.testing.assert_array_equal(regret.per_round, [[1, 1], [2, 0.4]])


@given(
    slope=st.floats(-3, 3),
    height=st.floats(1e-6, 1e6),
    count=st.integers(3, 40),
    start=st.floats(1, 1e3),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_slope_of_a_power_is_its_exponent(slope: float, height: float, count: int, start: float) -> None:
    t = start * np.geomspace(1, 1e4, count)
    fit = loglog_slope(t, height * t**slope)
    assert fit.slope == pytest.approx(slope, abs=1e-8)
    assert fit.intercept == pytest.approx(np.log(height), abs=1e-7)
    assert fit.stderr < 1e-8


def test_standard_error_is_the_spread_of_the_slope() -> None:
    # 2,000 fits with known scatter and 28 degrees of freedom: the true slope lies within 2.048 standard
    # errors in 95 % of them. The share has a deviation of 0.5 points, so that 2.5 points off is a false alarm
    # in one of 1e6 runs with other seeds.
    rng = np.random.default_rng(0)
    t = np.geomspace(1, 1000, 30)
    inside = 0
    for _ in range(2000):
        fit = loglog_slope(t, t**-0.5 * np.exp(0.3 * rng.normal(size=30)))
        inside += abs(fit.slope + 0.5) <= 2.048 * fit.stderr
    assert 0.925 <= inside / 2000 <= 0.975


@pytest.mark.parametrize(
    ("t", "values", "words"),
    [
        ([1, 2], [1, 2], "same length >= 3"),
        ([1, 2, 3], [1, 2], "same length >= 3"),
        ([1, 2, 3], [1, -2, 3], "values contain -2.0: expected finite numbers > 0"),
        ([0, 1, 2], [1, 2, 3], "t contain 0.0"),
        ([1, 2, 3], [1, np.nan, 3], "values contain nan"),
        ([2, 2, 2], [1, 2, 3], "t = 2.0 throughout"),
    ],
)
def test_what_has_no_slope_is_refused(t: list[float], values: list[float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        loglog_slope(t, values)


def test_a_single_total_for_many_rounds_is_refused() -> None:
    with pytest.raises(DataError, match=r"comparator_totals of shape \(\): .* 2"):
        static_regret([1, 2], [1.0, 2.0], 3.0)
    with pytest.raises(DataError, match="expected a list of rounds t >= 1"):
        static_regret([0, 1], [1.0, 2.0], [1.0, 2.0])
