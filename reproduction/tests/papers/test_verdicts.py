from __future__ import annotations

import re

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit_reproduction.verdicts import falling, larger_gain, lower, not_worse, slopes

SEEDS = 10
JITTER = 0.01 * np.random.default_rng(0).normal(size=(4, SEEDS))


def losses(mean: float, k: int = 0) -> np.ndarray:
    return mean + JITTER[k]


def test_lower_holds_only_where_the_interval_is_below_zero() -> None:
    low, high = ("A", losses(0.5)), ("B", losses(0.6, 1))
    assert lower("A < B", low, high).holds
    assert not lower("B < A", high, low).holds
    same = lower("A < A'", ("A", losses(0.5)), ("A'", losses(0.5, 1)))
    assert not same.holds


def test_a_difference_that_is_small_but_steady_over_the_seeds_counts() -> None:
    assert lower("A < B", ("A", losses(0.5)), ("B", losses(0.5) + 1e-4 * (1 + np.arange(SEEDS)))).holds


def test_figure_gives_means_difference_interval_and_number_of_seeds() -> None:
    claim = lower("A < B", ("A", np.full(SEEDS, 0.5)), ("B", np.full(SEEDS, 0.75)), "A note.")
    numbers = re.findall(r"-?\d+\.\d+", claim.figure)
    assert (claim.claim, numbers) == ("A < B", ["0.5000", "0.7500", "-0.2500", "-0.2500", "-0.2500"])
    assert "10 seeds" in claim.figure
    assert claim.figure.endswith("A note.")


def test_not_worse_tolerates_one_per_cent_and_says_so() -> None:
    reference = ("B", losses(0.5))
    assert not_worse("", ("A", losses(0.5) + 0.004), reference).holds
    beyond = not_worse("", ("A", losses(0.5) + 0.006), reference)
    assert not beyond.holds
    assert "0.005" in beyond.figure


def test_not_worse_needs_evidence() -> None:
    noisy = losses(0.5) + np.where(np.arange(SEEDS) % 2, 0.1, -0.1)
    assert not not_worse("", ("A", noisy), ("B", losses(0.5))).holds


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_supports_no_claim(bad: float) -> None:
    diverged = losses(0.5)
    diverged[3] = bad
    with np.errstate(invalid="ignore"):
        for a, b in ((losses(0.1, 1), diverged), (diverged, losses(0.1, 1))):
            assert not lower("", ("A", a), ("B", b)).holds
            assert not not_worse("", ("A", a), ("B", b)).holds
        assert not falling("", (1, 2), np.stack([diverged, losses(0.1, 1)]), "d").holds


def test_one_seed_supports_no_claim() -> None:
    assert not lower("", ("A", [0.1]), ("B", [0.9])).holds


def test_falling_follows_the_trend() -> None:
    levels = (2, 4, 8, 16)
    down = np.stack([losses(mean, k) for k, mean in enumerate((0.9, 0.8, 0.7, 0.6))])
    claim = falling("", levels, down, "up to")
    assert claim.holds
    assert "0.9008" in claim.figure
    assert "10 of them" in claim.figure
    assert not falling("", levels, down[::-1], "up to").holds
    assert not falling("", levels, np.stack([losses(0.7, k) for k in range(4)]), "up to").holds


def test_slope_is_that_of_least_squares() -> None:
    values = np.random.default_rng(1).normal(size=(4, 3))
    expected = [np.polyfit([1, 2, 3, 4], column, 1)[0] for column in values.T]
    np.testing.assert_allclose(slopes((2, 4, 8, 16), values), expected)


def test_falling_refuses_one_level() -> None:
    with pytest.raises(DataError, match="at least two levels"):
        falling("", (2,), [[0.1, 0.2]], "d")


def test_larger_gain_compares_gains_not_losses() -> None:
    here = (("OPS", losses(0.5)), ("Local", losses(0.7, 1)))
    there = (("OPS", losses(0.2)), ("Local", losses(0.3, 1)))
    assert larger_gain("", here, there).holds
    assert not larger_gain("", there, here).holds
    assert not larger_gain("", here, here).holds
