from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.streams import Batch, Stream, from_function, linear_drift
from tacit.streams.stream import FunctionStream


def table(start: int, stop: int) -> dict[str, np.ndarray]:
    rounds = np.arange(start, stop)[:, None]
    return {"price": rounds * 10.0 + np.arange(3), "count": np.broadcast_to(rounds, (stop - start, 3))}


def test_a_function_may_give_any_pytree() -> None:
    stream = from_function(table, agents=3, rounds=7)
    assert isinstance(stream, Stream)
    assert (stream.agents, stream.rounds, stream.period) == (3, 7, 7)
    np.testing.assert_array_equal(stream.data_size, [0, 0, 0])
    chunk = stream.chunk(2, 4)
    np.testing.assert_array_equal(chunk["price"], [[20, 21, 22], [30, 31, 32]])
    np.testing.assert_array_equal(chunk["count"], [[2, 2, 2], [3, 3, 3]])


def test_a_function_keeps_its_own_types_and_a_run_takes_its_own_precision() -> None:
    stream = from_function(table, agents=3)
    spec = stream.batch_spec()
    assert (spec["price"].shape, spec["price"].dtype) == ((), np.dtype(np.float64))
    with jax.enable_x64(True):
        jax.tree.map(np.testing.assert_array_equal, stream.chunk(0, 2), from_function(table, agents=3).chunk(0, 2))


def test_an_empty_slice_has_the_shapes_of_a_batch() -> None:
    assert from_function(table, agents=3).chunk(4, 4)["price"].shape == (0, 3)


def test_a_function_stream_keeps_its_own_sizes_and_period() -> None:
    stream = from_function(table, agents=3, period=2, data_size=5, name="prices", description="made up")
    assert (stream.rounds, stream.period, stream.name, stream.description) == (None, 2, "prices", "made up")
    np.testing.assert_array_equal(stream.data_size, [5, 5, 5])
    np.testing.assert_array_equal(stream.reads(5), [3, 3, 3])
    assert repr(stream) == "Stream(prices, 3 agents, endless)"


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 8), (8, 8)])
def test_rounds_outside_the_stream_are_refused(start: int, stop: int) -> None:
    with pytest.raises(DataError, match=f"rounds {start} to {stop} .*rounds 0 to 7"):
        from_function(table, agents=3, rounds=7).chunk(start, stop)


def test_a_function_with_other_agents_is_refused_at_once() -> None:
    with pytest.raises(DataError, match=r"shape \(1, 3\) for rounds 0 to 1; expected .* = \(1, 4\)"):
        from_function(table, agents=4)


def test_a_function_that_changes_its_pytree_is_refused() -> None:
    def fickle(start: int, stop: int) -> object:
        x = np.zeros((stop - start, 2, 4), np.float32)
        return Batch(x, x[..., 0], None if start == 0 else x[..., 0])

    with pytest.raises(DataError, match="the same pytree"):
        from_function(fickle, agents=2).chunk(1, 2)


def test_a_function_that_changes_its_shapes_is_refused() -> None:
    with pytest.raises(DataError, match=r"float32\(5,\), .*float32\(4,\)"):
        from_function(lambda a, b: np.zeros((b - a, 2, 4 + (a > 0)), np.float32), agents=2).chunk(1, 2)


@pytest.mark.parametrize("setting", [{"agents": 0}, {"agents": 2.5}, {"agents": 3, "rounds": 0}])
def test_settings_that_cannot_be_used_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        from_function(table, **setting)


def test_endless_streams_read_each_sample_once() -> None:
    np.testing.assert_array_equal(linear_drift(3, 2).reads(1000), [1, 1, 1])
    np.testing.assert_array_equal(linear_drift(3, 2, repeat_every=10).reads(1000), [100, 100, 100])


@pytest.mark.parametrize(
    ("setting", "numbers"),
    [
        ({}, None),
        ({"rounds": 7}, None),
        ({"rounds": 7, "period": 7}, None),
        ({"period": 3}, [2, 0, 1, 2]),
        ({"rounds": 7, "period": 3}, [2, 0, 1, 2]),
    ],
    ids=str,
)
def test_batches_are_records_that_come_again_after_the_period(setting: dict[str, int], numbers: list[int]) -> None:
    stream = from_function(table, agents=3, **setting)
    found = stream.records(1, 2, 6)
    assert (found is None) if numbers is None else (found.tolist() == [[number] for number in numbers])
    assert stream.records_in_round(1, 3) == (None if numbers is None else (2,))
    assert len(set(stream.alike())) == 1


def test_a_function_may_tell_which_records_it_reads() -> None:
    owned = np.array([[[0], [1], [0], [2]], [[3], [3], [-1], [3]]])
    stream = from_function(table, agents=3, records=lambda agent, start, stop: owned[agent % 2, start:stop])
    np.testing.assert_array_equal(stream.records(1, 1, 3), [[3], [-1]])
    np.testing.assert_array_equal(stream.reads(4), [2, 3, 2])  # agent 1 otherwise than agent 0


def test_an_empty_place_is_read_by_nobody() -> None:
    stream = from_function(table, agents=3, records=lambda agent, start, stop: np.full((stop - start, 2), -1))
    np.testing.assert_array_equal(stream.reads(4), [0, 0, 0])


def test_a_stream_that_numbers_its_records_is_asked_agent_by_agent():
    """Whoever says nothing of agents that are alike must not have agent 0 speak for all."""

    class Own(FunctionStream):
        def records(self, agent, start, stop):
            return np.zeros((stop - start, 1), np.int64) if agent == 1 else None

        alike = Stream.alike

    zeros = np.zeros((4, 2), np.float32)
    own = Own(
        lambda start, stop: zeros[start:stop],
        agents=2,
        rounds=4,
        period=None,
        data_size=np.zeros(2, np.int32),
        records=None,
        name="own",
        description="own",
    )
    np.testing.assert_array_equal(own.reads(4), [1, 4])


def rows(start, stop):
    return Batch(np.zeros((stop - start, 2, 5, 3), np.float32), np.ones((stop - start, 2, 5), np.float32))


@pytest.mark.parametrize(
    "numbers",
    [
        lambda rounds: np.full((rounds, 5), -1),  # nothing is there, it says: every release would be free
        lambda rounds: np.zeros((rounds, 0), int),
        lambda rounds: np.zeros((rounds, 3), int),
        lambda rounds: np.zeros(rounds, int),
        lambda rounds: np.zeros((rounds, 5)),
        lambda rounds: np.full((rounds, 1), -2),
    ],
)
def test_numbers_that_do_not_fit_the_batches_are_refused(numbers):
    stream = from_function(rows, agents=2, rounds=4, records=lambda agent, start, stop: numbers(stop - start))
    for ask in (lambda: stream.records_in_round(0, 1), lambda: stream.reads(4)):
        with pytest.raises(DataError, match="numbered"):
            ask()


def test_limited_samples_without_a_period_are_taken_to_come_again():
    limited = from_function(rows, agents=2, data_size=np.array([10, 0]))
    np.testing.assert_array_equal(limited.reads(8), [4, 1])
    np.testing.assert_array_equal(from_function(rows, agents=2, data_size=10, period=4).reads(8), [2, 2])
    assert limited.records_in_round(0, 3) == (0, 1, 2, 3, 4)
