"""Agents that start from parameters of their own, and figures and records that a user asks for."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.peer import run_in_process
from tacit.simulator import simulate
from tests.simulator import specimens
from tests.simulator.test_driver import AGENTS, averaging, digraph


def test_starts_of_ones_own_figures_and_records():
    """Each agent from its own parameters; what is noted is a mean over agents, what is recorded is called as is."""
    stream, rounds = specimens.targets(AGENTS, 4), 4
    starts = np.random.default_rng(3).normal(size=(AGENTS, specimens.DIM + 3))
    asked = []

    def start(agent):
        asked.append(agent)
        return starts[agent]

    run = simulate(
        averaging(), digraph, stream, rounds=rounds, repeats=2, start=start, dtype="float64",
        record_every=3, figures={"first": lambda p, b: p[0], "pull": lambda p, b: p[1] * b[0]},
        record={"models": np.asarray, "spread": lambda models: float(np.ptp(models[:, 0]))},
    )  # fmt: skip
    assert sorted(asked) == list(range(AGENTS))
    assert run.recorded_rounds.tolist() == [3, 4]
    assert run.recorded["models"].shape == (2, 2, AGENTS, specimens.DIM + 3)
    for r in range(2):
        W, x = digraph(r).with_weights("sender").matrix().toarray(), starts
        for t, batch in enumerate(stream.chunk(0, rounds).astype(np.float64)):
            assert run.per_round["first"][r, t] == pytest.approx(x[:, 0].mean(), rel=1e-12)
            assert run.per_round["pull"][r, t] == pytest.approx(np.mean(x[:, 1] * batch[:, 0]), rel=1e-12)
            x = W @ (x - 0.1 * (2 * (x - specimens.CENTRE) + np.pad(batch, ((0, 0), (0, 3)))))
            if t + 1 in (3, 4):
                np.testing.assert_allclose(run.recorded["models"][r, t - 2], x, rtol=1e-12)
                assert run.recorded["spread"][r, t - 2] == pytest.approx(np.ptp(x[:, 0]), rel=1e-12)
        np.testing.assert_allclose(run.models[r], x, rtol=1e-12)


def test_peers_take_starts_of_their_own_too():
    stream = specimens.targets(AGENTS, 3)
    settings = {"rounds": 3, "dtype": "float64", "start": lambda agent: np.full(specimens.DIM + 3, agent / 4)}
    run = simulate(averaging(), digraph(), stream, **settings)
    peers = run_in_process(averaging(), digraph(), stream, **settings)
    np.testing.assert_allclose(peers.models[-1], run.models[0], rtol=1e-12)
    np.testing.assert_allclose(peers.loss, run.per_round["loss"][0], rtol=1e-12)


def chosen(spec):
    ones = jnp.ones(2 * spec.x.shape[-1])
    return ones[ones > 0][: spec.x.shape[-1]]  # of a length that only its numbers tell


@pytest.mark.parametrize("initial", [functools.cache(lambda spec: jnp.ones(spec.x.shape[-1:])), chosen])
def test_looking_how_large_a_model_will_be_does_its_first_parameters_no_harm(initial):
    objective = tacit.objectives.logistic()._replace(initial=initial)
    stream = tacit.streams.logistic_drift(agents=3, dim=2, seed=0)
    run = simulate(tacit.algorithms.local_online(objective, step=1e-30), tacit.graphs.complete(3), stream, rounds=1)
    np.testing.assert_array_equal(run.models, np.ones((1, 3, 2)))
