"""One set of checks over every algorithm, found by discovery (docs/design.md, "What every algorithm is checked for")."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Collection
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.audit import conformance
from tacit.core.contract import Mechanism
from tacit.core.errors import RequirementError
from tacit.graphs import Channel, Graph, LinkDrop, Periodic, given
from tacit.objectives import Ball, euclidean_ball
from tacit.peer import run_in_process
from tests.contract.cases import (
    AGENTS,
    CASES,
    DIM,
    FORMS,
    OBJECTIVE,
    WITHOUT_NOISE,
    Case,
    build,
    stream,
)
from tests.daily import some

ON_PEERS = [c for c in CASES if isinstance(c.graph, Graph)]
ROUNDS = 24
REGISTERED = list(tacit.algorithms.REGISTRY.values())


def every(cases: list[Case], daily: Collection[str] | None = None):
    """Give all of the cases; but for those named in `daily` to `make test-slow` only, where a list is given."""
    sisters = "a case of every day that shares its code: the method's other form, or its sister (cases.SISTERS)"
    return pytest.mark.parametrize("case", some(cases, sisters, daily=daily), ids=lambda c: c.name)


def simulate(case: Case, **settings):
    return tacit.simulate(case.make(), case.graph, settings.pop("stream", stream()), channel=case.channel, **settings)


@functools.cache
def trial(name: str) -> conformance.Trial:
    """One trial of a case for all checks, which share its run."""
    case = next(c for c in CASES if c.name == name)
    return conformance.Trial(case.make(), case.graph, stream(), case.channel, ROUNDS, 3)


def test_every_method_has_a_case_and_says_what_it_is():
    assert {e.name for e in REGISTERED} <= {c.name for c in CASES}
    assert all(e.summary and e.source and e.title for e in REGISTERED)
    assert len({e.title for e in REGISTERED}) == len(REGISTERED)


SETS = {"radius": 0.25, "mirror": euclidean_ball(0.25)}
"""Parameter -> a value that keeps a method's models in the ball of radius 0.25."""
KEPT_IN_A_SET = [
    (entry.name, parameter)
    for entry in REGISTERED
    for parameter, found in inspect.signature(entry.constructor).parameters.items()
    if parameter in SETS or re.search("MirrorMap|ConvexSet|Projection", str(found.annotation))
]


def test_every_method_that_keeps_to_a_set_is_found():
    assert {name for name, _ in KEPT_IN_A_SET} >= {"distributed_online", "distributed_minibatch", "mirror_descent"}


@pytest.mark.parametrize(("name", "parameter"), KEPT_IN_A_SET)
def test_regret_compares_with_points_of_the_set_that_a_method_keeps_to(name, parameter):
    domain = build(name, **{parameter: SETS[parameter]}).domain
    assert domain is not None
    assert domain.within == Ball(0.25)


DYNAMIC = "dynamic_mirror_descent"
PRECISIONS = {"float64": 1e-10, "float32": 1e-6}
ON_A_GRID = "adapt_then_combine, local_graph_homomorphic"  # whose steps are as large as single precision's tolerance
IN_BOTH = [
    c for c in CASES if (not c.make().privacy.private or c.name.startswith("online_push_sum")) and c.name != ON_A_GRID
]


DAILY_PEERS = (
    "online_push_sum",
    "online_push_sum, laplace on update",
    "online_push_sum, gaussian on model",
    "zcdp_admm, gaussian on gradient",
    "partial_diffusion, lossy",
    ON_A_GRID,
    "centralised_online",
    "distributed_online",
    "distributed_online, renormalised, lossy",
    "distributed_minibatch",
    "constrained_mirror_descent",
    "lagrangian_descent, laplace on update",
    DYNAMIC,
    "personalised_graph_federated",
    "loss_tolerant_push_sum, lossy",
    "fedavg, sampled",
    "pao_fed, there by chance",
)


@every(CASES, DAILY_PEERS)
def test_simulator_equals_peers(case):
    conformance.simulator_equals_peers(trial(case.name), "float64", PRECISIONS["float64"])


@every(IN_BOTH, ["online_push_sum"])
def test_simulator_equals_peers_in_single_precision(case):
    # Multipliers add up every round's rounding error, and a local system's; corrections add them up twice.
    adds_up = case.make().prepare is not None or case.name in ("extra", "exact_diffusion")
    tolerance = PRECISIONS["float32"] * (10 if adds_up else 1)
    conformance.simulator_equals_peers(trial(case.name), "float32", tolerance)


SEND_FIRST = ("consensus", "combine_then_adapt", "zcdp_subgradient")


@every(
    [c for c in ON_PEERS if c.channel.reliable and not c.make().privacy.private and "fixed" not in c.make().requires],
    ["online_push_sum", "diffusion", "distributed_online", "constrained_mirror_descent", "loss_tolerant_push_sum"],
)
def test_what_did_not_arrive_is_invisible(case):
    """Agent 0's data are NaN: after three rounds exactly those have heard of it to whom live links lead from it.

    (A clip takes gradients that are not finite for zero, so that a private method's poison would not spread.)
    """
    mutual = case.make().weights == "metropolis" or "symmetric" in case.make().requires
    graph = case.graph.mutual() if mutual else case.graph
    silent = (graph.senders == 0) & (graph.receivers > 2)
    both = silent | ((graph.receivers == 0) & (graph.senders > 2))
    down = both if mutual else silent
    table = np.stack([~down, ~down, ~down, np.ones_like(down)])
    graph = replace(graph, dynamics=Periodic(table), weights=None)

    def poisoned(start, stop):
        batch = stream().chunk(start, stop)
        x = batch.x.copy()
        x[:, 0] = np.nan
        return batch._replace(x=x)

    data = tacit.streams.from_function(poisoned, agents=AGENTS, rounds=60)
    run = tacit.simulate(case.make(), graph, data, rounds=3)
    links = runtime.prepared_topology(case.make(), graph).links["peers"]
    heard = {0}
    for t in (1, 2, 3):
        live = links.live_at(t)
        heard |= {int(r) for s, r, up in zip(links.senders, links.receivers, live, strict=True) if up and s in heard}
    bad = {int(i) for i in np.flatnonzero(~np.isfinite(run.models[0]).all(axis=-1))}
    assert bad <= heard
    # Who sends before it steps is known by its data one round later.
    assert bad == heard or case.name in SEND_FIRST


@every(
    [c for c in CASES if c.channel.reliable],
    [
        "online_push_sum",
        "online_push_sum, laplace on update",
        "zcdp_admm, gaussian on gradient",
        "diffusion",
        "partial_diffusion",
        "distributed_online",
        "constrained_mirror_descent",
        "loss_tolerant_push_sum, laplace on update",
    ],
)
def test_public_parts_ignore_the_data(case):
    conformance.public_parts_ignore_data(trial(case.name), stream(seed=2))


@pytest.mark.parametrize(
    "entry",
    some(
        REGISTERED,
        "a method that shares its code (cases.SISTERS), and every private form in test_simulator_equals_peers",
        daily=["online_push_sum", "zcdp_admm", "diffusion", "distributed_online", DYNAMIC, "loss_tolerant_push_sum"],
    ),
    ids=lambda e: e.name,
)
def test_zero_noise_equals_no_noise(entry):
    if "mechanism" not in entry.constructor.__code__.co_varnames:
        assert entry.name in WITHOUT_NOISE
        return
    silent = Mechanism("silent", "laplace", lambda view, extent: jnp.float32(0), lambda view, sensitivity: sensitivity)
    if entry.name in FORMS:  # whose other forms than the Euclidean one have no noise on the model
        silent = silent._replace(perturbs="gradient")
    form, _ = FORMS.get(entry.name, ({}, {}))
    plain = trial(entry.name)
    noisy = replace(plain, algorithm=build(entry.name, silent, **form))
    run = noisy.simulated(dtype="float64", record={"models": np.asarray}, record_every=1)
    what_is_recorded_predicts_the_next_round(run)
    np.testing.assert_allclose(run.models, plain.precise.models, rtol=1e-6, atol=5e-7)


def what_is_recorded_predicts_the_next_round(run: tacit.results.Run) -> None:
    """One definition for all methods: after round t, what predicts the data of round t + 1; at last, `run.models`."""
    models = run.recorded["models"][0]
    assert models.shape[:2] == (ROUNDS, AGENTS)
    np.testing.assert_array_equal(models[-1], run.models[0])
    batches = stream().chunk(1, ROUNDS)
    losses = jax.vmap(jax.vmap(OBJECTIVE.loss))(models[:-1], batches)
    np.testing.assert_allclose(np.mean(losses, axis=1), run.per_round["loss"][0, 1:], rtol=1e-4)


LOSSY_RESTARTS = ("loss_tolerant_push_sum, lossy", "pao_fed, there by chance")


@every(
    [
        c
        for c in CASES
        if (not c.make().privacy.private and (c.channel.reliable or c.name in LOSSY_RESTARTS))
        or c.name.startswith("online_push_sum, laplace")
    ],
    ["online_push_sum", "online_push_sum, laplace on update", "distributed_online"],
)
def test_restart_gives_the_same_trajectory(case):
    conformance.restart_goes_on(trial(case.name))


@every(  # without noise, which goes by the agent's number; a sister with members who stay away is of interest
    [c for c in ON_PEERS if c.channel.reliable and not c.make().privacy.private],
    [
        "online_push_sum",
        "zcdp_admm",
        "diffusion",
        ON_A_GRID,
        "distributed_online",
        "constrained_mirror_descent",
        DYNAMIC,
        "loss_tolerant_push_sum",
    ],
)
def test_relabelling_agents_changes_nothing(case):
    conformance.relabelling_changes_nothing(trial(case.name))


def test_repeats_with_the_same_seed_give_the_same_metrics():
    case = CASES[0]
    runs = [simulate(case, rounds=20, repeats=3, seed=7) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].per_round["loss"], runs[1].per_round["loss"])


BREAKS = {
    "reliable": (None, Channel(loss=0.1)),
    "strongly_connected": (tacit.graphs.from_edges(AGENTS, [0, 1], [1, 0]), None),
    "connected_over_time": (tacit.graphs.from_edges(AGENTS, [0, 1], [1, 0]), None),
    "sender_normalised": (tacit.graphs.star(AGENTS).with_weights("receiver"), None),
    "receiver_normalised": (tacit.graphs.star(AGENTS).with_weights("sender"), None),
    "symmetric": (tacit.graphs.directed_ring(AGENTS), None),
    "doubly_stochastic": (tacit.graphs.star(AGENTS).with_weights("sender"), None),
    "fixed": (tacit.graphs.ring(AGENTS).with_dynamics(LinkDrop(0.1, symmetric=True)), None),
    "hears_itself": (tacit.graphs.ring(AGENTS).with_weights(given(np.full(2 * AGENTS, 0.5), np.zeros(AGENTS))), None),
    "several_senders": (tacit.graphs.directed_ring(AGENTS), None),
}


@every(CASES)
def test_a_peer_waits_exactly_where_links_have_to_be_reliable(case):
    algorithm = case.make()
    assert (algorithm.missing == "wait") == ("reliable" in algorithm.requires)


@every(
    [c for c in CASES if c.make().missing == "renormalise" and not c.channel.reliable and "sign" not in c.name],
    ["partial_diffusion, lossy", "distributed_online, renormalised, lossy", "pao_fed, there by chance"],
)
def test_whoever_renormalises_keeps_what_all_agree_on_whatever_is_lost(case):
    entry = tacit.algorithms.REGISTRY[case.name.partition(",")[0]]
    indifferent = tacit.objectives.from_loss(lambda params, batch: 0.0 * jnp.sum(params), jnp.array([3.0, -7.0]))
    if "missing" in entry.constructor.__code__.co_varnames:
        algorithm = entry.constructor(indifferent, step=0.2, missing="renormalise")
    else:  # it always does
        algorithm = entry.example(indifferent, step=0.2)
    peers = run_in_process(algorithm, case.graph, stream(), rounds=ROUNDS, seed=3, channel=Channel(loss=0.6))
    np.testing.assert_allclose(peers.models, np.broadcast_to([3.0, -7.0], peers.models.shape), rtol=1e-5)


@every([c for c in CASES if c.channel.reliable])
def test_a_broken_requirement_is_refused_before_round_0(case):
    algorithm = case.make()
    for requirement in algorithm.requires:
        graph, channel = BREAKS[requirement]
        if graph is not None and algorithm.topology is not None and algorithm.learner == "peer":
            continue  # it makes its own graph, which meets its requirements: seen by every other test here
        if graph is not None and algorithm.learner == "peer":
            graph = graph.with_clusters(np.arange(AGENTS) % 3)
        if graph is not None and algorithm.learner != "peer":
            graph = tacit.graphs.federation(graph, 1, np.arange(AGENTS) % 3)
            if "servers" not in runtime.link_ends(algorithm):  # then on the links that it does use
                broken = {name: links.with_dynamics(LinkDrop(0.1)) for name, links in graph.links.items()}
                graph = replace(graph, links=broken)
        with pytest.raises(RequirementError, match=requirement) as refusal:
            tacit.simulate(algorithm, graph or case.graph, _no_data(), rounds=5, channel=channel)
        assert algorithm.name in str(refusal.value)


def _no_data() -> tacit.streams.Stream:
    """A stream that fails the test if a round is run."""

    def batch(start, stop):
        if start == 0 and stop == 1:  # asked for once, to learn the shapes
            return tacit.streams.Batch(np.zeros((1, AGENTS, DIM), np.float32), np.ones((1, AGENTS), np.float32))
        raise AssertionError("data were read although the run had to be refused")

    return tacit.streams.from_function(batch, agents=AGENTS)
