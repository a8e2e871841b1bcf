from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError, DataError
from tacit.streams import from_arrays

# Row r has feature r, and a label that says whether r is odd: what was read can be read off.
X = np.arange(12.0)[:, None]
Y = np.arange(12) % 2
THREE = [[0, 1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11]]


cycling = partial(from_arrays, exhausted="cycle")


def rows_read(stream, rounds: int) -> np.ndarray:
    return stream.chunk(0, rounds).x[..., 0].astype(int)


def test_each_agent_reads_its_own_rows_once_per_pass() -> None:
    rows = rows_read(cycling(X, Y, THREE), 10)
    for agent, own in enumerate(THREE):
        for begin in range(0, 10, len(own)):
            assert sorted(rows[begin : begin + len(own), agent]) == own


def test_labels_travel_with_their_rows() -> None:
    chunk = cycling(X, Y, THREE).chunk(0, 20)
    np.testing.assert_array_equal(chunk.y, np.where(chunk.x[..., 0] % 2 == 1, 1, -1))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    start=st.integers(0, 30),
    length=st.integers(0, 30),
    batch=st.integers(1, 7),
    exhausted=st.sampled_from(["cycle", "mask"]),
)
def test_any_slice_is_that_slice_of_the_whole(start, length, batch, exhausted) -> None:
    def make():
        return from_arrays(X, Y, THREE, batch=batch, rounds=60, exhausted=exhausted)

    for whole, part in zip(make().chunk(0, 60), make().chunk(start, start + length), strict=True):
        np.testing.assert_array_equal(None if whole is None else whole[start : start + length], part)


def test_cycles_repeat_after_the_period() -> None:
    stream = cycling(X, Y, THREE, batch=2)
    assert (stream.rounds, stream.period) == (None, 5)  # 5 rows by twos: 5 rounds; 2 rows by twos: 1
    np.testing.assert_array_equal(stream.chunk(0, 5).x, stream.chunk(15, 20).x)
    np.testing.assert_array_equal(stream.data_size, [5, 2, 5])


def test_a_period_beyond_all_runs_counts_as_none() -> None:
    primes = [1009, 1013, 1019, 1021, 1031]
    holder = np.repeat(np.arange(5), primes)
    assert cycling(np.zeros((5093, 1)), np.zeros(5093), holder).period is None


def test_a_masked_agent_has_weight_zero_and_no_data_left() -> None:
    stream = from_arrays(X + 1, Y, THREE, exhausted="mask")
    assert (stream.rounds, stream.period) == (5, 5)
    chunk = stream.chunk(0, 5)
    np.testing.assert_array_equal(chunk.weight.T, [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert (chunk.x[2:, 1] == 0).all()
    assert (chunk.y[2:, 1] == 0).all()
    assert (chunk.x[:2, 1] > 0).all()
    assert chunk.weight.dtype == np.float32


def test_a_masked_batch_may_be_part_full() -> None:
    chunk = from_arrays(X, Y, THREE, batch=3, exhausted="mask", rounds=3).chunk(0, 3)
    np.testing.assert_array_equal(chunk.weight[:, 0], [[1, 1, 1], [1, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(chunk.weight[:, 1], [[1, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_stop_ends_with_the_smallest_agent() -> None:
    assert from_arrays(X, Y, THREE, exhausted="stop").rounds == 2
    stream = from_arrays(X, Y, THREE, exhausted="stop", batch=2)
    assert stream.rounds == 1
    with pytest.raises(DataError, match="stream has rounds 0 to 1"):
        stream.chunk(0, 2)
    assert from_arrays(X, Y, THREE, exhausted="stop", rounds=1).rounds == 1


@pytest.mark.parametrize("setting", [{"rounds": 3}, {"batch": 3}])
def test_stop_refuses_more_than_there_is(setting) -> None:
    with pytest.raises(DataError, match=r"agent 1 has 2 samples.*exhausted='cycle'"):
        from_arrays(X, Y, THREE, exhausted="stop", **setting)


def test_reads_counts_how_often_a_record_is_used() -> None:
    np.testing.assert_array_equal(cycling(X, Y, THREE).reads(5), [1, 3, 1])
    np.testing.assert_array_equal(cycling(X, Y, THREE, batch=2).reads(5), [2, 5, 2])
    np.testing.assert_array_equal(from_arrays(X, Y, THREE, exhausted="mask").reads(5), [1, 1, 1])
    for agent, own in enumerate(THREE):
        rows = rows_read(cycling(X, Y, THREE, batch=2), 5)[:, agent]
        assert max(np.bincount(rows.ravel())[own]) == [2, 5, 2][agent]


def test_rows_are_read_once_unless_more_is_asked_for() -> None:
    stream = from_arrays(X, Y, THREE)
    assert (stream.rounds, stream.read_counts(5)) == (5, (1, 1, 0, 12))
    with pytest.raises(DataError, match="passes"):
        stream.chunk(0, 6)


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("setting", [{"exhausted": "cycle"}, {"passes": 3}, {"rounds": 16}])
def test_read_counts_are_those_of_the_rows_themselves(setting, batch) -> None:
    stream = from_arrays(X + 1, Y, THREE, batch=batch, **setting)
    for rounds in range(7):
        rows = stream.chunk(0, rounds).x.astype(int).ravel()
        times = np.bincount(rows, minlength=13)[1:]  # where there is none a row reads 0
        counts = stream.read_counts(rounds)
        assert counts == (times.min(), times.max(), (times == 0).sum(), 12)
        np.testing.assert_array_equal(stream.reads(rounds).max(initial=0), times.max()) if rounds else None


def test_rounds_are_no_further_passes() -> None:
    assert from_arrays(X, Y, THREE, passes=2, rounds=3).read_counts(3).most <= 2
    whole = from_arrays(X, Y, THREE, passes=2).rounds
    with pytest.raises(DataError, match=f"{whole + 1}.*passes=3"):
        from_arrays(X, Y, THREE, passes=2, rounds=whole + 1)


def test_a_pass_lasts_as_long_as_the_most_rows_and_reads_each_row_once() -> None:
    stream = from_arrays(X + 1, Y, THREE, passes=3)
    assert (stream.rounds, stream.period) == (15, 5)
    once = stream.chunk(0, 5)
    np.testing.assert_array_equal(once.x, stream.chunk(10, 15).x)
    assert sorted(once.x.astype(int).ravel()) == [0] * 3 + list(range(1, 13))
    np.testing.assert_array_equal(stream.records(1, 0, 7)[:, 0], [0, 1, -1, -1, -1, 0, 1])
    with pytest.raises(ConfigError, match="passes=3"):
        cycling(X, Y, THREE, passes=3)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_record_has_one_number_whenever_it_is_read(batch) -> None:
    stream = cycling(X, Y, THREE, batch=batch)
    x = stream.chunk(0, 9).x.reshape(9, 3, batch).astype(int)
    for agent in range(3):
        numbers, rows = stream.records(agent, 0, 9), x[:, agent]
        for number in np.unique(numbers):
            assert len(set(rows[numbers == number])) == 1
        assert len(np.unique(numbers)) == len(np.unique(rows))
        np.testing.assert_array_equal(stream.records(agent, 4, 7), numbers[4:7])
        assert stream.records_in_round(agent, 5) == tuple(numbers[4])


@pytest.mark.parametrize("exhausted", ["mask", "stop"])
def test_what_is_read_once_is_in_one_round(exhausted) -> None:
    """A stream may say so by numbers, or by none."""
    stream = from_arrays(X, Y, THREE, exhausted=exhausted, batch=2)
    numbers = stream.records(0, 0, stream.rounds)
    assert numbers is None or np.unique(numbers[numbers >= 0], return_counts=True)[1].max() == 1


def test_agents_are_alike_who_have_equally_many_rows() -> None:
    one, two, three = from_arrays(X, Y, THREE).alike()
    assert one == three != two


def test_the_order_is_shuffled_by_its_seed_or_kept() -> None:
    one_agent = [np.arange(12)]
    kept = rows_read(from_arrays(X, Y, one_agent, shuffle_seed=None), 12)[:, 0]
    np.testing.assert_array_equal(kept, np.arange(12))
    zero, again, one = (rows_read(from_arrays(X, Y, one_agent, shuffle_seed=s), 12)[:, 0] for s in (0, 0, 1))
    np.testing.assert_array_equal(zero, again)
    assert zero.tolist() != one.tolist()
    assert zero.tolist() != kept.tolist()


def test_ids_per_row_and_rows_per_agent_are_the_same_assignment() -> None:
    ids = np.repeat([0, 1, 2], [5, 2, 5])
    np.testing.assert_array_equal(rows_read(cycling(X, Y, ids), 9), rows_read(cycling(X, Y, THREE), 9))
    by_matrix = from_arrays(X, Y, np.arange(12).reshape(4, 3))
    np.testing.assert_array_equal(by_matrix.data_size, [3, 3, 3, 3])


def test_rows_may_stay_unassigned() -> None:
    stream = from_arrays(X, Y, [[3], [1]], shuffle_seed=None)
    np.testing.assert_array_equal(rows_read(stream, 1), [[3, 1]])


@pytest.mark.parametrize("exhausted", ["cycle", "mask", "stop"])
@pytest.mark.parametrize("batch", [1, 2])
def test_batches_fit_their_spec(exhausted, batch) -> None:
    images = np.zeros((12, 4, 5, 1))
    stream = from_arrays(images, Y, THREE, exhausted=exhausted, batch=batch, task="multiclass", rounds=1)
    spec, chunk = stream.batch_spec(), stream.chunk(0, 1)
    assert (spec.weight is None) == (chunk.weight is None) == (exhausted != "mask")
    for leaf_spec, leaf in zip(spec, chunk, strict=True):
        if leaf is not None:
            assert leaf.shape == (1, 3, *leaf_spec.shape)
            assert leaf.dtype == leaf_spec.dtype
    assert chunk.y.dtype == np.int32


def test_names_travel() -> None:
    stream = from_arrays(X, Y, THREE, name="toy", description="twelve rows")
    assert (stream.name, stream.description) == ("toy", "twelve rows")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"exhausted": "loop"}, "exhausted = 'loop': .*expected one of cycle, mask, stop"),
        ({"batch": 0}, "batch = 0"),
        ({"rounds": 0}, "rounds = 0"),
        ({"shuffle_seed": -1}, "shuffle_seed = -1"),
        ({"task": "ranking"}, "task = 'ranking': expected one of binary, multiclass, regression"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(setting, message) -> None:
    with pytest.raises(ConfigError, match=message):
        from_arrays(X, Y, THREE, **setting)
