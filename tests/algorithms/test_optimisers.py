"""Optimisers as local steps: transcriptions, the plain step as a special case, privacy, absence, refusals."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacit
from tacit.algorithms import REGISTRY
from tacit.algorithms.optimisers import OPTIMISERS
from tacit.config.methods import choose_method, make_method
from tacit.config.sections import Place
from tacit.core.contract import Mechanism
from tacit.core.errors import ConfigError
from tacit.core.lifted import Carrying
from tacit.peer import run_in_process
from tacit.privacy import gaussian, graph_homomorphic
from tests.algorithms.test_references import (
    AGENTS,
    DIM,
    OBJECTIVE,
    ROUNDS,
    batches,
    check,
    dense,
    gradient,
    loss,
)
from tests.contract.cases import FORMS, build, graph_of, stream
from tests.daily import some

RATE, BETA, B1, B2, EPS = 0.1, 0.8, 0.9, 0.99, 1e-6
TAKES_ONE = [
    name
    for name, entry in REGISTRY.items()
    if "LocalStep" in str(inspect.signature(entry.constructor).parameters.get("step", ""))
]
DAILY = ["distributed_minibatch", "mirror_descent", "pao_fed", "combine_then_adapt"]


@pytest.fixture(scope="module")
def data():
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, rounds=ROUNDS, heterogeneity=1.0, seed=4)


def momentum(g, memory, t):
    memory = BETA * memory + g
    return -RATE / np.sqrt(t) * memory, memory


def adam(g, memory, t):
    mean, square = memory
    mean, square = B1 * mean + (1 - B1) * g, B2 * square + (1 - B2) * g**2
    return -RATE * (mean / (1 - B1**t)) / (np.sqrt(square / (1 - B2**t)) + EPS), np.array([mean, square])


RULES = {
    "momentum": (momentum, lambda g: 0 * g, optax.sgd(lambda count: RATE / jnp.sqrt(count + 1.0), BETA)),
    "adam": (adam, lambda g: np.array([0 * g, 0 * g]), optax.adam(RATE, B1, B2, EPS)),
}


@pytest.mark.parametrize("rule", RULES)
def test_push_sum_steps_as_the_equations_of_the_optimiser(data, rule):
    step, first, optimiser = RULES[rule]
    graph = tacit.graphs.random_digraph(AGENTS, 4, seed=2)
    a, y = batches(data)
    W = dense(graph)
    z, m, losses = np.zeros((AGENTS, DIM)), np.ones(AGENTS), []
    memory = [first(np.zeros(DIM)) for _ in range(AGENTS)]
    for t in range(ROUNDS):
        x = z / m[:, None]
        losses.append(np.mean([loss(x[i], a[t, i], y[t, i]) for i in range(AGENTS)]))
        half = z.copy()
        for i in range(AGENTS):
            move, memory[i] = step(gradient(x[i], a[t, i], y[t, i]), memory[i], t + 1)
            half[i] += move
        z, m = W @ half, W @ m
    check(tacit.algorithms.online_push_sum(OBJECTIVE, optimiser), graph, data, z / m[:, None], losses)


def test_methods_that_take_an_optimiser_are_those_of_the_plain_step():
    assert set(TAKES_ONE) >= {"online_push_sum", "distributed_online", "adapt_then_combine", "fedavg", "local_online"}
    assert not {"zcdp_admm", "sign_sgd", "private_admm"} & set(TAKES_ONE)


@pytest.mark.parametrize("name", some(TAKES_ONE, "a method whose step is made by the same function", daily=DAILY))
def test_the_plain_step_is_a_special_case(name):
    form, _ = FORMS.get(name, ({}, {}))
    plain, stepped = build(name, **form), build(name, step=optax.sgd(0.2), **form)
    graph = graph_of(plain)
    runs = [tacit.simulate(method, graph, stream(), rounds=6, seed=3) for method in (plain, stepped)]
    np.testing.assert_allclose(runs[1].models, runs[0].models, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", some(["online_push_sum", "fedavg"], "push-sum", daily=["online_push_sum"]))
def test_peers_do_as_the_simulator(name):
    settings = {"cohort": 3, "local_steps": 2} if name == "fedavg" else {}
    noise = gaussian(noise_multiplier=0.5, clip=1.0, perturbs="gradient")
    method = build(name, noise, step=optax.adam(0.1), **settings)
    run = tacit.simulate(method, graph_of(method), stream(), rounds=8, seed=3, dtype="float64")
    peers = run_in_process(method, graph_of(method), stream(), rounds=8, seed=3, dtype="float64")
    np.testing.assert_allclose(run.models[0][: len(peers.models[-1])], peers.models[-1], rtol=1e-9, atol=1e-12)
    assert isinstance(peers.machines[method.learner][0].state, Carrying)


def test_without_an_optimiser_no_state_has_a_leaf_more():
    method = build("online_push_sum")
    peers = run_in_process(method, graph_of(method), stream(), rounds=1)
    assert [leaf.shape for leaf in jax.tree.leaves(peers.machines["peer"][0].state)] == [(8,), ()]


def test_an_account_is_that_of_the_plain_step():
    noise = gaussian(noise_multiplier=0.5, clip=1.0, perturbs="gradient")
    runs = [
        tacit.simulate(
            build("online_push_sum", noise, step=step), graph_of(build("online_push_sum")), stream(), rounds=8
        )
        for step in (0.2, optax.adam(0.2))
    ]
    assert runs[0].privacy.summary() == runs[1].privacy.summary()
    assert runs[0].privacy.summary()["private"]


def test_zero_noise_with_several_local_steps_is_no_noise():
    silent = Mechanism("silent", "laplace", lambda view, extent: np.float32(0), lambda view, s: s, perturbs="gradient")
    runs = []
    for mechanism in (None, silent):
        method = build("fedavg", mechanism, step=optax.adam(0.1), cohort=3, local_steps=3)
        runs.append(tacit.simulate(method, graph_of(method), stream(), rounds=8, seed=1).models)
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-6)


def test_without_data_an_agent_takes_no_step_and_its_memory_stays():
    x = np.random.default_rng(0).normal(size=(12, 1, DIM)).astype(np.float32)
    weight = np.array([1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1], np.float32)[:, None]
    batch = tacit.streams.Batch(x, np.ones((12, 1), np.float32), weight)

    def learnt(rows):
        part = jax.tree.map(lambda leaf: leaf[rows], batch)
        data = tacit.streams.from_function(
            lambda start, stop: jax.tree.map(lambda leaf: leaf[start:stop], part), agents=1, rounds=len(part.y)
        )
        method = tacit.algorithms.local_online(OBJECTIVE, optax.adam(0.1))
        return tacit.simulate(method, tacit.graphs.complete(1), data, rounds=len(part.y)).models

    np.testing.assert_allclose(learnt(slice(None)), learnt(weight[:, 0] > 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "mechanism", "word"),
    [
        ("online_push_sum", gaussian(noise_multiplier=1.0, clip=1.0), "perturbs='gradient'"),
        ("adapt_then_combine", gaussian(noise_multiplier=1.0, clip=1.0, perturbs="model"), "perturbs='gradient'"),
        ("adapt_then_combine", graph_homomorphic(0.1, clip=1.0), "perturbs='gradient'"),
        ("sign_sgd", None, "step"),
        ("zcdp_admm", None, "step"),
    ],
)
def test_what_an_optimiser_cannot_do_is_refused(name, mechanism, word):
    with pytest.raises(ConfigError, match=word):
        build(name, mechanism, step=optax.adam(0.1))


def test_accumulated_gradients_step_by_their_mean():
    """Three rounds of a batch of one, and one step, are one round of a batch of three."""
    batch = stream().chunk(0, 6)
    alone = jax.tree.map(lambda leaf: leaf[:, :1], batch)
    three = jax.tree.map(lambda leaf: leaf[:, 0].reshape(2, 1, 3, *leaf.shape[2:]), batch)

    def learnt(part, step):
        rounds = len(part.y)
        data = tacit.streams.from_function(
            lambda start, stop: jax.tree.map(lambda leaf: leaf[start:stop], part), agents=1, rounds=rounds
        )
        method = tacit.algorithms.local_online(OBJECTIVE, step)
        return tacit.simulate(method, tacit.graphs.complete(1), data, rounds=rounds).models

    found = learnt(alone, optax.MultiSteps(optax.adam(0.1), 3))
    np.testing.assert_allclose(found, learnt(three, optax.adam(0.1)), rtol=1e-4, atol=1e-6)


TABLE = Place("job.toml", "[algorithm]")


def test_a_file_asks_for_an_optimiser_by_a_table():
    rate = {"schedule": "inverse_sqrt", "scale": 0.1}
    asked = {"name": "local_online", "optimiser": {"kind": "adam", "rate": rate, "clip_norm": 0.5}}
    choice = choose_method(asked, TABLE)
    described = choice.settings("name")
    assert described["optimiser"] == {**asked["optimiser"], "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert "step" not in described
    by_hand = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(lambda count: 0.1 / jnp.sqrt(count + 1.0)))
    methods = [make_method(choice, OBJECTIVE), tacit.algorithms.local_online(OBJECTIVE, by_hand)]
    runs = [tacit.simulate(each, tacit.graphs.ring(9), stream(), rounds=6).models for each in methods]
    np.testing.assert_allclose(*runs, rtol=1e-5)


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_every_kind_is_that_of_optax(kind):
    params, gradient = jnp.ones(3), jnp.array([0.5, -1.0, 2.0])
    rate = {"rate": 0.1} if kind != "sgd" else {"rate": 0.1, "momentum": 0.9}
    ours, theirs = OPTIMISERS[kind](**rate), getattr(optax, kind)(*rate.values())
    found = [each.update(gradient, each.init(params), params)[0] for each in (ours, theirs)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"name": "zcdp_admm", "optimiser": {"kind": "adam", "rate": 0.1}}, "zcdp_admm"),
        ({"name": "fedavg", "step": 0.1, "optimiser": {"kind": "adam", "rate": 0.1}}, "remove step"),
        ({"name": "fedavg", "optimiser": {"kind": "adm", "rate": 0.1}}, "'adam'"),
        ({"name": "fedavg", "optimiser": {"kind": "adam"}}, "rate"),
        ({"name": "fedavg", "optimiser": {"kind": "adam", "rate": -1.0}}, "rate"),
        ({"name": "fedavg", "optimiser": {"kind": "sgd", "rate": 0.1, "momentum": 1.0}}, "momentum"),
        ({"name": "fedavg", "optimiser": {"kind": "adam", "rate": 0.1, "clip_norm": 0.0}}, "clip_norm"),
    ],
)
def test_a_faulty_table_is_refused_in_the_words_of_the_file(settings, word):
    with pytest.raises(ConfigError, match=word) as refusal:
        choose_method(settings, TABLE)
    assert "job.toml" in str(refusal.value)
