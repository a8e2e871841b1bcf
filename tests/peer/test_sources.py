"""Samples: checked once, laid out on the disk, queued without loss or repetition, and padded into batches."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError, DataError
from tacit.objectives import logistic
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import QueueClosed, Sample, SampleForm, SampleQueue, Taken, batch_of, decode, encode
from tacit.privacy.accounting import Budget

FORM = SampleForm.of(2)


class MemoryStore:
    """What the queue asks of a store, with commits that can be held up or made to fail."""

    def __init__(self):
        self.rows, self.appended, self.commits = [], 0, 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.fault = None

    def append_samples(self, contents, seen=()):
        if contents:
            assert self.go_on.wait(120)
            if self.fault is not None:
                raise self.fault
            self.commits += 1
        for content in contents:
            self.appended += 1
            self.rows.append((self.appended, content))
        return self.appended

    def samples(self, limit):
        return self.rows[:limit]

    def commit(self, used):
        self.rows = [row for row in self.rows if row[0] > used]


@contextlib.contextmanager
def one_thread():
    executor = ThreadPoolExecutor(1)
    try:
        yield executor
    finally:
        executor.shutdown()


def with_queue(work, store=None, capacity=100, form=FORM):
    """Run `work(queue, store)` in an event loop."""
    store = store or MemoryStore()

    async def run(executor):
        async with asyncio.timeout(120):
            queue = SampleQueue(store, form, executor, capacity)
            try:
                return await work(queue, store)
            finally:
                await queue.close()

    with one_thread() as executor:
        return asyncio.run(run(executor))


def ys(taken):
    return [sample.y for sample in taken.samples]


@pytest.mark.parametrize(
    ("x", "y", "fault"),
    [
        ([1.0], 1, "x has 1 values; expected 2"),
        ([1.0, 2.0, 3.0], 1, "x has 3 values; expected 2"),
        (7.0, 1, "x is a number; expected a list of 2 numbers"),
        ("ab", 1, "x is text"),
        ({"a": 1, "b": 2}, 1, "x is an object"),
        (None, 1, "x is null"),
        ([1.0, "2"], 1, "column 1: text is not a number"),
        ([True, 2.0], 1, "column 0: true or false is not a number"),
        ([1.0, None], 1, "column 1: null is not a number"),
        ([[1.0], 2.0], 1, "column 0: a list is not a number"),
        (np.ones((2, 1)), 1, "column 0: a list is not a number"),
        ([1.0, float("nan")], 1, r"column 1: the value is missing \(NaN\)"),
        ([float("-inf"), 1.0], 1, "column 0: the value is not a finite 32-bit number"),
        ([10**400, 1.0], 1, "column 0: the value is not a finite 32-bit number"),
        ([1.0, 3.5e38], 1, "column 1: the value is not a finite 32-bit number"),
        ([1.0, 2.0], "1", "label: text is not a number"),
        ([1.0, 2.0], float("nan"), "label: the value is missing"),
        ([1.0, 2.0], None, "label: null"),
        (np.array(["a", "b"]), 1, "column 0: text"),
    ],
)
def test_a_faulty_sample_is_refused_by_its_place(x, y, fault):
    with pytest.raises(DataError, match=f"sample 3.*{fault}") as caught:
        FORM.check(x, y, "sample 3")
    assert "3.5e" not in str(caught.value)


@pytest.mark.parametrize(
    "x", [[1, 2.5], (1, 2.5), np.array([1, 2.5], np.float32), jnp.array([1, 2.5]), [np.int64(1), np.float32(2.5)]]
)
def test_sound_samples_become_numbers(x):
    sample = FORM.check(x, np.float32(0.5))
    np.testing.assert_array_equal(sample.x, np.array([1, 2.5]))
    assert (sample.x.dtype, sample.y, type(sample.y)) == (np.float64, 0.5, float)


def test_labels_fit_the_task():
    binary, classes = SampleForm.of(1, "binary"), SampleForm.of(1, "multiclass", 3)
    assert [binary.check([0], y).y for y in (0, -1, 1, 1.0)] == [-1.0, -1.0, 1.0, 1.0]
    assert [classes.check([0], y).y for y in (0, 2)] == [0.0, 2.0]
    for form, wrong in ((binary, (2, 0.5)), (classes, (3, -1, 0.5))):
        for y in wrong:
            with pytest.raises(DataError, match="label: expected"):
                form.check([0], y)


def test_forms_that_cannot_be_are_refused():
    for arguments in ((0,), (1, "guess"), (1, "multiclass"), (1, "binary", 2), (1, "multiclass", 1)):
        with pytest.raises(ConfigError):
            SampleForm.of(*arguments)
    with pytest.raises(ConfigError, match="1 names for 2 features"):
        SampleForm.of(2, names=["a"])
    with pytest.raises(DataError, match="column 'b'"):
        SampleForm.of(2, names=["a", "b"]).check([1, None], 1)


def test_layout_is_fixed():
    content = encode(Sample(np.array([1.0, -2.5]), 0.5))
    assert content.hex() == "01" + "02000000" + "000000000000e03f" + "000000000000f03f" + "00000000000004c0"
    for damaged in (b"", content[:-1], content + b"\0", b"\x02" + content[1:], content[:8]):
        with pytest.raises(DataError, match="not in layout 1"):
            decode(damaged)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.floats(width=64), max_size=20), st.floats(width=64))
def test_layout_keeps_every_bit(x, y):
    again = decode(encode(Sample(np.array(x, np.float64), y)))
    assert again.x.tobytes() == np.array(x, np.float64).tobytes()
    assert np.float64(again.y).tobytes() == np.float64(y).tobytes()


def test_batches_have_one_structure_whatever_arrived():
    samples = [Sample(np.array([1.0, 2.0]), 1.0), Sample(np.array([3.0, 4.0]), -1.0)]
    batch = batch_of(samples, 3, 2, "float32")
    np.testing.assert_array_equal(batch.x, [[1, 2], [3, 4], [0, 0]])
    np.testing.assert_array_equal(batch.y, [1, -1, 0])
    np.testing.assert_array_equal(batch.weight, [1, 1, 0])
    one, none = batch_of(samples[:1], 1, 2, "float64"), batch_of([], 1, 2, "float64")
    assert (one.x.shape, one.y.shape, one.weight.shape) == ((2,), (), ())
    assert (one.x.dtype, one.y.dtype, one.weight.dtype) == (np.float64,) * 3
    for full, empty in ((batch, batch_of([], 3, 2, "float32")), (one, none)):
        assert jax.tree.structure(full) == jax.tree.structure(empty)
        assert [(a.shape, a.dtype) for a in full] == [(a.shape, a.dtype) for a in empty]
        assert not any(np.any(leaf) for leaf in empty)
    with pytest.raises(ConfigError, match="2 samples for a batch of 1"):
        batch_of(samples, 1, 2, "float32")


def test_padding_does_not_teach():
    samples = [Sample(np.array([1.0, 2.0]), 1.0), Sample(np.array([3.0, 4.0]), -1.0)]
    gradient = jax.grad(logistic().loss)
    params = jnp.array([0.3, -0.2])
    plain = gradient(params, batch_of(samples, 2, 2, "float32"))
    padded = gradient(params, batch_of(samples, 7, 2, "float32"))
    np.testing.assert_allclose(plain, padded, rtol=1e-6)
    assert np.any(plain)
    assert not np.any(gradient(params, batch_of([], 7, 2, "float32")))


def test_what_is_learnt_is_durable_and_comes_out_in_order():
    async def work(queue, store):
        await queue.learn([1, 2], 1)
        assert len(store.rows) == 1
        assert await queue.push([([3, 4], 2), ([5, 6], 3)])
        assert queue.depth == 3
        first = await queue.take(2, 20)
        second = await queue.take(2, 0)  # nothing was committed meanwhile
        assert (ys(first), first.cursor, ys(second), second.cursor) == ([1, 2], 2, [3], 3)
        np.testing.assert_array_equal(first.samples[1].x, [3, 4])
        store.commit(3)
        assert await queue.take(2, 0) == Taken([], 3)
        assert queue.depth == 0

    with_queue(work)


def test_many_learners_share_a_commit():
    async def work(queue, store):
        store.go_on.clear()
        learners = [asyncio.create_task(queue.learn([y, y], y)) for y in range(40)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not any(learner.done() for learner in learners)
        late = [asyncio.create_task(queue.learn([y, y], y)) for y in range(40, 50)]  # while a commit is under way
        await asyncio.sleep(0)
        store.go_on.set()
        await asyncio.gather(*learners, *late)
        assert (len(store.rows), queue.depth) == (50, 50)
        assert store.commits == 2
        assert ys(await queue.take(50, 0)) == list(range(50))

    with_queue(work)


def test_a_full_queue_holds_learners_back_and_turns_pushes_away():
    async def work(queue, store):
        assert await queue.push([([0, 0], y) for y in range(3)])
        assert not await queue.push([([0, 0], 9)])
        learner = asyncio.create_task(queue.learn([0, 0], 3))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not learner.done()
        assert len(store.rows) == 3
        assert ys(await queue.take(1, 0)) == [0]
        await learner
        assert [decode(content).y for _, content in store.rows] == [0, 1, 2, 3]
        with pytest.raises(DataError, match="4 samples .*at most 3"):
            await queue.push([([0, 0], y) for y in range(4)])

    with_queue(work, capacity=3)


def test_take_ends_with_enough_or_with_its_patience():
    async def work(queue, store):
        assert (await queue.take(1, 0)).samples == []
        assert (await queue.take(1, 0.01)).samples == []
        waiting = asyncio.create_task(queue.take(2, 1000))
        await queue.learn([0, 0], 1)
        assert not waiting.done()
        await queue.learn([0, 0], 2)
        assert ys(await waiting) == [1, 2]
        await queue.learn([0, 0], 3)
        assert ys(await queue.take(2, 0.01)) == [3]

    with_queue(work)


def test_bad_samples_and_failed_commits_leave_the_queue_as_it_was():
    async def work(queue, store):
        with pytest.raises(DataError, match="sample 1, column 0"):
            await queue.push([([0, 0], 1), ([None, 0], 1)])
        store.fault = OSError("disk full")
        results = await asyncio.gather(*(queue.learn([0, 0], y) for y in range(3)), return_exceptions=True)
        assert [str(r) for r in results] == ["disk full"] * 3
        assert queue.depth == 0
        assert store.rows == []
        store.fault = None
        await queue.learn([0, 0], 1)
        assert ys(await queue.take(1, 0)) == [1]

    with_queue(work)


def test_a_learner_that_gives_up_does_not_harm_the_others():
    async def work(queue, store):
        store.go_on.clear()
        impatient = asyncio.create_task(queue.learn([0, 0], 1))
        other = asyncio.create_task(queue.learn([0, 0], 2))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        store.go_on.set()
        await other
        assert queue.depth == len(store.rows)
        assert ys(await queue.take(5, 0))[-1] == 2

    with_queue(work)


def test_closing_writes_what_waits_and_wakes_who_is_held_back():
    async def work(queue, store):
        store.go_on.clear()
        written = asyncio.create_task(queue.learn([0, 0], 1))
        await asyncio.sleep(0)
        held = asyncio.create_task(queue.learn([0, 0], 2))
        await asyncio.sleep(0)
        store.go_on.set()
        await queue.close()
        await written
        with pytest.raises(QueueClosed, match="stopping"):
            await held
        assert len(store.rows) == 1
        with pytest.raises(QueueClosed, match="stopping"):
            await queue.push([([0, 0], 1)])

    with_queue(work, capacity=1)


def test_a_cursor_of_another_stream_is_refused():
    async def work(queue, store):
        for cursor in (1, -1, "0", None, {"offset": 3}, True):
            with pytest.raises(DataError, match="cursor"):
                queue.resume(cursor)

    with_queue(work)


def test_with_the_real_store_nothing_is_lost_or_repeated(tmp_path):
    """Crashes after a take (before and after the commit): what was committed is gone, the rest comes again."""
    path, budget = tmp_path / "peer.db", Budget(epsilon=1.0)
    used = []

    async def first(queue, store):
        assert await queue.push([([0, 0], y) for y in range(10)])
        taken = await queue.take(4, 0)
        store.commit(used=taken.cursor)
        used.extend(ys(taken))
        await queue.take(3, 0)  # taken, and lost with the process before its commit

    async def second(queue, store):
        queue.resume(4)
        assert queue.depth == 6
        taken = await queue.take(100, 0)
        store.commit(used=taken.cursor)
        used.extend(ys(taken))
        nothing = await queue.take(1, 0)
        store.commit(used=nothing.cursor)

    with PeerStore.create(path, budget, "job") as store:
        with_queue(first, store)
    with PeerStore.open(path, budget, "job") as store:
        with_queue(second, store)
    assert used == list(range(10))

    async def third(queue, store):
        assert queue.depth == 0
        store.commit(used=(await queue.take(1, 0)).cursor)

    with PeerStore.open(path, budget, "job") as store:
        with_queue(third, store)
