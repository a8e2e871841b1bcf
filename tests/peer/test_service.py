"""Running peers: the trajectory of the simulator over real mutual TLS."""

import asyncio

import jax
import numpy as np
import pytest

import tacit
from tacit.core.errors import BudgetExceeded, ConfigError, ContractError, LedgerError, TacitError
from tacit.peer import run_in_process
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.node.assignment import Pace
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tests.peer.services import Federation, plans

AGENTS, ROUNDS, DIM = 4, 6, 3
OBJECTIVE = tacit.objectives.logistic(l2=1e-3)


def graph():
    return tacit.graphs.random_digraph(AGENTS, out_degree=2, seed=1)


def stream():
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, seed=3)


def same_as_in_process(federation, algorithm, graph_):
    expected = run_in_process(algorithm, graph_, stream(), rounds=ROUNDS).models
    for agent, name in enumerate(federation.plans):
        found = [federation.models[name][t] for t in range(1, ROUNDS + 1)]
        for leaf, wanted in zip(
            jax.tree.leaves(jax.tree.map(lambda *x: np.stack(x), *found)), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_array_equal(leaf, wanted[:, agent])


@pytest.mark.parametrize(
    ("algorithm", "graph_"),
    [
        (tacit.algorithms.online_push_sum(OBJECTIVE, step=0.5), graph()),
        (tacit.algorithms.distributed_online(OBJECTIVE, step=0.5), tacit.graphs.ring(AGENTS)),
    ],
    ids=["push-sum", "averaging"],
)
def test_the_trajectory_is_that_of_machines_in_memory(tmp_path, algorithm, graph_):
    federation = Federation(tmp_path, plans(algorithm, graph_, stream()), stream(), rounds=ROUNDS)

    async def scenario():
        async with federation.running():
            assert all(service.fault is None for service in federation.services.values())

    asyncio.run(scenario())
    same_as_in_process(federation, algorithm, graph_)


# -- the end of a peer -----------------------------------------------------------------------------------------------------


def pair(tmp_path, algorithm=None, **settings):
    """Two peers, both ways."""
    algorithm = algorithm or tacit.algorithms.online_push_sum(OBJECTIVE, step=0.5)
    few = tacit.streams.logistic_drift(agents=2, dim=DIM, seed=3)
    return Federation(tmp_path, plans(algorithm, tacit.graphs.complete(2), few), few, **{"rounds": ROUNDS, **settings})


def leaves_nothing(scenario):
    async def limited():
        async with asyncio.timeout(300):
            await scenario
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(limited())


def reopened(federation, name):
    PeerStore.open(federation.directory / name / "store", federation.budget, federation.plans[name].job).close()


def test_a_peer_that_never_started_is_stopped(tmp_path):
    federation = pair(tmp_path)

    async def scenario():
        service = await federation.launch("peer-0")
        await service.stop()
        await service.stop()

    leaves_nothing(scenario())
    reopened(federation, "peer-0")


def test_a_peer_that_never_listened_is_stopped(tmp_path, monkeypatch):
    federation = pair(tmp_path)
    monkeypatch.setattr("tacit.peer.node.node.Node.compile", lambda node: (_ for _ in ()).throw(MemoryError("no room")))

    async def scenario():
        with pytest.raises(MemoryError):
            await federation.launch("peer-0")
        await federation.services["peer-0"].stop()

    leaves_nothing(scenario())
    reopened(federation, "peer-0")


def test_missing_addresses_are_named(tmp_path):
    federation = pair(tmp_path)

    async def scenario():
        service = await federation.launch("peer-0")
        with pytest.raises(ConfigError, match="no address for peer-1"):
            service.start({})
        await service.stop()

    leaves_nothing(scenario())


def test_stopped_while_held_back_is_no_fault(tmp_path, monkeypatch):
    """A peer whose neighbour confirms nothing may not begin a round, not even when it is told to stop."""
    monkeypatch.setattr("tacit.peer.node.node.Node.held_back_by", property(lambda node: {"peer-1"}))
    federation = pair(tmp_path)

    async def scenario():
        service = await federation.launch("peer-0")
        service.start({"peer-1": "127.0.0.1:9"})
        await asyncio.sleep(0)
        await service.stop()
        assert service.fault is None
        assert service.node.round == 0

    leaves_nothing(scenario())


@pytest.mark.parametrize("fault", [ContractError("the method broke"), ZeroDivisionError("oh"), LedgerError("the disk")])
def test_a_fault_ends_rounds_and_all_is_closed(tmp_path, monkeypatch, fault):
    monkeypatch.setattr("tacit.peer.node.node.Node.begin", lambda node, *a, **k: (_ for _ in ()).throw(fault))
    federation = pair(tmp_path)

    async def scenario():
        service = await federation.launch("peer-0")
        service.start({"peer-1": "127.0.0.1:9"})
        await service.finished.wait()
        assert isinstance(service.fault, TacitError)
        assert str(fault) in str(service.fault)
        assert str(fault) in service.faults()[0]
        assert service.status()["fault"] == str(service.fault)
        assert service.predict(np.zeros(DIM)) == 0
        await service.stop()

    leaves_nothing(scenario())
    reopened(federation, "peer-0")


def alone(tmp_path, **settings):
    """One peer, which has nobody to wait for."""
    few = tacit.streams.logistic_drift(agents=1, dim=DIM, seed=3)
    method = tacit.algorithms.online_push_sum(OBJECTIVE, step=0.5)
    graph_ = tacit.graphs.Graph.from_edges(1, [], [])
    return Federation(tmp_path, plans(method, graph_, few, **settings), few, rounds=5)


def test_a_round_that_broke_is_begun_again_after_a_restart(tmp_path, monkeypatch):
    federation, enter = alone(tmp_path), RoundMachine._enter

    def fail(machine, phase):
        if machine.round == 3:
            raise MemoryError("no room")
        return enter(machine, phase)

    async def scenario():
        with monkeypatch.context() as patch:
            patch.setattr(RoundMachine, "_enter", fail)
            await federation.run()
            await federation.stop()
        (service,) = federation.services.values()
        assert "no room" in str(service.fault)
        again = await federation.launch("peer-0")
        assert again.node.round == 2
        await federation.stop()
        async with federation.running():
            assert sorted(federation.models["peer-0"]) == [1, 2, 3, 4, 5]

    leaves_nothing(scenario())


def test_a_last_commit_that_fails_is_a_fault_and_nobody_waits_for_ever(tmp_path, monkeypatch):
    federation = pair(tmp_path, rounds=1)

    def fail(node):
        raise LedgerError("the disk is full")

    async def scenario():
        for name in federation.plans:
            await federation.launch(name)
        monkeypatch.setattr("tacit.peer.node.node.Node.flush", fail)
        federation.connect()
        for service in federation.services.values():
            await service.finished.wait()
            assert "the disk is full" in str(service.fault)
        await federation.stop()

    leaves_nothing(scenario())


def test_confirmations_are_taken_in_after_the_rounds_have_ended(tmp_path, monkeypatch):
    """A peer that only predicts, perhaps for weeks, must not pile up what its neighbours tell it."""
    federation = pair(tmp_path, tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, step=0.5), deadline=0.05, rounds=40)
    broken = federation.plans["peer-0"]
    begin = Node.begin

    def fail(node, *arguments, **settings):
        if node.plan is broken and node.round >= 2:
            raise BudgetExceeded("all is spent")
        begin(node, *arguments, **settings)

    monkeypatch.setattr("tacit.peer.node.node.Node.begin", fail)

    async def scenario():
        try:
            await federation.run()
            ended, other = federation.services.values()
            assert isinstance(ended.fault, BudgetExceeded)
            assert (other.fault, other.node.round) == (None, 40)
            while ended.node.waiting("peer-1") or ended.links._confirmations:  # the last one may be on its way
                await asyncio.sleep(0.02)
        finally:
            await federation.stop()

    leaves_nothing(scenario())


def test_stop_does_not_wait_for_who_is_not_there(tmp_path):
    federation = pair(tmp_path, tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, step=0.5), deadline=0.02)

    async def scenario():
        service = await federation.launch("peer-0")
        service.pace = Pace(deadline=0.02, grace=900.0, last_round=2)
        service.start({"peer-1": "127.0.0.1:9"})
        await service.finished.wait()
        assert service.node.waiting("peer-1")
        async with asyncio.timeout(120):
            await service.stop()

    leaves_nothing(scenario())


def test_two_peers_go_on_together_after_a_stop(tmp_path):
    whole = pair(tmp_path / "whole")
    parts = pair(tmp_path / "parts")

    async def scenario():
        async with whole.running():
            pass
        for service in [await parts.launch(name) for name in parts.plans]:
            service.pace = Pace(last_round=3, grace=2.0)
        parts.connect()
        for service in parts.services.values():
            await service.finished.wait()
        await parts.stop()
        async with parts.running():
            assert {service.node.round for service in parts.services.values()} == {ROUNDS}

    leaves_nothing(scenario())
    for name in whole.plans:
        for t in range(1, ROUNDS + 1):
            np.testing.assert_array_equal(whole.models[name][t], parts.models[name][t])


def test_questions_are_answered_in_the_precision_of_the_job(tmp_path):
    federation = alone(tmp_path, dtype="float64")

    async def scenario():
        async with federation.running():
            (service,) = federation.services.values()
            x = np.array([1 / 3, 1.0, -1 / 7])
            found = service.predict(x)
            assert found.dtype == np.float64
            assert found == pytest.approx(float(np.asarray(service.node.model()) @ x), rel=1e-14)

    leaves_nothing(scenario())
