"""Networked personalised learning against a slow transcription of Gauthier (2023), (6.3), (6.6), (6.11), (6.13) and (6.14)."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import networked_personalised
from tacit.core.contract import Extent, Links, View, unprotected
from tacit.core.errors import ConfigError
from tacit.graphs import Graph
from tacit.privacy import gaussian, laplace
from tacit.streams import Batch, with_validation

CLUSTERS = np.array([0, 0, 0, 1, 1, 1, 2, 2])
WITHIN = [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7)]
# 0 hears two of cluster 1 and one of cluster 2, 1 hears two of cluster 1 only, 2 nobody of another cluster.
BRIDGES = [(0, 3), (0, 4), (0, 6), (1, 4), (1, 5), (3, 7)]
AGENTS, DIM, ROUNDS = 8, 3, 24
PENALTY, L2, TAU = 3.0, 0.01, 0.3
OBJECTIVE = tacit.objectives.squared(l2=L2)
SIZES = np.array([2, 5, 3, 1, 6, 4, 2, 3])


def undirected(agents, pairs):
    first, second = np.array(pairs).T
    return Graph.from_edges(agents, np.concatenate([first, second]), np.concatenate([second, first]))


GRAPH = undirected(AGENTS, WITHIN + BRIDGES).with_clusters(CLUSTERS)
ALONE = undirected(AGENTS, WITHIN[:-1] + BRIDGES).with_clusters(CLUSTERS)
"""Agents 6 and 7 have lost each other, the only one of their own cluster."""


def drawn(seed, sizes=SIZES):
    """One data set per agent: x (D_k, d), y (D_k,), of models that differ between clusters by a factor."""
    rng = np.random.default_rng(seed)
    truth = np.array([1.0, -2.0, 0.5])
    x = [rng.standard_normal((size, DIM)).astype(np.float32).astype(float) for size in sizes]
    factor = (1.0, 1.4, 0.7)
    y = [row @ (factor[CLUSTERS[k]] * truth) + 0.1 * rng.standard_normal(len(row)) for k, row in enumerate(x)]
    return x, [labels.astype(np.float32).astype(float) for labels in y]


def stream(data):
    x, y = data
    ends = np.cumsum([len(labels) for labels in y])
    own = [np.arange(end - len(labels), end) for labels, end in zip(y, ends, strict=True)]
    return tacit.streams.whole(np.concatenate(x), np.concatenate(y), own, task="regression")


TRAINED, HELD_BACK = drawn(1), drawn(2, SIZES[::-1])
STREAM = with_validation(stream(TRAINED), stream(HELD_BACK))


# -- transcription -----------------------------------------------------------------------------------------------------


def half_loss(w, x, y):
    """What `objectives.squared` is: half of (6.12)."""
    return 0.5 * np.mean((y - x @ w) ** 2) + 0.5 * L2 * w @ w


def transcribed(next_tau, rounds=ROUNDS, sign=1.0, tau=TAU, graph=GRAPH, start=0.0):
    """Follow Algorithm 6; `sign` -1 is the dual step as printed. Return w and tau after every round."""
    x, y = TRAINED
    neighbours = [graph.senders[graph.receivers == k] for k in range(AGENTS)]
    own = [[n for n in neighbours[k] if CLUSTERS[n] == CLUSTERS[k]] for k in range(AGENTS)]
    # (6.3) of the first models is what all of them start at, and tau_k pulls there in round 1 as in any other.
    w, gamma, pull = (np.full((AGENTS, DIM), value) for value in (start, 0.0, start))
    strength = np.full(AGENTS, tau)
    hears = np.array([float(len(own[k]) < len(neighbours[k])) for k in range(AGENTS)])
    path = []
    for t in range(1, rounds + 1):

        def primal(k, s, w=w, gamma=gamma, pull=pull, hears=hears):
            curvature = L2 + s * hears[k] + PENALTY * len(own[k])
            matrix = x[k].T @ x[k] / len(y[k]) + curvature * np.eye(DIM)
            around = PENALTY / 2 * sum((w[k] + w[n] for n in own[k]), np.zeros(DIM)) - gamma[k] / 2
            return np.linalg.solve(matrix, x[k].T @ y[k] / len(y[k]) + s * hears[k] * pull[k] + around)

        new = np.array([primal(k, strength[k]) for k in range(AGENTS)])
        strength = np.array([next_tau(k, t, strength[k], primal) for k in range(AGENTS)])
        w = new
        gamma = gamma + sign * PENALTY * np.array(
            [sum((w[k] - w[n] for n in own[k]), np.zeros(DIM)) for k in range(AGENTS)]
        )
        for k in range(AGENTS):
            others = [n for n in neighbours[k] if CLUSTERS[n] != CLUSTERS[k]]
            means = [np.mean([w[n] for n in others if CLUSTERS[n] == q], axis=0) for q in {CLUSTERS[n] for n in others}]
            if means:
                pull[k] = np.mean(means, axis=0)
        path.append((w.copy(), strength.copy()))
    return np.array([w for w, _ in path]), np.array([s for _, s in path])


def kept(k, t, tau, primal):
    return tau


def judged(k, w):
    return half_loss(w, HELD_BACK[0][k], HELD_BACK[1][k])


def run(algorithm, rounds=ROUNDS, graph=GRAPH, data=STREAM, every=1, start=0.0):
    return tacit.simulate(
        algorithm,
        graph,
        data,
        rounds=rounds,
        dtype="float64",
        start=np.full(DIM, start),
        record={"models": lambda models: models},
        record_every=every,
    )


@pytest.mark.covered_by("the policies' tests, by the same equations")
def test_fixed_strengths_against_the_equations():
    found = run(networked_personalised(OBJECTIVE, penalty=PENALTY, tau=TAU))
    models, _ = transcribed(kept)
    np.testing.assert_allclose(found.recorded["models"][0], models, rtol=1e-9, atol=1e-12)
    assert found.recorded["residual"].max() < 1e-12
    np.testing.assert_array_equal(found.recorded["tau"], TAU)


def test_gradient_against_differences():
    """The slope is exact in the code and a central difference here; all begin where clusters are apart, two alone."""
    rate, epochs, h = 0.2, 2, 1e-5

    def move(k, t, tau, primal):
        for _ in range(epochs):
            slope = (judged(k, primal(k, tau + h)) - judged(k, primal(k, tau - h))) / (2 * h)
            tau = np.clip(tau - rate * slope, 0, 1)
        return tau

    algorithm = networked_personalised(OBJECTIVE, tau=0.0, policy="gradient", rate=rate, epochs=epochs)
    found = run(algorithm, graph=ALONE)
    models, tau = transcribed(move, tau=0.0, graph=ALONE)
    np.testing.assert_allclose(found.recorded["tau"][0], tau, atol=1e-6)
    np.testing.assert_allclose(found.recorded["models"][0], models, atol=1e-5)
    assert tau[-1, 6:].min() > 0  # those alone have left 0
    assert tau.max() == 1
    assert set(tau[:, 2]) == {0.0}  # whom nobody pulls


def test_actor_critic_against_the_same_draws():
    rate, width, epochs = 3.0, 0.2, 2
    probe = SimpleNamespace(compute=lambda key, state, batch, view: (state, key))

    def draw(k, t, epoch):
        agent = runtime.agent_key(jax.random.key(0), 0, 0, k)
        key = runtime.compute(probe, 0, agent, None, (), SimpleNamespace(round=t))[1]
        return jax.random.uniform(jax.random.fold_in(key, epoch), (), jnp.float64, -width / 2, width / 2)

    with jax.enable_x64(True):
        over = jax.vmap(jax.vmap(jax.vmap(draw, (None, None, 0)), (None, 0, None)), (0, None, None))
        alphas = np.asarray(jax.jit(over)(jnp.arange(AGENTS), jnp.arange(1, ROUNDS + 1), jnp.arange(epochs)))

    def move(k, t, tau, primal):
        for alpha in alphas[k, t - 1]:
            worse = judged(k, primal(k, np.clip(tau + alpha, 0, 1))) - judged(k, primal(k, tau))
            tau = np.clip(tau - rate * np.sign(worse) * alpha, 0, 1)
        return tau

    settings = {"tau": TAU, "policy": "actor_critic", "rate": rate, "width": width, "epochs": epochs}
    found = run(networked_personalised(OBJECTIVE, **settings), start=0.5)
    models, tau = transcribed(move, start=0.5)
    np.testing.assert_allclose(found.recorded["tau"][0], tau, atol=1e-9)
    np.testing.assert_allclose(found.recorded["models"][0], models, atol=1e-9)
    assert found.recorded["tau"].min() == 0
    assert found.recorded["tau"].max() == 1
    assert np.abs(np.diff(found.recorded["tau"][0], axis=0)).max() <= epochs * rate * width / 2
    assert set(found.recorded["tau"][0, :, 2]) == {TAU}


def test_the_printed_sign_of_the_dual_step_diverges():
    ours, _ = transcribed(kept, rounds=200)
    printed, _ = transcribed(kept, rounds=200, sign=-1.0)
    assert np.abs(ours).max() < 10
    assert np.abs(printed[99]).max() > 1e3
    assert np.abs(printed[199]).max() > 1e6


def test_apart_each_cluster_reaches_its_own_optimum_and_a_client_alone_solves_its_problem():
    found = run(networked_personalised(OBJECTIVE, penalty=0.5, tau=0.0), rounds=600, graph=ALONE, every=300)
    x, y = TRAINED
    for members in ([0, 1, 2], [3, 4, 5], [6], [7]):
        curvature = sum(x[k].T @ x[k] / len(y[k]) + L2 * np.eye(DIM) for k in members)
        best = np.linalg.solve(curvature, sum(x[k].T @ y[k] / len(y[k]) for k in members))
        np.testing.assert_allclose(found.models[0][members], np.tile(best, (len(members), 1)), atol=1e-5)
    assert found.recorded["residual"].max() < 1e-10


# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.covered_by("contract/, which runs every method with noise")
def test_noise_is_charged_for_every_round():
    mechanism = gaussian(2.0, clip=1.0, perturbs="model")
    algorithm = networked_personalised(OBJECTIVE, mechanism, tau=TAU)
    found = tacit.simulate(algorithm, GRAPH, STREAM, rounds=5)
    assert found.privacy.private
    assert found.privacy.reads == 5
    assert found.privacy.guarantee.rho == pytest.approx(5 / (2 * 2.0**2))
    assert np.isfinite(found.models).all()


@pytest.mark.parametrize(
    "perturbs", ["model", pytest.param("gradient", marks=pytest.mark.covered_by("noise on the model"))]
)
def test_replacing_one_record_moves_what_is_released_by_no_more_than_declared(perturbs):
    clip, size = 0.7, 4
    algorithm = networked_personalised(OBJECTIVE, gaussian(1.0, clip=clip, perturbs=perturbs), penalty=PENALTY, tau=TAU)
    work, mechanism = algorithm.phases[0].compute, algorithm.phases[0].mechanism
    links = Links(jnp.array([0, 1, 2]), jnp.array([True, True, False]), jnp.ones(3))
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        view = View(jnp.array(0), jnp.array(3), jnp.array(True), jnp.array(size), links, links)
        state = algorithm.init["peer"](None, jnp.zeros(DIM), {"cluster": view, "bridge": view})
        state = state._replace(hears_others=jnp.ones(()), bridged=jnp.array([1.0, -1.0, 2.0]))

        def released(x, y):
            return work(jax.random.key(0), state, algorithm.prepare(Batch(x, y)), view)[1]

        x = rng.standard_normal((400, size, DIM)) * rng.choice([0.1, 1, 30], (400, 1, 1))
        y = rng.standard_normal((400, size)) * 10
        other_x, other_y = x.copy(), y.copy()
        other_x[:, 1] = np.where(rng.random((400, 1)) < 0.5, x[:, 1], rng.standard_normal((400, DIM)) * 5)
        other_y[:, 1] = -10 * y[:, 1]
        several = jax.jit(jax.vmap(released))
        moved = np.linalg.norm(several(x, y) - several(other_x, other_y), axis=1)
        declared = float(mechanism.sensitivity(view, Extent(DIM, size)))
    curvature = PENALTY * 1 + L2  # one neighbour; how others pull is not counted with
    expected = 2 * clip / size * (1 if perturbs == "gradient" else 1 / curvature)
    assert declared == pytest.approx(expected * 1.001)
    assert moved.max() <= declared
    assert moved.max() > 0.8 * declared


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"penalty": 0.0}, "penalty = 0.0"),
        ({"tau": -0.1}, "tau = -0.1"),
        ({"tau": 1.1}, r"tau = 1\.1.*from 0"),
        ({"tau": True}, "tau = True"),
        ({"policy": "guess"}, "policy = 'guess'.*gradient"),
        ({"policy": "gradient", "rate": 0.0}, "rate = 0.0"),
        ({"policy": "actor_critic", "width": float("inf")}, "width = inf"),
        ({"policy": "gradient", "epochs": 0}, "epochs = 0"),
        ({"policy": "gradient", "epochs": 1.5}, "epochs = 1.5"),
        ({"newton_steps": 0}, "newton_steps = 0"),
        ({"policy": "gradient", "mechanism": gaussian(1.0, clip=1.0, perturbs="model")}, "past the noise"),
        ({"policy": "actor_critic", "mechanism": laplace(1.0, clip=1.0)}, "past the noise"),
        ({"policy": "gradient", "mechanism": unprotected._replace(perturbs="update")}, "past the noise"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        networked_personalised(OBJECTIVE, **settings)


def test_what_it_cannot_run_on_is_refused():
    with pytest.raises(ConfigError, match="with_clusters"):
        run(networked_personalised(OBJECTIVE), graph=undirected(AGENTS, WITHIN + BRIDGES), rounds=1)
    with pytest.raises(ConfigError, match="with_validation"):
        run(networked_personalised(OBJECTIVE, policy="gradient"), data=stream(TRAINED), rounds=1)
    with pytest.raises(ConfigError, match=r"agent 6 has no neighbour.*l2 > 0"):
        run(networked_personalised(tacit.objectives.squared()), graph=ALONE, rounds=1)
