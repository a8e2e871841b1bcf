"""A lying peer among real ones, over mutual TLS: a rule holds it off, its standing shows it, quarantine ends it."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.algorithms import distributed_online, robust
from tacit.attacks import ATTACKS
from tacit.attacks.crew import labels_of
from tacit.attacks.parts import relabelled
from tacit.core.standing import standings
from tacit.deploy.rehearsal import lying_plan
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.standing import neighbour_standing
from tacit.privacy.accounting import Budget
from tests.daily import some
from tests.peer.services import Federation, plans

PEERS, LIAR, ROUNDS = 4, "peer-3", 50
OBJECTIVE = tacit.objectives.logistic(l2=1e-2)
GRAPH = tacit.graphs.complete(PEERS)
HONEST = [f"peer-{k}" for k in range(PEERS - 1)]


def stream(rounds=ROUNDS):
    return tacit.streams.logistic_drift(agents=PEERS, dim=4, batch=8, heterogeneity=0.0, rounds=rounds, seed=1)


def method(**settings):
    return distributed_online(OBJECTIVE, step=0.5, missing="renormalise", **settings)


def run(directory, algorithm, attack, rounds=ROUNDS):
    """Let the last peer lie, and return the federation after the last round."""
    data = relabelled(stream(rounds), labels_of({PEERS - 1: attack}))
    made = plans(algorithm, GRAPH, data)
    made = [lying_plan(plan, attack, [PEERS - 1]) if plan.name == LIAR else plan for plan in made]
    federation = Federation(directory, made, data, rounds=rounds, deadline=None)  # a late message would shift scores

    async def whole():
        async with federation.running():
            return {name: service.status() for name, service in federation.services.items()}

    return federation, asyncio.run(whole())


def accuracy(federation, rounds=ROUNDS):
    batch = stream().chunk(ROUNDS // 2, ROUNDS)
    right = [np.sign(batch.x @ federation.models[name][rounds]) == batch.y for name in HONEST]
    return float(np.mean(right))


def test_a_liar_is_held_off_shown_and_put_into_quarantine_and_a_restart_knows_it(tmp_path):
    wary = robust(method(), "clipped", liars=1, quarantine=True, release=30)
    federation, status = run(tmp_path, wary, ATTACKS["large_values"]())
    assert accuracy(federation) > 0.85
    for name in HONEST:
        found = status[name]["neighbours"]
        assert set(found) == {*HONEST, LIAR} - {name}
        assert found[LIAR]["quarantined_until"] == 75, "45 far messages, and 30 rounds"
        assert found[LIAR]["distance"] > 100
        assert max(found[other]["score"] for other in found if other != LIAR) < 0.5
        score = federation.services[name].counters.value("tacit_neighbour_score", neighbour=LIAR)
        assert score == found[LIAR]["score"]
    plan = federation.plans[HONEST[0]]
    with PeerStore.open(tmp_path / plan.name / "store", federation.budget, plan.job) as store:
        assert neighbour_standing(Node(plan, store, 1.0, 0.0)) == status[plan.name]["neighbours"]


def test_who_is_in_quarantine_has_no_say_and_comes_back():
    """The liar's values turn honest in the end: it is heard again, at half the score."""
    wary = robust(method(), "median", liars=1, quarantine=True, release=5)
    data = stream(60)
    liars = {PEERS - 1: tacit.attacks.large_values()}
    shown = {}
    wary = wary._replace(diagnostics={"until": lambda state: standings(state)["peers"].until,
                                      "score": lambda state: standings(state)["peers"].score})  # fmt: skip
    found = tacit.simulate(wary, GRAPH, data, rounds=60, liars=liars, record_every=1, progress=False)
    until, score = found.recorded["until"][0, :, 0], found.recorded["score"][0, :, 0]
    shown = np.flatnonzero(until.max(axis=1) > 0)
    assert shown[0] == 44, "the 45th message settles it"
    assert until[44].max() == 50
    slot = int(until[44].argmax())
    assert 0.4 < score[44, slot] < 0.5
    np.testing.assert_array_equal(score[45:50, slot], score[44, slot])
    assert score[50, slot] > score[49, slot], "heard again, and as bad as before"


@pytest.mark.parametrize("kind", some(ATTACKS, "large_values above", daily=()))
def test_a_real_liar_of_each_kind_is_survived(tmp_path, kind):
    """Of 50 rounds; a plain mean is beside it, which large values end."""
    attack = ATTACKS[kind]()
    federation, _ = run(tmp_path / "wary", robust(method(), "geometric_median", liars=1), attack)
    plain, _ = run(tmp_path / "plain", method(), attack)
    assert accuracy(federation) > 0.85
    if kind == "large_values":
        assert accuracy(plain) < 0.75


def test_peers_charge_the_same_with_a_rule_and_without(tmp_path):
    noise = tacit.privacy.gaussian(noise_multiplier=2.0, clip=1.0)
    spent = []
    for name, algorithm in (("plain", method(mechanism=noise)), ("wary", robust(method(mechanism=noise), "median"))):
        made = [replace(plan, booked=True) for plan in plans(algorithm, GRAPH, stream(3))]
        federation = Federation(tmp_path / name, made, stream(3), rounds=3, budget=Budget(epsilon=50.0, delta=1e-5))

        async def whole(federation=federation):
            async with federation.running():
                return [service.status()["privacy"] for service in federation.services.values()]

        spent.append(asyncio.run(whole()))
    assert spent[0] == spent[1]
    assert all(each["releases"] == 3 for each in spent[0])
