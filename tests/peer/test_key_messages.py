"""Secrets between two senders to one receiver, over real mutual TLS through that receiver."""

import asyncio

import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, PrivacyError
from tests.peer.services import Federation, plans

AGENTS = 3
RELAY, ONE, OTHER = "peer-0", "peer-1", "peer-2"


def federation(directory):
    """Peer 0 hears 1 and 2, who have no link with each other."""
    graph = tacit.graphs.Graph.from_edges(AGENTS, [1, 2, 0, 0], [0, 0, 1, 2])
    stream = tacit.streams.logistic_drift(agents=AGENTS, dim=2, seed=0)
    algorithm = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.1)
    return Federation(directory, plans(algorithm, graph, stream), stream, rounds=2)


def run(scenario):
    async def limited():
        async with asyncio.timeout(300):
            await scenario()

    asyncio.run(limited())


def test_both_ends_get_one_secret_that_the_relay_only_carries_and_keep_it(tmp_path):
    peers = federation(tmp_path)
    carried = []

    async def scenario():
        async with peers.running():
            relay = peers.services[RELAY]
            relayed = relay.links.relay_key_message

            async def watched(name, recipient, payload):
                carried.append(payload)
                await relayed(name, recipient, payload)

            relay.links.relay_key_message = watched
            one = peers.services[ONE].links.secrets(RELAY, [OTHER])
            other = peers.services[OTHER].links.secrets(RELAY, [ONE])
            await one.established(20)
            await other.established(20)
            assert one.session(OTHER) == other.session(ONE) is not None
            pads = [one.pad(OTHER, 1, 0, 50), other.pad(ONE, 1, 0, 50)]
            np.testing.assert_array_equal(*pads)
            assert not np.array_equal(pads[0], one.pad(OTHER, 2, 0, 50))
            with pytest.raises(PrivacyError, match="no position is used twice"):
                one.pad(OTHER, 2, 0, 50)
            await peers.services[OTHER].stop()
            assert carried
            secrets = [key.key for name in (ONE, OTHER) for key in peers.services[name]._store.keys.values()]
            assert len(secrets) == 2
            assert not any(key in payload for key in secrets for payload in carried)
            carried.clear()
            await peers.launch(OTHER)
            peers.connect(OTHER)
            again = peers.services[OTHER].links.secrets(RELAY, [ONE])
            await again.established(0)  # it needs nobody for that
            np.testing.assert_array_equal(again.pad(ONE, 1, 0, 50), pads[0])
            assert carried == []

    run(scenario)


def test_a_store_that_cannot_keep_a_key_is_a_fault_of_the_peer(tmp_path):
    peers = federation(tmp_path)

    async def scenario():
        async with peers.running():
            broken = peers.services[ONE]
            one = broken.links.secrets(RELAY, [OTHER])
            broken._store.close()
            peers.services[OTHER].links.secrets(RELAY, [ONE])
            while broken.fault is None:
                await asyncio.sleep(0.01)
            assert "closed" in broken.faults()[0]
            assert one.session(OTHER) is None

    run(scenario)


def test_only_an_out_neighbour_carries_letters(tmp_path):
    peers = federation(tmp_path)

    async def scenario():
        async with peers.running():
            with pytest.raises(ConfigError, match="'peer-2' is not among"):
                peers.services[ONE].links.open_key_channel(OTHER, print)

    run(scenario)
