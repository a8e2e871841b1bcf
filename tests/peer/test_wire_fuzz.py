"""Mutated bytes: whatever is sent, the peer refuses it or takes a message that fits, and stays as small as it was."""

from __future__ import annotations

import asyncio
import random
import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from tacit.core.contract import Message
from tacit.core.errors import MessageRefused
from tacit.peer.identity.credentials import channel_options, grpc
from tacit.peer.node.exchange import Parcel
from tacit.peer.transport.codec import LAST_ROUND, REASONS, Codec
from tacit.peer.transport.dialer import Dialer, _TurnedAwayError
from tacit.peer.transport.frames import content_frames, parse_key_message, parse_receipt
from tacit.peer.transport.incoming import IncomingLink
from tacit.peer.transport.link import LINK
from tacit.peer.transport.listener import Listener
from tacit.peer.transport.wire import tacit_pb2 as pb
from tests.peer.linked import (
    JOB,
    LIMIT,
    SPECS,
    Diary,
    Federation,
    Hearing,
    Sending,
    ear,
    frames,
    parcel,
    spec,
    within,
)
from tests.peer.mutated_frames import Wire, mutated

LARGE = spec(("float32", (2**20,)))
CODEC = Codec(JOB, (*SPECS, LARGE))
LARGE_FRAMES = frames(Parcel("peers", 2, 1, "b", bytes(2**22)), CODEC)
HELLO = CODEC.hello(1)
GROWTH = 50_000_000


def _seeds() -> list[bytes]:
    def frame(**kind: Any) -> bytes:
        return pb.Frame(**kind).SerializeToString()

    split = pb.Frame.FromString(frames(parcel("b", 1), CODEC)[0])
    split.header.ClearField("content")
    return [
        HELLO,
        *frames(parcel("b", 1), CODEC),
        *frames(parcel("b", 2, phase=1), CODEC),
        split.SerializeToString(),
        LARGE_FRAMES[0],
        *content_frames(parcel("b", 1).content),
        *content_frames(bytes(5)),
        frame(welcome=pb.Welcome(round=3, phase=1)),
        frame(progress=pb.Progress(round=3, phase=1)),
        frame(receipt=pb.Receipt(phase=0, round=1, reason="stale", detail="late")),
        frame(letter=pb.Letter(correspondent="c", payload=b"sealed")),
    ]


SEEDS = _seeds()


class Checked(Hearing):
    """Takes what it gets, and looks whether it could have been."""

    async def take(self, name: str, phase: int, sent: int, message: Message | None, masks: bytes = b"") -> None:
        self.calls += 1
        assert name == "a"
        assert 1 <= sent <= LAST_ROUND
        leaves, expected = jax.tree.leaves(message), jax.tree.leaves(self.specs[phase].message)
        assert [(x.shape, x.dtype) for x in leaves] == [(s.shape, s.dtype) for s in expected]
        assert all(np.isfinite(x).all() for x in leaves)
        if self.calls % 2:
            raise MessageRefused("repeated", "every other one")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def conversations(rng: random.Random, first: bytes) -> Iterator[Wire]:
    """Make endless conversations, most of which begin well."""
    while True:
        begin = [mutated(rng, SEEDS)] if rng.random() < 0.1 else [first]
        rest = [rng.choice(SEEDS) if rng.random() < 0.2 else mutated(rng, SEEDS) for _ in range(rng.randrange(1, 8))]
        if rng.random() < 0.02:
            rest[0:0] = LARGE_FRAMES[: rng.randrange(5)]
        yield Wire([*begin, *rest])


def test_100000_mutated_frames_on_the_listening_side() -> None:
    async def story() -> None:
        hearing, diary, rng = Checked("a", specs=(*SPECS, LARGE)), Diary(), random.Random(1)
        listener = Listener(hearing, object(), diary)
        read, before = 0, 0
        for wire in conversations(rng, HELLO):
            link = IncomingLink("a", wire)
            refusal = await listener._converse(link)
            assert refusal is None or refusal.reason in REASONS
            assert all(pb.Frame.FromString(data).WhichOneof("kind") for data in wire.written)
            read += wire.read_so_far
            if read > 5_000 and not before:
                before = peak()
            if read > 100_000:
                break
        reasons = Counter(diary.reasons)
        assert peak() - before < GROWTH
        assert hearing.calls > 1_000  # what was not damaged got through
        assert {"malformed", "order", "oversized", "job", "dtype", "shape", "size", "phase", "round"} <= reasons.keys()
        assert not diary.links or diary.links[-1] == ("a", "in", False)

    within(story(), 120)


def test_20000_mutated_frames_on_the_dialling_side() -> None:
    async def story() -> None:
        sending, diary, rng = Sending(specs=(*SPECS, LARGE)), Diary(), random.Random(2)
        dialer = Dialer(sending, "b", "127.0.0.1:1", object, diary)
        welcome = pb.Frame(welcome=pb.Welcome(round=1)).SerializeToString()
        read, before, refusals = 0, 0, Counter[str]()
        parcels = {(0, 1, b""): parcel("b", 1)}
        for wire in conversations(rng, welcome):
            try:
                await dialer._greet(wire)
                await dialer._listen(wire, parcels)
            except MessageRefused as refusal:
                refusals[refusal.reason] += 1
            except _TurnedAwayError:
                refusals["turned away"] += 1
            read += wire.read_so_far
            if read > 3_000 and not before:
                before = peak()
            if read > 20_000:
                break
            sending.positions.clear()
            sending.letters.clear()
        assert peak() - before < GROWTH
        assert refusals.keys() <= REASONS | {"turned away"}
        assert {"malformed", "order", "phase", "turned away"} <= refusals.keys()
        assert all(reason in REASONS | {"unknown"} for _, _, reason in sending.refusals)
        assert ("b", 1, "stale") in sending.refusals

    within(story(), 120)


def test_20000_mutated_letters_and_receipts() -> None:
    rng, outcomes = random.Random(3), Counter[str]()
    for _ in range(10_000):
        for parse in (parse_key_message, parse_receipt):
            try:
                parse(mutated(rng, SEEDS))
            except MessageRefused as refusal:
                outcomes[refusal.reason] += 1
    assert outcomes.keys() <= {"malformed", "oversized", "compressed"}
    assert outcomes["malformed"] > 1_000


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"), "a", "b")


@pytest.mark.covered_by("the mutated frames on the listening side")
def test_500_mutated_frames_over_a_real_connection(federation: Federation) -> None:
    async def story() -> None:
        hearing, rng = Checked("a", specs=(*SPECS, LARGE)), random.Random(4)
        async with (
            ear(federation, "b", hearing) as b,
            grpc.aio.secure_channel(b.address, federation.client("a")(), channel_options("b")) as channel,
        ):
            said = 0
            for wire in conversations(rng, HELLO):
                call = channel.stream_stream(LINK)(timeout=LIMIT)

                async def speak(call: Any = call, wire: Wire = wire) -> None:
                    for frame in wire.said:
                        await call.write(frame)
                    await call.done_writing()

                said += len(wire.said)
                speaking = asyncio.ensure_future(speak())
                while True:
                    try:
                        if await call.read() is grpc.aio.EOF:
                            break
                    except grpc.RpcError:
                        break
                await asyncio.gather(speaking, return_exceptions=True)
                assert (await call.code()).name in ("OK", "INVALID_ARGUMENT", "INTERNAL")
                if said > 500:
                    break
            assert "malformed" in b.diary.reasons
            assert hearing.calls > 3
            assert b.listener.connected == set()

    within(story(), 120)
