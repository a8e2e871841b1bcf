"""What must not get in does not: each refused over a real connection, counted by its reason, and never taken."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import numpy as np
import pytest

from tacit.peer.node.exchange import VERSION, Parcel, Position
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.frames import (
    BEAT,
    CHUNK,
    CONTENT,
    HEADER,
    INLINE,
    KEY_MESSAGE_LIMIT,
    LETTER,
    NOTICE,
    PROGRESS,
    WELCOME,
    Answer,
    End,
    Header,
    Leaf,
    Letter,
    Place,
    Receipt,
    framed,
    number,
)
from tacit.peer.transport.listener import Limits
from tests.peer.linked import (
    HELLO,
    JOB,
    SPECS,
    Federation,
    Hearing,
    chunks,
    ear,
    frames,
    message,
    parcel,
    raw_link,
    spec,
    within,
)

CODEC = Codec(JOB, SPECS)


def changed(**fields: Any) -> list[bytes]:
    """Return the frames of a message whose header says something else."""
    return [Header(0, 1, parcel("b", 1).content)._replace(**fields).frame()]


def hello(**fields: Any) -> bytes:
    """Return a hello that says something else."""
    return CODEC.hello(1)._replace(**fields).frame()


def with_leaf(dtype: str, shape: tuple[int, ...]) -> bytes:
    forms = CODEC.hello(1).forms
    return hello(forms=((Leaf(dtype, shape), *forms[0][1:]), *forms[1:]))


def infinite(value: float) -> list[bytes]:
    bad = message(0)
    bad.private["leaf0"][2, 1] = value
    return frames(Parcel("peers", 0, 1, "b", CODEC.pack(0, bad)))


LARGE = (spec(("float32", (CHUNK,))),)  # four frames of content
LARGE_CODEC = Codec(JOB, LARGE)
LARGE_FRAMES = frames(Parcel("peers", 0, 1, "b", bytes(4 * CHUNK)), LARGE_CODEC)
HEAD = Header(0, 1).frame()

WHOLE = frames(parcel("b", 1))[0]
FATAL = {
    "no hello but a message": ("order", frames(parcel("b", 1))),
    "no hello but content": ("order", chunks(b"abc")),
    "other version": ("version", [hello(version=VERSION + 1)]),
    "older version": ("version", [hello(version=VERSION - 1)]),
    "other job": ("job", [hello(job="0" * 64)]),
    "shape": ("shape", [with_leaf("float32", (2, 3))]),
    "dtype": ("dtype", [with_leaf("float16", (3, 2))]),
    "hello twice": ("order", [HELLO, HELLO]),
    "a welcome": ("order", [HELLO, Place(1, 0).frame(WELCOME)]),
    "progress": ("order", [HELLO, Place(1, 0).frame(PROGRESS)]),
    "a receipt": ("order", [HELLO, Receipt(0, 1, "stale", "").frame()]),
    "an answer": ("order", [HELLO, Answer(1).frame()]),
    "a notice that nobody expects": ("order", [HELLO, framed(NOTICE, b"x")]),
    "content without header": ("order", [HELLO, *chunks(b"abc")]),
    "content after a whole message": ("order", [HELLO, *frames(parcel("b", 1)), *chunks(b"abc")]),
    "no kind": ("malformed", [HELLO, b"\x0f\xff"]),
    "kind 0": ("malformed", [HELLO, bytes(2)]),
    "empty hello": ("malformed", [framed(wire.HELLO)]),
    "hello that is cut off": ("malformed", [framed(wire.HELLO, HELLO[2:-1])]),
    "hello that goes on": ("malformed", [framed(wire.HELLO, HELLO[3:], b"x")]),
    "empty header": ("malformed", [HELLO, framed(HEADER)]),
    "header that announces masks": ("malformed", [HELLO, framed(HEADER, b"\1\1\5abc")]),
    "header with masks of no length": ("malformed", [HELLO, framed(HEADER, b"\1\1\0abc")]),
    "round of six bytes": ("malformed", [HELLO, framed(HEADER, b"\0", b"\xff" * 5 + b"\1")]),
    "round beyond 32 bits": ("malformed", [HELLO, framed(HEADER, b"\0", number(2**32))]),
    "number written at length": ("malformed", [HELLO, framed(HEADER, b"\0", b"\x81\0")]),
    "length of six bytes": ("malformed", [HELLO, bytes((HEADER,)) + b"\xff" * 6]),
    "empty content": ("malformed", [HELLO, bytes((CONTENT, 0))]),
    "beat with something in it": ("oversized", [HELLO, bytes((BEAT, 1, 0))]),
    "large control frame": ("oversized", [HELLO, hello(job="x" * 70_000)]),
    "announced header of 4 GB": ("oversized", [HELLO, bytes((HEADER,)) + number(2**32 - 1)]),
    "large frame of content": ("oversized", [HELLO, bytes((CONTENT,)) + number(CHUNK + 1)]),
    "large letter": ("oversized", [HELLO, bytes((LETTER,)) + number(KEY_MESSAGE_LIMIT + 1)]),
    "too much behind a refused header": ("oversized", [HELLO, *changed(round=0), *chunks(bytes(52))]),
    "letter with a name that is no text": ("malformed", [HELLO, framed(LETTER, b"\1\2\xff\xfe")]),
}


@pytest.mark.parametrize("case", FATAL)
def test_where_the_order_is_lost_the_link_ends(federation: Federation, case: str) -> None:
    reason, said = FATAL[case]
    reasons = ["round", reason] if "behind" in case else [reason]

    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(*said)
            *heard, last = await link.rest()
            receipts = [said.value for said in heard if said.kind == "receipt"]
            assert [r.reason for r in receipts] == reasons[:-1]  # of no message but that
            assert last.kind == "end"
            assert last.value.reason == reason
            assert last.value.detail
            assert [(r, n) for r, n, _ in b.diary.refusals] == [(r, "a") for r in reasons]
            assert hearing.calls == (1 if case == "content after a whole message" else 0)
            assert "job" not in case or ("0" * 64 in last.value.detail and JOB in last.value.detail)

    within(story())


def test_a_flood_of_hellos_ends_with_the_second(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await asyncio.gather(link.say(*[HELLO] * 10_000), return_exceptions=True)
            await b.diary.until(lambda: ("a", "in", False) in b.diary.links)
            assert b.diary.reasons == ["order"]
            assert b.listener.connected == set()

    within(story())


GOING_ON = {
    "phase out of range": ("phase", changed(phase=2)),
    "another phase": ("size", changed(phase=1)),
    "round 0": ("round", changed(round=0)),
    "round after the last": ("round", changed(round=2**31)),
    "more content than fits": ("size", changed(content=bytes(29))),
    "less content than fits": ("size", changed(content=bytes(27))),
    "nothing where there is something for all": ("size", changed(content=b"", nothing=True)),
    "masks where there are none": ("masks", changed(masks=bytes(8))),
    "not a number": ("finite", infinite(np.nan)),
    "infinite": ("finite", infinite(-np.inf)),
}


@pytest.mark.parametrize("case", GOING_ON)
def test_where_only_a_message_is_bad_the_link_goes_on_behind_it(federation: Federation, case: str) -> None:
    reason, said = GOING_ON[case]

    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, *said)
            assert (await link.hear()).kind == "welcome"
            receipt = (await link.hear()).value
            assert receipt.reason == reason
            assert receipt.detail
            assert hearing.calls == 0
            assert [(r, n) for r, n, _ in b.diary.refusals] == [(reason, "a")]
            await link.say(*frames(parcel("b", 1)))
            await hearing.until(lambda: bool(hearing.taken))
            assert hearing.taken == [("a", 0, 1)]

    within(story())


def test_replay_and_stale_rounds_are_refused_by_the_peer_and_counted(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        hearing.at = Position(3, 0)
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, *frames(parcel("b", 3)), *frames(parcel("b", 3)), *frames(parcel("b", 2)))
            heard = [(await link.hear()).value for _ in range(3)][1:]
            assert [(r.round, r.reason) for r in heard] == [(3, "repeated"), (2, "stale")]
            assert b.diary.reasons == ["repeated", "stale"]
            assert hearing.taken == [("a", 0, 3)]

    within(story())


def test_the_content_behind_a_refused_header_is_skipped_up_to_a_bound(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a", specs=LARGE)
        bad = [Header(0, 0).frame() + LARGE_FRAMES[0][len(HEAD) :], *LARGE_FRAMES[1:]]
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(LARGE_CODEC.hello(1).frame(), *bad, *LARGE_FRAMES)
            heard = [await link.hear() for _ in range(2)]
            assert heard[1].value.reason == "round"
            await hearing.until(lambda: bool(hearing.taken))
            assert b.diary.reasons == ["round"]
            await link.say(*bad, LARGE_FRAMES[1])
            assert (await link.ending()).reason == "order"
            assert b.diary.reasons == ["round", "round", "order"]
            assert hearing.calls == 1

    within(story())


def test_a_message_that_is_longer_than_its_phase_says_ends_the_link(federation: Federation) -> None:
    long = (spec(("uint8", (INLINE + 1,))),)
    codec = Codec(JOB, long)

    async def story() -> None:
        hearing = Hearing("a", specs=long)
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(codec.hello(1).frame(), Header(0, 4).frame(), *chunks(bytes(INLINE + 2)))
            *heard, last = await link.rest()
            assert [(s.value.round, s.value.reason) for s in heard if s.kind == "receipt"] == [(4, "oversized")]
            assert last.value.reason == "oversized"
            assert hearing.calls == 0

    within(story())


@pytest.mark.parametrize("how", ["half-closed", "said to be the end", "cut", "header again"])
def test_a_truncated_message_is_not_taken(federation: Federation, how: str) -> None:
    async def story() -> None:
        hearing = Hearing("a", specs=LARGE)
        async with ear(federation, "b", hearing) as b:
            async with raw_link(federation, "a", b) as link:
                await link.say(LARGE_CODEC.hello(1).frame(), *LARGE_FRAMES[:-1])
                await link.hear()
                await b.diary.until(lambda: b.diary.into["a"] == 3 * CHUNK)
                if how == "half-closed":
                    await link.half_close()
                elif how == "said to be the end":
                    await link.say(End().frame())
                elif how == "cut":
                    link.cut()
                else:
                    await link.say(LARGE_FRAMES[0])
                await b.diary.until(lambda: bool(b.diary.refusals))
                await b.diary.until(lambda: b.diary.links == [("a", "in", True), ("a", "in", False)])
            assert b.diary.reasons == (["order"] if how == "header again" else ["truncated"])
            assert hearing.calls == 0

    within(story())


@pytest.mark.parametrize("left", [0, 1, 2, 3, 20])
def test_a_small_message_that_is_cut_off_is_not_taken(federation: Federation, left: int) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, WHOLE[:left] or b"")
            assert (await link.hear()).kind == "welcome"
            await link.half_close()
            await b.diary.until(lambda: ("a", "in", False) in b.diary.links)
            assert b.diary.reasons == (["truncated"] if left else [])
            assert hearing.calls == 0

    within(story())


def test_who_says_nothing_is_not_waited_for(federation: Federation) -> None:
    async def story() -> None:
        hearing, limits = Hearing("a"), Limits(hello_time=0.2)
        async with ear(federation, "b", hearing, limits) as b, raw_link(federation, "a", b) as link:
            assert await link.ending() == ("hello", "no hello within 0.2 s")
            assert b.diary.refusals == [("hello", "a", "no hello within 0.2 s")]
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.half_close()
            await link.rest()
            assert b.diary.reasons == ["hello"]

    within(story())


def test_a_member_that_is_no_neighbour_gets_no_word_in(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b:
            for said in ([], [HELLO], [HELLO, Letter(1, "a", b"x").frame()]):
                async with raw_link(federation, "c", b) as link:
                    await asyncio.gather(link.say(*said), return_exceptions=True)
                    assert await link.ending() == ("sender", "c is not heard here")
            assert [(reason, name) for reason, name, _ in b.diary.refusals] == [("sender", "c")] * 3
            assert all("127.0.0.1" in detail for _, _, detail in b.diary.refusals)
            assert hearing.rounds == {}
            assert hearing.letters == []
            assert b.listener.connected == set()

    within(story())


def test_a_record_that_was_changed_on_its_way_ends_the_link(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO)
            assert (await link.hear()).kind == "welcome"
            link.secured.tls.write(WHOLE)
            record = bytearray(link.secured.outgoing.read())
            record[-1] ^= 1
            await asyncio.get_running_loop().sock_sendall(link.secured.connection, record)
            await b.diary.until(lambda: ("a", "in", False) in b.diary.links)
            assert hearing.calls == 0

    within(story())


def test_key_updates_of_tls_are_followed_and_a_flood_of_them_is_not(federation: Federation) -> None:
    """Nothing else of TLS can happen after a handshake of 1.3: there is no renegotiation and no compression."""

    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, WHOLE)
            await hearing.until(lambda: bool(hearing.taken))
            assert link.secured.tls.version() == "TLSv1.3"
            assert link.secured.tls.compression() is None
            # A plain record in an encrypted connection: not even an alert is taken from it.
            alert = struct.pack("!BHH2s", 21, 0x303, 2, b"\1\0")
            await asyncio.get_running_loop().sock_sendall(link.secured.connection, alert)
            await b.diary.until(lambda: ("a", "in", False) in b.diary.links)

    within(story())


def test_letters_that_are_none_are_refused(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a", "c")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO, Letter(9, "d", b"x").frame())
            assert (await link.hear()).kind == "welcome"
            assert (await link.hear()).value[:2] == (9, "recipient")
            assert hearing.letters == []

            async def never(*_: Any) -> None:
                await asyncio.Event().wait()

            hearing.relay_key_message = never  # type: ignore[method-assign]
            await link.say(*(Letter(k, "c", b"").frame() for k in range(6)))
            assert [(await link.hear()).value[:2] for _ in range(2)] == [(4, "busy"), (5, "busy")]
            assert b.diary.reasons == ["recipient", "busy", "busy"]

    within(story())


def test_who_does_not_read_its_answers_is_not_read_either(federation: Federation) -> None:
    """A million refusals are asked for by one that reads none: what waits for it stays small."""

    async def story() -> None:
        hearing = Hearing("a")
        bad = Header(0, 0, parcel("b", 1).content).frame() * 500
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO)

            async def flood() -> None:
                while True:
                    await link.say(bad)

            flooding = asyncio.ensure_future(flood())
            counted = -1
            while counted != len(b.diary.refusals) or not counted:
                counted = len(b.diary.refusals)
                await asyncio.sleep(0.5)
            assert b.listener._links["a"].stream.pending < 2**20
            async with raw_link(federation, "a", b) as other:  # it does not stop anybody
                await other.say(HELLO)
                assert (await other.hear()).kind == "welcome"
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)

    within(story())
