"""Doors over real sockets: neighbours get in through a crowd, and who does not prove itself has to leave."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.core.errors import ConfigError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.transport import doors, listener
from tacit.peer.transport.admission import Admission, DoorLimits
from tacit.peer.transport.listener import Limits
from tests.faults.crowd import HALF_A_HELLO
from tests.peer.linked import HELLO, Federation, Hearing, Sending, ear, mouth, parcel, raw_link, within

TINY = Limits(door=DoorLimits(connections=6, per_address=3))


Strangers = Callable[..., list[socket.socket]]


@pytest.fixture
def strangers() -> Iterator[Strangers]:
    """Connections that say something, and no more."""
    held: list[socket.socket] = []

    def connect(port: int, count: int, says: bytes = b"") -> list[socket.socket]:
        found = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        held.extend(found)
        for one in found:
            one.sendall(says)
            one.setblocking(False)
        return found

    yield connect
    for one in held:
        one.close()


async def ended(connection: socket.socket) -> bool:
    try:
        return await asyncio.get_running_loop().sock_recv(connection, 1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("says", [b"", HALF_A_HELLO], ids=["silent", "half a handshake"])
def test_a_neighbour_gets_in_through_a_crowd_of_its_own_address(
    federation: Federation, strangers: Strangers, says: bytes
) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a"), TINY) as b:
            first = strangers(b.port, 10, says)
            async with mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address) as a:
                await b.hearing.until(lambda: len(b.hearing.taken) == 1)
                second = strangers(b.port, 10, says)
                assert all([await ended(one) for one in (*first, *second[:7])])
                a.sending.parcels.append(parcel("b", 2))
                a.dialer.wake()
                await b.hearing.until(lambda: len(b.hearing.taken) == 2)
                assert b.diary.links == [("a", "in", True)], "the crowd did not cut the link"
            assert b.diary.reasons.count("crowded") >= 17

    within(story())


def test_who_does_not_prove_itself_in_time_is_closed_and_a_neighbour_is_not(
    federation: Federation, strangers: Strangers
) -> None:
    async def story() -> None:
        limits = Limits(door=DoorLimits(proof_time=0.3))
        async with (
            ear(federation, "b", Hearing("a"), limits) as b,
            mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address) as a,
        ):
            await b.hearing.until(lambda: len(b.hearing.taken) == 1)
            up = list(b.diary.links)
            for says in (b"", HALF_A_HELLO):
                (one,) = strangers(b.port, 1, says)
                assert await ended(one)
            assert b.diary.reasons.count("unproven") >= 2
            a.sending.parcels.append(parcel("b", 2))
            a.dialer.wake()
            await b.hearing.until(lambda: len(b.hearing.taken) == 2)
            assert b.diary.links == up

    within(story())


def test_a_member_that_is_no_neighbour_has_to_leave(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a"), Limits(door=DoorLimits(proof_time=0.3))) as b:
            async with mouth(federation, "c", Sending(), "b", b.address) as c:
                await c.diary.until(lambda: bool(c.diary.losses))
            door = b.listener._door
            assert door is not None
            while door.serving:
                await asyncio.sleep(0)
            assert "sender" in b.diary.reasons

    within(story())


def test_a_member_that_connects_and_says_no_more_takes_nobodys_place(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a"), TINY) as b, contextlib.AsyncExitStack() as held:
            for _ in range(8):
                await held.enter_async_context(raw_link(federation, "c", b))
            async with mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address):
                await b.hearing.until(lambda: len(b.hearing.taken) == 1)
            assert "sender" in b.diary.reasons

    within(story())


def test_a_neighbour_that_connects_again_and_again_has_one_link(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("a"), TINY) as b, contextlib.AsyncExitStack() as held:
            links = [await held.enter_async_context(raw_link(federation, "a", b)) for _ in range(8)]
            await links[-1].say(HELLO)
            assert (await links[-1].hear()).kind == "welcome"
            door = b.listener._door
            assert door is not None
            assert b.listener.connected == {"a"}
            assert door.admission.strangers <= 3

    within(story())


@pytest.mark.parametrize("says", [b"", HALF_A_HELLO], ids=["nothing", "half a handshake"])
def test_handshakes_that_stop_do_not_stop_anybody(federation: Federation, strangers: Strangers, says: bytes) -> None:
    """Byte by byte, or not at all: a neighbour is heard meanwhile, and they are closed when their time is up."""

    async def story() -> None:
        limits = Limits(door=DoorLimits(proof_time=0.5))
        async with ear(federation, "b", Hearing("a"), limits) as b:
            slow = strangers(b.port, 5, says)
            async with mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address):
                await b.hearing.until(lambda: len(b.hearing.taken) == 1)
            assert all([await ended(one) for one in slow])
            assert b.diary.reasons.count("unproven") == 5

    within(story())


class Short(socket.socket):
    """A listening socket for which no descriptor is left, some times."""

    times = 3

    def accept(self) -> tuple[socket.socket, Any]:
        if Short.times:
            Short.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_door_without_descriptors_lets_one_go_and_goes_on(
    strangers: Strangers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PAUSE", 0.01)
    refused = []

    async def served(connection: socket.socket, ticket: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connection, await loop.sock_recv(connection, 1))

    async def story() -> None:
        door = doors.Door(Admission(DoorLimits()), served, lambda reason, address: refused.append(reason))
        listening = doors.listening("127.0.0.1", 0)
        short = Short(fileno=listening.detach())
        monkeypatch.setattr(doors, "listening", lambda host, port: short)
        Short.times = 0
        port = door.open("127.0.0.1", 0)
        (idle,) = strangers(port, 1)
        while not door.serving:
            await asyncio.sleep(0)
        Short.times = 3
        (asking,) = strangers(port, 1, b"x")
        assert await asyncio.get_running_loop().sock_recv(asking, 100) == b"x"
        assert await ended(idle)
        assert refused == ["crowded"]
        await door.close()

    within(story())


def test_a_listener_without_descriptors_says_so(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "descriptors_left", lambda: 30)

    async def story() -> None:
        with pytest.raises(ConfigError, match="30 more files"):
            async with ear(federation, "b", Hearing("a")):
                pass

    within(story())


def test_a_port_that_is_taken_is_named(federation: Federation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def story() -> None:
            with pytest.raises(ConfigError, match=str(port)):
                async with ear(federation, "b", Hearing("a"), port=port):
                    pass

        within(story())


def test_new_certificates_are_taken_up_when_descriptors_are_back(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.peer.identity import pem_files
    from tacit.peer.identity.identity import identity_files

    faults: list[Exception] = []
    watch = IdentityWatch(identity_files(federation.directory / "c"), faults.append)
    before = watch.current()
    federation.member("c")

    def fail(path: Path) -> Any:
        raise pem_files.IdentityError("cannot be read") from OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(pem_files, "_read", fail)
        assert watch.current() is before
    assert watch.current().fingerprint != before.fingerprint
    assert faults == []
