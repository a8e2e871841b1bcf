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

from tacit.core.errors import MessageRefused
from tacit.peer.node.exchange import Arrival, Parcel
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import LAST_ROUND, REASONS, Codec
from tacit.peer.transport.frames import PROGRESS, WELCOME, Answer, End, Header, Letter, Place, Receipt
from tacit.peer.transport.incoming import IncomingLink
from tacit.peer.transport.listener import Limits
from tacit.peer.transport.outgoing import OutgoingLink
from tests.peer.linked import (
    JOB,
    SPECS,
    Diary,
    Federation,
    Hearing,
    Sending,
    chunks,
    ear,
    frames,
    parcel,
    raw_link,
    spec,
    within,
)
from tests.peer.mutated_frames import feed, mutated, secured

LARGE = spec(("float32", (2**20,)))
CODEC = Codec(JOB, (*SPECS, LARGE))
LARGE_FRAMES = frames(Parcel("peers", 2, 1, "b", bytes(2**22)), CODEC)
HELLO = CODEC.hello(1).frame()
GROWTH = 50_000_000


def _seeds() -> list[bytes]:
    return [
        HELLO,
        *frames(parcel("b", 1), CODEC),
        *frames(parcel("b", 2, phase=1), CODEC),
        Header(0, 1).frame(),
        LARGE_FRAMES[0][:8],
        Header(0, 1, parcel("b", 1).content, b"12345678").frame(),
        *chunks(parcel("b", 1).content),
        *chunks(bytes(5)),
        Place(3, 1).frame(WELCOME),
        Place(3, 1).frame(PROGRESS),
        Receipt(0, 1, "stale", "late").frame(),
        Letter(1, "c", b"sealed").frame(),
        Answer(1, "busy", "later").frame(),
        wire.framed(wire.NOTICE, b"notice"),
        wire.BEAT_FRAME,
        End("sender", "go away").frame(),
    ]


SEEDS = _seeds()


class Checked(Hearing):
    """Takes what it gets, and looks whether it could have been."""

    def take(self, arrival: Arrival) -> None:
        self.calls += 1
        assert arrival.name == "a"
        assert 1 <= arrival.sent <= LAST_ROUND
        leaves = jax.tree.leaves(arrival.message)
        expected = jax.tree.leaves(self.specs[arrival.phase].message)
        assert [(x.shape, x.dtype) for x in leaves] == [(s.shape, s.dtype) for s in expected]
        assert all(np.isfinite(x).all() for x in leaves)
        arrival.decide(MessageRefused("repeated", "every other one") if self.calls % 2 else None)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def conversations(rng: random.Random, first: bytes) -> Iterator[list[bytes]]:
    """Make endless conversations, most of which begin well."""
    while True:
        begin = [mutated(rng, SEEDS)] if rng.random() < 0.1 else [first]
        rest = [rng.choice(SEEDS) if rng.random() < 0.2 else mutated(rng, SEEDS) for _ in range(rng.randrange(1, 8))]
        if rng.random() < 0.02:
            rest[0:0] = LARGE_FRAMES[: rng.randrange(5)]
        yield [*begin, *rest]


def test_100000_mutated_frames_on_the_listening_side() -> None:
    async def story() -> None:
        hearing, diary, rng = Checked("a", specs=(*SPECS, LARGE)), Diary(), random.Random(1)
        read, before = 0, 0
        for said in conversations(rng, HELLO):
            answers = secured("welcome", "progress", "receipt", "answer", "end")
            link = IncomingLink("a", answers, CODEC, hearing, diary, Limits())
            link.start()
            for frame in said:
                read += 1
                if not feed(link, frame):
                    break
            await asyncio.sleep(0)  # letters are relayed
            link.end(None)
            link.stream.close()
            last = link.over.result()
            assert last is None or not last.reason or last.reason in REASONS
            if read > 5_000 and not before:
                before = peak()
            if read > 100_000:
                break
        reasons = Counter(diary.reasons)
        assert peak() - before < GROWTH
        assert hearing.calls > 1_000  # what was not damaged got through
        assert reasons.keys() <= REASONS
        expected = {"malformed", "order", "oversized", "job", "dtype", "shape", "size", "phase", "round", "masks"}
        assert expected <= reasons.keys()
        assert not diary.links or diary.links[-1] == ("a", "in", False)

    within(story(), 120)


def test_20000_mutated_frames_on_the_dialling_side() -> None:
    async def story() -> None:
        sending, diary, rng = Sending(specs=(*SPECS, LARGE)), Diary(), random.Random(2)
        welcome = Place(1, 0).frame(WELCOME)
        read, before, losses = 0, 0, Counter[str]()
        for said in conversations(rng, welcome):
            sending.parcels = [parcel("b", 1)]
            link = OutgoingLink("b", secured("hello", "header", "content", "letter"), CODEC, sending, diary)
            link.start(60.0, 60.0)
            for frame in said:
                read += 1
                if not feed(link, frame):
                    break
            losses[(await link.until_over(0.0) or ("none",))[0]] += 1
            link.close()
            if read > 3_000 and not before:
                before = peak()
            if read > 20_000:
                break
            sending.positions.clear()
            sending.letters.clear()
        assert peak() - before < GROWTH
        assert set(diary.reasons) <= REASONS
        assert {"malformed", "order", "phase", "oversized"} <= set(diary.reasons)
        assert losses.keys() == {"none", "ended", "turned away"}
        assert all(reason in REASONS | {"unknown"} for _, _, reason in sending.refusals)
        assert ("b", 1, "stale") in sending.refusals

    within(story(), 120)


def test_80000_mutated_payloads() -> None:
    rng, outcomes = random.Random(3), Counter[str]()
    for _ in range(10_000):
        for kind in wire._PARSERS:
            try:
                wire.parse(kind, memoryview(mutated(rng, SEEDS)))
            except MessageRefused as refusal:
                outcomes[refusal.reason] += 1
    assert outcomes.keys() == {"malformed"}
    assert outcomes["malformed"] > 10_000


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"), "a", "b")


@pytest.mark.covered_by("the mutated frames on the listening side")
def test_500_mutated_frames_over_a_real_connection(federation: Federation) -> None:
    async def story() -> None:
        hearing, rng = Checked("a", specs=(*SPECS, LARGE)), random.Random(4)
        async with ear(federation, "b", hearing) as b:
            said = 0
            for conversation in conversations(rng, HELLO):
                async with raw_link(federation, "a", b) as link:

                    async def speak(link: Any = link, conversation: list[bytes] = conversation) -> None:
                        await link.say(*conversation)
                        await link.half_close()

                    said += len(conversation)
                    speaking = asyncio.ensure_future(speak())
                    heard = await link.rest()
                    await asyncio.gather(speaking, return_exceptions=True)
                    ends = [one.value for one in heard if one.kind == "end"]
                    assert all(not end.reason or end.reason in REASONS for end in ends)
                if said > 500:
                    break
            assert "malformed" in b.diary.reasons
            assert hearing.calls > 3
            await b.diary.until(lambda: b.listener.connected == set())

    within(story(), 120)
