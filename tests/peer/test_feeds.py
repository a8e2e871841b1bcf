"""Batches for a peer's rounds: nothing is used twice, and nobody waits for a slow stream."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import tacit
from tacit.core.errors import DataError
from tacit.peer.sources.batches import SampleFeed, StreamFeed, in_precision, with_one
from tacit.peer.sources.queue import Sample, SampleForm, SampleQueue, Taken

FORM = SampleForm.of(2)


class Scripted:
    """A source that gives what it is told to: lists of samples, or a fault."""

    def __init__(self, *script):
        self.script, self.resumed, self.closed, self.asked, self.at = list(script), None, False, [], 0

    def resume(self, cursor):
        self.resumed = self.at = cursor

    async def take(self, limit, patience):
        self.asked.append((limit, patience))
        step = self.script.pop(0)
        if isinstance(step, DataError):
            raise step
        self.at += len(step)
        return Taken(step, self.at)

    async def close(self):
        self.closed = True


def samples(*ys):
    return [Sample(np.array([y, -y]), y) for y in ys]


def feed_of(source, **settings):
    return SampleFeed(source, FORM, **{"size": 3, "dtype": "float32", "patience": 0.0, **settings})


def given(feed, rounds=1):
    async def take():
        return [await feed.next(t) for t in range(1, rounds + 1)]

    return asyncio.run(take())


def test_a_short_batch_is_filled_up_with_nothing():
    source = Scripted(samples(1.0, 2.0))
    (found,) = given(feed_of(source, patience=0.5))
    assert source.asked == [(3, 0.5)]
    np.testing.assert_array_equal(found.batch.x, [[1, -1], [2, -2], [0, 0]])
    np.testing.assert_array_equal(found.batch.weight, [1, 1, 0])
    assert found.batch.x.dtype == np.float32
    assert (found.cursor, found.samples, found.records) == (2, 2, None)


def test_a_bias_is_a_one_where_there_is_a_sample():
    (found,) = given(feed_of(Scripted(samples(3.0)), bias=True))
    np.testing.assert_array_equal(found.batch.x, [[3, -3, 1], [0, 0, 0], [0, 0, 0]])
    (found,) = given(feed_of(Scripted([]), bias=True, size=1, dtype="float64"))
    np.testing.assert_array_equal(found.batch.x, [0, 0, 0])
    assert found.batch.x.dtype == np.float64


def test_the_cursor_stays_when_nothing_comes_or_the_source_has_a_fault():
    fault, told = DataError("cut short"), []
    source = Scripted(samples(1.0), [], fault, samples(2.0))
    feed = feed_of(source, on_fault=told.append)
    found = given(feed, 4)
    assert [one.cursor for one in found] == [1, 1, 1, 2]
    assert [one.samples for one in found] == [1, 0, 0, 1]
    assert told == [fault]


def test_a_fault_at_the_first_take_after_a_restart_keeps_the_stored_cursor():
    source = Scripted(DataError("gone"), [])
    feed = feed_of(source)
    feed.resume(7)
    assert source.resumed == 7
    assert [one.cursor for one in given(feed, 2)] == [7, 7]


def test_while_the_source_has_a_fault_rounds_do_not_spin():
    """The patience that a take did not spend is spent all the same: measured by the loop's own clock."""

    async def timed():
        clock = asyncio.get_running_loop().time
        feed, before = feed_of(Scripted(DataError("gone")), patience=0.05), clock()
        await feed.next(1)
        return clock() - before

    assert asyncio.run(timed()) >= 0.049


def test_queued_samples_are_used_up_by_the_commit_only_where_there_were_any():
    class Store:
        def __init__(self):
            self.rows = []

        def append_samples(self, contents, seen=()):
            self.rows += contents
            return len(self.rows)

        def samples(self, limit):
            return list(enumerate(self.rows, 1))[:limit]

    async def scenario():
        with ThreadPoolExecutor(1) as worker:
            queue = SampleQueue(Store(), FORM, worker)
            feed = feed_of(queue, size=2)
            await queue.push([([1.0, 2.0], 1.0)] * 3)
            found = [await feed.next(t) for t in (1, 2, 3)]
            await feed.close()
        return [(one.cursor, one.used, one.samples) for one in found]

    assert asyncio.run(scenario()) == [(2, 2, 2), (3, 3, 1), (3, None, 0)]


def test_closing_closes_the_source():
    source = Scripted()
    asyncio.run(feed_of(source).close())
    assert source.closed


# -- streams that are known beforehand -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stream_gives_each_agent_its_batch_of_the_round(dtype):
    stream = tacit.streams.logistic_drift(agents=3, dim=2, seed=1)
    feed = StreamFeed(stream, 2, dtype)
    found = given(feed, 3)
    chunk = stream.chunk(0, 3)
    for t, one in enumerate(found):
        np.testing.assert_array_equal(one.batch.x, np.asarray(chunk.x[t, 2], dtype))
        assert one.batch.x.dtype == dtype
        assert one.records is None  # a number of its own: this stream never repeats
        assert (one.cursor, one.used) == (None, None)
    feed.resume("anything")
    asyncio.run(feed.close())


def test_a_stream_that_comes_round_again_names_the_same_records_again():
    stream = tacit.streams.logistic_drift(agents=2, dim=2, seed=1, repeat_every=2)
    assert stream.period == 2
    assert [one.records for one in given(StreamFeed(stream, 0, "float32"), 5)] == [
        (0,), (1,), (0,), (1,), (0,),
    ]  # fmt: skip


def test_a_stream_that_is_over():
    class Short:
        name, rounds, period = "short", 2, None

    with pytest.raises(DataError, match="stream 'short' has 2 rounds, not 3"):
        asyncio.run(StreamFeed(Short(), 0, "float32").next(3))


def test_a_role_without_data_gets_nothing():
    (found,) = given(StreamFeed(None, 0, "float32"))
    assert (found.batch, found.records, found.samples) == ((), None, 0)


def test_numbers_are_those_that_jax_has():
    assert in_precision(np.ones(2, np.float64), "float32").dtype == np.float32
    assert in_precision(np.ones(2, np.float32), "float64").dtype == np.float64
    assert in_precision(np.ones(2, np.int64), "float32").dtype == np.int32
    assert in_precision(np.ones(2, np.uint64), "float32").dtype == np.uint32
    assert in_precision(np.ones(2, np.int64), "float64").dtype == np.int64
    for kept in (bool, np.int8, np.uint16):
        assert in_precision(np.ones(2, kept), "float32").dtype == jax.dtypes.canonicalize_dtype(kept)


def test_one_more_feature():
    np.testing.assert_array_equal(with_one(np.array([2.0, 3.0])), [2, 3, 1])
    np.testing.assert_array_equal(with_one(np.ones((2, 1)), np.array([1, 0])), [[1, 1], [1, 0]])
