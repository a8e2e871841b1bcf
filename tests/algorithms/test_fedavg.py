"""Federated averaging against a slow transcription of its equations, and what its roles do when links are down."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.graphs import Channel, Periodic, Topology, star_roles
from tacit.privacy.noise import noise_words, unit_laplace
from tests.algorithms.given import stream_of, two_classes

CLIENTS, DIM, ROUNDS, BATCH, STEP, L2 = 5, 4, 24, 3, 0.3, 1e-2
CLIP, EPSILON = 0.4, 5.0
OBJECTIVE = tacit.objectives.logistic(l2=L2)


def every(period: int) -> Topology:
    """A star whose links, both ways, are up in every `period`-th round."""
    star = star_roles(CLIENTS)
    table = np.zeros((period, CLIENTS), bool)
    table[-1] = True
    return Topology(star.roles, {name: graph.with_dynamics(Periodic(table)) for name, graph in star.links.items()})


@pytest.fixture(scope="module")
def samples():
    return two_classes(7, (ROUNDS, CLIENTS, BATCH), DIM)


@pytest.fixture(scope="module")
def data(samples):
    return stream_of(*samples)


@pytest.fixture(scope="module")
def unit_noise():
    """(rounds, clients, dim) Laplace noise of scale 1 as the simulator draws it for role 0, phase 0."""
    root = jax.random.key(0)

    def draw(t, i):
        return unit_laplace(noise_words(runtime.agent_key(root, 0, 0, i), t, 0), 0, (DIM,), jnp.float64)

    with jax.enable_x64(True):
        over = jax.jit(jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None)))
        return np.asarray(over(jnp.arange(1, ROUNDS + 1), jnp.arange(CLIENTS)))


def clipped_step(w, a, y, noise):
    """One client's step: every record's gradient clipped, their mean with noise, and the regulariser."""
    total = np.zeros(DIM)
    for row, label in zip(a, y, strict=True):
        g = -label * row / (1 + np.exp(label * (row @ w)))
        total += g * min(1, CLIP / np.linalg.norm(g))
    scale = 2 * np.sqrt(DIM) * CLIP / BATCH / EPSILON
    return w - STEP * (total / BATCH + scale * noise + L2 * w)


def loss(w, a, y):
    return np.mean(np.log1p(np.exp(-y * (a @ w)))) + 0.5 * L2 * w @ w


@pytest.mark.parametrize("period", [1, 3])
def test_against_the_equations(period, samples, data, unit_noise):
    """Links up in every round, and in every third: a client whose links are down goes on alone."""
    a, y = samples
    w = np.zeros((CLIENTS, DIM))
    losses = []
    for t in range(ROUNDS):
        losses.append(np.mean([loss(w[i], a[t, i], y[t, i]) for i in range(CLIENTS)]))
        w = np.array([clipped_step(w[i], a[t, i], y[t, i], unit_noise[t, i]) for i in range(CLIENTS)])
        if (t + 1) % period == 0:
            server = np.mean(w, axis=0)
            w = np.tile(server, (CLIENTS, 1))
    mechanism = tacit.privacy.laplace(EPSILON, CLIP, perturbs="gradient")
    algorithm = tacit.algorithms.fedavg(OBJECTIVE, STEP, mechanism)
    topology = star_roles(CLIENTS) if period == 1 else every(period)
    run = tacit.simulate(algorithm, topology, data, rounds=ROUNDS, dtype="float64")
    np.testing.assert_allclose(run.per_round["loss"][0], losses, rtol=1e-9)
    np.testing.assert_allclose(run.models[0], w, rtol=1e-8, atol=1e-10)
    # Every round releases, with the links down too; each record is read once.
    assert run.privacy.guarantee.epsilon == pytest.approx(EPSILON)
    assert run.per_round["messages"][0].sum() == 2 * CLIENTS * (ROUNDS // period)


def test_with_lossy_links_each_side_does_with_what_arrives(samples, data):
    """Uplinks lost: the mean of the others. Downlink lost: the client's own model. Nobody heard: nothing is sent."""
    a, y = samples
    channel = Channel(loss=0.6)
    w, server = np.zeros((CLIENTS, DIM)), np.zeros(DIM)
    root = jax.random.key(0)
    silent = 0
    for t in range(ROUNDS):
        w = np.array(
            [w[i] - STEP * (np.mean([gradient(w[i], *row) for row in rows(a, y, t, i)], axis=0) + L2 * w[i])
             for i in range(CLIENTS)]
        )  # fmt: skip
        with jax.enable_x64(True):
            up, down = (~np.asarray(channel.draw(runtime.channel_key(root, p, t + 1), CLIENTS)[0]) for p in (0, 1))
        silent += not up.any()
        if up.any():
            server = w[up].mean(axis=0)
            w[down] = server
    algorithm = tacit.algorithms.fedavg(OBJECTIVE, STEP, missing="renormalise")
    run = tacit.simulate(algorithm, star_roles(CLIENTS), data, rounds=ROUNDS, dtype="float64", channel=channel)
    assert silent > 0  # so that the case was met
    np.testing.assert_allclose(run.models[0], w, rtol=1e-8, atol=1e-10)


def rows(a, y, t, i):
    return list(zip(a[t, i], y[t, i], strict=True))


def gradient(w, a, y):
    return -y * a / (1 + np.exp(y * (a @ w)))
