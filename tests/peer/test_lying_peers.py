"""A peer that lies about its round to everybody, over real links: the others do their rounds, and say who it is."""

import asyncio

import pytest

import tacit
from tacit.core.errors import StoreError
from tacit.peer.node.exchange import Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import LAST_ROUND
from tests.peer.services import Federation, plans

LIAR, HEARS_IT, SENDS_TO_IT = "peer-0", "peer-1", "peer-2"
ROUNDS = 2500


def test_nobody_is_ended_by_a_liar_that_is_heard_and_hears(tmp_path):
    algorithm = tacit.algorithms.loss_tolerant_push_sum(tacit.objectives.logistic(l2=1e-3))
    stream = tacit.streams.logistic_drift(agents=3, dim=2, seed=3)
    made = plans(algorithm, tacit.graphs.directed_ring(3), stream)
    federation = Federation(tmp_path, made, stream, rounds=ROUNDS, deadline=0.5)

    async def scenario():
        async with asyncio.timeout(600):
            for name in federation.plans:
                await federation.launch(name)
            liar = federation.services[LIAR]
            liar.links.current_round = lambda: LAST_ROUND
            liar.links.position = lambda name: Position(LAST_ROUND, 0)
            federation.connect()
            for service in federation.services.values():
                await service.finished.wait()

    async def whole():
        try:
            await scenario()
        finally:
            await federation.stop()

    asyncio.run(whole())
    for name in (HEARS_IT, SENDS_TO_IT):
        service = federation.services[name]
        assert service.fault is None
        assert service.node.round <= ROUNDS + 1024, "one leap beyond its last round at most"
        assert len(federation.models[name]) > 20
    count = [federation.services[name].counters.value for name in (HEARS_IT, SENDS_TO_IT)]
    assert count[0]("tacit_refusals_total", reason="ahead") >= 1
    assert count[1]("tacit_refusals_total", reason="position") >= 1
    status = federation.services[HEARS_IT].status()
    assert status["doubted"] == [LIAR]
    assert status["heard_rounds"] == {LIAR: LAST_ROUND}


def test_a_peer_whose_round_is_the_last_does_not_start_and_says_what_to_do(tmp_path):
    algorithm = tacit.algorithms.loss_tolerant_push_sum(tacit.objectives.logistic(l2=1e-3))
    stream = tacit.streams.logistic_drift(agents=3, dim=2, seed=3)
    federation = Federation(tmp_path, plans(algorithm, tacit.graphs.directed_ring(3), stream)[:1], stream, rounds=5)
    plan = federation.plans[LIAR]
    with PeerStore.create(tmp_path / LIAR / "store", federation.budget, plan.job) as store:
        node = Node(plan, store, 1.0, 0.0)
        node.machine.skip_to(LAST_ROUND)
        node.flush()
    with pytest.raises(StoreError, match="tacit peer set-round"):
        asyncio.run(federation.launch(LIAR))
