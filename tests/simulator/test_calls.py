"""Cohorts that are run by themselves: the same trajectory as running everybody, and who is evaluated and charged."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import share
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Graph, LinkDrop, Topology, federation, ring, star_roles
from tacit.privacy import laplace
from tacit.simulator import cohorts, simulate
from tests.contract import on_paper
from tests.daily import some

CLIENTS, COHORT, ROUNDS = 12, 3, 15
OBJECTIVE = tacit.objectives.logistic(l2=1e-2)


@pytest.fixture(scope="module")
def stream():
    return tacit.streams.logistic_drift(agents=CLIENTS, dim=3, heterogeneity=0.5, rounds=ROUNDS, seed=1)


def run_everybody(monkeypatch):
    monkeypatch.setattr(cohorts.Cohorts, "calls", lambda self, index: False)


def watched(monkeypatch):
    """List (phase, whether it calls) as the engine asks."""
    asked = {}
    ask = cohorts.Cohorts.calls
    monkeypatch.setattr(cohorts.Cohorts, "calls", lambda self, index: asked.setdefault(index, ask(self, index)))
    return asked


def named_twice(algorithm):
    """The same method, whose server puts each of those whom it calls on its list again, and nobody's slot as well."""
    call, answer = algorithm.phases

    def send(state, released, view):
        state, outbox = call.emit(state, released, view)
        return state, share(released, to=jnp.concatenate([outbox.to, outbox.to[:2], jnp.array([-1, 0])]))

    return algorithm._replace(phases=(call._replace(emit=send), answer))


CASES = {
    "one server": (
        lambda: tacit.algorithms.fedavg(OBJECTIVE, 0.3, cohort=COHORT, local_steps=2),
        star_roles(CLIENTS),
    ),
    "servers on a ring": (
        lambda: tacit.algorithms.graph_federated(OBJECTIVE, 0.3, cohort=2, local_steps=[1, 2] * 6),
        federation(ring(3), CLIENTS // 3),
    ),
    "written down elsewhere, and named twice": (
        lambda: named_twice(on_paper.sampled_fedavg(OBJECTIVE, 0.3, COHORT, CLIENTS)),
        star_roles(CLIENTS),
    ),
}


@pytest.mark.parametrize("case", some(CASES, "the method that was written down elsewhere", daily=list(CASES)[2:]))
def test_the_same_as_running_everybody(case, stream, monkeypatch):
    make, topology = CASES[case]
    asked = watched(monkeypatch)
    cohort = simulate(make(), topology, stream, rounds=ROUNDS, repeats=2, dtype="float64")
    assert asked[0]
    run_everybody(monkeypatch)
    everybody = simulate(make(), topology, stream, rounds=ROUNDS, repeats=2, dtype="float64")
    np.testing.assert_allclose(cohort.models, everybody.models, rtol=1e-12)
    np.testing.assert_allclose(cohort.per_round["loss"], everybody.per_round["loss"], rtol=1e-12)
    np.testing.assert_array_equal(cohort.per_round["messages"], everybody.per_round["messages"])
    servers = topology.roles["server"]
    size = 2 * servers if servers > 1 else COHORT
    np.testing.assert_array_equal(cohort.per_round["messages"].min(axis=0) >= 2 * size, True)


def test_losses_of_the_cohort_are_means_over_those_who_were_called(stream):
    algorithm = tacit.algorithms.fedavg(OBJECTIVE, 0.3, cohort=CLIENTS)  # all of them: then both agree
    one, two = (
        simulate(algorithm, star_roles(CLIENTS), stream, rounds=ROUNDS, dtype="float64", evaluate=who)
        for who in ("cohort", "everyone")
    )
    for name in one.per_round:
        np.testing.assert_allclose(one.per_round[name], two.per_round[name], rtol=1e-12)
    few = tacit.algorithms.fedavg(OBJECTIVE, 0.3, cohort=COHORT)
    part = simulate(few, star_roles(CLIENTS), stream, rounds=ROUNDS, dtype="float64", evaluate="cohort")
    whole = simulate(few, star_roles(CLIENTS), stream, rounds=ROUNDS, dtype="float64")
    assert not np.allclose(part.per_round["loss"], whole.per_round["loss"])
    assert part.per_round["loss"][0, 0] == pytest.approx(np.log(2))  # all start at 0
    np.testing.assert_array_equal(part.models, whole.models)
    for ask in (part.regret, part.dynamic_regret):
        with pytest.raises(ConfigError, match="cohort.*everyone"):
            ask()


def test_whoever_is_not_called_is_not_charged(stream):
    algorithm = tacit.algorithms.fedavg(OBJECTIVE, 0.3, laplace(0.5, 1.0), cohort=COHORT)
    data = stream.chunk(0, 1)
    fixed = tacit.streams.from_function(
        lambda start, stop: jax.tree.map(lambda leaf: np.repeat(leaf, stop - start, axis=0), data),
        agents=CLIENTS,
        period=1,
        data_size=1,
    )
    run = simulate(algorithm, star_roles(CLIENTS), fixed, rounds=60)
    assert 60 * COHORT / CLIENTS <= run.privacy.reads < 60  # the most that anybody was called
    assert run.privacy.guarantee.epsilon == pytest.approx(0.5 * run.privacy.reads)


@pytest.mark.parametrize(
    "why",
    some(
        ["links come and go", "a lossy channel", "two servers"], "links that come and go", daily=["links come and go"]
    ),
)
def test_where_cohorts_cannot_be_run_by_themselves_everybody_is(why, stream, monkeypatch):
    star = star_roles(CLIENTS)
    topology, channel = star, None
    if why == "links come and go":
        topology = Topology(star.roles, {k: g.with_dynamics(LinkDrop(0.2)) for k, g in star.links.items()})
    elif why == "a lossy channel":
        channel = Channel(loss=0.2)
    else:
        clients, server = np.arange(CLIENTS), np.zeros(CLIENTS, int)
        up = Graph.from_edges(2, [*clients, 0], [*server, 1], sources=CLIENTS)
        down = Graph.from_edges(CLIENTS, [*server, 1], [*clients, 0], sources=2)
        topology = Topology({"client": CLIENTS, "server": 2}, {"uplink": up, "downlink": down})
    asked = watched(monkeypatch)
    algorithm = tacit.algorithms.fedavg(OBJECTIVE, 0.3, missing="renormalise", cohort=COHORT)
    run = simulate(algorithm, topology, stream, rounds=ROUNDS, channel=channel)
    assert not asked[0]
    assert np.isfinite(run.per_round["loss"]).all()
    with pytest.raises(ConfigError, match="evaluate is 'cohort'"):
        simulate(algorithm, topology, stream, rounds=ROUNDS, channel=channel, evaluate="cohort")


def test_an_agent_that_a_call_did_not_reach_keeps_its_state(stream, monkeypatch):
    """Whatever its absorb would make of an empty inbox."""

    def forgetting(algorithm):
        call, answer = algorithm.phases

        def download(key, state, inbox, view):
            return jax.tree.map(lambda new, old: jnp.where(jnp.any(inbox.arrived), new, 0 * old + 7), *
                                (inbox.mean().private, state))  # fmt: skip

        return algorithm._replace(
            phases=(call._replace(absorb=download), answer),
            model=lambda state: state,
            predictor="client",
        )

    make = lambda: forgetting(tacit.algorithms.fedavg(OBJECTIVE, 0.3, cohort=COHORT))  # noqa: E731
    cohort = simulate(make(), star_roles(CLIENTS), stream, rounds=3, dtype="float64")
    peers = tacit.peer.run_in_process(make(), star_roles(CLIENTS), stream, rounds=3, dtype="float64")
    run_everybody(monkeypatch)
    everybody = simulate(make(), star_roles(CLIENTS), stream, rounds=3, dtype="float64")
    assert not np.any(cohort.models == 7)
    np.testing.assert_allclose(cohort.models, everybody.models, rtol=1e-12)
    np.testing.assert_allclose(cohort.models[0], peers.models[-1], rtol=1e-12)


def test_what_a_cohort_is_refused_for():
    for bad in (0, -1, True, 2.5):
        with pytest.raises(ConfigError, match="cohort"):
            tacit.algorithms.fedavg(OBJECTIVE, cohort=bad)
    with pytest.raises(ConfigError, match="without a cohort"):
        tacit.algorithms.fedavg(OBJECTIVE, local_steps=2)
    with pytest.raises(ConfigError, match=r"local_steps = \[1, 0\]"):
        tacit.algorithms.fedavg(OBJECTIVE, cohort=2, local_steps=[1, 0])
