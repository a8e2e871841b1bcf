"""Slow, obvious transcriptions of the texts' equations, compared with the simulator round by round in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.graphs import Channel, Delay
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, L2 = 10, 6, 40, 0.3, 1e-2
OBJECTIVE = tacit.objectives.logistic(l2=L2)
OTHER_PLACES = pytest.mark.covered_by("noise on the model, and on the update of batches")


@pytest.fixture(scope="module")
def data():
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, rounds=ROUNDS, heterogeneity=1.0, seed=4)


@pytest.fixture(scope="module")
def graph():
    return tacit.graphs.random_digraph(AGENTS, 4, seed=2)


def gradient(x, a, y):
    return -y * a / (1 + np.exp(y * (a @ x))) + L2 * x


def loss(x, a, y):
    return np.log1p(np.exp(-y * (a @ x))) + 0.5 * L2 * x @ x


def dense(graph):
    out = [list(graph.neighbours_out(j)) for j in range(AGENTS)]
    W = np.zeros((AGENTS, AGENTS))
    for j in range(AGENTS):
        for i in [j, *out[j]]:
            W[i, j] = 1 / (1 + len(out[j]))
    return W


def batches(data):
    chunk = data.chunk(0, ROUNDS)
    return chunk.x.astype(np.float64), chunk.y.astype(np.float64)


def check(algorithm, graph, data, models, losses, **settings):
    run = tacit.simulate(algorithm, graph, data, rounds=ROUNDS, dtype="float64", **settings)
    np.testing.assert_allclose(run.per_round["loss"][0], losses, rtol=1e-9)
    np.testing.assert_allclose(run.models[0], models, rtol=1e-8, atol=1e-12)


def test_online_push_sum(graph, data):
    """OPS paper, Alg. 1."""
    a, y = batches(data)
    W = dense(graph)
    z, m = np.zeros((AGENTS, DIM)), np.ones(AGENTS)
    losses = []
    for t in range(ROUNDS):
        x = z / m[:, None]
        losses.append(np.mean([loss(x[i], a[t, i], y[t, i]) for i in range(AGENTS)]))
        half = np.array([z[i] - STEP * gradient(x[i], a[t, i], y[t, i]) for i in range(AGENTS)])
        new_z, new_m = np.zeros_like(z), np.zeros_like(m)
        for i in range(AGENTS):
            for j in range(AGENTS):
                new_z[j] += W[j, i] * half[i]
                new_m[j] += W[j, i] * m[i]
        z, m = new_z, new_m
    check(tacit.algorithms.online_push_sum(OBJECTIVE, STEP), graph, data, z / m[:, None], losses)
    np.testing.assert_allclose(m.sum(), AGENTS)


def averaging(W, data):
    a, y = batches(data)
    x = np.zeros((AGENTS, DIM))
    losses = []
    for t in range(ROUNDS):
        losses.append(np.mean([loss(x[i], a[t, i], y[t, i]) for i in range(AGENTS)]))
        x = W @ np.array([x[i] - STEP * gradient(x[i], a[t, i], y[t, i]) for i in range(AGENTS)])
    return x, losses


def metropolis_on_mutual_links(graph):
    edges = set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
    mutual = {(s, r) for s, r in edges if (r, s) in edges}
    degree = [sum(1 for s, _ in mutual if s == i) for i in range(AGENTS)]
    W = np.zeros((AGENTS, AGENTS))
    for s, r in mutual:
        W[r, s] = 1 / (1 + max(degree[s], degree[r]))
    return W + np.diag(1 - W.sum(axis=1))


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("centralised_online", lambda graph: np.full((AGENTS, AGENTS), 1 / AGENTS)),
        ("decentralised_symmetric", metropolis_on_mutual_links),
        ("decentralised_asymmetric", dense),
        ("local_online", lambda graph: np.eye(AGENTS)),
    ],
)
def test_baselines(name, matrix, graph, data):
    """OPS paper, sec. 5.2 and app. B.2."""
    models, losses = averaging(matrix(graph), data)
    settings = {"apart": True} if name == "decentralised_symmetric" else {}
    check(tacit.algorithms.find(name).constructor(OBJECTIVE, STEP, **settings), graph, data, models, losses)


def test_the_mutual_part_of_the_test_graph_is_not_trivial(graph):
    assert 0 < graph.mutual().edges < graph.edges


@pytest.mark.parametrize(
    "channel",
    [
        Channel(),
        pytest.param(Channel(loss=0.4), marks=pytest.mark.covered_by("loss and delay together")),
        Channel(loss=0.2, delay=Delay(0.5, 3)),
    ],
)
def test_loss_tolerant_push_sum(channel, graph, data):
    """Running totals, with dictionaries for every link and the messages really under way."""
    import jax

    from tacit import runtime

    a, y = batches(data)
    W = dense(graph)
    links = list(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
    z, m = np.zeros((AGENTS, DIM)), np.ones(AGENTS)
    sent = {link: (np.zeros(DIM), 0.0) for link in links}
    heard = {link: (np.zeros(DIM), 0.0) for link in links}
    heard_round = dict.fromkeys(links, 0)
    fresh = [True] * AGENTS
    under_way = []
    losses = []
    for t in range(1, ROUNDS + 1):
        x = z / m[:, None]
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = np.array([z[i] - STEP * gradient(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)])
        with jax.enable_x64(True):
            lost, delay = channel.draw(runtime.channel_key(jax.random.key(0), 0, t), len(links))
        for e, (i, j) in enumerate(links):
            if fresh[i]:
                sent[i, j] = (sent[i, j][0] + W[j, i] * z[i], sent[i, j][1] + W[j, i] * m[i])
            if not lost[e]:
                under_way.append((t + int(delay[e]), t, (i, j), sent[i, j]))
        z = np.array([W[i, i] * z[i] if fresh[i] else z[i] for i in range(AGENTS)])
        m = np.array([W[i, i] * m[i] if fresh[i] else m[i] for i in range(AGENTS)])
        before = m.copy()
        arriving = sorted((u for u in under_way if u[0] == t), key=lambda u: u[1])
        under_way = [u for u in under_way if u[0] != t]
        for _, sent_in, link, total in arriving:
            if sent_in > heard_round[link]:
                z[link[1]] += total[0] - heard[link][0]
                m[link[1]] += total[1] - heard[link][1]
                heard[link], heard_round[link] = total, sent_in
        fresh = list(m > before)
    algorithm = tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, STEP)
    check(algorithm, graph, data, z / m[:, None], losses, channel=channel)
    missing = sum(sent[link][1] - heard[link][1] for link in links)
    np.testing.assert_allclose(m.sum() + missing, AGENTS)


def test_push_sum_on_doubly_stochastic_weights_is_averaging(data):
    """OPS paper, sec. 4.2: the mass stays 1 and OPS reduces to decentralised online gradient descent."""
    graph = tacit.graphs.small_world(AGENTS, 4, 0.3, seed=1).with_weights("metropolis")
    models, losses = averaging(graph.matrix().toarray(), data)
    check(tacit.algorithms.online_push_sum(OBJECTIVE, STEP), graph, data, models, losses)


@pytest.mark.parametrize(
    ("batch", "perturbs"),
    [
        pytest.param(batch, on, marks=() if (batch, on) in {(None, "model"), (3, "update")} else OTHER_PLACES)
        for batch in (None, 3)
        for on in ("model", "update", "gradient")
    ],
)
def test_distributed_online(perturbs, batch):
    """Li et al., Alg. 1 and 2, with clip, projection and a graph that changes; noise as the simulator draws it."""
    import jax

    from tacit import runtime

    clip, radius, epsilon = 0.4, 0.5, 5.0
    shape = (ROUNDS, AGENTS) if batch is None else (ROUNDS, AGENTS, batch)
    a, y = two_classes(3, shape, DIM)
    data = stream_of(a, y)
    graph = tacit.graphs.complete(AGENTS).with_dynamics(tacit.graphs.RandomMatching()).with_weights("metropolis")
    root = jax.random.key(0)
    with jax.enable_x64(True):
        units = _unit_noise(root)
    b = np.zeros((AGENTS, DIM))
    average = np.zeros_like(b)
    losses = []
    for t in range(1, ROUNDS + 1):
        W = graph.matrix(t, runtime.links_key(root, 0, t)).toarray()
        step = 1 / (2 * np.sqrt(t))
        model = average if batch else b
        new = np.zeros_like(b)
        losses.append(0.0)
        for i in range(AGENTS):
            rows = [(a[t - 1, i], y[t - 1, i])] if batch is None else list(zip(a[t - 1, i], y[t - 1, i], strict=True))
            losses[-1] += np.mean([loss(model[i], *row) for row in rows]) / AGENTS
            parts = [gradient(b[i], *row) - L2 * b[i] for row in rows]
            mean = sum(g * min(1, clip / np.linalg.norm(g)) for g in parts) / len(rows) + L2 * b[i]
            noise = 2 * np.sqrt(DIM) * clip / len(rows) / epsilon * units[t - 1, i]
            if perturbs == "model":
                new[i] = _onto_ball(b[i] - step * mean, radius) + step * noise
            else:
                new[i] = _onto_ball(b[i] - step * (mean + noise), radius)
        b = W @ new
        average += (b - average) / t
    mechanism = tacit.privacy.laplace(epsilon=epsilon, clip=clip, perturbs=perturbs)
    make = tacit.algorithms.distributed_minibatch if batch else tacit.algorithms.distributed_online
    algorithm = make(OBJECTIVE, mechanism=mechanism, radius=radius)
    run = tacit.simulate(algorithm, graph, data, rounds=ROUNDS, dtype="float64")
    # A clip stays a few roundings below its bound.
    np.testing.assert_allclose(run.per_round["loss"][0], losses, rtol=1e-9)
    np.testing.assert_allclose(run.models[0], average if batch else b, rtol=1e-8, atol=1e-10)
    assert run.privacy.guarantee.epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize("name", ["distributed_online", "distributed_minibatch"])
def test_regret_with_a_radius_is_against_the_best_model_of_the_ball(name):
    """Li et al., Definition 2: the minimum is over w in W; projected gradient descent in NumPy finds it."""
    radius = 0.1
    a, y = two_classes(3, (ROUNDS, AGENTS), DIM)
    rows = list(zip(a.reshape(-1, DIM), y.ravel(), strict=True))

    def steepness(w):
        return sum(gradient(w, *row) for row in rows) / len(rows)

    best = np.zeros(DIM)
    for _ in range(500):
        best = _onto_ball(best - steepness(best), radius)
    assert np.linalg.norm(best) == pytest.approx(radius)  # the ball binds
    slope = steepness(best)
    assert slope @ best + radius * np.linalg.norm(slope) < 1e-9  # no point of the ball is lower by more
    algorithm = getattr(tacit.algorithms, name)(OBJECTIVE, step=0.2, radius=radius)
    graph = tacit.graphs.complete(AGENTS).with_weights("metropolis")
    run = tacit.simulate(algorithm, graph, stream_of(a, y), rounds=ROUNDS, dtype="float64")
    right = AGENTS * np.sum(run.per_round["loss"][0]) - sum(loss(best, *row) for row in rows)
    assert run.regret(points=1).total[0, -1] == pytest.approx(right, abs=1e-5)


def _unit_noise(root):
    """(rounds, agents, dim) Laplace noise of scale 1, as the simulator draws it."""
    import jax
    import jax.numpy as jnp

    from tacit import runtime
    from tacit.privacy.noise import noise_words, unit_laplace

    def draw(t, i):
        words = noise_words(runtime.agent_key(root, 0, 0, i), t, 0)
        return unit_laplace(words, 0, (DIM,), jnp.float64)

    over_agents = jax.vmap(draw, in_axes=(None, 0))
    return np.asarray(jax.jit(jax.vmap(over_agents, in_axes=(0, None)))(jnp.arange(1, ROUNDS + 1), jnp.arange(AGENTS)))


def _onto_ball(w, radius):
    return w * min(1, radius / np.linalg.norm(w))
