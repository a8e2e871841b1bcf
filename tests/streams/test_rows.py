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
    "drift, all settings": tacit.streams.linear_drift(3, 5, rounds=12, batch=3, drift=0.1, heterogeneity=0.5),
    "drift over and over": tacit.streams.logistic_drift(3, 3, repeat_every=2, seed=1),
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


@pytest.mark.parametrize("dim", [1, 18])
def test_rows_of_some_of_many_are_the_same_to_the_bit_in_whatever_pieces_they_are_drawn(dim, monkeypatch):
    stream = tacit.streams.logistic_drift(5_003, dim, heterogeneity=0.2, seed=4)
    agents = np.random.default_rng(0).permutation(5_003)[:700]
    whole = stream.chunk(7, 9)
    for values in (97, 1 << 20):
        monkeypatch.setattr("tacit.streams.synthetic.PIECE_VALUES", values)
        found = stream.rows(7, 9, agents)
        np.testing.assert_array_equal(found.x, whole.x[:, agents])
        np.testing.assert_array_equal(found.y, whole.y[:, agents])
