"""What must not get in does not: each refused over a real connection, counted by its reason, and never taken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.peer.identity.credentials import channel_options, grpc
from tacit.peer.node.exchange import VERSION, Parcel, Position
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.frames import CHUNK, INLINE, content_frames
from tacit.peer.transport.link import LINK, RELAY
from tacit.peer.transport.listener import Limits
from tacit.peer.transport.wire import tacit_pb2 as pb
from tests.peer.linked import (
    HELLO,
    JOB,
    LIMIT,
    SPECS,
    Federation,
    Hearing,
    RawLink,
    ear,
    far_end,
    frame,
    frames,
    message,
    parcel,
    raw_link,
    spec,
    within,
)


def changed(**fields: Any) -> list[bytes]:
    """Return the frames of a message whose header says something else."""
    one = pb.Frame.FromString(frames(parcel("b", 1))[0])
    for field, value in fields.items():
        setattr(one.header, field, value)
    return [one.SerializeToString()]


def hello(**fields: Any) -> bytes:
    """Return a hello that says something else."""
    one = pb.Frame.FromString(HELLO)
    for field, value in fields.items():
        setattr(one.hello, field, value)
    return one.SerializeToString()


def with_leaf(dtype: str, shape: list[int]) -> bytes:
    one = pb.Frame.FromString(HELLO)
    one.hello.forms[0].leaves[0].CopyFrom(pb.Leaf(dtype=dtype, shape=shape))
    return one.SerializeToString()


def infinite(value: float) -> list[bytes]:
    bad = message(0)
    bad.private["leaf0"][2, 1] = value
    return frames(Parcel("peers", 0, 1, "b", Codec(JOB, SPECS).pack(0, bad)))


LARGE = (spec(("float32", (CHUNK,))),)  # four frames of content
LARGE_CODEC = Codec(JOB, LARGE)
LARGE_FRAMES = frames(Parcel("peers", 0, 1, "b", bytes(4 * CHUNK)), LARGE_CODEC)

FATAL = {
    "no hello but a message": ("order", frames(parcel("b", 1))),
    "other version": ("version", [hello(version=VERSION + 1)]),
    "other job": ("job", [hello(job="0" * 64)]),
    "shape": ("shape", [with_leaf("float32", [2, 3])]),
    "dtype": ("dtype", [with_leaf("float16", [3, 2])]),
    "hello twice": ("order", [HELLO, HELLO]),
    "a welcome": ("order", [HELLO, frame(welcome=pb.Welcome(round=1))]),
    "a letter": ("order", [HELLO, frame(letter=pb.Letter(correspondent="c", payload=b"x"))]),
    "content without header": ("order", [HELLO, *content_frames(b"abc")]),
    "content after a whole message": ("order", [HELLO, *frames(parcel("b", 1)), *content_frames(b"abc")]),
    "no protobuf": ("malformed", [HELLO, b"\x0f\xff"]),
    "empty frame": ("malformed", [HELLO, b""]),
    "cut frame": ("malformed", [HELLO, frames(parcel("b", 1))[0][:-1]]),
    "large control frame": ("oversized", [HELLO, frame(hello=pb.Hello(job="x" * 70_000))]),
    "large frame of content": ("oversized", [HELLO, b"\x22\x80\x80\x60" + bytes(3 * CHUNK // 2)]),
    "too much behind a refused header": ("oversized", [HELLO, *changed(round=0), *content_frames(bytes(52))]),
}


@pytest.mark.parametrize("case", FATAL)
def test_where_the_order_is_lost_the_link_ends(federation: Federation, case: str) -> None:
    reason, said = FATAL[case]
    reasons = ["round", reason] if "behind" in case else [reason]

    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(*said)
            receipts = [frame.receipt for frame in await link.rest() if frame.WhichOneof("kind") == "receipt"]
            code, details = await link.ending()
            assert [r.reason for r in receipts] == reasons
            assert receipts[-1].round == 0  # it is about no message
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert details.startswith(f"{reason}: ")
            assert [(r, n) for r, n, _ in b.diary.refusals] == [(r, "a") for r in reasons]
            assert hearing.calls == (1 if case == "content after a whole message" else 0)
            assert "job" not in case or ("0" * 64 in details and JOB in details)

    within(story())


def test_a_flood_of_hellos_ends_with_the_second(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            with pytest.raises((grpc.RpcError, asyncio.InvalidStateError)):
                await link.say(*[HELLO] * 10_000)
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
            assert (await link.hear()).WhichOneof("kind") == "welcome"
            receipt = (await link.hear()).receipt
            assert (receipt.accepted, receipt.reason) == (False, reason)
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
            heard = [(await link.hear()).receipt for _ in range(3)][1:]
            assert [(r.round, r.reason) for r in heard] == [(3, "repeated"), (2, "stale")]
            assert b.diary.reasons == ["repeated", "stale"]
            assert hearing.taken == [("a", 0, 3)]

    within(story())


def test_the_content_behind_a_refused_header_is_skipped_up_to_a_bound(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a", specs=LARGE)
        refused = pb.Frame.FromString(LARGE_FRAMES[0])
        refused.header.round = 0
        bad = [refused.SerializeToString(), *LARGE_FRAMES[1:]]
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(LARGE_CODEC.hello(1), *bad, *LARGE_FRAMES)
            heard = [await link.hear() for _ in range(2)]
            assert heard[1].receipt.reason == "round"
            await hearing.until(lambda: bool(hearing.taken))
            assert b.diary.reasons == ["round"]
            await link.say(*bad, LARGE_FRAMES[1])
            code, _ = await link.ending()
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert b.diary.reasons == ["round", "round", "order"]
            assert hearing.calls == 1

    within(story())


def test_a_message_that_is_longer_than_its_phase_says_ends_the_link(federation: Federation) -> None:
    long = (spec(("uint8", (INLINE + 1,))),)
    codec = Codec(JOB, long)

    async def story() -> None:
        hearing = Hearing("a", specs=long)
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(codec.hello(1), frame(header=pb.Header(round=4)), *content_frames(bytes(INLINE + 2)))
            receipts = [said.receipt for said in await link.rest() if said.WhichOneof("kind") == "receipt"]
            assert [(r.round, r.reason) for r in receipts] == [(4, "oversized")]
            assert (await link.ending())[0] is grpc.StatusCode.INVALID_ARGUMENT
            assert hearing.calls == 0

    within(story())


@pytest.mark.parametrize("how", ["half-closed", "cancelled", "header again"])
def test_a_truncated_message_is_not_taken(federation: Federation, how: str) -> None:
    async def story() -> None:
        hearing = Hearing("a", specs=LARGE)
        async with ear(federation, "b", hearing) as b:
            async with raw_link(federation, "a", b) as link:
                await link.say(LARGE_CODEC.hello(1), *LARGE_FRAMES[:-1])
                await link.hear()
                await b.diary.until(lambda: b.diary.into["a"] == 3 * CHUNK)
                if how == "half-closed":
                    await link.call.done_writing()
                elif how == "cancelled":
                    link.call.cancel()
                else:
                    await link.say(LARGE_FRAMES[0])
                await b.diary.until(lambda: bool(b.diary.refusals))
                await b.diary.until(lambda: b.diary.links == [("a", "in", True), ("a", "in", False)])
            assert b.diary.reasons == (["order"] if how == "header again" else ["truncated"])
            assert hearing.calls == 0

    within(story())


def test_who_says_nothing_is_not_waited_for(federation: Federation) -> None:
    async def story() -> None:
        hearing, limits = Hearing("a"), Limits(hello_time=0.2)
        async with ear(federation, "b", hearing, limits) as b, raw_link(federation, "a", b) as link:
            code, details = await link.ending()
            assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "hello: no hello within 0.2 s")
            assert b.diary.refusals == [("hello", "a", "no hello within 0.2 s")]
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.call.done_writing()
            await link.ending()
            assert b.diary.reasons == ["hello"]

    within(story())


def test_a_member_that_is_no_neighbour_gets_no_word_in(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b:
            async with raw_link(federation, "c", b) as link:
                code, details = await link.ending()
                assert (code, details) == (grpc.StatusCode.PERMISSION_DENIED, "sender: c is not heard here")
            async with grpc.aio.secure_channel(b.address, federation.client("c")(), channel_options("b")) as channel:
                with pytest.raises(grpc.RpcError, match="sender: c is not heard here"):
                    await channel.unary_unary(RELAY)(pb.Letter(correspondent="a").SerializeToString(), timeout=LIMIT)
            assert b.diary.refusals == [("sender", "c", "c is not heard here")] * 2
            assert hearing.rounds == {}
            assert hearing.letters == []
            assert b.listener.connected == set()

    within(story())


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_frames_are_refused(federation: Federation, algorithm: Any) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b, compression=algorithm) as link:
            await link.say(b"\x22\x80\x80\x04" + bytes(2**16))
            code, details = await link.ending()
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert details.startswith("compressed: ")
            assert b.diary.reasons == ["compressed"]
            assert hearing.calls == 0

    within(story())


def test_a_gzip_bomb_is_never_inflated(federation: Federation) -> None:
    """Made by gRPC itself: some 60 kB that would be 60 MB. The listener is a process of its own, to see its memory."""
    with far_end("ear", str(federation.directory)) as process:
        try:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"

            def peak() -> int:
                status = Path(f"/proc/{process.pid}/status").read_text()
                return int(status.split("VmHWM:")[1].split()[0]) * 1024

            async def story() -> None:
                async with grpc.aio.secure_channel(
                    address, federation.client("a")(), channel_options("b"), compression=grpc.Compression.Gzip
                ) as channel:
                    for size, growth in ((100, None), (60_000_000, 20_000_000)):
                        before = peak()
                        link = RawLink(channel.stream_stream(LINK)(timeout=LIMIT))
                        await link.say(bytes(size))
                        _, details = await link.ending()
                        assert details.startswith("compressed: ")
                        assert growth is None or peak() - before < growth

            within(story())
        finally:
            process.kill()


def test_a_frame_beyond_every_limit_does_not_even_get_here(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b, raw_link(federation, "a", b) as link:
            await link.say(HELLO)
            await link.hear()
            await asyncio.gather(link.say(bytes(30_000_000)), return_exceptions=True)
            code, _ = await link.ending()
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert hearing.calls == 0
            await b.diary.until(lambda: b.diary.links[-1] == ("a", "in", False))

    within(story())


def test_metadata_have_a_limit(federation: Federation) -> None:
    async def story() -> None:
        async with (
            ear(federation, "b", Hearing("a")) as b,
            grpc.aio.secure_channel(b.address, federation.client("a")(), channel_options("b")) as channel,
        ):
            call = channel.stream_stream(LINK)(timeout=LIMIT, metadata=[("padding", "x" * 20_000)])
            code, _ = await RawLink(call).ending()
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED

    within(story())


def test_letters_that_are_none_are_refused(federation: Federation) -> None:
    async def story() -> None:
        hearing = Hearing("a", "c")
        async with (
            ear(federation, "b", hearing) as b,
            grpc.aio.secure_channel(b.address, federation.client("a")(), channel_options("b")) as channel,
        ):
            for data in (b"\x0a\x05", pb.Letter(correspondent="c", payload=bytes(2 * CHUNK)).SerializeToString()):
                receipt = pb.Receipt.FromString(await channel.unary_unary(RELAY)(data, timeout=LIMIT))
                assert not receipt.accepted
            assert b.diary.reasons == ["malformed", "oversized"]
            assert hearing.letters == []

            waiting = asyncio.Event()

            async def never(*_: Any) -> None:
                waiting.set()
                await asyncio.Event().wait()

            hearing.relay_key_message = never  # type: ignore[method-assign]
            data = pb.Letter(correspondent="c").SerializeToString()
            calls = [channel.unary_unary(RELAY)(data, timeout=LIMIT) for _ in range(6)]
            await b.diary.until(lambda: len(b.diary.refusals) == 4)
            assert b.diary.reasons[2:] == ["busy", "busy"]
            for call in calls:
                call.cancel()

    within(story())
