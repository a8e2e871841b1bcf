"""Bytes at the sockets, counted by the kernel, are the predicted ones: for windows of a model and for whole models."""

from __future__ import annotations

import socket

import jax.numpy as jnp
import numpy as np
import pytest

from tacit import graphs, objectives, runtime, streams
from tacit.algorithms import online_push_sum, pao_fed, pso_fed
from tacit.peer.machine.claims import FURTHEST_AHEAD
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.listener import Limits
from tacit.peer.transport.sockets import SocketBytes, tcp_bytes
from tacit.peer.transport.traffic import (
    CONNECTION,
    forecast,
    frame_bytes,
    message_bytes,
    position_bytes,
)
from tacit.peer.views import AgentViews
from tests.peer import linked, masked, services

CLOSE = 0.1
"""How far what is counted may be from what was predicted."""


def test_the_kernels_count_is_that_of_what_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as one, listening.accept()[0] as other:
            before = tcp_bytes([port])
            assert before == SocketBytes(0, 0)
            one.sendall(bytes(1000))
            assert len(other.recv(1000, socket.MSG_WAITALL)) == 1000
            other.sendall(bytes(77))
            assert len(one.recv(77, socket.MSG_WAITALL)) == 77
            assert tcp_bytes([port]) == SocketBytes(1077, 1077)
            assert tcp_bytes([one.getsockname()[1]]) == SocketBytes(1077, 1077)
            assert tcp_bytes([1]) == SocketBytes(0, 0)
            everything = tcp_bytes()
            assert everything is not None
            assert everything.since(before).sent >= 1077


def test_frames_take_what_their_formats_say() -> None:
    assert frame_bytes(23) == 23 + 22
    assert frame_bytes(16384) == 16384 + 22
    assert frame_bytes(16385) == 16385 + 2 * 22
    assert frame_bytes(2**20) == 2**20 + 64 * 22
    codec = Codec("", (linked.spec(("float32", (4,)))._replace(addressed=True),))
    assert message_bytes(codec, 0, 1000) == 16 + 5 + 22
    assert message_bytes(codec, 0, 1000, empty=True) == 5 + 22
    assert position_bytes(1000) == 5 + 22


MESSAGES = 30


async def counted(federation: linked.Federation, numbers: int) -> float:
    """Return the bytes per message and confirmation of so many numbers, both directions, connections apart."""
    specs = (linked.spec(("float32", (numbers,))),)
    hearing, sending = linked.Hearing("a", specs=specs), linked.Sending(specs=specs)
    content = np.random.default_rng(0).normal(size=numbers).astype("<f4").tobytes()
    async with (
        linked.ear(federation, "b", hearing, Limits(ping_every=600.0)) as b,
        linked.mouth(federation, "a", sending, "b", b.address, linked.QUICK._replace(ping_every=600.0)) as a,
    ):
        await sending.until(lambda: bool(sending.positions))
        before = tcp_bytes([b.port])
        for t in range(201, 201 + MESSAGES):
            sending.parcels.append(Parcel("uplink", 0, t, "b", content))
            a.dialer.wake()
            await hearing.until(lambda t=t: hearing.taken[-1:] == [("a", 0, t)])
            hearing.at = Position(t + 1, 0)
            b.listener.progressed()
            await sending.until(lambda t=t: sending.positions[-1] == (t + 1, 0))
        after = tcp_bytes([b.port])
    assert before is not None
    assert after is not None
    assert before.sent == pytest.approx(CONNECTION, rel=0.03)
    return after.since(before).sent / MESSAGES


@pytest.mark.parametrize(("share", "of", "most"), [(4, 200, 0.09), (400, 20_000, 0.022)])
def test_windows_save_what_is_predicted(tmp_path, share, of, most) -> None:
    """Of 200 numbers a message's frames and its confirmation set the floor; of 20,000 the content does."""
    found = {}

    async def story() -> None:
        federation = linked.Federation(tmp_path, "a", "b")
        for numbers in (share, of):
            found[numbers] = await counted(federation, numbers)

    linked.within(story())
    for numbers, per_message in found.items():
        codec = Codec("", (linked.spec(("float32", (numbers,))),))
        assert per_message == message_bytes(codec, 0, 201) + position_bytes(202)
    assert share / of < found[share] / found[of] < most


ROUNDS, FROM = 48, 8


def test_services_that_share_windows_use_the_predicted_bytes(tmp_path) -> None:
    """A server and a client that comes and goes, over mutual TLS; the rounds alone, and all with the connections."""
    algorithm = pao_fed(objectives.squared(), 0.05, share=4, variant="U1")
    stream = streams.linear_drift(1, 200, drift=0.0, seed=1)
    topology = graphs.star_roles(1).available("client", 0.7)
    plans = services.plans(algorithm, topology, stream)
    counts = {}

    async def story() -> None:
        federation = services.Federation(tmp_path, plans, stream, rounds=ROUNDS, deadline=None)
        for name in federation.plans:
            service = await federation.launch(name)
            service.links.patience = 0  # else several messages may be confirmed at once
            if name == "server-0":
                service._after_round = lambda t, model: counts.__setitem__(t, tcp_bytes(federation.ports.values()))
        try:
            federation.connect()
            for service in federation.services.values():
                await service.finished.wait()
        finally:
            await federation.stop()

    linked.within(story(), 60)
    world = AgentViews(algorithm, runtime.prepared_topology(algorithm, topology), 0, jnp.dtype("float32"))
    specs = runtime.settle(algorithm, plans[0].params, plans[0].batch, plans[0].role_views)
    there = np.array([[int(world.now(t)[links].live.sum()) for links in ("downlink", "uplink")] for t in rounds()])
    whole, first = (forecast(algorithm, specs, world, there[:k], FURTHEST_AHEAD) for k in (ROUNDS, FROM))
    assert whole.messages == whole.confirmations == there.sum()
    assert whole.content == 16 * there.sum()
    assert 0.5 * 2 * ROUNDS < there.sum() < 0.9 * 2 * ROUNDS
    assert counts[ROUNDS].since(counts[FROM]).sent == pytest.approx(whole.bytes - first.bytes, rel=CLOSE)
    assert counts[ROUNDS].sent == pytest.approx(whole.total, rel=CLOSE)


def rounds() -> range:
    return range(1, ROUNDS + 1)


def described(algorithm, topology, stream):
    plan = services.plans(algorithm, topology, stream)[0]
    specs = runtime.settle(algorithm, plan.params, plan.batch, plan.role_views)
    return specs, AgentViews(algorithm, runtime.prepared_topology(algorithm, topology), 0, jnp.dtype("float32"))


def test_who_is_not_called_costs_a_word_and_silent_links_a_reminder_now_and_then() -> None:
    algorithm = pso_fed(objectives.squared(), 0.1, fraction=0.5, share=4)
    stream = streams.linear_drift(3, 8, drift=0.0, seed=1)
    specs, world = described(algorithm, graphs.star_roles(3), stream)
    found = forecast(algorithm, specs, world, np.array([[3, 3], [1, 2], [0, 0]]), position_interval=2)
    assert (found.messages, found.empty, found.confirmations, found.reminders) == (9, 9, 18, 0)
    codec = Codec("", specs)
    full, none = (sum(message_bytes(codec, phase, 2, empty=empty) for phase in (0, 1)) for empty in (False, True))
    assert full - none == 2 * 16
    each = position_bytes(2) * 18
    up, down = (message_bytes(codec, phase, 2) for phase in (1, 0))
    empty_up, empty_down = (message_bytes(codec, phase, 2, empty=True) for phase in (1, 0))
    assert found.bytes == 4 * down + 5 * up + 5 * empty_down + 4 * empty_up + each
    assert found.setup == 6 * CONNECTION

    away = graphs.star_roles(3).available("client", 1e-9)
    specs, world = described(algorithm, away, stream)
    silent = forecast(algorithm, specs, world, np.zeros((9, 2), int), position_interval=4)
    assert (silent.messages, silent.empty, silent.confirmations, silent.reminders) == (0, 0, 0, 6 * 2)
    assert silent.bytes == 12 * position_bytes(5)


def test_peers_have_a_connection_per_direction_and_masked_messages_no_forecast() -> None:
    stream = streams.linear_drift(4, 3, drift=0.0, seed=1)
    plain = online_push_sum(objectives.squared())
    specs, world = described(plain, graphs.directed_ring(4), stream)
    found = forecast(plain, specs, world, np.full((2, 1), 4), position_interval=8)
    assert (found.messages, found.setup) == (8, 4 * CONNECTION)
    hidden = masked.algorithm()
    assert (
        forecast(hidden, *described(hidden, graphs.complete(4), stream), np.full((2, 1), 12), position_interval=2)
        is None
    )
