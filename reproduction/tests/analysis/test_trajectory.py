"""The whole-data-set claim of Rizk (2023): its numbers as printed, and what it lacks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit_reproduction.analysis.trajectory import bounds_for, trajectory_claim

SIZE = st.floats(1e-3, 1e3)
GIVEN = {"noise_std": 0.2, "rounds": 50, "bounds": (1.0, 2.0), "gap": 0.5, "mean_square_errors": (0.01, 0.04)}


def test_as_printed_around_a_server():
    """(2.69) and (2.64), worked out by hand."""
    claim = trajectory_claim(**GIVEN)
    assert claim.sensitivity == 3.5
    assert claim.epsilon() == pytest.approx(math.sqrt(2) / 0.2 * 3.5 * 50)
    assert claim.probability == pytest.approx((1 - 0.01 / 1) * (1 - 0.04 / 4))


def test_as_printed_with_servers_and_with_links():
    """(3.58) has sqrt(P) on the gap and i + 1 messages, (4.34) P times as much for the links."""
    servers = trajectory_claim(**GIVEN, agents=9)
    assert servers.epsilon(51) == pytest.approx(math.sqrt(2) / 0.2 * (3 + 3 * 0.5) * 51)
    assert trajectory_claim(**GIVEN, agents=9, links=9).epsilon() == pytest.approx(9 * servers.epsilon())


@settings(derandomize=True, deadline=None, max_examples=50)
@given(noise=SIZE, bounds=st.tuples(SIZE, SIZE), gap=SIZE, errors=st.tuples(SIZE, SIZE), i=st.integers(1, 10**6))
def test_growth_and_trade_off(noise, bounds, gap, errors, i):
    claim = trajectory_claim(noise, i, bounds, gap, errors, coordinates=16)
    assert claim.epsilon(i) == pytest.approx(i * claim.epsilon(1))
    assert claim.epsilon(0) == 0
    assert trajectory_claim(2 * noise, i, bounds, gap, errors).epsilon() == pytest.approx(claim.epsilon() / 2)
    assert claim.in_l1() == pytest.approx(4 * claim.epsilon())
    wider = trajectory_claim(noise, i, (2 * bounds[0], 2 * bounds[1]), gap, errors)
    assert wider.epsilon() > claim.epsilon()
    assert 0 <= claim.probability <= wider.probability < 1
    # The product is for one round and as if independent; what holds for all of them at once is less.
    assert 1 - claim.failure <= claim.probability + 1e-9
    assert claim.failure <= 1


def test_the_union_over_rounds():
    assert trajectory_claim(**GIVEN).failure == pytest.approx(50 * (0.01 + 0.01))
    few = trajectory_claim(**GIVEN | {"rounds": 2})
    assert few.failure == pytest.approx(0.04)


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.99])
def test_smallest_bounds(probability):
    bounds = bounds_for((0.3, 0.7), probability)
    assert trajectory_claim(**GIVEN | {"bounds": bounds, "mean_square_errors": (0.3, 0.7)}).probability == (
        pytest.approx(probability)
    )


def test_words_name_unit_growth_probability_and_what_is_missing():
    words = trajectory_claim(**GIVEN, agents=4, links=4, coordinates=9).words()
    for part in ("whole data set", "epsilon(50) = 5657", "113.1 with every round", "4 links", "0.9801", "l1 norm"):
        assert part in words
    assert "1.697e+04" in words
    assert "nothing is promised" in words
    assert "nothing is promised" not in trajectory_claim(**GIVEN | {"rounds": 2}).words()
