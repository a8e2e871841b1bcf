"""Streams over arrays keep the precision of what they are given: a run in float64 reads it unrounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacit
from tacit.core.errors import DataError
from tacit.peer import run_in_process
from tacit.streams import from_arrays, whole

ROWS, DIM = 6, 2
OWNER = np.arange(ROWS) % 2
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, DIM)), RNG.normal(size=ROWS)
OBJECTIVE = tacit.objectives.squared()
MAKERS = {
    "from_arrays": lambda x, y: from_arrays(x, y, OWNER, shuffle_seed=None, task="regression"),
    "whole": lambda x, y: whole(x, y, OWNER, task="regression"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_run_in_double_precision_reads_the_data_unrounded(name: str) -> None:
    """One step of gradient descent by hand, to sixteen digits; data in single precision would be off by 1e-8."""
    stream = MAKERS[name](X, Y)
    algorithm = tacit.algorithms.local_online(OBJECTIVE, step=0.1)
    graph = tacit.graphs.complete(2)
    rows = [np.flatnonzero(agent == OWNER)[: 1 if name == "from_arrays" else None] for agent in range(2)]
    expected = [np.mean(0.1 * Y[mine, None] * X[mine], axis=0) for mine in rows]
    run = tacit.simulate(algorithm, graph, stream, rounds=1, dtype="float64", progress=False)
    np.testing.assert_allclose(run.models[0], expected, rtol=1e-14)
    if name == "whole":
        peers = run_in_process(algorithm, graph, stream, rounds=1, dtype="float64")
        np.testing.assert_allclose(peers.models[-1], expected, rtol=1e-14)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float64, np.float64),
        (np.int64, np.float64),
        (np.longdouble, np.float64),
        (np.float32, np.float32),
        (np.uint8, np.float32),
        (np.float16, np.float32),
    ],
)
def test_what_single_precision_would_round_is_kept_in_double(make: Any, given: Any, kept: Any) -> None:
    x = np.arange(ROWS * DIM).reshape(ROWS, DIM).astype(given)
    stream = make(x, x[:, 0])
    spec, chunk = stream.batch_spec(), stream.chunk(0, 1)
    assert (spec.x.dtype, spec.y.dtype) == (chunk.x.dtype, chunk.y.dtype) == (kept, kept)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_does_not_fit_a_run_in_single_precision_is_refused_all_the_same(make: Any) -> None:
    with pytest.raises(DataError, match="1e\\+39"):
        make(np.where(X[2, 1] == X, 1e39, X), Y)
    with pytest.raises(DataError, match="1e\\+39"):
        make(X, np.where(Y[2] == Y, 1e39, Y))
