"""Diffusion (Rizk (2023), ch. 4) against a slow transcription of its equations, and what its noise leaves as it was."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import adapt_then_combine, combine_then_adapt, consensus, diffusion
from tacit.core.errors import ConfigError, RequirementError
from tacit.graphs import Topology, from_edges, perron, ring, small_world
from tacit.privacy import graph_homomorphic, laplace, laplace_of_size, local_graph_homomorphic, on_grid, per_edge
from tacit.privacy.noise import noise_words, unit_laplace
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, L2, STD = 6, 3, 22, 0.3, 1e-2, 0.2
OBJECTIVE = tacit.objectives.logistic(l2=L2)
RING, WORLD = ring(AGENTS), small_world(AGENTS, 4, 0.3, seed=1)
ONE_ENGINE = pytest.mark.covered_by("the other strategies in single precision")
STRATEGIES = {"consensus": consensus, "CTA": combine_then_adapt, "ATC": adapt_then_combine}


@pytest.fixture(scope="module")
def samples():
    return two_classes(5, (ROUNDS, AGENTS), DIM)


@pytest.fixture(scope="module")
def data(samples):
    return stream_of(*samples)


def gradient(w, a, y):
    return -y * a / (1 + np.exp(y * (a @ w))) + L2 * w


def metropolis(graph):
    return graph.with_weights("metropolis").matrix().toarray()


STARTS = np.random.default_rng(8).standard_normal((AGENTS, DIM))
"""Everybody begins elsewhere, so that a first combination shows."""


def transcribed(samples, before, within, after, noise=None):
    """(4.24)-(4.26) as they stand; noise(t, place) is the network's weighed noise in one combination."""
    x, y = samples
    w = STARTS
    noise = noise or (lambda t, place: 0.0)
    eye = np.eye(AGENTS)
    A1, A0, A2 = (eye if a is None else a for a in (before, within, after))
    for t in range(ROUNDS):
        phi = A1 @ w + noise(t + 1, "before")
        step = np.array([gradient(phi[i], x[t, i], y[t, i]) for i in range(AGENTS)])
        psi = A0 @ phi + noise(t + 1, "within") - STEP * step
        w = A2 @ psi + noise(t + 1, "after")
    return w


def run_from_starts(algorithm, graph, data, **settings):
    settings = {"rounds": ROUNDS, "dtype": "float64", "start": lambda agent: STARTS[agent], **settings}
    return tacit.simulate(algorithm, graph, data, **settings)


@pytest.mark.parametrize("places", ["consensus", "CTA", "ATC", "all three, each over links of its own"])
def test_against_the_equations(places, samples, data):
    if places in STRATEGIES:
        algorithm, graph = STRATEGIES[places](OBJECTIVE, STEP), WORLD
        matrix = metropolis(WORLD)
        matrices = [matrix if places == name else None for name in ("CTA", "consensus", "ATC")]
    else:
        algorithm = diffusion(OBJECTIVE, STEP, before="one", within="two", after="three")
        third = ring(AGENTS).with_weights("receiver")
        graph = Topology({"peer": AGENTS}, {"one": WORLD, "two": RING, "three": third})
        matrices = [metropolis(WORLD), metropolis(RING), third.matrix().toarray()]
    run = run_from_starts(algorithm, graph, data)
    np.testing.assert_allclose(run.models[0], transcribed(samples, *matrices), rtol=1e-9, atol=1e-12)


def unit_draws(slots):
    """(rounds, agents, slots, dim) Laplace noise of scale 1 as the simulator draws it, or without the slots."""
    root = jax.random.key(0)
    shape = (DIM,) if slots is None else (slots, DIM)

    def draw(t, i):
        return unit_laplace(noise_words(runtime.agent_key(root, 0, 0, i), t, 0), 0, shape, jnp.float64)

    with jax.enable_x64(True):
        over = jax.jit(jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None)))
        return np.asarray(over(jnp.arange(1, ROUNDS + 1), jnp.arange(AGENTS)))


@pytest.mark.parametrize(("place", "strategy"), [("after", "ATC"), ("within", "consensus"), ("before", "CTA")])
def test_noise_on_every_link_against_the_equations(place, strategy, samples, data):
    matrix, draws = metropolis(RING), unit_draws(3)
    slot = {(i, j): 1 + sorted(RING.neighbours_out(i)).index(j) for i in range(AGENTS) for j in RING.neighbours_out(i)}

    def noise(t, where):
        total = np.zeros((AGENTS, DIM))
        if where == place:
            for r in range(AGENTS):
                for s in [r, *RING.neighbours_in(r)]:
                    total[r] += matrix[r, s] * STD / np.sqrt(2) * draws[t - 1, s, 0 if s == r else slot[s, r]]
        return total

    matrices = [matrix if place == p else None for p in ("before", "within", "after")]
    run = run_from_starts(STRATEGIES[strategy](OBJECTIVE, STEP, per_edge(STD)), RING, data)
    np.testing.assert_allclose(run.models[0], transcribed(samples, *matrices, noise), rtol=1e-8, atol=1e-10)


def skewed():
    """Receiver-normalised weights that are neither symmetric nor doubly stochastic."""
    rng = np.random.default_rng(2)
    W = metropolis(WORLD) * rng.uniform(0.5, 2, (AGENTS, AGENTS))
    return WORLD.with_weights(W / W.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("weights", ["symmetric", "by the Perron vector"])
def test_homomorphic_noise_against_the_equations_and_its_sum_is_zero(weights, samples, data):
    graph = WORLD.with_weights("metropolis") if weights == "symmetric" else skewed()
    W, draws = graph.matrix().toarray(), unit_draws(None)
    q = np.ones(AGENTS) / AGENTS if weights == "symmetric" else perron(graph).left
    off = W - np.diag(np.diag(W))
    own = -(q @ off) / (q * np.diag(W))
    if weights == "symmetric":
        np.testing.assert_allclose(own, -(1 - np.diag(W)) / np.diag(W), rtol=1e-12)  # (4.50)

    def noise(t, where):
        g = STD / np.sqrt(2) * draws[t - 1]
        total = off @ g + (np.diag(W) * own)[:, None] * g if where == "after" else np.zeros((AGENTS, DIM))
        np.testing.assert_allclose(q @ total, 0, atol=1e-12)
        return total

    mechanism = graph_homomorphic(STD, perron=None if weights == "symmetric" else q)
    run = run_from_starts(adapt_then_combine(OBJECTIVE, STEP, mechanism), graph, data)
    np.testing.assert_allclose(run.models[0], transcribed(samples, None, None, W, noise), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("dtype", "strategy"),
    [
        pytest.param(d, s, marks=() if d == "float32" and s != "consensus" else ONE_ENGINE)
        for d in ("float32", "float64")
        for s in STRATEGIES
    ],
)
def test_masked_and_unmasked_are_the_same_to_the_bit(strategy, dtype, data):
    paths = []
    for mechanism in (on_grid(), local_graph_homomorphic(STD)):
        run = tacit.simulate(
            STRATEGIES[strategy](OBJECTIVE, STEP, mechanism),
            WORLD,
            data,
            rounds=ROUNDS,
            repeats=2,
            dtype=dtype,
            record={"models": lambda models: models},
            record_every=1,
        )
        paths.append((run.recorded["models"], run.per_round["loss"]))
    (one, first), (two, second) = paths
    assert one.shape == (2, ROUNDS, AGENTS, DIM)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(first, second)


def test_the_grid_costs_no_more_than_its_step(samples, data):
    run = run_from_starts(adapt_then_combine(OBJECTIVE, STEP, on_grid(2.0**-30)), WORLD, data)
    exact = transcribed(samples, None, None, metropolis(WORLD))
    apart = np.abs(run.models[0] - exact).max()
    assert 0 < apart < ROUNDS * 2.0**-30 * 5  # every share is rounded to half a step


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_limit_is_the_solver_s_optimum(strategy):
    problem = tacit.streams.linear_regression(AGENTS, 20, DIM, seed=3)
    optimum, _ = problem.optima(0.1)
    algorithm = STRATEGIES[strategy](tacit.objectives.squared(l2=0.1), lambda t: 2.0 / (t + 10))
    run = tacit.simulate(algorithm, WORLD, problem.stream(), rounds=4000, dtype="float64", record_every=4000)
    np.testing.assert_allclose(run.models[0], np.tile(optimum, (AGENTS, 1)), atol=2e-3)


def test_what_is_charged(data):
    """Noise of scale b on a model that one step moves by 2 C sqrt(d) mu in the l1 norm."""
    clip, scale = 0.4, STD / np.sqrt(2)
    one = 2 * clip * np.sqrt(DIM) * STEP / scale

    def spent(algorithm):
        run = tacit.simulate(algorithm, RING, data, rounds=ROUNDS, record_every=ROUNDS)
        return run.privacy.guarantee.epsilon

    assert spent(adapt_then_combine(OBJECTIVE, STEP, per_edge(STD, clip))) == pytest.approx(3 * one, rel=1e-5)
    assert spent(consensus(OBJECTIVE, STEP, per_edge(STD, clip))) == pytest.approx(3 * one * ROUNDS, rel=1e-5)
    assert spent(combine_then_adapt(OBJECTIVE, STEP, per_edge(STD, clip))) == pytest.approx(3 * one * ROUNDS, rel=1e-5)
    steps_sent = [1, *range(1, ROUNDS)]  # round t sends what the steps before it made; the first is charged as one
    total = one * sum(steps_sent)
    assert spent(combine_then_adapt(OBJECTIVE, STEP, graph_homomorphic(STD, clip))) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("strategy", [consensus, combine_then_adapt])
def test_a_step_that_is_sent_a_round_later_is_charged_at_its_own_size(strategy, data):
    """Steps that shrink: what round t sends was moved by the step of round t - 1, the larger one."""
    clip, scale = 0.4, STD / np.sqrt(2)
    step = lambda t: 1.0 / t  # noqa: E731
    run = tacit.simulate(strategy(OBJECTIVE, step, per_edge(STD, clip)), RING, data, rounds=4, record_every=4)
    sent = sum(step(t) for t in (1, 1, 2, 3))
    assert run.privacy.guarantee.epsilon == pytest.approx(3 * 2 * clip * np.sqrt(DIM) * sent / scale, rel=1e-5)


@pytest.mark.parametrize("mechanism", [graph_homomorphic(STD, 0.4), per_edge(STD, 0.4), laplace_of_size(STD, 0.4)])
def test_a_step_backwards_is_charged_like_one_forwards(mechanism, data):
    """Steps that fall below 0, as those of a line do in the end, move a model as far as their size says."""
    forwards, backwards = (
        tacit.simulate(adapt_then_combine(OBJECTIVE, step, mechanism), RING, data, rounds=4).privacy.guarantee.epsilon
        for step in (lambda t: jnp.abs(0.2 - 0.1 * t), lambda t: 0.2 - 0.1 * t)
    )
    assert backwards == pytest.approx(forwards, rel=1e-6)


def test_noise_on_the_gradient_composes_in_parallel_in_every_strategy(data):
    for strategy in (consensus, diffusion):
        places = {"within": "peers", "before": "peers"} if strategy is diffusion else {}
        algorithm = strategy(OBJECTIVE, STEP, laplace(2.0, 0.4, perturbs="gradient"), **places)
        run = tacit.simulate(algorithm, RING, data, rounds=4, record_every=4)
        assert run.privacy.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)


def test_what_cannot_be_done_is_refused():
    stream = tacit.streams.logistic_drift(agents=3, dim=DIM, seed=0)
    line = from_edges(3, [0, 1, 1, 2], [1, 0, 2, 1])
    with pytest.raises(RequirementError, match="several_senders.*agent 0 .*agent 1"):
        tacit.simulate(adapt_then_combine(OBJECTIVE, STEP, local_graph_homomorphic(STD)), line, stream, rounds=2)
    deaf = tacit.graphs.complete(3).with_weights((1 - np.eye(3)) / 2)
    with pytest.raises(RequirementError, match="hears_itself.*agent 0 .*weight 0"):
        tacit.simulate(adapt_then_combine(OBJECTIVE, STEP, graph_homomorphic(STD)), deaf, stream, rounds=2)
    algorithm = tacit.algorithms.distributed_online(OBJECTIVE, STEP, mechanism=per_edge(STD))
    with pytest.raises(ConfigError, match="per_edge.*distributed_online.*diffusion"):
        tacit.simulate(algorithm, tacit.graphs.complete(3), stream, rounds=2)
    with pytest.raises(ConfigError, match="no combination"):
        diffusion(OBJECTIVE, STEP)
    with pytest.raises(ConfigError, match="noise_std = -1"):
        per_edge(-1)
    with pytest.raises(ConfigError, match="masks above 32"):
        local_graph_homomorphic(33.0)
    with pytest.raises(ConfigError, match="perron.*positive"):
        graph_homomorphic(STD, perron=[1.0, 0.0])
