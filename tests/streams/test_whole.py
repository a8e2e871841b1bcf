from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import DataError
from tacit.streams import whole

# Row r has feature r + 1, and a label that says whether r is odd: what was read can be read off.
X = np.arange(1.0, 13)[:, None]
Y = np.arange(12) % 2
THREE = [[4, 0, 1], [5, 6], [7, 8, 9, 10, 11]]


def test_own_rows_come_first_and_padding_has_no_weight() -> None:
    stream = whole(X, Y, THREE)
    batch = stream.chunk(0, 1)
    np.testing.assert_array_equal(stream.data_size, [3, 2, 5])
    assert batch.x.shape == (1, 3, 5, 1)
    for agent, own in enumerate(THREE):
        pad = [0] * (5 - len(own))
        np.testing.assert_array_equal(batch.x[0, agent, :, 0], [*(r + 1 for r in own), *pad])
        np.testing.assert_array_equal(batch.y[0, agent], [*(1 if r % 2 else -1 for r in own), *pad])
        np.testing.assert_array_equal(batch.weight[0, agent], [*(1 for _ in own), *pad])


def test_every_round_is_the_same_without_end_and_is_counted() -> None:
    stream = whole(X, Y, THREE)
    assert (stream.agents, stream.rounds, stream.period) == (3, None, 1)
    later = stream.chunk(10**6, 10**6 + 3)
    for leaf, first in zip(later, stream.chunk(0, 1), strict=True):
        assert len(leaf) == 3
        np.testing.assert_array_equal(leaf, np.repeat(first, 3, axis=0))
    np.testing.assert_array_equal(stream.reads(7), [7, 7, 7])
    assert stream.chunk(2, 2).x.shape == (0, 3, 5, 1)
    with pytest.raises(DataError, match="rounds 3 to 2"):
        stream.chunk(3, 2)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.sampled_from(["multiclass", "regression"]))
def test_batches_fit_their_spec_and_weights_appear_only_where_needed(sizes, task) -> None:
    rows = sum(sizes)
    x = np.ones((rows, 2, 3))
    stream = whole(x, np.arange(rows), np.repeat(np.arange(len(sizes)), sizes), task=task)
    spec, batch = stream.batch_spec(), stream.chunk(1, 3)
    assert (batch.weight is None) == (spec.weight is None) == (len(set(sizes)) == 1)
    leaves = [(leaf.shape, leaf.dtype) for leaf in batch if leaf is not None]
    assert leaves == [((2, len(sizes), *leaf.shape), leaf.dtype) for leaf in spec if leaf is not None]
    assert spec.x.shape == (max(sizes), 2, 3)
    assert spec.y.dtype == (np.int32 if task == "multiclass" else np.float64)  # those of np.arange


def test_names_and_words_are_kept() -> None:
    stream = whole(X, Y, THREE, name="mine", description="my rows")
    assert (stream.name, stream.description) == ("mine", "my rows")


@pytest.mark.parametrize(
    ("x", "y", "assignment", "message"),
    [
        (np.where(X == 3, np.nan, X), Y, THREE, "row 2 .*, column 0: the value is missing"),
        (X, Y + 3, THREE, "label 3"),
        (X, Y[:-1], THREE, r"labels of shape \(11,\) for 12 rows"),
        (X, Y, [[0, 1], [1]], r"row 1 is assigned 2 times \(agents 0, 1\)"),
        (X, Y, [[0, 1], []], "agent 1 has no samples"),
    ],
)
def test_faulty_data_are_refused(x, y, assignment, message) -> None:
    with pytest.raises(DataError, match=message):
        whole(x, y, assignment)
