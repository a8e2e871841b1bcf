"""Lying agents in simulations: what they send, who hears it, and whose figures count."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tacit
from tacit.attacks import ATTACKS
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Delay
from tacit.simulator import inbox
from tests.daily import some

AGENTS, DIM, LIARS = 8, 3, (1, 6)
HONEST = [k for k in range(AGENTS) if k not in LIARS]
OBJECTIVE = tacit.objectives.logistic(l2=1e-3)
GRAPH = tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0)
METHOD = tacit.algorithms.distributed_online(OBJECTIVE, step=0.2)
STEP = 0.2


def stream(seed=0):
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, heterogeneity=0.5, rounds=40, seed=seed)


def simulate(method=METHOD, graph=GRAPH, **settings):
    settings = {"rounds": 4, "dtype": "float64", "progress": False, **settings}
    return tacit.simulate(method, graph, stream(), **settings)


def weights():
    found = np.zeros((AGENTS, AGENTS))
    graph = tacit.runtime.prepared_topology(METHOD, GRAPH).links["peers"]
    edge, own = tacit.graphs.weights.evaluate_exactly(graph.weights, graph.senders, graph.receivers, AGENTS)
    found[graph.receivers, graph.senders] = edge
    np.fill_diagonal(found, own)
    return found


def lie(kind, z, w, receiver, first):
    """What a liar tells a receiver, given all honest messages z, as in the head of `tacit.attacks.kinds`."""
    good = z[HONEST]
    mean = good.mean(axis=0)
    near = [k for k in HONEST if k != receiver and w[receiver, k] > 0]
    drawn = sum((w[receiver, k] * (z[k] - z[receiver]) for k in near), np.zeros(DIM))
    return {
        "sign_flip": lambda own: -own,
        "large_values": lambda own: np.full(DIM, 1e6),
        "a_little_is_enough": lambda own: mean - 1.5 * good.std(axis=0),
        "inner_product": lambda own: -0.5 * mean,
        "dissensus": lambda own: z[receiver] - drawn / sum(w[receiver, k] for k in LIARS if k != receiver),
        "stale_replay": lambda own: first,
        "label_flip": lambda own: own,
    }[kind]


def on_paper(kind, rounds=4):
    """The rounds of all agents, one by one; what a liar hears of itself is honest."""
    w, batch = weights(), stream().chunk(0, rounds)
    x, first = np.zeros((AGENTS, DIM)), {}
    for t in range(rounds):
        y = np.array(batch.y[t], np.float64)
        if kind == "label_flip":
            y[list(LIARS)] *= -1
        with jax.enable_x64(True):
            given = [tacit.streams.Batch(np.float64(batch.x[t, k]), y[k]) for k in range(AGENTS)]
            z = np.array([x[k] - STEP * np.asarray(jax.grad(OBJECTIVE.loss)(x[k], given[k])) for k in range(AGENTS)])
        after = np.zeros_like(x)
        for i in range(AGENTS):
            for j in range(AGENTS):
                heard = z[j]
                if j in LIARS and j != i and w[i, j] > 0:
                    heard = lie(kind, z, w, i, first.get(j, z[j]))(z[j])
                after[i] += w[i, j] * heard
        first = first or dict(enumerate(z))
        x = after
    return x[HONEST]


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_is_what_it_is_on_paper(kind):
    run = simulate(liars=dict.fromkeys(LIARS, ATTACKS[kind]()))
    np.testing.assert_allclose(run.models[0], on_paper(kind), rtol=1e-9)


def test_two_kinds_of_liars_lie_side_by_side():
    both = simulate(rounds=1, liars={1: tacit.attacks.large_values(), 6: tacit.attacks.sign_flip()})
    each = [simulate(rounds=1, liars={1: tacit.attacks.large_values()}), simulate(rounds=1)]
    hears_first = weights()[:, 1] > 0
    assert (np.abs(both.models[0]).max(axis=1) > 1e3).tolist() == hears_first[HONEST].tolist()
    assert [run.models.shape[1] for run in each] == [AGENTS - 1, AGENTS]


def test_all_figures_are_of_the_honest_and_the_run_says_so():
    """Liars that nobody hears change nothing but who is counted."""
    alone = tacit.algorithms.local_online(OBJECTIVE, step=0.2)
    seen = {}
    settings = {"rounds": 12, "record": {"models": lambda m: seen.setdefault(len(m), np.asarray(m))}, "repeats": 2}
    all_, some_ = (
        simulate(alone, **settings),
        simulate(alone, **settings, liars=dict.fromkeys(LIARS, ATTACKS["sign_flip"]())),
    )
    np.testing.assert_allclose(some_.models, all_.models[:, HONEST], rtol=1e-12)
    assert some_.agents == len(HONEST) == some_.streams[0].agents
    assert sorted(seen) == [len(HONEST), AGENTS]
    part = tacit.streams.from_function(
        lambda start, stop: jax.tree.map(lambda leaf: leaf[:, HONEST], stream().chunk(start, stop)),
        agents=len(HONEST), rounds=40,
    )  # fmt: skip
    without = tacit.simulate(alone, tacit.graphs.complete(len(HONEST)), part, rounds=12, dtype="float64", repeats=2)
    for figure in ("loss", "accuracy"):
        np.testing.assert_allclose(some_.per_round[figure], without.per_round[figure], rtol=1e-12)
    np.testing.assert_allclose(some_.recorded["consensus"], without.recorded["consensus"], rtol=1e-12)
    np.testing.assert_allclose(some_.regret().per_agent_round, without.regret().per_agent_round, rtol=1e-6)
    assert "2 of 8 agents lie (sign_flip)" in some_.stream


OTHERS = {
    "push": tacit.algorithms.online_push_sum(OBJECTIVE, step=0.2),
    "per slot": tacit.algorithms.adapt_then_combine(
        OBJECTIVE, step=0.2, mechanism=tacit.privacy.per_edge(0.1, clip=1.0)
    ),
    "lost and late": tacit.algorithms.distributed_online(OBJECTIVE, step=0.2, missing="renormalise"),
}


@pytest.mark.parametrize(
    "kind", some(ATTACKS, "one that keeps, one that knows all", daily=("stale_replay", "dissensus"))
)
@pytest.mark.parametrize("method", OTHERS)
def test_liars_are_heard_however_messages_travel(kind, method):
    channel = Channel(loss=0.2, delay=Delay(p=0.4, longest=2)) if method == "lost and late" else Channel()
    settings = {"channel": channel, "repeats": 2, "rounds": 6}
    honest = simulate(OTHERS[method], **settings).models[:, HONEST]
    run = simulate(OTHERS[method], **settings, liars=dict.fromkeys(LIARS, ATTACKS[kind]()))
    assert np.isfinite(run.models).all()
    assert not np.allclose(run.models, honest)


def test_a_run_with_liars_goes_on_from_its_checkpoint(tmp_path):
    settings = {"liars": dict.fromkeys(LIARS, tacit.attacks.stale_replay(after=2))}
    whole = simulate(rounds=8, **settings)
    simulate(rounds=5, checkpoint=tmp_path / "run.npz", **settings)
    rest = simulate(rounds=8, checkpoint=tmp_path / "run.npz", **settings)
    np.testing.assert_array_equal(rest.models, whole.models)


def test_clients_of_a_server_lie():
    method = tacit.algorithms.fedavg(OBJECTIVE, step=0.2, cohort=5)
    star = tacit.graphs.star_roles(AGENTS)
    lying = {"liars": dict.fromkeys(LIARS, tacit.attacks.large_values())}
    plain = simulate(method, star, rounds=6, **lying)
    wary = simulate(tacit.algorithms.robust(method, "median", liars=2), star, rounds=6, **lying)
    assert np.abs(plain.models).max() > 1e3 > np.abs(wary.models).max()


def test_raw_messages_of_many_agents_are_gathered_in_blocks(monkeypatch):
    """Two agents at a time."""
    wary = tacit.algorithms.robust(OTHERS["lost and late"], "median", liars=1)
    settings = {"graph": tacit.graphs.small_world(AGENTS, 6, 0.3, seed=0), "repeats": 2, "channel": Channel(loss=0.2)}
    whole = simulate(wary, **settings)
    monkeypatch.setattr(inbox, "BLOCK_BYTES", 3 * 2 * 7 * 8 * DIM)
    np.testing.assert_allclose(simulate(wary, **settings).models, whole.models, rtol=1e-12)


@pytest.mark.parametrize(
    ("liars", "named"),
    [
        ({9: tacit.attacks.sign_flip()}, "9"),
        ({-1: tacit.attacks.sign_flip()}, "-1"),
        ({0: "sign_flip"}, "sign_flip"),
        (dict.fromkeys(range(AGENTS), tacit.attacks.sign_flip()), "nobody"),
    ],
)
def test_liars_that_cannot_be_are_refused(liars, named):
    with pytest.raises(ConfigError, match=named):
        simulate(liars=liars)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: tacit.attacks.sign_flip(0.0), "scale"),
        (lambda: tacit.attacks.large_values(np.inf), "size"),
        (lambda: tacit.attacks.stale_replay(0), "after"),
        (lambda: tacit.attacks.label_flip(1), "classes"),
    ],
)
def test_attacks_that_cannot_be_are_refused(make, named):
    with pytest.raises(ConfigError, match=named):
        make()
