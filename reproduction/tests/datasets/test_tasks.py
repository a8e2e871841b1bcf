import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses, cluster_tasks, held_out

TASKS = (TwoClasses((1, 2), (6, 8)), TwoClasses((1, 2), (7, 9)), TwoClasses((3,), (8,)))


def made(per_class: int = 40) -> Dataset:
    """Ten classes; a row's two features are its class and its own number, test rows after training rows."""
    y = np.tile(np.arange(10), per_class).astype(np.int32)
    x = np.stack([y, np.arange(len(y))], axis=1).astype(np.float32)
    half = len(y) // 2
    slices = {"train": slice(0, half), "test": slice(half, len(y))}
    return Dataset("made up", x, y, ("class", "row"), "made up", True, slices, "multiclass")


DATA = made()


def test_a_test_set_has_all_rows_of_its_classes_and_signs_or_a_fixed_choice() -> None:
    task = TwoClasses((1, 2), (8,))
    found, few = held_out(DATA, task, 60), held_out(DATA, task, 10)
    assert len(found.y) == len(set(found.x[:, 1])) == 60
    assert set(found.x[found.y == 1, 0]) == {8}
    assert set(found.x[found.y == -1, 0]) == {1, 2}
    assert found.x[:, 1].min() >= 200
    assert np.all(np.diff(found.x[:, 1]) > 0)
    assert found.y.dtype == np.float32
    assert len(set(few.x[:, 1])) == 10
    np.testing.assert_array_equal(few.x, held_out(DATA, task, 10).x)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(2, 5)), min_size=1, max_size=7), st.integers(0, 2**16))
def test_clients_have_their_clusters_task_in_equal_shares_and_no_row_twice(clients, seed) -> None:
    clusters, sizes = (np.array(column) for column in zip(*clients, strict=True))
    stream = cluster_tasks(DATA, TASKS, clusters, sizes, seed)
    np.testing.assert_array_equal(stream.data_size, sizes)
    batch = stream.chunk(0, 1)
    assert batch.x.shape == (1, len(sizes), sizes.max(), 2)
    rows = []
    for k, (q, size) in enumerate(clients):
        classes, y = batch.x[0, k, :size, 0], batch.y[0, k, :size]
        rows += batch.x[0, k, :size, 1].tolist()
        assert abs(np.sum(y)) <= 1
        for side, sign in zip(TASKS[q], (-1, 1), strict=True):
            assert set(classes[y == sign]) <= set(side)
            counts = [int(np.sum(classes == label)) for label in side]
            assert max(counts) - min(counts) <= 1
    assert len(set(rows)) == len(rows)
    assert max(rows) < 200, "all from the training part"


def test_seeds_draw_other_rows_and_the_left_over_falls_on_either_side() -> None:
    clusters, sizes = np.zeros(20, np.int64), np.full(20, 3)
    one, same, other = (cluster_tasks(made(80), TASKS[2:], clusters, sizes, seed).chunk(0, 1) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.x, same.x)
    assert set(one.x[..., 1].ravel()) != set(other.x[..., 1].ravel())
    two = cluster_tasks(DATA, TASKS, clusters, np.full(20, 2), 0).chunk(0, 1)
    assert set(two.x[..., 0].ravel()) == {1, 2, 6, 8}
    # Twenty fair coins that all fall alike: 2e-6, and so for the classes above.
    assert set(one.y.sum(axis=-1).ravel()) == {-1, 1}


def test_clients_that_need_more_rows_than_there_are_are_refused() -> None:
    with pytest.raises(DataError, match="20 rows of class 3"):
        cluster_tasks(DATA, TASKS, np.full(11, 2), np.full(11, 4), 0)
