"""Liars with what a real peer knows: machines in memory, of which the liars alone have the lying method."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.attacks import ATTACKS
from tacit.attacks.crew import labels_of
from tacit.attacks.parts import relabelled
from tacit.core.errors import ConfigError
from tacit.deploy.rehearsal import lying_plan, plans
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.sources.batches import in_precision

AGENTS, DIM, LIARS, ROUNDS, STEP = 8, 3, (1, 3), 4, 0.2
HONEST = [k for k in range(AGENTS) if k not in LIARS]
OBJECTIVE = tacit.objectives.logistic(l2=1e-3)
GRAPH = tacit.graphs.small_world(AGENTS, 4, 0.0, seed=0)
"""A ring in which each hears the two next on both sides: liars hear each other, and 3 of the 6 honest ones."""
METHOD = tacit.algorithms.distributed_online(OBJECTIVE, step=STEP)
STREAM = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, heterogeneity=0.5, rounds=ROUNDS, seed=0)
COMPILED = {}
"""Honest method -> its functions."""


def functions(plan):
    specs = runtime.settle(plan.algorithm, plan.params, plan.batch, plan.role_views)
    return AgentFunctions(plan.algorithm, specs)


def models(method, kind, noted=None):
    """Return the models of all peers after the last round; `noted` gets (round, sender, receiver) -> message."""
    attack = ATTACKS[kind]()
    made = plans(method, GRAPH, STREAM, job="ab" * 32, dtype="float64")
    data = relabelled(STREAM, labels_of(dict.fromkeys(LIARS, attack)))
    with jax.enable_x64(True):
        honest = COMPILED.setdefault(method.name, functions(made[0]))
        false = functions(lying_plan(made[0], attack, LIARS))
        machines = [
            RoundMachine(false if k in LIARS else honest, "peer", k, plan.key, plan.params, plan.views(0))
            for k, plan in enumerate(made)
        ]
        for t in range(1, ROUNDS + 1):
            batch = data.chunk(t - 1, t)
            sent = []
            for k, machine in enumerate(machines):
                own = jax.tree.map(lambda leaf, k=k: in_precision(leaf[0, k], "float64"), batch)
                sent += machine.begin(own, made[k].views(t))
            if noted is not None:
                noted |= {(each.round, each.sender, each.receiver): each.message for each in sent}
            for envelope in sent:
                machines[envelope.receiver].receive(envelope)
            for machine in machines:
                machine.proceed()
        return np.array([machine.model for machine in machines])


def weights():
    found = np.zeros((AGENTS, AGENTS))
    graph = runtime.prepared_topology(METHOD, GRAPH).links["peers"]
    edge, own = tacit.graphs.weights.evaluate_exactly(graph.weights, graph.senders, graph.receivers, AGENTS)
    found[graph.receivers, graph.senders] = edge
    np.fill_diagonal(found, own)
    return found


def lie(kind, mine, first, before, liar, receiver, near):
    """What a liar tells a receiver: `before` are the messages of the round before, None in the first."""
    known = [k for k in HONEST if k in near]
    good = mine[None] if before is None else before[known]
    mean = good.mean(axis=0)
    own = before[receiver] if before is not None and receiver in known else mean
    pull = (good - own).sum(axis=0) / (1 + sum(k in near for k in LIARS if k != liar))
    return {
        "sign_flip": -mine,
        "large_values": np.full(DIM, 1e6),
        "a_little_is_enough": mean - 1.5 * good.std(axis=0),
        "inner_product": -0.5 * mean,
        "dissensus": own - pull,
        "stale_replay": first,
        "label_flip": mine,
    }[kind]


def on_paper(kind):
    w, batch = weights(), STREAM.chunk(0, ROUNDS)
    x, first, before = np.zeros((AGENTS, DIM)), None, None
    for t in range(ROUNDS):
        y = np.array(batch.y[t], np.float64)
        if kind == "label_flip":
            y[list(LIARS)] *= -1
        with jax.enable_x64(True):
            given = [tacit.streams.Batch(np.float64(batch.x[t, k]), y[k]) for k in range(AGENTS)]
            z = np.array([x[k] - STEP * np.asarray(jax.grad(OBJECTIVE.loss)(x[k], given[k])) for k in range(AGENTS)])
        first = z if first is None else first
        x = np.zeros_like(x)
        for i in range(AGENTS):
            for j in np.flatnonzero(w[i]):
                near = set(np.flatnonzero(w[j])) - {j}
                false = j in LIARS and j != i
                x[i] += w[i, j] * (lie(kind, z[j], first[j], before, j, i, near) if false else z[j])
        before = z
    return x


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_lying_peer_among_honest_ones_is_what_it_is_on_paper(kind):
    np.testing.assert_allclose(models(METHOD, kind), on_paper(kind), rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "kind"),
    [(METHOD, "sign_flip"), (tacit.algorithms.online_push_sum(OBJECTIVE, step=STEP), "stale_replay")],
)
def test_who_needs_to_hear_nobody_lies_as_in_the_simulator(method, kind):
    """With weights of the receiver, and of the sender."""
    liars = dict.fromkeys(LIARS, ATTACKS[kind]())
    run = tacit.simulate(method, GRAPH, STREAM, rounds=ROUNDS, dtype="float64", liars=liars, progress=False)
    np.testing.assert_allclose(models(method, kind)[HONEST], run.models[0], rtol=1e-9)


def test_a_sender_that_splits_lies_about_the_whole_that_others_split():
    """In round 2 of push-sum, by what the liar was sent in round 1: values and masses, a fifth of each."""
    sent = {}
    models(tacit.algorithms.online_push_sum(OBJECTIVE, step=STEP), "inner_product", sent)
    near = [k for k in HONEST if (1, k, LIARS[0]) in sent]
    assert len(near) == 3
    for part in ("private", "public"):
        heard, told = ([*jax.tree.leaves(getattr(sent[of], part))] for of in ((1, near[0], 1), (2, 1, near[0])))
        assert [leaf.shape for leaf in heard] == [leaf.shape for leaf in told] != []
        for number, leaf in enumerate(told):
            parts = [jax.tree.leaves(getattr(sent[1, k, LIARS[0]], part))[number] for k in near]
            np.testing.assert_allclose(leaf, 0.2 * -0.5 * np.mean([5 * value for value in parts], axis=0), rtol=1e-9)


def test_what_a_real_liar_cannot_do_is_refused():
    stream = tacit.streams.logistic_drift(agents=4, dim=2, rounds=2)
    served = plans(tacit.algorithms.fedavg(OBJECTIVE), tacit.graphs.star(4), stream, job="ab" * 32)
    with pytest.raises(ConfigError, match="inner_product"):
        lying_plan(served[0], ATTACKS["inner_product"](), [1])
    lying_plan(served[0], ATTACKS["sign_flip"](), [1])
    assert lying_plan(served[0], ATTACKS["label_flip"](), [1]).algorithm is served[0].algorithm


def test_of_whole_numbers_and_of_noise_that_cancels_there_is_no_lie():
    from tacit.attacks.lying import Sent, lying
    from tacit.core.contract import Message

    counts = Sent(Message(jax.ShapeDtypeStruct((3,), jnp.int32), ()), "share")
    with pytest.raises(ConfigError, match="label_flip"):
        lying(METHOD, [counts], ATTACKS["sign_flip"](), [1])
    cancelling = tacit.algorithms.adapt_then_combine(OBJECTIVE, mechanism=tacit.privacy.graph_homomorphic(0.1))
    with pytest.raises(ConfigError, match="label_flip"):
        lying_plan(plans(cancelling, GRAPH, STREAM, job="ab" * 32)[0], ATTACKS["sign_flip"](), [1])
