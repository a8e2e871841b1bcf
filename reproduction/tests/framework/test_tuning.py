import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit_reproduction.tuning import LARGEST_STEP, LEAST_STEP, bracket


@settings(max_examples=50, deadline=None, derandomize=True)
@given(best=st.floats(-6, 5), start=st.integers(-8, 6))
def test_finds_the_best_step_of_the_grid_from_anywhere_and_tries_none_twice(best: float, start: int) -> None:
    tried = []

    def loss(step: float) -> float:
        tried.append(step)
        return abs(math.log2(step) - best)

    found = bracket(loss, 2.0**start, 2.0)
    assert len(set(tried)) == len(tried) <= 3 + abs(math.log2(found) - start)
    assert loss(found) == min(loss(2.0**k) for k in range(-12, 9))


@pytest.mark.parametrize(("sign", "end"), [(1, LEAST_STEP), (-1, LARGEST_STEP)])
def test_ends_at_an_edge(sign: int, end: float) -> None:
    assert bracket(lambda step: sign * step, 1.0, 2.0) == end


def test_divergence_counts_as_infinitely_bad() -> None:
    assert bracket(lambda step: math.nan if step > 1 else -step, 0.25, 2.0) == 1.0
