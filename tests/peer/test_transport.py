"""Links over real mutual TLS on loopback: what is sent arrives once, in order, whatever breaks meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from typing import Any

import jax
import numpy as np
import pytest

from tacit.core.errors import ConfigError, MessageRefused, RemoteError, StoreError
from tacit.peer.node.exchange import Arrival, Parcel, Position
from tacit.peer.transport import frames as wire
from tacit.peer.transport.listener import Limits
from tests.peer.linked import (
    HELLO,
    HURRIED,
    LIVELY,
    QUICK,
    Federation,
    Hearing,
    Sending,
    ear,
    far_end,
    frames,
    message,
    mouth,
    parcel,
    raw_link,
    spec,
    within,
)


def test_messages_arrive_as_they_were_sent_and_are_forgotten_when_confirmed(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending(parcel("b", 1), parcel("b", 1, phase=1), parcel("b", 2))
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address) as a:
            await hearing.until(lambda: len(hearing.taken) == 3)
            assert hearing.taken == [("a", 0, 1), ("a", 1, 1), ("a", 0, 2)]
            for got, (phase, seed) in zip(hearing.messages, [(0, 1), (1, 1), (0, 2)], strict=True):
                jax.tree.map(np.testing.assert_array_equal, got, message(phase, seed))
            assert hearing.rounds == {"a": 7}
            assert b.listener.connected == {"a"}
            assert a.dialer.connected

            hearing.at = Position(2, 0)
            b.listener.progressed()
            await sending.until(lambda: sending.positions[-1] == (2, 0))
            assert [p.round for p in sending.parcels] == [2]

            sending.parcels.append(parcel("b", 3))
            a.dialer.wake()
            await hearing.until(lambda: len(hearing.taken) == 4)
            assert hearing.calls == 4  # what was sent on this link is not sent again
            await b.diary.until(lambda: b.diary.taken["a"] == 4)
            size = sum(len(parcel("b", 1, phase).content) for phase in (0, 1, 0, 0))
            await a.diary.until(
                lambda: a.diary.out["b"] >= size
            )  # counted after it is sent, and it may be there before
            assert a.diary.out == {"b": size}
            assert b.diary.into == {"a": size}
            assert b.diary.refusals == a.diary.refusals == a.diary.losses == []
        assert b.diary.links[0] == ("a", "in", True)
        assert b.diary.links[-1] == ("a", "in", False)
        assert a.diary.links == [("b", "out", True), ("b", "out", False)]

    within(story())


def test_edges_in_both_directions_are_two_links(federation: Federation) -> None:
    async def story() -> None:
        at_a, at_b = Hearing("b"), Hearing("a")
        async with (
            ear(federation, "a", at_a) as a,
            ear(federation, "b", at_b) as b,
            mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address),
            mouth(federation, "b", Sending(parcel("a", 1)), "a", a.address),
        ):
            await at_a.until(lambda: bool(at_a.taken))
            await at_b.until(lambda: bool(at_b.taken))
            assert at_a.taken == [("b", 0, 1)]
            assert at_b.taken == [("a", 0, 1)]

    within(story())


def test_after_a_restart_only_what_the_position_does_not_cover_is_sent(federation: Federation) -> None:
    async def story() -> None:
        first, second = Hearing("a"), Hearing("a")
        sending = Sending(parcel("b", 1), parcel("b", 2), parcel("b", 3))
        async with ear(federation, "b", first) as b:
            port, address = b.port, b.address
            running = mouth(federation, "a", sending, "b", address)
            a = await running.__aenter__()
            await first.until(lambda: len(first.taken) == 3)
        second.at = Position(3, 0)  # what the first had committed
        async with ear(federation, "b", second, port=port):
            await second.until(lambda: len(second.taken) == 1)
            sending.parcels.append(parcel("b", 4))
            a.dialer.wake()
            await second.until(lambda: len(second.taken) == 2)
            assert [sent for *_, sent in second.taken] == [3, 4]
            assert second.calls == 2
            assert [p.round for p in sending.parcels] == [3, 4]
            assert a.diary.losses[0] == ("b", "ended", "this peer stops")
            assert {reason for _, reason, _ in a.diary.losses[1:]} <= {"unreachable"}
            await running.__aexit__(None, None, None)

    within(story())


def test_a_link_whose_message_is_held_back_is_replaced_in_time(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending(parcel("b", 1))
        hearing.gate.clear()
        settings = QUICK._replace(lifetime=0.1, connect_time=60.0, parting_time=0.1)
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address, settings) as a:
            await a.diary.until(lambda: a.diary.links.count(("b", "out", True)) == 3)
            assert a.diary.losses == []
            hearing.open_gate()
            await hearing.until(lambda: bool(hearing.taken))
            assert hearing.taken == [("a", 0, 1)]
            assert "truncated" not in b.diary.reasons

    within(story())


def test_a_message_that_is_held_when_the_link_breaks_is_let_go(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        hearing.gate.clear()
        async with ear(federation, "b", hearing) as b:
            async with raw_link(federation, "a", b) as link:
                await link.say(HELLO, *frames(parcel("b", 1)))
                await link.hear()
                await hearing.until(lambda: bool(hearing.held))
            await b.diary.until(lambda: b.diary.links[-1] == ("a", "in", False))
            hearing.open_gate()
            assert b.listener.connected == set()
            assert hearing.taken == []
            assert b.diary.refusals == []

    within(story())


def test_a_fault_of_the_receiver_ends_the_link_without_a_word_of_it(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        hearing = Hearing("a")

        def fail(*_: Any) -> None:
            raise StoreError("the disk at /secret is full")

        hearing.take = fail  # type: ignore[method-assign]
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, *frames(parcel("b", 1)))
            assert await link.ending() == ("", "a fault of this peer")
            assert b.diary.refusals == []
        assert "/secret" in caplog.text

    within(story())


def test_the_listener_ends_connections_that_are_too_old(federation: Federation) -> None:
    async def story() -> None:
        limits = Limits(connection_age=0.3, hello_time=0.3)
        async with ear(federation, "b", Hearing("a"), limits) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO)
            assert (await link.hear()).kind == "welcome"
            assert (await link.ending()).reason == ""

    within(story())


def test_a_newer_link_of_the_same_peer_replaces_the_older(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        hearing.gate.clear()
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as old:
            await old.say(HELLO, *frames(parcel("b", 1)))
            assert (await old.hear()).kind == "welcome"
            async with raw_link(federation, "a", b) as new:
                await new.say(HELLO)
                assert (await new.hear()).kind == "welcome"
                reason, detail = await old.ending()
                assert (reason, "newer link" in detail) == ("", True)
                hearing.open_gate()
                await new.say(*frames(parcel("b", 1)))
                await hearing.until(lambda: bool(hearing.taken))
                assert hearing.taken == [("a", 0, 1)]  # that of the old link was never taken in
                assert b.listener.connected == {"a"}
                assert b.diary.refusals == []
                assert b.diary.links == [("a", "in", True), ("a", "in", False), ("a", "in", True)]

    within(story())


class Forgetful(Hearing):
    """Keeps no message, so that only what is under way takes memory."""

    def let_in(self, arrival: Arrival) -> None:
        super().let_in(arrival)
        self.messages.clear()


def test_a_message_that_is_held_back_holds_back_the_sender(federation: Federation) -> None:
    """160 MB wait at the sender while the receiver is not ready: nothing piles up, and the link stays up."""
    size, count = 2**22, 40

    async def story() -> None:
        large = (spec(("uint8", (size,))),)
        hearing = Forgetful("a", specs=large)
        hearing.gate.clear()
        content = bytes(size)
        sending = Sending(*(Parcel("peers", 0, t, "b", content) for t in range(1, count + 1)), specs=large)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        async with (
            ear(federation, "b", hearing, LIVELY) as b,
            mouth(federation, "a", sending, "b", b.address, HURRIED) as a,
        ):
            with pytest.raises(TimeoutError):  # far longer than it takes to send all of it, and than two pings take
                async with asyncio.timeout(1.5):
                    await a.diary.until(lambda: a.diary.out["b"] > 5 * size)
            assert hearing.calls == 1
            assert a.diary.losses == []
            hearing.open_gate()
            await hearing.until(lambda: len(hearing.taken) == count)
            assert [sent for *_, sent in hearing.taken] == list(range(1, count + 1))
            assert b.diary.refusals == []
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < 15 * size

    within(story())


def test_a_listener_notices_a_frozen_neighbour(federation: Federation) -> None:
    async def story() -> None:
        limits = Limits(ping_every=0.3, ping_timeout=0.5)
        async with ear(federation, "b", Hearing("a"), limits) as b:
            with far_end("mouth", str(federation.directory), b.address) as process:
                try:
                    await b.diary.until(lambda: b.listener.connected == {"a"})
                    os.kill(process.pid, signal.SIGSTOP)
                    await b.diary.until(lambda: b.diary.links[-1] == ("a", "in", False))
                    assert b.listener.connected == set()
                finally:
                    process.kill()

    within(story())


def test_steps_that_are_close_together_are_told_as_one(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO)
            assert (await link.hear()).value.round == 1
            for step in range(2, 1000):
                hearing.at = Position(step, 0)
                b.listener.progressed()
            assert (await link.hear()).value.round == 999

    within(story())


def test_a_position_is_told_when_it_covers_a_message_and_otherwise_now_and_then(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        hearing.position_interval = 3

        async def moves(link: Any, *positions: Position) -> None:
            for hearing.at in positions:
                b.listener.progressed()
                await link.say(*frames(parcel("b", 1000)))  # refused: when that is heard, what was to be told is told
                assert (await link.hear()).value.reason == "repeated"

        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, *frames(parcel("b", 1000)))
            assert (await link.hear()).value.round == 1
            await hearing.until(lambda: bool(hearing.taken))
            await moves(link, Position(1, 1), Position(2, 0), Position(3, 1))
            hearing.at = Position(4, 0)
            b.listener.progressed()
            assert (await link.hear()).value == wire.Place(4, 0)
            await link.say(*frames(parcel("b", 4)))
            await hearing.until(lambda: len(hearing.taken) == 2)
            await moves(link, Position(4, 0))
            hearing.at = Position(4, 1)
            b.listener.progressed()
            assert (await link.hear()).value == wire.Place(4, 1)
            await moves(link, Position(5, 0), Position(6, 1))

    within(story())


def test_what_came_by_an_older_link_or_late_is_confirmed_too(federation: Federation) -> None:
    class Tolerant(Hearing):
        position_interval = 100

        def take(self, arrival: Arrival) -> None:
            if ("a", arrival.phase, arrival.sent) in self.taken:
                arrival.decide(MessageRefused("repeated", "it is here already"))
            else:
                self.let_in(arrival)

    async def story() -> None:
        hearing = Tolerant("a")
        async with ear(federation, "b", hearing) as b:
            async with raw_link(federation, "a", b) as old:
                await old.say(HELLO, *frames(parcel("b", 5)))
                await hearing.until(lambda: bool(hearing.taken))
            async with raw_link(federation, "a", b) as new:
                await new.say(HELLO, *frames(parcel("b", 5)))
                assert (await new.hear()).value.round == 1
                assert (await new.hear()).value.reason == "repeated"
                hearing.at = Position(6, 0)
                b.listener.progressed()
                assert (await new.hear()).value.round == 6
                hearing.at = Position(9, 0)
                b.listener.progressed()
                await new.say(*frames(parcel("b", 7)))
                assert (await new.hear()).value.round == 9

    within(story())


def test_what_an_older_link_brought_is_left_out_when_a_newer_one_is_welcomed(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        hearing.gate.clear()
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as old:
            await old.say(HELLO, *frames(parcel("b", 1)))
            await hearing.until(lambda: bool(hearing.held))
            (arrival,) = hearing.held
            assert arrival.is_open
            async with raw_link(federation, "a", b) as new:
                await new.say(HELLO)
                assert (await new.hear()).kind == "welcome"
                assert not arrival.is_open
                hearing.open_gate()
                assert hearing.taken == []
                arrival.decide(None)  # too late: nobody is told
                assert b.diary.taken == {}

    within(story())


def test_notices_travel_both_ways_where_they_are_expected(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending()
        hearing.curious = sending.curious = True
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address) as a:
            assert not a.dialer.notify(b"too early")
            assert not b.listener.notify("a", b"too early")
            await b.diary.until(lambda: b.listener.connected == {"a"})
            await a.diary.until(lambda: a.dialer.connected)
            assert a.dialer.notify(bytes(wire.CONTROL_LIMIT))
            assert b.listener.notify("a", b"")
            await hearing.until(lambda: bool(hearing.notices))
            await sending.until(lambda: bool(sending.notices))
            assert hearing.notices == [("a", bytes(wire.CONTROL_LIMIT))]
            assert sending.notices == [("b", b"")]
            assert not b.listener.notify("c", b"nobody")

    within(story())


def test_a_link_that_is_cut_says_why(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a")) as b, mouth(federation, "a", Sending(), "b", b.address) as a:
            await b.diary.until(lambda: b.listener.connected == {"a"})
            b.listener.cut("c", "sender")
            b.listener.cut("a", "sender", "a is not heard any more")
            await a.diary.until(lambda: bool(a.diary.losses))
            assert a.diary.losses[0] == ("b", "turned away", "sender: a is not heard any more")

    within(story())


def test_letters_travel_both_ways(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a", "c"), Sending()
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address) as a:
            with pytest.raises(RemoteError, match="not connected"):
                await a.dialer.send_key_message("c", b"too early")
            await a.diary.until(lambda: a.dialer.connected)
            await a.dialer.send_key_message("c", b"sealed" * 1000)
            assert hearing.letters == [("a", "c", b"sealed" * 1000)]
            with pytest.raises(MessageRefused, match="d is not a neighbour"):
                await a.dialer.send_key_message("d", b"sealed")
            assert b.diary.reasons == ["recipient"]
            await b.listener.send_key_message("a", "c", b"answer")
            await sending.until(lambda: bool(sending.letters))
            assert sending.letters == [("b", "c", b"answer")]
            with pytest.raises(MessageRefused, match="c is not connected"):
                await b.listener.send_key_message("c", "a", b"answer")

    within(story())


def test_two_peers_cannot_listen_at_one_port(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a")) as b:
            with pytest.raises(ConfigError, match="free port"):
                async with ear(federation, "c", Hearing("a"), port=b.port):
                    pass

    within(story())
