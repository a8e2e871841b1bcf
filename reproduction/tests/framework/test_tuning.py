from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError
from tacit_reproduction.tuning import LARGEST_STEP, LEAST_STEP, bracket


@settings(max_examples=50, deadline=None, derandomize=True)
@given(best=st.floats(-6, 5), start=st.integers(-8, 6))
def test_finds_the_best_step_of_the_grid_from_anywhere(best: float, start: int) -> None:
    def loss(step: float) -> float:
        return abs(math.log2(step) - best)

    tuned = bracket(loss, 2.0**start, 2.0)
    assert loss(tuned.step) == min(loss(2.0**k) for k in range(-12, 9))
    assert not tuned.at_edge
    assert list(tuned.tried) == sorted(tuned.tried)
    assert {tuned.step / 2, tuned.step * 2} <= tuned.tried.keys()


def test_tries_three_steps_where_the_start_is_right() -> None:
    assert len(bracket(lambda step: (math.log2(step) - 1) ** 2, 2.0, 2.0).tried) == 3


@pytest.mark.parametrize(("sign", "end"), [(1, LEAST_STEP), (-1, LARGEST_STEP)])
def test_says_when_the_optimum_is_at_an_edge(sign: int, end: float) -> None:
    tuned = bracket(lambda step: sign * step, 1.0, 2.0)
    assert tuned.step == end
    assert tuned.at_edge


def test_divergence_counts_as_infinitely_bad() -> None:
    tuned = bracket(lambda step: math.nan if step > 1 else -step, 0.25, 2.0)
    assert tuned.step == 1.0
    assert tuned.tried[2.0] == math.inf
    assert not tuned.at_edge


@pytest.mark.parametrize(("start", "ratio"), [(0.0, 2.0), (1e9, 2.0), (1.0, 1.0)])
def test_refuses_a_grid_that_is_none(start: float, ratio: float) -> None:
    with pytest.raises(ConfigError, match="expected a start"):
        bracket(lambda step: step, start, ratio)
