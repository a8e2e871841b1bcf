"""Messages of an MQTT broker: confirmed when they are on the disk, learnt once; a small server, and mosquitto."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess

import pytest
import trustme

from tacit.core.errors import DataError
from tacit.peer.sources.mqtt import MqttAccess, MqttTopic
from tacit.peer.sources.queue import SampleQueue
from tacit.peer.sources.rows import JsonRows
from tests.deploy.homes import free_ports
from tests.deploy.peers import until
from tests.sources.mqtt_server import MqttServer
from tests.sources.stores import FORM, Learner, payload, usable

pytest.importorskip("paho.mqtt.client")


def reader(folder, access, key=(), capacity=100):
    def source(store, worker):
        queue = SampleQueue(store, FORM, worker, capacity)
        return MqttTopic("ward/#", access, queue, JsonRows("messages", FORM, "y", None, key), store.records)

    return lambda: Learner(folder, source)


def played(folder, scenario, **options):
    """Run a scenario with a server and what makes learners of it."""

    async def run():
        server = MqttServer()
        await server.start()
        try:
            access = MqttAccess("127.0.0.1", server.port, "tacit-a")
            async with asyncio.timeout(120):
                await scenario(server, reader(folder, access, **options))
        finally:
            await server.kill()

    asyncio.run(run())


async def begun(peer):
    """Have the peer connect, and take nothing."""
    with pytest.raises(DataError):
        await peer.take(patience=0.0)


async def stored(peer, count):
    await until(lambda: peer.source.depth >= count)


def test_nothing_is_confirmed_before_it_is_on_the_disk(tmp_path):
    async def scenario(server, made):
        peer = made()
        append, confirmed = peer.store.append_samples, []

        def noted(contents, seen=()):
            confirmed.append(list(server.confirmed))
            return append(contents, seen)

        peer.store.append_samples = noted
        server.publish(payload(1), payload(2))
        assert usable(await peer.until(2)) == [1, 2]
        await until(lambda: len(server.confirmed) == 2)
        assert confirmed[0] == []
        assert (server.subscribed, set(server.quality), set(server.clients)) == ([b"ward/#"], {1}, {b"tacit-a"})
        await peer.end()

    played(tmp_path, scenario)


def test_a_peer_that_is_killed_between_commit_and_confirmation_learns_once(tmp_path):
    async def scenario(server, made):
        peer = made()
        peer.source._confirm = lambda messages: None  # killed here
        server.publish(payload(1), payload(2))
        await begun(peer)
        await stored(peer, 2)
        assert server.confirmed == []
        await peer.end()
        again = made()
        found = await again.until(4)
        assert (usable(found), len(found)) == ([1, 2], 4)  # delivered again, and known
        await until(lambda: not server.unconfirmed)
        assert again.source.not_learnt.known == 2
        await again.end()

    played(tmp_path, scenario)


def test_a_round_that_was_cut_off_has_its_samples_again(tmp_path):
    async def scenario(server, made):
        peer = made()
        server.publish(payload(1), payload(2))
        await begun(peer)
        await until(lambda: len(server.confirmed) == 2)
        await peer.take(limit=2)  # not committed
        await peer.end()
        again = made()
        assert await again.until(2) == [1, 2]
        await again.end()

    played(tmp_path, scenario)


def test_a_broker_that_is_killed_and_started_again(tmp_path):
    async def scenario(server, made):
        peer = made()
        server.publish(payload(1))
        assert await peer.until(1) == [1]
        await server.kill()
        await until(lambda: peer.source._fault is not None)
        with pytest.raises(DataError, match=str(server.port)):
            await peer.take(patience=0.0)
        server.publish(payload(2))
        await server.start()
        assert usable(await peer.until(1)) == [2]
        assert peer.source._fault is None
        await peer.end()

    played(tmp_path, scenario)


def test_a_number_of_an_earlier_connection_is_not_confirmed_in_the_next(tmp_path):
    async def scenario(server, made):
        peer = made()
        server.publish(payload(1))
        assert await peer.until(1) == [1]
        (message,) = [m._replace(connection=m.connection - 1) for m in [_last(peer, 1)]]
        before = list(server.confirmed)
        peer.source._confirm([message])
        server.publish(payload(2))
        assert usable(await peer.until(1)) == [2]
        await until(lambda: 2 in server.confirmed)
        assert server.confirmed == [*before, 2]
        await peer.end()

    played(tmp_path, scenario)


def _last(peer, number):
    from tacit.peer.sources.mqtt import _Message

    return _Message(b"", "ward/1", number, 1, peer.source._connection)


def test_records_that_a_sender_repeats_are_known_by_key_or_content(tmp_path):
    async def scenario(server, made):
        server.publish(payload(1, id=7), payload(9, id=7), payload(2, id=8), b"\xff", b"\xff")
        peer = made()
        assert await peer.until(5) == [1, None, 2, None, None]
        assert (peer.source.not_learnt.known, peer.source.not_learnt.bad) == (2, 1)
        await peer.end()

    played(tmp_path, scenario, key=("id",))


def test_a_full_queue_leaves_messages_with_the_broker(tmp_path):
    async def scenario(server, made):
        peer = made()
        server.publish(payload(1))
        await begun(peer)
        await until(lambda: server.confirmed == [1] and peer.source.depth == 1)
        server.publish(payload(2))
        await until(lambda: bool(peer.source._waiting))
        assert server.confirmed == [1]
        assert usable(await peer.until(2, limit=1)) == [1, 2]
        await peer.end()

    played(tmp_path, scenario, capacity=1)


def test_a_refused_connection_is_said(tmp_path):
    async def scenario(server, made):
        server.accept = 5
        peer = made()
        with pytest.raises(DataError):
            await peer.take(patience=0.0)
        await until(lambda: "username" in (peer.source._fault or ""))
        await peer.end()

    played(tmp_path, scenario)


# -- mosquitto ---------------------------------------------------------------------------------------------------------

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


class Mosquitto:
    def __init__(self, folder):
        folder.mkdir()
        (self.port,) = free_ports(1)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        self.ca, self.config = folder / "ca.pem", folder / "mosquitto.conf"
        secret = folder / "passwords"
        program = shutil.which("mosquitto_passwd")
        subprocess.run([program, "-b", "-c", secret, "reader", "geheim"], check=True, capture_output=True)
        self.config.write_text(
            f"listener {self.port} 127.0.0.1\npersistence true\npersistence_location {folder}/\nuser root\n"
            f"autosave_on_changes true\nautosave_interval 1\ncafile {folder}/ca.pem\ncertfile {folder}/cert.pem\n"
            f"keyfile {folder}/key.pem\npassword_file {secret}\n"
        )
        self.start()

    def start(self):
        self.process = subprocess.Popen([MOSQUITTO, "-c", self.config], stderr=subprocess.DEVNULL)
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            assert self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def access(self, name):
        return MqttAccess("localhost", self.port, name, ssl.create_default_context(cafile=self.ca), "reader", "geheim")

    def publish(self, *payloads):
        client = self.access("sender").client()
        client.connect("localhost", self.port)
        client.loop_start()
        for each in payloads:
            client.publish("ward/1", each, qos=2).wait_for_publish(60)
        client.disconnect()
        client.loop_stop()


@pytest.mark.skipif(MOSQUITTO is None or shutil.which("mosquitto_passwd") is None, reason="needs mosquitto on the path")
def test_mosquitto_and_the_peer_are_killed_in_turn_and_each_record_is_learnt_once(tmp_path):
    broker = Mosquitto(tmp_path / "broker")
    made = reader(tmp_path, broker.access("tacit-a"))

    async def scenario():
        peer = made()
        await begun(peer)
        await until(lambda: peer.source._fault is None)  # subscribed: from here on the broker keeps what comes
        await asyncio.to_thread(broker.publish, *map(payload, (1, 2, 3)))
        found = await peer.until(3)
        peer.source._confirm = lambda messages: None  # stored, not confirmed: as by a kill
        await asyncio.to_thread(broker.publish, payload(4))
        await stored(peer, 1)
        await peer.end()
        broker.kill()
        broker.start()
        await asyncio.to_thread(broker.publish, payload(5))
        again = made()
        while len(usable(found)) < 5:
            found += await again.until(1)
        assert usable(found) == [1, 2, 3, 4, 5]
        broker.kill()
        await until(lambda: again.source._fault is not None)
        broker.start()
        await until(lambda: again.source._fault is None)
        await asyncio.to_thread(broker.publish, payload(6), payload(1))
        found += await again.until(2)
        assert usable(found) == [1, 2, 3, 4, 5, 6]
        await again.end()

    try:
        asyncio.run(scenario())
    finally:
        broker.kill()
