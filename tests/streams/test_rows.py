"""Rows of some agents are those of all, and of no others where a stream can tell them apart."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tacit

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.tile([0, 1], 20)
OWNERS = [range(10), range(10, 30), range(30, 40)]
WHOLE = tacit.streams.whole(X, Y, OWNERS)
STREAMS = {
    "arrays": tacit.streams.from_arrays(X, Y, OWNERS, exhausted="cycle"),
    "batches": tacit.streams.from_arrays(X, Y, OWNERS, batch=3, exhausted="mask"),
    "whole": WHOLE,
    "validated": tacit.streams.with_validation(WHOLE, tacit.streams.whole(-X, Y, OWNERS)),
    "arrivals": tacit.streams.autoregressive(3, rounds=12, samples=(4, 6)),
    "drift": tacit.streams.logistic_drift(3, 4, rounds=12),
}


@pytest.mark.parametrize("agents", [[0, 1, 2], [2, 0], [1, 1], []])
@pytest.mark.parametrize("name", STREAMS)
def test_rows_of_some_are_those_of_all(name, agents):
    stream = STREAMS[name]
    expected = jax.tree.map(lambda leaf: leaf[:, agents], stream.chunk(1, 4))
    found = stream.rows(1, 4, np.array(agents, int))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
