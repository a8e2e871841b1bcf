"""The dialling side: how it comes back, whom it does not trust, and what it makes of answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tacit.core.errors import IdentityError, MessageRefused, StoreError
from tacit.peer.node.exchange import Position
from tacit.peer.transport import frames as wire
from tacit.peer.transport.dialer import Dialer, Settings
from tacit.peer.transport.frames import PROGRESS, WELCOME, Header, Letter, Place, number
from tacit.peer.transport.handshake import shake_hands
from tests.peer.linked import (
    HELLO,
    HURRIED,
    JOB,
    QUICK,
    Federation,
    Hearing,
    Mouth,
    Sending,
    chunks,
    ear,
    far_end,
    mouth,
    parcel,
    within,
)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that a dialer makes; they are noted, and not waited for."""
    noted, sleep = list[float](), asyncio.sleep

    async def note(seconds: float) -> None:
        noted.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return noted


def test_a_link_is_made_anew_when_it_has_lived_long_enough(federation: Federation, pauses: list[float]) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending(parcel("b", 1))
        async with (
            ear(federation, "b", hearing) as b,
            mouth(federation, "a", sending, "b", b.address, QUICK._replace(lifetime=0.2)) as a,
        ):
            await a.diary.until(lambda: a.diary.links.count(("b", "out", True)) == 3)
            assert a.diary.losses == []
            assert pauses == []
            await sending.until(lambda: (("b", 1, "repeated")) in sending.refusals)
            assert len(hearing.taken) == 1

    within(story())


def test_pauses_between_attempts_grow_to_a_bound(federation: Federation, pauses: list[float]) -> None:
    async def story() -> None:
        settings = Settings()
        async with mouth(federation, "a", Sending(), "b", "127.0.0.1:1", settings) as a:
            await a.diary.until(lambda: len(a.diary.losses) == 20)
        longest = [min(0.1 * 2**attempt, 2.0) for attempt in range(19)]
        assert all(top / 2 <= pause <= top for pause, top in zip(pauses, longest, strict=False))
        assert len(set(pauses)) == len(pauses)  # no two peers that lost a third come back in step
        assert {reason for _, reason, _ in a.diary.losses} == {"unreachable"}

    within(story())


def test_a_link_that_breaks_as_soon_as_it_is_up_is_not_hammered_at(federation: Federation, pauses: list[float]) -> None:
    async def story() -> None:
        hearing = Hearing("a")

        def fail(*_: Any) -> None:
            raise StoreError("out of order")

        hearing.take = fail  # type: ignore[method-assign]
        sending = Sending(parcel("b", 1))
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address, Settings()) as a:
            await a.diary.until(lambda: len(a.diary.losses) == 8)
        assert max(pauses) >= 1.0
        assert a.diary.links.count(("b", "out", True)) >= 8

    within(story())


def test_credentials_are_asked_for_each_connection_and_may_fail_for_a_while(federation: Federation) -> None:
    async def story() -> None:
        asked = []

        class Watch:
            def credentials(self) -> Any:
                asked.append(len(asked))
                if len(asked) == 2:
                    raise IdentityError("the certificate has ended: renew it")
                return federation.watches["a"].credentials()

            def current(self) -> Any:
                return federation.watches["a"].current()

        async with ear(federation, "b", Hearing("a")) as b:
            one = Mouth(federation, "a", Sending(), "b", b.address, QUICK._replace(lifetime=0.05))
            one.dialer = Dialer(one.sending, "b", b.address, Watch(), one.diary, QUICK._replace(lifetime=0.05))
            running = asyncio.ensure_future(one.dialer.run())
            await one.diary.until(lambda: one.diary.links.count(("b", "out", True)) == 3)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert len(asked) == 4
            assert [loss[:2] for loss in one.diary.losses] == [("b", "own identity")]

    within(story())


def test_a_dialer_notices_a_frozen_neighbour_and_is_back_when_it_thaws(federation: Federation) -> None:
    with far_end("ear", str(federation.directory)) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        async def story() -> None:
            async with mouth(federation, "a", Sending(parcel("b", 1)), "b", f"127.0.0.1:{port}", HURRIED) as a:
                await a.diary.until(lambda: bool(a.diary.out))
                os.kill(process.pid, signal.SIGSTOP)
                await a.diary.until(lambda: bool(a.diary.losses))
                assert a.diary.losses[0][:2] == ("b", "silent")
                os.kill(process.pid, signal.SIGCONT)
                await a.diary.until(lambda: a.dialer.connected)

        try:
            within(story())
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def bare_server(federation: Federation, *answers: bytes) -> AsyncIterator[str]:
    """Serve links as peer b, which says this, whatever it hears; yields the address."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def serve(connection: socket.socket) -> None:
        with connection:
            secured = await shake_hands(connection, federation.watches["b"].credentials().server, server_side=True)
            for answer in answers:
                for begin in range(0, len(answer), 2**14):
                    secured.tls.write(answer[begin : begin + 2**14])
            await loop.sock_sendall(connection, secured.outgoing.read())
            await asyncio.Event().wait()

    async def accept(listening: socket.socket) -> None:
        while True:
            connection, _ = await loop.sock_accept(listening)
            tasks.add(asyncio.ensure_future(serve(connection)))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        tasks.add(asyncio.ensure_future(accept(listening)))
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def first_loss(one: Mouth) -> tuple[str, str]:
    await one.diary.until(lambda: bool(one.diary.losses))
    _, reason, detail = one.diary.losses[0]
    return reason, detail


def test_a_server_of_another_name_is_told_apart_from_nobody(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending(parcel("c", 1))
        async with ear(federation, "b", hearing) as b:
            async with mouth(federation, "a", sending, "c", b.address) as a:
                reason, detail = await first_loss(a)
                assert reason == "untrusted"
                assert "'b'" in detail
                assert "'c'" in detail
                assert a.diary.refusals[0][:2] == ("server name", "c")
            address = b.address
            assert b.diary.links == []
        async with mouth(federation, "a", sending, "b", address) as a:
            assert (await first_loss(a))[0] == "unreachable"
            assert a.diary.refusals == []

    within(story())


def test_a_server_of_another_authority_is_not_trusted(
    federation: Federation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def story() -> None:
        other = Federation(tmp_path_factory.mktemp("other"), "a", "b")
        async with ear(other, "b", Hearing("a")) as b, mouth(federation, "a", Sending(), "b", b.address) as a:
            assert (await first_loss(a))[0] == "untrusted"
            assert a.diary.refusals[0][:2] == ("unknown authority", "b")
            await b.diary.until(lambda: bool(b.diary.refusals))
            assert b.diary.refusals[0][:2] == ("handshake", None)  # the alert of one that goes away
            assert "127.0.0.1" in b.diary.refusals[0][2]

    within(story())


def test_a_dialer_hears_why_it_is_turned_away(federation: Federation) -> None:
    async def story() -> None:
        async with ear(federation, "b", Hearing("c")) as b, mouth(federation, "a", Sending(), "b", b.address) as a:
            assert await first_loss(a) == ("turned away", "sender: a is not heard here")
        other = Sending(job="0" * 64)
        async with ear(federation, "b", Hearing("a")) as b, mouth(federation, "a", other, "b", b.address) as a:
            reason, detail = await first_loss(a)
            assert reason == "turned away"
            assert "0" * 64 in detail
            assert JOB in detail

    within(story())


def test_a_letter_that_cannot_be_opened_does_not_break_the_link(federation: Federation) -> None:
    async def story() -> None:
        sending = Sending()

        def closed(*_: Any) -> None:
            raise MessageRefused("malformed", "a letter that is none")

        sending.key_message = closed  # type: ignore[method-assign]
        async with ear(federation, "b", Hearing("a")) as b, mouth(federation, "a", sending, "b", b.address) as a:
            await a.diary.until(lambda: a.dialer.connected)
            await b.listener.send_key_message("a", "c", b"?")
            await a.diary.until(lambda: bool(a.diary.refusals))
            assert a.diary.refusals == [("malformed", "b", "a letter that is none")]
            assert a.dialer.connected

    within(story())


def test_a_refused_parcel_comes_back_to_the_dispatch(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending(parcel("b", 5), parcel("b", 5, phase=1))
        hearing.at = Position(1, 0)
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address):
            await hearing.until(lambda: len(hearing.taken) == 2)
            hearing.taken.append(("a", 0, 6))
            sending.parcels.append(parcel("b", 6))
            async with mouth(federation, "a", sending, "b", b.address):
                await sending.until(lambda: ("b", 6, "repeated") in sending.refusals)

    within(story())


WELCOMED = Place(1, 0).frame(WELCOME)
ANSWERS: dict[str, tuple[str, list[bytes]]] = {
    "no frame": ("malformed", [b"\xff\xff"]),
    "content": ("order", chunks(b"abc")),
    "progress instead of welcome": ("order", [Place(1, 0).frame(PROGRESS)]),
    "position after the last round": ("round", [Place(2**31, 0).frame(WELCOME)]),
    "header after welcome": ("order", [WELCOMED, Header().frame()]),
    "content after welcome": ("order", [WELCOMED, *chunks(b"abc")]),
    "hello after welcome": ("order", [WELCOMED, HELLO]),
    "a notice that nobody expects": ("order", [WELCOMED, wire.framed(wire.NOTICE, b"x")]),
    "welcome twice": ("order", [WELCOMED] * 2),
    "position in a phase that is none": ("phase", [WELCOMED, Place(0, 9).frame(PROGRESS)]),
    "large letter": ("oversized", [WELCOMED, Letter(0, "c", bytes(3 * 2**20)).frame()]),
    "announced letter of 4 GB": ("oversized", [WELCOMED, bytes((wire.LETTER,)) + number(2**32 - 1)]),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_dialer_refuses_answers_that_make_no_sense(federation: Federation, case: str) -> None:
    reason, answers = ANSWERS[case]

    async def story() -> None:
        async with (
            bare_server(federation, *answers) as address,
            mouth(federation, "a", Sending(), "b", address) as a,
        ):
            await a.diary.until(lambda: bool(a.diary.losses))
            assert a.diary.refusals[0][:2] == (reason, "b")

    within(story())


def test_who_does_not_welcome_in_time_is_silent(federation: Federation) -> None:
    async def story() -> None:
        settings = QUICK._replace(connect_time=0.3)

        async with (
            bare_server(federation) as address,
            mouth(federation, "a", Sending(), "b", address, settings) as a,
        ):
            assert await first_loss(a) == ("silent", f"{address} gave no welcome within 0.3 s")

    within(story())


def test_who_takes_a_connection_and_does_no_handshake_is_not_waited_for(federation: Federation) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as waiting:
            address = f"127.0.0.1:{waiting.getsockname()[1]}"
            settings = QUICK._replace(connect_time=0.3)
            async with mouth(federation, "a", Sending(), "b", address, settings) as a:
                assert (await first_loss(a))[0] in ("silent", "unreachable")

    within(story())


class Watched(str):
    """A part of a parcel that can be watched: bytes and tuples cannot."""


def test_what_is_confirmed_is_let_go(federation: Federation) -> None:
    async def story() -> None:
        hearing, sending = Hearing("a"), Sending()
        links = Watched("peers")
        watched = weakref.ref(links)
        sending.parcels.append(parcel("b", 1)._replace(links=links))
        del links
        async with ear(federation, "b", hearing) as b, mouth(federation, "a", sending, "b", b.address):
            await hearing.until(lambda: bool(hearing.taken))
            assert watched() is not None
            hearing.at = Position(2, 0)
            b.listener.progressed()
            await sending.until(lambda: sending.positions[-1] == (2, 0))
            await asyncio.sleep(0)  # the sending side has its turn
            assert watched() is None

    within(story())
