"""Several local steps and epochs in a round: equations, every record once in an epoch, sensitivity, both runtimes."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacit
from tacit.algorithms._parts.local_steps import local_work
from tacit.core.contract import Extent, unprotected
from tacit.core.errors import ConfigError
from tacit.peer import run_in_process
from tacit.runtime import empty_links, make_view
from tacit.streams import Batch
from tests.algorithms.given import stream_of, two_classes

AGENTS, DIM, ROUNDS, STEP, L2, RECORDS, LOCAL = 5, 3, 6, 0.4, 1e-2, 4, 3
OBJECTIVE = tacit.objectives.logistic(l2=L2)
GRAPH = tacit.graphs.ring(AGENTS)
ON_GRAPHS = ("adapt_then_combine", "combine_then_adapt", "consensus", "online_push_sum")
FEDERATED = ("fedavg", "fedprox", "scaffold", "fedavgm", "fedadam", "graph_federated")


@pytest.fixture(scope="module")
def samples():
    return two_classes(7, (ROUNDS, AGENTS, RECORDS), DIM)


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(35, DIM)).astype(np.float32)
    parts = np.split(np.arange(35), [9, 16, 22, 30])
    return tacit.streams.whole(x, np.sign(x[:, 0]), parts), parts


def mean_gradient(x, a, y):
    """The mean of the gradients on the way of an agent's local steps, each by a part of the step."""
    found, at = [], x
    for _ in range(LOCAL):
        margin = y * (a @ at)
        found.append(np.mean(-(y / (1 + np.exp(margin)))[:, None] * a, axis=0) + L2 * at)
        at = at - STEP / LOCAL * found[-1]
    return np.mean(found, axis=0)


def stepped(x, samples, t):
    a, y = samples
    return np.array([x[i] - STEP * mean_gradient(x[i], a[t, i], y[t, i]) for i in range(AGENTS)])


@pytest.mark.parametrize("name", ON_GRAPHS)
def test_local_steps_on_a_graph_are_those_of_the_equations(name, samples):
    graph = GRAPH.with_weights("sender" if name == "online_push_sum" else "metropolis")
    W, x = graph.matrix().toarray(), np.zeros((AGENTS, DIM))
    for t in range(ROUNDS):
        if name == "consensus":
            x = W @ x + (stepped(x, samples, t) - x)
        elif name == "combine_then_adapt":
            x = stepped(W @ x, samples, t)
        else:  # the mass of push-sum stays 1 on a ring
            x = W @ stepped(x, samples, t)
    method = getattr(tacit.algorithms, name)(OBJECTIVE, STEP, local_steps=LOCAL)
    run = tacit.simulate(method, graph, stream_of(*samples), rounds=ROUNDS, dtype="float64")
    np.testing.assert_allclose(run.models[0], x, rtol=1e-9, atol=1e-12)


def view_of(size):
    links = empty_links((1,), jnp.dtype("float32"))
    return make_view(agent=0, round=1, out=links, into=links, data_size=jnp.int32(size))


@pytest.mark.parametrize("held", [1, 4, 7, 10])
def test_an_epoch_reads_every_record_once(held):
    work = local_work(1, 4, 2)
    batch, view = Batch(jnp.arange(10.0)[:, None], jnp.ones(10)), view_of(held)
    steps, parts = int(work.own(batch, view)), -(-held // 4)
    assert steps == 2 * parts <= work.most(batch)
    orders = []
    for epoch in range(2):
        read = []
        for e in range(epoch * parts, (epoch + 1) * parts):
            rows = work.drawn(jax.random.key(5), jnp.int32(e), batch, view)
            there = np.asarray(rows.weight) > 0
            assert there.sum() == int(work.records(jnp.int32(e), batch, view))
            read += np.asarray(rows.x)[there, 0].tolist()
        assert sorted(read) == list(range(held))
        orders.append(read)
    assert held < 7 or orders[0] != orders[1]


@pytest.mark.parametrize("name", ["adapt_then_combine", "fedprox"])
def test_epochs_in_one_part_are_local_steps_on_everything(name, whole):
    stream, _ = whole
    graph = GRAPH if name in ON_GRAPHS else tacit.graphs.star_roles(AGENTS)
    make = getattr(tacit.algorithms, name)
    runs = [
        tacit.simulate(make(OBJECTIVE, STEP, **asked), graph, stream, rounds=4).models
        for asked in ({"local_steps": 3}, {"local_epochs": 3, "batch_size": 10})
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-5, atol=1e-6)


def test_epochs_are_no_draws(whole):
    """A model of means: after one epoch in parts of one record each has pulled equally, whatever the order."""
    stream, parts = whole
    linear = tacit.objectives.from_loss(lambda w, b: jnp.mean(b.x @ w, axis=-1), initial=jnp.zeros(DIM), batched=True)
    method = tacit.algorithms.adapt_then_combine(linear, STEP, local_epochs=1, batch_size=1)
    run = tacit.simulate(method, tacit.graphs.complete(AGENTS), stream, rounds=1)
    means = np.mean([np.asarray(stream.chunk(0, 1).x)[0, k, : len(p)].mean(axis=0) for k, p in enumerate(parts)], 0)
    np.testing.assert_allclose(run.models[0][0], -STEP * means, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("asked", [{"local_steps": 2}, {"local_epochs": 1, "batch_size": 2}])
def test_a_release_is_booked_for_all_that_a_record_can_change(asked, samples):
    """One release a round, of a mean of clipped means: a record moves it by up to 2 C, whoever else is in the batch."""
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0, perturbs="gradient")
    method = tacit.algorithms.adapt_then_combine(OBJECTIVE, STEP, noise, **asked)
    plain = tacit.algorithms.adapt_then_combine(OBJECTIVE, STEP, noise)
    extent, view = Extent(DIM, RECORDS), view_of(0)
    declared = [float(m.phases[0].mechanism.noise(view, extent).sensitivity) for m in (method, plain)]
    np.testing.assert_allclose(declared, [2.0, 2.0 / RECORDS])

    # Eight records that cancel where the way begins, and pull it back wherever the ninth has moved it.
    others, many = 1e3 * jnp.ones((8, DIM)), 9
    y = jnp.asarray([1.0] + [1.0, -1.0] * 4)
    quiet = unprotected._replace(clip=noise.clip, perturbs="gradient")
    steps = {**asked, "batch_size": 5} if "local_epochs" in asked else asked
    compute = jax.jit(tacit.algorithms.adapt_then_combine(OBJECTIVE, 5.0, quiet, **steps).phases[0].compute)
    state = method.init["peer"](jax.random.key(0), jnp.zeros(DIM), {"peers": view})
    moved = []
    for seed in range(10):
        pair = [Batch(jnp.concatenate([sign * others[:1], others]), y) for sign in (1, -1)]
        one, other = (compute(jax.random.key(seed), state, batch, view)[1] for batch in pair)
        moved.append(float(jnp.linalg.norm(one - other)))
    assert 2.0 / many + 0.01 < max(moved) <= 2.0  # the bound of one step would not hold

    run = tacit.simulate(method, GRAPH, stream_of(*samples), rounds=ROUNDS)
    assert run.privacy.summary()["private"]


@pytest.mark.parametrize("name", ["adapt_then_combine", "online_push_sum"])
def test_peers_do_as_the_simulator(name, whole):
    noise = tacit.privacy.gaussian(noise_multiplier=0.2, clip=1.0, perturbs="gradient")
    make = getattr(tacit.algorithms, name)
    method = make(OBJECTIVE, optax.adam(0.1), noise, local_epochs=1, batch_size=4)
    run = tacit.simulate(method, GRAPH, whole[0], rounds=4, seed=3, dtype="float64")
    peers = run_in_process(method, GRAPH, whole[0], rounds=4, seed=3, dtype="float64")
    np.testing.assert_allclose(run.models[0], peers.models[-1], rtol=1e-9, atol=1e-12)


def test_an_optimiser_goes_on_in_local_steps_from_its_memory(samples):
    """With plain steps as the optimiser nothing changes; with momentum the second round's local way does."""
    runs = {
        name: tacit.simulate(
            tacit.algorithms.online_push_sum(OBJECTIVE, step, local_steps=LOCAL), GRAPH, stream_of(*samples), rounds=2
        ).models
        for name, step in (("number", STEP), ("sgd", optax.sgd(STEP)), ("momentum", optax.sgd(STEP, momentum=0.9)))
    }
    np.testing.assert_allclose(runs["number"], runs["sgd"], rtol=1e-5, atol=1e-6)
    assert np.abs(runs["number"] - runs["momentum"]).max() > 1e-3


def test_records_that_are_absent_stay_so():
    batch = Batch(jnp.ones((4, DIM)), jnp.ones(4), jnp.asarray([1.0, 1.0, 0.0, 0.0]))
    rows = local_work(1, 4).drawn(jax.random.key(0), jnp.int32(0), batch, view_of(0))
    assert float(rows.weight.sum()) == 2


@pytest.mark.parametrize("name", [*ON_GRAPHS, *FEDERATED])
def test_epochs_need_a_batch_size(name):
    make = getattr(tacit.algorithms, name)
    cohort = {"cohort": 2} if name in ("fedavg", "graph_federated") else {}
    with pytest.raises(ConfigError, match="batch_size"):
        make(OBJECTIVE, STEP, local_epochs=2, **cohort)
    usual = inspect.signature(make).parameters["local_steps"].default
    with pytest.raises(ConfigError, match="local_steps"):
        make(OBJECTIVE, STEP, local_epochs=2, batch_size=2, local_steps=usual + 1, **cohort)
