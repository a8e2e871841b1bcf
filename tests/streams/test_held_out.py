from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit.streams import Batch, from_arrays, from_function, linear_drift, whole, with_validation

X = np.arange(1.0, 13)[:, None]
Y = np.arange(12) % 2
FITTED = whole(X, Y, [[0, 1, 2], [3, 4]], name="fitted", description="five rows")
HELD_BACK = whole(X, Y, [[5], [6, 7]], name="held back", description="three rows")


def test_batches_have_both_side_by_side() -> None:
    both = with_validation(FITTED, HELD_BACK)
    batch = both.chunk(4, 6)
    for leaf, own in zip((batch.x, batch.y, batch.weight), FITTED.chunk(4, 6), strict=True):
        np.testing.assert_array_equal(leaf, own)
    for leaf, own in zip(batch.validation, HELD_BACK.chunk(4, 6), strict=True):
        np.testing.assert_array_equal(leaf, own)
    spec = both.batch_spec()
    assert spec.x.shape == (3, 1)
    assert spec.validation.x.shape == (2, 1)


def test_it_counts_what_is_fitted_and_says_what_judges() -> None:
    both = with_validation(FITTED, HELD_BACK)
    np.testing.assert_array_equal(both.data_size, [3, 2])
    assert (both.agents, both.rounds, both.period, both.name) == (2, None, 1, "fitted")
    assert both.description == "five rows; judged by three rows"
    np.testing.assert_array_equal(both.reads(7), FITTED.reads(7))
    with pytest.raises(DataError, match="rounds 3 to 2"):
        both.chunk(3, 2)


def test_no_record_is_taken_for_another() -> None:
    """What is judged by has numbers of its own; agents are alike that are so in both."""
    one = from_arrays(X, Y, [[0, 1], [2, 3, 4, 5], [6, 7]], rounds=8, exhausted="cycle")
    other = from_arrays(X, Y, [[0, 1], [2, 3, 4, 5], [6, 7, 8]], rounds=8, exhausted="cycle")
    both = with_validation(one, other)
    for agent in range(3):
        numbers = both.records(agent, 0, 8)
        for place, stream in enumerate((one, other)):
            own = stream.records(agent, 0, 8)[:, 0]
            assert len(set(zip(numbers[:, place], own, strict=True))) == len(set(own))
        assert not set(numbers[:, 0]) & set(numbers[:, 1])
    assert len(set(both.alike())) == 3


def test_a_place_without_a_record_stays_one() -> None:
    def some(agent, start, stop):
        return np.where(np.arange(start, stop) % 2, -1, agent)[:, None]

    def zeros(a, b):
        return Batch(np.zeros((b - a, 2, 1)), np.zeros((b - a, 2)), np.zeros((b - a, 2)))

    now_and_then = from_function(zeros, agents=2, records=some)
    both = with_validation(now_and_then, now_and_then)
    np.testing.assert_array_equal(both.records(1, 0, 3) >= 0, [[True, True], [False, False], [True, True]])


def test_of_streams_that_never_repeat_every_round_has_records_of_its_own() -> None:
    both = with_validation(linear_drift(2, 1), linear_drift(2, 1, seed=1))
    numbers = both.records(0, 3, 9)
    assert len(np.unique(numbers)) == numbers.size == 12
    np.testing.assert_array_equal(both.reads(20), [1, 1])


@pytest.mark.parametrize(
    "other",
    [
        whole(X, Y, [[5], [6], [7]]),
        from_function(lambda a, b: Batch(np.zeros((b - a, 2, 1)), np.zeros((b - a, 2))), agents=2, rounds=5, period=1),
        from_function(lambda a, b: Batch(np.zeros((b - a, 2, 1)), np.zeros((b - a, 2))), agents=2, period=3),
    ],
    ids=["agents", "rounds", "period"],
)
def test_streams_that_do_not_go_together_are_refused(other) -> None:
    with pytest.raises(DataError, match="make them the same"):
        with_validation(FITTED, other)


def test_batches_of_another_kind_are_refused() -> None:
    odd = from_function(lambda a, b: {"x": np.zeros((b - a, 2, 1))}, agents=2, period=1)
    with pytest.raises(DataError, match="expected x, y and weight"):
        with_validation(odd, HELD_BACK)
    with pytest.raises(DataError, match="expected x, y and weight"):
        with_validation(with_validation(FITTED, HELD_BACK), HELD_BACK)
