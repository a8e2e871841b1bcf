"""Mirror descent and its kin (Dissertation, ch. 2-5) against slow transcriptions of the texts, round by round, and to the limit."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.graphs import Attendance, OptOut, Periodic
from tacit.objectives import Constraint, entropy, euclidean_ball, spending_limit
from tacit.privacy import bounded_laplace, laplace
from tacit.privacy.noise import noise_words, unit_laplace
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, BATCH, L2 = 5, 4, 22, 3, 1e-2
CLIP, EPSILON, RADIUS = 0.6, 8.0, 0.4
OBJECTIVE = tacit.objectives.logistic(l2=L2)
MECHANISM = laplace(EPSILON, CLIP, perturbs="gradient")
GRAPH = tacit.graphs.random_digraph(AGENTS, 2, seed=3)
ROOT = jax.random.key(0)


@pytest.fixture(scope="module")
def samples():
    return two_classes(8, (ROUNDS, AGENTS, BATCH), DIM)


@pytest.fixture(scope="module")
def data(samples):
    return stream_of(*samples)


@pytest.fixture(scope="module")
def noise():
    """(leaf, *shape) -> (rounds, agents, *shape), Laplace noise of scale 1 as the simulator draws it."""

    @cache
    def drawn(leaf, *shape):
        def draw(t, i):
            return unit_laplace(noise_words(runtime.agent_key(ROOT, 0, 0, i), t, 0), leaf, shape, jnp.float64)

        with jax.enable_x64(True):
            over = jax.jit(jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None)))
            return np.asarray(over(jnp.arange(1, ROUNDS + 1), jnp.arange(AGENTS)))

    return drawn


def gradient(x, a, y):
    """Of one record's logistic loss, without the regulariser."""
    return -y * a / (1 + np.exp(y * (a @ x)))


def loss(x, a, y):
    return np.mean(np.log1p(np.exp(-y * (a @ x)))) + 0.5 * L2 * x @ x


def clipped(parts, norm=2):
    """A record's vectors, taken as one, scaled down to the bound."""
    whole = np.concatenate([np.ravel(part) for part in parts])
    return [part * min(1, CLIP / np.linalg.norm(whole, norm)) for part in parts]


def on_simplex(x, step):
    z = x * np.exp(-step)
    return z / z.sum()


def on_ball(x, step):
    y = x - step
    return y * min(1, RADIUS / np.linalg.norm(y))


FORMS = {
    "entropy": (entropy(), on_simplex, np.full(DIM, 1 / DIM)),
    "ball": (euclidean_ball(RADIUS), on_ball, np.zeros(DIM)),
}
"""Mirror map, its step, and where a run starts."""


def weights(up, normalised="receiver"):
    """W from the links that are up: equal shares of what one hears, or of what one sends, itself included."""
    W = np.eye(AGENTS)
    for s, r, live in zip(GRAPH.senders, GRAPH.receivers, up, strict=True):
        W[r, s] = live
    return W / W.sum(axis=1, keepdims=True) if normalised == "receiver" else W / W.sum(axis=0)


ALWAYS = np.ones(GRAPH.edges, bool)


def noisy_gradient(x, a, y, noise):
    mean = np.mean([clipped([gradient(x, *row)])[0] for row in zip(a, y, strict=True)], axis=0)
    return mean + 2 * np.sqrt(DIM) * CLIP / BATCH / EPSILON * noise + L2 * x


def check(algorithm, graph, data, models, losses, epsilon=EPSILON):
    run = tacit.simulate(algorithm, graph, data, rounds=ROUNDS, dtype="float64")
    # A clip stays a few roundings below its bound.
    np.testing.assert_allclose(run.per_round["loss"][0], losses, rtol=1e-9)
    np.testing.assert_allclose(run.models[0], models, rtol=1e-8, atol=1e-10)
    if epsilon is not None:
        assert run.privacy.guarantee.epsilon == pytest.approx(epsilon)
    return run


@pytest.mark.parametrize("form", FORMS)
def test_mirror_descent(form, samples, data, noise):
    """Dissertation, ch. 2, Alg. 1 and 2: step in the geometry, eta_t = 1/t, then average with whom you hear."""
    (a, y), unit = samples, noise(0, DIM)
    mirror, step, start = FORMS[form]
    W, x, losses = weights(ALWAYS), np.tile(start, (AGENTS, 1)), []
    for t in range(1, ROUNDS + 1):
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = [step(x[i], noisy_gradient(x[i], a[t - 1, i], y[t - 1, i], unit[t - 1, i]) / t) for i in range(AGENTS)]
        x = W @ np.array(z)
    check(tacit.algorithms.mirror_descent(OBJECTIVE, mechanism=MECHANISM, mirror=mirror), GRAPH, data, x, losses)


def test_mirror_descent_with_bounded_noise(samples, data, noise):
    """Dissertation, ch. 2, Alg. 3, steps 8-13: noise outside [-b, b] becomes b / 2; the whole gradient, the regulariser's part
    with it, is squeezed and normalised before the step."""
    (a, y), unit = samples, noise(0, DIM)
    epsilon, horizon = 2.0, 5
    scale = 2 * 0.5 / BATCH / epsilon  # a component changes by 1, of a mean over the batch
    bound = scale * np.log(horizon) ** 2
    drawn = scale * unit  # a copy: the other tests read the same draws
    outside = np.abs(drawn) > bound
    assert 0.02 < outside.mean() < 0.5  # so that the case is met
    drawn[outside] = bound / 2
    W, x, losses = weights(ALWAYS), np.full((AGENTS, DIM), 1 / DIM), []
    for t in range(1, ROUNDS + 1):
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = []
        for i in range(AGENTS):
            rows = zip(a[t - 1, i], y[t - 1, i], strict=True)
            mean = np.mean([np.clip(gradient(x[i], *row), -0.5, 0.5) for row in rows], axis=0)
            squeezed = (mean + L2 * x[i] + drawn[t - 1, i] + bound) / (2 * bound + 1)
            ghat = squeezed / np.linalg.norm(squeezed)
            z.append(on_simplex(x[i], ghat / np.sqrt(t)))
        x = W @ np.array(z)
    mechanism = bounded_laplace(epsilon, horizon)
    step = tacit.algorithms.inverse_sqrt(1.0)
    algorithm = tacit.algorithms.mirror_descent(OBJECTIVE, step, mechanism, entropy())
    run = check(algorithm, GRAPH, data, x, losses, epsilon=None)
    # One component moves, by the sensitivity: its atom, and the strip that its neighbour cannot reach.
    beyond = np.exp(-(np.log(horizon) ** 2))
    assert run.privacy.guarantee.delta == pytest.approx(beyond + beyond * (np.exp(epsilon) - 1) / 2)
    assert "rho" not in run.privacy.words()
    assert run.privacy.summary()["rho"] is None


def test_unbiased_mirror_descent_with_members_who_opt_out(samples, data, noise):
    """Mass and mixing in the dual; columns of W_t sum to 1. Who is away keeps what it has and steps not."""
    (a, y), unit = samples, noise(0, DIM)
    graph = GRAPH.with_dynamics(OptOut(0.3))
    dual, mass = np.tile(1 + np.log(np.full(DIM, 1 / DIM)), (AGENTS, 1)), np.ones(AGENTS)
    losses, away = [], 0

    def model(i):
        shifted = dual[i] / mass[i] - np.max(dual[i] / mass[i])
        return np.exp(shifted) / np.exp(shifted).sum()

    for t in range(1, ROUNDS + 1):
        with jax.enable_x64(True):
            up, present = graph.dynamics.live(t, runtime.links_key(ROOT, 0, t), graph.senders, graph.receivers, AGENTS)
        away += int(np.sum(~np.asarray(present)))
        x = [model(i) for i in range(AGENTS)]
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        moved = dual.copy()
        for i in np.flatnonzero(present):
            moved[i] -= noisy_gradient(x[i], a[t - 1, i], y[t - 1, i], unit[t - 1, i]) / np.sqrt(t)
        W = weights(np.asarray(up), "sender")
        dual, mass = W @ moved, W @ mass
    assert away > 10
    assert np.ptp(mass) > 0.1  # the mass does something
    algorithm = tacit.algorithms.dynamic_mirror_descent(OBJECTIVE, mechanism=MECHANISM, mirror=entropy(), unbiased=True)
    check(algorithm, graph, data, np.array([model(i) for i in range(AGENTS)]), losses)


def links_in_turn():
    table = np.random.default_rng(5).random((3, GRAPH.edges)) < 0.6
    table[2] |= ~table.any(axis=0)
    return Periodic(table), table, np.ones((3, AGENTS), bool)


def members_in_turn():
    table = np.random.default_rng(6).random((4, AGENTS)) < 0.7
    table[3] = True
    return Attendance(table), table[:, GRAPH.senders] & table[:, GRAPH.receivers], table


@pytest.mark.parametrize(("dynamics", "form"), [(links_in_turn, "entropy"), (members_in_turn, "ball")])
def test_dynamic_mirror_descent(dynamics, form, samples, data, noise):
    """Dissertation, ch. 5 in the text's own order, mixing first: y = W_t x, then x <- step from y with the gradient at y.

    The text's W_{t+1} is what acts at the end of our round t; its W_1 mixes equal starts.
    """
    (a, y), unit = samples, noise(0, DIM)
    mirror, step, start = FORMS[form]
    dynamics, up, present = dynamics()
    assert not up.all(axis=1).any() or not present.all()
    x, losses = np.tile(start, (AGENTS, 1)), []
    W = np.full((AGENTS, AGENTS), 1 / AGENTS)  # any with rows that sum to 1
    for t in range(1, ROUNDS + 1):
        mixed = W @ x
        losses.append(np.mean([loss(mixed[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        x = mixed.copy()
        for i in np.flatnonzero(present[(t - 1) % len(present)]):
            ghat = noisy_gradient(mixed[i], a[t - 1, i], y[t - 1, i], unit[t - 1, i])
            x[i] = step(mixed[i], ghat / np.sqrt(t))
        W = weights(up[(t - 1) % len(up)])
    algorithm = tacit.algorithms.dynamic_mirror_descent(OBJECTIVE, mechanism=MECHANISM, mirror=mirror)
    check(algorithm, GRAPH.with_dynamics(dynamics), data, W @ x, losses)


QUADRATIC = Constraint("square", lambda params, batch: jnp.mean(jnp.square(batch.x @ params)) - 0.01)
LIMITS = [spending_limit(-0.1), QUADRATIC]


def constraint_values(x, a):
    """(2,) and (2, d): values and gradients of both constraints for one record or several."""
    a = np.atleast_2d(a)
    values = [np.mean(a @ x) + 0.1, np.mean((a @ x) ** 2) - 0.01]
    return np.array(values), np.array([a.mean(axis=0), 2 * (a @ x) @ a / len(a)])


class Reading:
    """What one round shows of loss and constraints, with the noise of either way of accounting for the dual."""

    def __init__(self, dual, noise):
        self.dual = dual
        self.units = [noise(0, DIM)] if dual == "private" else [noise(0, DIM), noise(1, 2), noise(2, 2, DIM)]
        self.size = DIM if dual == "private" else DIM + 2 + 2 * DIM

    def of(self, x, weights, a, y, t, i):
        """Gradient of the loss plus weighted constraints without the regulariser, values, gradients of these."""
        rows = list(zip(a, y, strict=True))
        if self.dual == "private":
            parts = [clipped([gradient(x, *row) + weights @ constraint_values(x, row[0])[1]])[0] for row in rows]
            scale = 2 * np.sqrt(self.size) * CLIP / EPSILON  # not divided by the batch: the dual weighs in all records
            return np.mean(parts, axis=0) + scale * self.units[0][t - 1, i], *constraint_values(x, a)
        parts = [clipped([gradient(x, *row), *constraint_values(x, row[0])]) for row in rows]
        scale = 2 * np.sqrt(self.size) * CLIP / BATCH / EPSILON
        g, values, slopes = (
            np.mean([part[k] for part in parts], axis=0) + scale * self.units[k][t - 1, i] for k in range(3)
        )
        return g + weights @ slopes, values, slopes


@pytest.mark.parametrize("dual", ["private", "released"])
def test_constrained_mirror_descent(dual, samples, data, noise):
    """Dissertation, ch. 3 with two constraints: lambda ascends on c at the x of before the step."""
    (a, y), reading = samples, Reading(dual, noise)
    damping = 0.7
    W, x, duals, losses = weights(ALWAYS), np.full((AGENTS, DIM), 1 / DIM), np.zeros((AGENTS, 2)), []
    for t in range(1, ROUNDS + 1):
        eta = 1 / np.sqrt(t)
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = np.zeros_like(x)
        for i in range(AGENTS):
            g, values, _ = reading.of(x[i], duals[i], a[t - 1, i], y[t - 1, i], t, i)
            z[i] = on_simplex(x[i], eta * (g + L2 * x[i]))
            duals[i] = np.maximum(0, duals[i] + eta * (values - damping * eta * duals[i]))
        x = W @ z
    assert np.all(duals.max(axis=0) > 0)  # both weigh
    algorithm = tacit.algorithms.constrained_mirror_descent(
        OBJECTIVE, LIMITS, damping=damping, mechanism=MECHANISM, mirror=entropy(), dual=dual
    )
    check(algorithm, GRAPH, data, x, losses, EPSILON * ROUNDS if dual == "private" else EPSILON)


@pytest.mark.parametrize("dual", ["private", "released"])
def test_lagrangian_descent(dual, samples, data, noise):
    """Dissertation, ch. 4 with two queues: z = Proj(x - (V grad f + Q grad c + V noise) / (2 alpha))."""
    (a, y), reading = samples, Reading(dual, noise)
    V = 6.0
    alpha = max(ROUNDS, V * np.sqrt(ROUNDS))
    W, x, queues, losses = weights(ALWAYS), np.zeros((AGENTS, DIM)), np.zeros((AGENTS, 2)), []
    longest = queues
    for t in range(1, ROUNDS + 1):
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = np.zeros_like(x)
        for i in range(AGENTS):
            g, values, slopes = reading.of(x[i], queues[i] / V, a[t - 1, i], y[t - 1, i], t, i)
            z[i] = on_ball(x[i], V * (g + L2 * x[i]) / (2 * alpha))
            queues[i] = np.maximum(0, queues[i] + values + slopes @ (z[i] - x[i]))
        x, longest = W @ z, np.maximum(longest, queues)
    assert np.all(longest.max(axis=0) > 0)  # both weigh
    algorithm = tacit.algorithms.lagrangian_descent(
        OBJECTIVE, LIMITS, ROUNDS, V, MECHANISM, euclidean_ball(RADIUS), dual
    )
    check(algorithm, GRAPH, data, x, losses, EPSILON * ROUNDS if dual == "private" else EPSILON)


SHORT = Constraint("length", lambda params, batch: jnp.sum(jnp.square(params)) - 0.05, reads_data=False)
"""About the parameters alone: its gradient 2 x weighs in the step as it is, beside what is clipped and noised."""


def part_that_reads(x, weight, a, y, t, i, noise, dual):
    """Noisy gradient of the loss, and of a spending limit where it is given a weight; value and gradient of the limit."""
    rows = list(zip(a, y, strict=True))
    unit = noise(0, DIM)[t - 1, i]
    if weight is None:
        mean = np.mean([clipped([gradient(x, *row)])[0] for row in rows], axis=0)
        return mean + 2 * np.sqrt(DIM) * CLIP / BATCH / EPSILON * unit, None, None
    value, slope = np.mean(a @ x) + 0.1, a.mean(axis=0)
    if dual == "private":
        mean = np.mean([clipped([gradient(x, *row) + weight * row[0]])[0] for row in rows], axis=0)
        return mean + 2 * np.sqrt(DIM) * CLIP / EPSILON * unit, value, slope
    parts = [clipped([gradient(x, *row), np.array([row[0] @ x + 0.1]), row[0]]) for row in rows]
    scale = 2 * np.sqrt(2 * DIM + 1) * CLIP / BATCH / EPSILON
    units = unit, noise(1, 1)[t - 1, i], noise(2, 1, DIM)[t - 1, i, 0]
    g, value, slope = (np.mean([part[k] for part in parts], axis=0) + scale * units[k] for k in range(3))
    return g + weight * slope, value[0], slope


FREE = [("alone", "private"), ("alone", "released"), ("mixed", "private"), ("mixed", "released")]


@pytest.mark.parametrize(("limits", "dual"), FREE)
def test_a_constraint_that_reads_no_data_is_neither_clipped_nor_noised(limits, dual, samples, data, noise):
    """Dissertation, ch. 3: of grad [f + <lambda, c>] only what reads data goes through the mechanism."""
    (a, y), damping = samples, 0.7
    W, x, losses = weights(ALWAYS), np.full((AGENTS, DIM), 1 / DIM), []
    read, free = np.zeros(AGENTS), np.zeros(AGENTS)
    for t in range(1, ROUNDS + 1):
        eta = 1 / np.sqrt(t)
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = np.zeros_like(x)
        for i in range(AGENTS):
            weight = read[i] if limits == "mixed" else None
            g, value, _ = part_that_reads(x[i], weight, a[t - 1, i], y[t - 1, i], t, i, noise, dual)
            z[i] = on_simplex(x[i], eta * (g + free[i] * 2 * x[i] + L2 * x[i]))
            free[i] = max(0, free[i] + eta * (x[i] @ x[i] - 0.05 - damping * eta * free[i]))
            if weight is not None:
                read[i] = max(0, read[i] + eta * (value - damping * eta * read[i]))
        x = W @ z
    assert free.min() > 0.1
    given = SHORT if limits == "alone" else [SHORT, spending_limit(-0.1)]
    algorithm = tacit.algorithms.constrained_mirror_descent(
        OBJECTIVE, given, damping=damping, mechanism=MECHANISM, mirror=entropy(), dual=dual
    )
    in_sequence = (limits, dual) == ("mixed", "private")
    check(algorithm, GRAPH, data, x, losses, EPSILON * ROUNDS if in_sequence else EPSILON)


def test_a_queue_of_what_reads_no_data_pulls_as_it_is(samples, data, noise):
    """Dissertation, ch. 4: z = Proj(x - (V ghat + Q grad c) / (2 alpha)), the noise on the loss's part alone."""
    (a, y), V = samples, 6.0
    alpha = max(ROUNDS, V * np.sqrt(ROUNDS))
    tight = SHORT._replace(value=lambda params, batch: jnp.sum(jnp.square(params - 0.1)) - 1e-3)
    W, x, queues, losses = weights(ALWAYS), np.zeros((AGENTS, DIM)), np.zeros(AGENTS), []
    for t in range(1, ROUNDS + 1):
        losses.append(np.mean([loss(x[i], a[t - 1, i], y[t - 1, i]) for i in range(AGENTS)]))
        z = np.zeros_like(x)
        for i in range(AGENTS):
            g, _, _ = part_that_reads(x[i], None, a[t - 1, i], y[t - 1, i], t, i, noise, "private")
            slope = 2 * (x[i] - 0.1)
            z[i] = on_ball(x[i], (V * (g + L2 * x[i]) + queues[i] * slope) / (2 * alpha))
            queues[i] = max(0, queues[i] + np.sum((x[i] - 0.1) ** 2) - 1e-3 + slope @ (z[i] - x[i]))
        x = W @ z
    assert queues.min() > 0
    algorithm = tacit.algorithms.lagrangian_descent(OBJECTIVE, tight, ROUNDS, V, MECHANISM, euclidean_ball(RADIUS))
    check(algorithm, GRAPH, data, x, losses, EPSILON)
