"""Methods that correct for differing data, against their equations, their invariants and a solver's optimum."""

from __future__ import annotations

import numpy as np
import optax
import pytest

import tacit
from tacit.algorithms import exact_diffusion, extra, gradient_tracking, push_diging
from tacit.core.errors import ConfigError
from tacit.peer import run_in_process
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, L2 = 8, 4, 24, 0.1, 1e-1
OBJECTIVE = tacit.objectives.logistic(l2=L2)
MUTUAL = tacit.graphs.small_world(AGENTS, 4, 0.3, seed=1)
ONE_WAY = tacit.graphs.random_digraph(AGENTS, 3, seed=5)


@pytest.fixture(scope="module")
def samples():
    return two_classes(5, (ROUNDS, AGENTS), DIM)


@pytest.fixture(scope="module")
def weights():
    return MUTUAL.with_weights("metropolis").matrix().toarray()


def gradients(x, a, y):
    margin = y * np.sum(a * x, axis=-1)
    return -(y / (1 + np.exp(margin)))[:, None] * a + L2 * x


def oracle(samples):
    """Return t -> (x -> g_t(x)), t = 0, 1, ..."""
    a, y = samples
    return lambda t, x: gradients(x, a[t], y[t])


def check(algorithm, graph, samples, expected):
    run = tacit.simulate(algorithm, graph, stream_of(*samples), rounds=ROUNDS, dtype="float64")
    np.testing.assert_allclose(run.models[0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("combine", ["after", "before"])
def test_gradient_tracking(combine, samples, weights):
    """Pu and Nedic (2020), (4)-(5); Nedic, Olshevsky and Shi (2017), Alg. 1."""
    g = oracle(samples)
    x = np.zeros((AGENTS, DIM))
    y = g(0, x)
    for t in range(ROUNDS):
        after = weights @ (x - STEP * y) if combine == "after" else weights @ x - STEP * y
        if t + 1 < ROUNDS:
            y = weights @ y + g(t + 1, after) - g(t, x)
        x = after
    check(gradient_tracking(OBJECTIVE, STEP, combine=combine), MUTUAL, samples, x)


def test_push_diging(samples):
    """Nedic, Olshevsky and Shi (2017), Alg. 2."""
    g = oracle(samples)
    C = ONE_WAY.with_weights("sender").matrix().toarray()
    u, v = np.zeros((AGENTS, DIM)), np.ones((AGENTS, 1))
    y = g(0, u)
    for t in range(ROUNDS):
        x = u / v
        u, v = C @ (u - STEP * y), C @ v
        if t + 1 < ROUNDS:
            y = C @ y + g(t + 1, u / v) - g(t, x)
    check(push_diging(OBJECTIVE, STEP), ONE_WAY, samples, u / v)


def test_push_diging_over_links_that_change(samples):
    """The same with C(t): a sender splits among itself and those to whom its links are up."""
    g = oracle(samples)
    up = np.random.default_rng(3).random((3, ONE_WAY.edges)) < 0.6
    u, v = np.zeros((AGENTS, DIM)), np.ones((AGENTS, 1))
    y = g(0, u)
    for t in range(ROUNDS):
        C = np.eye(AGENTS)
        C[ONE_WAY.receivers[up[t % 3]], ONE_WAY.senders[up[t % 3]]] = 1
        C /= C.sum(axis=0)
        x = u / v
        u, v = C @ (u - STEP * y), C @ v
        if t + 1 < ROUNDS:
            y = C @ y + g(t + 1, u / v) - g(t, x)
    check(push_diging(OBJECTIVE, STEP), ONE_WAY.with_dynamics(tacit.graphs.Periodic(up)), samples, u / v)


def test_extra(samples, weights):
    """Shi et al. (2015), Alg. 1, in its two lines."""
    g = oracle(samples)
    mean = (np.eye(AGENTS) + weights) / 2
    old = np.zeros((AGENTS, DIM))
    x = weights @ old - STEP * g(0, old)
    for t in range(1, ROUNDS):
        x, old = (np.eye(AGENTS) + weights) @ x - mean @ old - STEP * (g(t, x) - g(t - 1, old)), x
    check(extra(OBJECTIVE, STEP), MUTUAL, samples, x)


def test_exact_diffusion(samples, weights):
    """Yuan et al. (2018), Alg. 1."""
    g = oracle(samples)
    w = np.zeros((AGENTS, DIM))
    psi = w
    for t in range(ROUNDS):
        adapted = w - STEP * g(t, w)
        w, psi = (np.eye(AGENTS) + weights) / 2 @ (adapted + w - psi), adapted
    check(exact_diffusion(OBJECTIVE, STEP), MUTUAL, samples, w)


@pytest.mark.parametrize(("make", "graph"), [(gradient_tracking, MUTUAL), (push_diging, ONE_WAY)])
def test_trackers_sum_to_the_gradients_that_were_released(make, graph, samples):
    """With noise too, and in every round: what is in the sum is what left, not what was computed."""
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=0.5, perturbs="update")
    for rounds in (1, 2, 7):
        result = run_in_process(
            make(OBJECTIVE, STEP, noise), graph, stream_of(*samples), rounds=rounds, dtype="float64", seed=2
        )
        states = [machine.state for machine in result.machines["peer"]]
        total = np.sum([state.gradient for state in states], axis=0)
        trackers = np.sum([state.tracker for state in states], axis=0)
        np.testing.assert_allclose(trackers, total, rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(total) > 0.1


@pytest.fixture(scope="module")
def fixed():
    """One sample per agent, the same in every round, and the optimum of all of them."""
    data = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, repeat_every=1, heterogeneity=1.0, seed=3)
    best = tacit.metrics.best_fixed(OBJECTIVE, lambda: [data.chunk(0, 1)], data.batch_spec())
    assert best.gap < 1e-8
    return data, best.params


def distance(algorithm, graph, fixed, rounds=1500):
    data, optimum = fixed
    run = tacit.simulate(algorithm, graph, data, rounds=rounds, dtype="float64")
    return np.linalg.norm(run.models[0] - optimum, axis=-1).max() / np.linalg.norm(optimum)


@pytest.mark.parametrize("make", [gradient_tracking, extra, exact_diffusion])
def test_a_constant_step_reaches_the_optimum(make, fixed):
    assert distance(make(OBJECTIVE, 0.3), MUTUAL, fixed) < 1e-4


def test_a_constant_step_reaches_the_optimum_over_one_way_links(fixed):
    assert distance(push_diging(OBJECTIVE, 0.1), ONE_WAY, fixed, rounds=4000) < 1e-4


def test_averaging_alone_stays_beside_it(fixed):
    assert distance(tacit.algorithms.adapt_then_combine(OBJECTIVE, 0.3), MUTUAL, fixed) > 0.02
    assert distance(tacit.algorithms.online_push_sum(OBJECTIVE, 0.1), ONE_WAY, fixed) > 0.01


def test_links_that_change_keep_the_optimum_of_a_tracker(fixed):
    graph = tacit.graphs.complete(AGENTS).with_dynamics(tacit.graphs.RandomMatching())
    assert distance(gradient_tracking(OBJECTIVE, 0.1, combine="before"), graph, fixed, rounds=3000) < 1e-4


def test_a_word_for_the_combination_is_checked():
    with pytest.raises(ConfigError, match="combine"):
        gradient_tracking(OBJECTIVE, combine="never")


@pytest.mark.parametrize("combine", ["after", "before"])
def test_an_optimiser_steps_along_the_tracker(combine, samples, weights):
    """Carnevale et al. (2022): Adam on the tracker; the tracker itself goes by gradients as before."""
    b1, b2, eps = 0.9, 0.99, 1e-6
    g = oracle(samples)
    x, mean, square = (np.zeros((AGENTS, DIM)) for _ in range(3))
    y = g(0, x)
    for t in range(ROUNDS):
        mean, square = b1 * mean + (1 - b1) * y, b2 * square + (1 - b2) * y**2
        update = -STEP * (mean / (1 - b1 ** (t + 1))) / (np.sqrt(square / (1 - b2 ** (t + 1))) + eps)
        after = weights @ (x + update) if combine == "after" else weights @ x + update
        if t + 1 < ROUNDS:
            y = weights @ y + g(t + 1, after) - g(t, x)
        x = after
    check(gradient_tracking(OBJECTIVE, optax.adam(STEP, b1, b2, eps), combine=combine), MUTUAL, samples, x)


NO_OPTIMISER = {
    "decentralised_momentum": "adapt_then_combine",
    "quasi_global_momentum": "adapt_then_combine",
    "push_diging": "gradient_tracking",
    "extra": "gradient_tracking",
    "exact_diffusion": "gradient_tracking",
    "scaffold": "fedadam",
}


@pytest.mark.parametrize("name", NO_OPTIMISER)
def test_methods_that_an_optimiser_would_spoil_refuse_it(name):
    with pytest.raises(ConfigError, match=NO_OPTIMISER[name]):  # what to take instead
        getattr(tacit.algorithms, name)(OBJECTIVE, optax.adam(0.1))
