"""Momentum in decentralised learning, against its equations and a solver's optimum."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.algorithms import decentralised_momentum, quasi_global_momentum
from tacit.core.errors import ConfigError
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, BETA, L2 = 8, 4, 24, 0.1, 0.8, 1e-2
OBJECTIVE = tacit.objectives.logistic(l2=L2)
ONE_PEER = tacit.graphs.one_peer_exponential(AGENTS).with_weights("receiver")


@pytest.fixture(scope="module")
def samples():
    return two_classes(5, (ROUNDS, AGENTS), DIM)


def gradients(x, a, y):
    margin = y * np.sum(a * x, axis=-1)
    return -(y / (1 + np.exp(margin)))[:, None] * a + L2 * x


def step(t):
    return STEP / np.sqrt(t)


def local(samples, weights, nesterov):
    """Lin et al. (2021), Alg. 1 without the global part."""
    a, y = samples
    x, m = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    for t in range(1, ROUNDS + 1):
        g = gradients(x, a[t - 1], y[t - 1])
        m = BETA * m + g
        x = weights(t) @ (x - step(t) * (g + BETA * m if nesterov else m))
    return x


def quasi_global(samples, weights, nesterov):
    a, y = samples
    x, b = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    for t in range(1, ROUNDS + 1):
        g = gradients(x, a[t - 1], y[t - 1])
        m = BETA * b + g
        after = weights(t) @ (x - step(t) * (g + BETA * m if nesterov else m))
        b = 0.7 * b + 0.3 * (x - after) / step(t)
        x = after
    return x


@pytest.mark.parametrize("nesterov", [False, pytest.param(True, marks=pytest.mark.covered_by("the heavy ball"))])
@pytest.mark.parametrize(
    ("transcribed", "make"), [(local, decentralised_momentum), (quasi_global, quasi_global_momentum)]
)
def test_against_the_equations_on_one_peer_exponential_graphs(samples, transcribed, make, nesterov):
    settings = {"memory": 0.7} if make is quasi_global_momentum else {}
    algorithm = make(OBJECTIVE, lambda t: STEP / t**0.5, momentum=BETA, nesterov=nesterov, **settings)
    run = tacit.simulate(algorithm, ONE_PEER, stream_of(*samples), rounds=ROUNDS, dtype="float64")
    expected = transcribed(samples, lambda t: ONE_PEER.matrix(t).toarray(), nesterov)
    np.testing.assert_allclose(run.models[0], expected, rtol=1e-9, atol=1e-12)


def test_without_momentum_it_is_adapt_then_combine(samples):
    graph = tacit.graphs.ring(AGENTS)
    plain = tacit.algorithms.adapt_then_combine(OBJECTIVE, STEP)
    runs = [
        tacit.simulate(algorithm, graph, stream_of(*samples), rounds=ROUNDS, dtype="float64").models
        for algorithm in (plain, decentralised_momentum(OBJECTIVE, STEP, momentum=0.0))
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-12, atol=1e-14)


def test_quasi_global_momentum_ends_nearer_to_the_optimum_where_data_differ():
    """A ring of 16 whose agents have data of their own, at one step size: Lin et al. (2021), in direction."""
    objective = tacit.objectives.logistic(l2=0.1)
    data = tacit.streams.logistic_drift(agents=16, dim=DIM, repeat_every=1, heterogeneity=1.0, seed=3)
    best = tacit.metrics.best_fixed(objective, lambda: [data.chunk(0, 1)], data.batch_spec())
    assert best.gap < 1e-8
    apart = {}
    for make in (decentralised_momentum, quasi_global_momentum):
        algorithm = make(objective, lambda t: 1 / (10 + 0.1 * t))
        run = tacit.simulate(algorithm, tacit.graphs.ring(16), data, rounds=3000, dtype="float64")
        apart[make] = np.linalg.norm(run.models[0] - best.params, axis=-1).max() / np.linalg.norm(best.params)
    assert apart[quasi_global_momentum] < 0.2 * apart[decentralised_momentum]
    assert apart[quasi_global_momentum] < 0.05


@pytest.mark.parametrize("momentum", [1.0, -0.1, float("nan"), True, "0.9"])
def test_a_momentum_that_is_none_is_refused(momentum):
    with pytest.raises(ConfigError, match="momentum"):
        decentralised_momentum(OBJECTIVE, momentum=momentum)
    with pytest.raises(ConfigError, match="memory"):
        quasi_global_momentum(OBJECTIVE, memory=momentum)
