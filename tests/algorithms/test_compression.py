"""Compressed messages: what is written is what was sent, learning goes on, and what cannot have it is refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tacit
from tacit.algorithms import adapt_then_combine, averaged, choco_sgd, compressed, fedavg, online_push_sum, robust
from tacit.algorithms._compressors import COMPRESSORS
from tacit.algorithms.compression import _KEY
from tacit.audit import conformance
from tacit.config.methods import choose_method, make_method
from tacit.config.sections import Place
from tacit.core.errors import ConfigError, MessageRefused, RequirementError
from tacit.core.packing import EveryFew, Largest, Rounded, Signs, packed_size
from tacit.graphs import Channel, star_roles
from tacit.peer import run_in_process
from tacit.peer.transport.codec import Codec
from tacit.privacy.noise import noise_words
from tacit.privacy.noise.unit_noise import random_words
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, L2 = 6, 40, 24, 0.2, 1e-2
OBJECTIVE = tacit.objectives.logistic(l2=L2)
MUTUAL = tacit.graphs.small_world(AGENTS, 2, 0.3, seed=1)
ONE_WAY = tacit.graphs.random_digraph(AGENTS, 3, seed=5)
ATC = adapt_then_combine(OBJECTIVE, STEP)
IN_ALL_METHODS = pytest.mark.covered_by("contract/test_compressed.py")


@pytest.fixture(scope="module")
def samples():
    return two_classes(5, (ROUNDS, AGENTS), DIM)


@pytest.fixture(scope="module")
def data(samples):
    return stream_of(*samples)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", COMPRESSORS)
def test_what_is_written_is_what_was_rounded(kind, dtype):
    """To the bit, of numbers of all sizes, zeros among them, in blocks that are not full."""
    compressor = COMPRESSORS[kind](**({"block": 16} if kind in ("int8", "int4", "sign") else {}))
    with jax.enable_x64(dtype == "float64"):
        words = noise_words(jax.random.key(0), 1, 0)
        rounded = jax.jit(lambda x: compressor.rounded(x, words, 0))
        for seed in range(6):
            rng = np.random.default_rng(seed)
            x = (rng.standard_normal(77) * 10.0 ** rng.integers(-30, 30, 77)).astype(dtype)
            x[rng.random(77) < 0.2] = 0
            for given in (x, rng.standard_normal(77).astype(dtype), np.zeros(77, dtype)):
                sent = np.asarray(rounded(given))
                content = np.frombuffer(compressor.packing.pack(sent), np.uint8)
                assert content.size == compressor.packing.size(77, sent.itemsize)
                np.testing.assert_array_equal(compressor.packing.unpack(content, 77, sent.dtype), sent)


@pytest.mark.parametrize(("kind", "bits"), [("int8", 8), ("int4", 4)])
def test_rounding_is_within_a_step_and_right_on_average(kind, bits):
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    step = np.abs(x).max() / (2 ** (bits - 1) - 1)
    drawn, nearest = COMPRESSORS[kind](block=64), COMPRESSORS[kind](block=64, stochastic=False)
    rounded = jax.jit(jax.vmap(lambda t: drawn.rounded(x, noise_words(jax.random.key(1), t, 0), 0)))
    many = np.asarray(rounded(np.arange(1, 4001)))
    assert np.abs(many - x).max() <= step * 1.001
    assert np.abs(many.mean(axis=0) - x).max() < 5 * step / 2 / np.sqrt(4000)  # five standard errors, at most
    assert np.abs(np.asarray(nearest.rounded(x, noise_words(jax.random.key(1), 1, 0), 0)) - x).max() <= step / 1.99


def test_what_comes_from_outside_is_checked():
    with pytest.raises(MessageRefused, match="place 77"):
        Largest(0.02).unpack(np.array([1, 0, 77, 0, *[0] * 8], np.uint8), 77, np.dtype(np.float32))
    with pytest.raises(MessageRefused, match="place 9"):
        EveryFew(5).unpack(np.array([9, 0, 0, 0, *[0] * 64], np.uint8), 77, np.dtype(np.float32))
    huge = np.concatenate([np.array([3e38], np.float32).view(np.uint8), np.full(8, 127, np.uint8)])
    assert np.isinf(Rounded(8, 8).unpack(huge, 8, np.dtype(np.float32))).all()  # which the codec refuses
    assert packed_size(Signs(8), 8, np.dtype(np.int32)) is None


def transcribed(samples, gamma, rounded):
    """Koloskova, Stich and Jaggi (2019), Alg. 2, with every neighbour's memory at every agent.

    `rounded` is Q of a difference, and of the agent and the round, of which an operator that draws goes.
    """
    a, y = samples
    W = MUTUAL.with_weights("metropolis").matrix().toarray()
    x, memory = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, AGENTS, DIM))  # [i, j]: what i knows of j
    for t in range(ROUNDS):
        margin = y[t] * np.sum(a[t] * x, axis=-1)
        x = x - STEP * (-(y[t] / (1 + np.exp(margin)))[:, None] * a[t] + L2 * x)
        sent = np.array([rounded(x[i] - memory[i, i], i, t + 1) for i in range(AGENTS)])
        memory = memory + sent[None]
        x = np.array(
            [x[i] + gamma * sum(W[i, j] * (memory[i, j] - memory[i, i]) for j in range(AGENTS)) for i in range(AGENTS)]
        )
    return x


def words_of(agent, t, count):
    """The 32-bit words that an agent draws for a message, which both sides of a comparison have to know."""
    own = jax.random.fold_in(jax.random.key(_KEY), agent)
    return np.asarray(random_words(noise_words(own, t, 0), 0, (count,)))


def every_fifth(v, agent, t):
    place = int(words_of(agent, t, 1)[0]) % 5
    return np.where(np.arange(DIM) % 5 == place, v, 0)


def multiples(bits, block):
    """Whole multiples of a scale, rounded down or up at random; the scale with so many last digits cut off."""

    def rounded(v, agent, t):
        most, rows = 2 ** (bits - 1) - 1, -(-DIM // block)
        padded = np.concatenate([v, np.zeros(rows * block - DIM)]).reshape(rows, block)
        exact = np.abs(padded).max(axis=1, keepdims=True) / most
        scale = (exact.view(np.uint64) >> np.uint64(bits - 1) << np.uint64(bits - 1)).view(np.float64)
        drawn = (words_of(agent, t, padded.size) >> 8).reshape(padded.shape) / 2.0**24
        whole = np.floor(padded / np.where(scale > 0, scale, 1) + drawn)
        return (np.clip(whole, -most, most) * scale).reshape(-1)[:DIM]

    return rounded


def largest(v, agent, t):
    kept = np.argsort(-np.abs(v))[:8]
    return np.where(np.isin(np.arange(DIM), kept), v, 0)


@pytest.mark.parametrize(
    ("operator", "settings", "rounded"),
    [
        ("top_k", {"share": 0.2, "gamma": 0.4}, largest),
        ("sign", {"gamma": 0.2}, lambda v, agent, t: np.mean(np.abs(v)) * np.where(v < 0, -1, 1)),
        ("every_k", {"share": 0.2, "gamma": 0.2}, every_fifth),
        ("int8", {"gamma": 0.9}, multiples(8, 256)),
        ("int4", {"gamma": 0.8}, multiples(4, 64)),
    ],
)
def test_choco_sgd(operator, settings, rounded, samples, data):
    run = tacit.simulate(
        choco_sgd(OBJECTIVE, STEP, operator=operator, **settings), MUTUAL, data, rounds=ROUNDS, dtype="float64"
    )
    np.testing.assert_allclose(run.models[0], transcribed(samples, settings["gamma"], rounded), rtol=1e-8, atol=1e-11)


def test_choco_sgd_comes_as_near_to_the_optimum_as_whole_messages():
    objective = tacit.objectives.logistic(l2=0.1)
    fixed = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, repeat_every=1, heterogeneity=1.0, seed=3)
    best = tacit.metrics.best_fixed(objective, lambda: [fixed.chunk(0, 1)], fixed.batch_spec()).params
    step = lambda t: 2 / (20 + 0.1 * t)  # noqa: E731

    def distance(algorithm):
        run = tacit.simulate(algorithm, tacit.graphs.ring(AGENTS), fixed, rounds=3000, dtype="float64")
        return np.linalg.norm(run.models[0] - best, axis=-1).max() / np.linalg.norm(best)

    whole = distance(adapt_then_combine(objective, step))
    assert distance(choco_sgd(objective, step, operator="top_k", share=0.1)) < 4 * whole < 0.02


@pytest.mark.parametrize(
    ("algorithm", "graph"),
    [
        pytest.param(compressed(ATC, "int4"), MUTUAL, id="shared"),
        pytest.param(compressed(online_push_sum(OBJECTIVE, STEP), "int8", block=16), ONE_WAY, id="pushed"),
        pytest.param(
            compressed(fedavg(OBJECTIVE, STEP, cohort=3), "int8"),
            star_roles(AGENTS),
            id="a server's",
            marks=IN_ALL_METHODS,
        ),
        pytest.param(choco_sgd(OBJECTIVE, STEP, operator="every_k"), MUTUAL, id="differences"),
    ],
)
def test_both_runtimes_compute_the_same_and_count_what_is_written(algorithm, graph, data):
    trial = conformance.Trial(algorithm, graph, data, Channel(), 8, 3)
    conformance.simulator_equals_peers(trial, "float64", 1e-10)
    envelopes = []
    peers = run_in_process(algorithm, graph, data, rounds=8, seed=3, watch=envelopes.append)
    functions = next(iter(peers.machines.values()))[0].functions
    codec = Codec("", functions.specs)
    for envelope in envelopes:
        content = codec.pack(envelope.phase, envelope.message)
        read = codec.unpack(envelope.phase, content)
        for one, other in zip(jax.tree.leaves(envelope.message), jax.tree.leaves(read), strict=True):
            if functions.specs[envelope.phase].delivery == "push":  # multiplied by the sender's weight: twice rounded
                np.testing.assert_allclose(one, other, rtol=3e-7)
            else:
                np.testing.assert_array_equal(one, other)
    written = sum(len(codec.pack(e.phase, e.message)) for e in envelopes)
    run = tacit.simulate(algorithm, graph, data, rounds=8, seed=3)
    assert run.per_round["bits"].sum() == 8 * written


def test_what_rounding_takes_stays_in_the_sum():
    """With steps of next to nothing models keep their mean, shared or pushed, as coarse as messages are."""
    far = lambda agent: np.random.default_rng(agent).standard_normal(DIM)  # noqa: E731
    mean = np.mean([far(agent) for agent in range(AGENTS)], axis=0)
    still = stream_of(np.zeros((1, AGENTS, DIM)), np.ones((1, AGENTS)))
    flat = tacit.objectives.logistic()
    for method, graph in ((adapt_then_combine(flat, 1e-9), MUTUAL), (online_push_sum(flat, 1e-9), ONE_WAY)):
        data = tacit.streams.from_function(lambda start, stop: still.chunk(0, 1), agents=AGENTS)
        result = run_in_process(compressed(method, "int4", block=8), graph, data, rounds=7, dtype="float64", start=far)
        states = [machine.state.state for machine in result.machines["peer"]]
        each = np.array([state.z if hasattr(state, "z") else method.model(state) for state in states])
        np.testing.assert_allclose(each.mean(axis=0), mean, rtol=1e-7, atol=1e-8)  # but for the steps
        assert each.std(axis=0).mean() < 0.5


def test_noise_and_account_are_those_of_the_method(data):
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=0.5)
    plain = adapt_then_combine(OBJECTIVE, STEP, noise)
    runs = [
        tacit.simulate(m, MUTUAL, data, rounds=5) for m in (plain, compressed(plain), choco_sgd(OBJECTIVE, 0.2, noise))
    ]
    assert len({run.privacy.guarantee.epsilon for run in runs}) == 1
    assert all(run.privacy.guarantee.private for run in runs)


def test_it_goes_with_averages_and_rules(data):
    wary = compressed(robust(ATC, "median", liars=1), "int8")
    smooth = averaged(wary, "tail")
    graph = tacit.graphs.complete(AGENTS)
    run = tacit.simulate(smooth, graph, data, rounds=5)
    assert np.isfinite(run.models).all()
    with pytest.raises(ConfigError, match=r"one by one"):
        tacit.simulate(compressed(robust(ATC, "median"), "sign"), graph, data, rounds=1)


def algorithm_of(table):
    return make_method(choose_method({"name": "adapt_then_combine", **table}, Place("a.toml", "algorithm")), OBJECTIVE)


def test_a_file_asks_for_it_by_a_word_or_a_table():
    assert algorithm_of({"compress": "int8"}).name == "adapt_then_combine, compressed (int8)"
    made = algorithm_of({"compress": {"kind": "top_k", "share": 0.05, "gamma": 0.2}, "average": "tail"})
    assert made.name == "adapt_then_combine, compressed (top_k), averaged (tail)"
    for table, word in (
        ({"compress": "int9"}, "int8"),
        ({"compress": {"kind": "int8", "share": 0.5}}, "share"),
        ({"compress": {"kind": "top_k", "gamma": 2.0}}, "gamma"),
        ({"compress": {"kind": "top_k", "memory": False}}, "memory"),
    ):
        with pytest.raises(ConfigError, match=word):
            algorithm_of(table)


def simulated(algorithm, graph=MUTUAL):
    batch = two_classes(0, (2, AGENTS), 8)
    return tacit.simulate(algorithm, graph, stream_of(*batch), rounds=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: compressed(tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE)), "totals"),
        (lambda: simulated(compressed(tacit.algorithms.zcdp_admm(OBJECTIVE))), "one by one"),
        (lambda: compressed(adapt_then_combine(OBJECTIVE, STEP, tacit.privacy.per_edge(0.1, clip=1.0))), "each link"),
        (lambda: compressed(adapt_then_combine(OBJECTIVE, STEP, tacit.privacy.graph_homomorphic(0.1))), "cancels"),
        (lambda: compressed(fedavg(OBJECTIVE), "top_k"), "does not hear"),
        (lambda: compressed(online_push_sum(OBJECTIVE), "top_k"), "splits"),
        (lambda: compressed(ATC, "int2"), "int8"),
        (lambda: compressed(ATC, "top_k", share=1.0), "share"),
        (lambda: compressed(ATC, "int8", block=1), "block"),
        (lambda: compressed(ATC, "int8", gamma=0.5), "gamma"),
        (lambda: compressed(ATC, "sign", share=0.5), "share"),
        (lambda: choco_sgd(OBJECTIVE, operator="int8", share=0.5), "share"),
    ],
)
def test_what_cannot_have_it_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_differences_need_links_and_agents_that_are_always_there():
    changing = MUTUAL.with_dynamics(tacit.graphs.LinkDrop(0.1, symmetric=True))
    with pytest.raises(RequirementError, match="fixed"):
        simulated(compressed(ATC, "top_k"), changing)
    there = tacit.graphs.as_topology(MUTUAL).available("peer", 0.5)
    with pytest.raises(RequirementError, match="away"):
        simulated(compressed(ATC, "top_k"), there)
    assert np.isfinite(simulated(compressed(ATC, "int8"), changing).models).all()
