"""Growth of totals with the number of rounds: slopes, standard errors and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from tacit_reproduction.mirror.budget import AGENTS
from tacit_reproduction.mirror.growth import growth, linear, sublinear

SEEDS = 12
HORIZONS = (100, 400, 1600)
SPREAD = np.random.default_rng(0).normal(size=(SEEDS, 1))


def power(exponent: float, height: float = 1.0) -> np.ndarray:
    """(seeds, horizons) totals of 16 agents that grow as T to some power."""
    return AGENTS * height * np.array(HORIZONS, np.float64) ** exponent * (1 + 0.02 * SPREAD)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.3])
def test_slope_of_a_power_is_its_exponent(exponent: float) -> None:
    found = growth(HORIZONS, power(exponent))
    assert found is not None
    assert found.slope == pytest.approx(exponent)
    assert found.stderr == pytest.approx(0, abs=1e-12)  # seeds differ in height only
    assert found.since == HORIZONS[0]


def test_standard_error_is_that_of_the_jackknife_over_seeds() -> None:
    # Leaving one of three seeds out leaves slopes of 0.5 (the two that are alike) or of this mixture, twice.
    rounds = np.array(HORIZONS, np.float64)
    found = growth(HORIZONS, np.array([rounds**0.5, rounds**0.5, rounds**1.5]))
    mixed = np.polyfit(np.log(rounds), np.log(rounds**0.5 + rounds**1.5), 1)[0]
    assert found is not None
    assert found.stderr == pytest.approx(np.sqrt(2 / 3 * (2 / 3)) * (mixed - 0.5))
    assert found.high - found.slope == pytest.approx(4.30265 * found.stderr)  # Student's t of two degrees
    assert found.slope - found.low == pytest.approx(found.high - found.slope)


def test_slope_is_taken_where_totals_are_above_zero() -> None:
    longer = (25, *HORIZONS)
    late = np.hstack([-power(0.5)[:, :1], power(0.5)])
    found = growth(longer, late)
    assert found is not None
    assert (found.since, found.slope) == (100, pytest.approx(0.5))
    assert growth(HORIZONS, late[:, :3]) is None, "two horizons are too few"
    assert growth(HORIZONS, -power(0.5)) is None
    one_seed_decides = power(0.5) * np.where(np.arange(SEEDS) == 0, 1.0, 1e-9)[:, None] - 1e-3
    assert growth(HORIZONS, one_seed_decides) is None, "without that seed there is no logarithm"


@pytest.mark.parametrize(
    ("totals", "holds", "word"),
    [
        (power(0.5), True, "slope 0.50"),
        (power(1.0), False, "slope 1.00"),
        (-power(1.0), True, "not above 0"),
        (np.hstack([power(1.0)[:, :2], 1e-3 * SPREAD]), True, "too seldom"),  # from high to nothing
        (np.hstack([-power(1.0)[:, :2], 1e-3 * SPREAD]), False, "too seldom"),  # on its way up
        (np.hstack([-power(1.0)[:, :2], SPREAD - SPREAD.mean() - 1e-3]), False, "too seldom"),  # the same, just below 0
        (np.hstack([-power(1.0)[:, :2], power(1.0)[:, 2:]]), False, "too seldom"),
        (
            np.hstack([power(1.0)[:, :1], -power(1.0)[:, :1], power(0.2)[:, 2:]]),
            False,
            "too seldom",
        ),  # lower, but above
    ],
)
def test_sublinear(totals: np.ndarray, holds: bool, word: str) -> None:
    claim = sublinear("c", HORIZONS, {"good": power(0.2), "this": totals}, AGENTS, "A note.")
    assert claim.holds is holds
    assert f"this: {word}" in claim.figure
    assert claim.figure.endswith("12 seeds. A note.")


def test_figures_are_per_agent_and_round() -> None:
    claim = sublinear("c", HORIZONS, {"x": np.tile([[1.0, 2.0, 16 * 1600 * 0.25]], (SEEDS, 1))}, AGENTS)
    assert "0.25 [0.25, 0.25]" in claim.figure


@pytest.mark.parametrize(("exponent", "holds"), [(1.0, True), (1.2, True), (0.8, False)])
def test_linear(exponent: float, holds: bool) -> None:
    assert linear("c", HORIZONS, {"x": power(exponent), "y": power(1.0)}, AGENTS).holds is holds
    assert not linear("c", HORIZONS, {"x": -power(exponent)}, AGENTS).holds


def test_a_slope_that_may_be_lower_is_not_linear() -> None:
    unsure = np.array(HORIZONS, np.float64) ** (0.91 + 0.1 * (SPREAD - SPREAD.mean()))
    found = growth(HORIZONS, unsure)
    assert found is not None
    assert found.low < 0.9 < found.slope
    assert not linear("c", HORIZONS, {"x": unsure}, AGENTS).holds
