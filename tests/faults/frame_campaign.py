"""Floods of false frames: `python -m tests.faults.frame_campaign --frames 1000000` says what was sent and what broke.

One neighbour of a whole peer (codec, both ends of a link, node, store) says what it likes: frames as they should be, frames
with other rounds and positions, and damaged ones. The other neighbour is honest. Whatever comes is taken or refused
for a declared reason; a refusal leaves everything as it was, but for the round that a neighbour is taken to be in;
now and then the peer does a round, hears the honest neighbour in it, and is carried no further than the stated bound.
Messages are numbers as they are, or packed, in each way that there is (`--forms`); the frames are shared out among them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit import graphs, objectives, privacy, streams
from tacit.algorithms import distributed_online
from tacit.core.errors import MessageRefused
from tacit.core.packing import EveryFew, Largest, Packing, Rounded, Signs
from tacit.peer.machine.claims import LONGEST_LEAP, REST
from tacit.peer.node.exchange import Arrival, Parcel, Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.link_events import REFUSALS
from tacit.peer.transport.codec import LAST_ROUND, REASONS
from tacit.peer.transport.frames import (
    HEADER,
    PROGRESS,
    WELCOME,
    Header,
    Letter,
    Place,
    Receipt,
    framed,
    number,
)
from tacit.peer.transport.incoming import IncomingLink
from tacit.peer.transport.listener import Limits
from tacit.peer.transport.outgoing import OutgoingLink
from tests.peer.linked import chunks
from tests.peer.mutated_frames import feed, mutated, secured
from tests.peer.settings import Setting
from tests.peer.weather import BUDGET, BrokenInvariantError

OWN, LIAR, HONEST = "peer-0", "peer-1", "peer-4"
FRAMES_PER_ROUND = 200
ROUNDS_AFTER = 20
FALSE_ROUNDS = (0, 1, LAST_ROUND - 1, LAST_ROUND, LAST_ROUND + 1, LAST_ROUND + 2, 2**32 - 1, 2**30, 10**6)
RAW_ROUNDS = (2**32, 2**32 + 5, 2**63, 2**64 - 1)
"""More than the field holds: -1 is the last of them."""
DIM = 20
FORMS: dict[str, Packing | None] = {
    "plain": None,
    "int8": Rounded(8, 8),
    "int4": Rounded(4, 8),
    "top_k": Largest(0.25),
    "random_k": EveryFew(4),
    "sign": Signs(8),
}
"""How the numbers of a message are written."""


def setting_of(form: str) -> Setting:
    """Return a method that waits for nobody, whose messages are written in this form and may be late."""
    mechanism = privacy.laplace(epsilon=2.0, clip=1.0)
    whole = distributed_online(objectives.squared(), mechanism=mechanism, missing="renormalise")
    packed = whole._replace(phases=tuple(phase._replace(packing=FORMS[form]) for phase in whole.phases))
    stream = streams.linear_drift(5, DIM, drift=0.0, seed=1, batch=2)
    return Setting(form, packed, graphs.ring(5), stream, 10, longest_delay=2, booked=True)


class Peer:
    """The peer under attack, as both ends of the transport see it, and who counts for it."""

    def __init__(self, directory: Path, setting: Setting) -> None:
        self.setting = setting
        self.store = PeerStore.create(directory / "s.db", BUDGET, "job")
        self.node = Node(setting.plans[OWN], self.store, 1.0, 0.0, setting.functions)
        assert self.node.hears == self.node.sends_to == {LIAR, HONEST}
        self.job, self.specs = self.node.plan.job, self.node.specs
        self.position_interval, self.patience = self.node.position_interval, self.node.patience
        self.refusals: Counter[str] = Counter()
        self.taken = self.own = self.heard = 0
        self.before: Any = None

    # -- Reception and Dispatch ----------------------------------------------------------------------------------------

    def admit(self, name: str) -> None:
        self.node.admit(name)

    def position(self, name: str) -> Position:
        return self.node.position

    def greeted(self, name: str, at_round: int) -> None:
        self.node.greeted(name, at_round)

    def take(self, arrival: Arrival) -> None:
        links = self.node.plan.algorithm.phases[arrival.phase].links
        try:
            self.node.receive(arrival.name, links, arrival.phase, arrival.sent, arrival.message, arrival.masks)
        except MessageRefused as refusal:
            arrival.decide(refusal)
        else:
            arrival.decide(None)

    def noticed(self, name: str, payload: bytes) -> None:
        raise MessageRefused("order", "no notice is expected here")

    def parting(self, name: str) -> bytes:
        return b""

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        raise MessageRefused("recipient", "nobody writes letters here")

    def current_round(self) -> int:
        return self.node.round

    def waiting(self, name: str) -> tuple[Parcel, ...]:
        return tuple(self.node.waiting(name))

    def confirmed(self, name: str, position: Position) -> None:
        try:
            self.node.confirmed(name, position)
            self.before = self.state_now()
        except MessageRefused as refusal:
            self.refused(refusal.reason, name, refusal.detail)

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        raise MessageRefused("recipient", "nobody writes letters here")

    # -- LinkEvents ---------------------------------------------------------------------------------------------------------

    def refused(self, reason: str, name: Any, detail: str, *parcel: str) -> None:
        if parcel:  # a neighbour says that it refused one
            return
        if reason not in REFUSALS:
            raise BrokenInvariantError(f"refused for {reason!r}, which is not declared")
        self.refusals[reason] += 1
        if self.before != self.state_now():
            raise BrokenInvariantError(f"{reason}: a refused frame has changed the peer: {detail}")

    def accepted(self, name: str) -> None:
        self.taken += 1
        self.before = self.state_now()  # what comes behind it may be refused

    def received(self, name: str, size: int) -> None: ...

    def sent(self, name: str, size: int) -> None: ...

    def lost(self, name: str, reason: str, detail: str) -> None: ...

    def linked(self, name: str, direction: str, up: bool) -> None: ...

    # -- rounds --------------------------------------------------------------------------------------------------------

    def state_now(self) -> tuple[Any, ...]:
        """Return all that a refused frame must leave alone."""
        node, machine = self.node, self.node.machine
        return (
            machine.round,
            machine.phase,
            id(machine.state),
            {place: id(message) for place, message in machine._received.items()},
            set(machine._absorbed),
            {name: [id(parcel) for parcel in parcels] for name, parcels in node.outbox.parcels.items()},
            dict(node.outbox.positions),
            node.position,
        )

    def round(self) -> None:
        """Do a round in which the honest neighbour is heard."""
        node, before = self.node, self.node.round
        node.begin(self.setting.batch(OWN, self.own), 0.0, cursor=self.own + 1)
        self.own += 1
        if node.round > before + 1 + LONGEST_LEAP or node.round > self.own + LONGEST_LEAP * (1 + self.own // REST):
            raise BrokenInvariantError(f"carried from round {before} to {node.round} in round {self.own} of its own")
        (parcel,) = (p for p in node.outbox.parcels[HONEST] if p.round == node.round)
        message = node.codec.unpack(0, parcel.content)
        node.receive(HONEST, parcel.links, 0, node.round, message)
        self.heard += 1
        node.proceed(0.0)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(node.model())):
            raise BrokenInvariantError("the model is not finite")


def mutated_in_place(rng: random.Random, content: bytes) -> bytes:
    """Return a content of the same size with a false byte: a place beyond the end, a scale that is no number."""
    place = rng.randrange(len(content))
    return content[:place] + rng.choice((b"\xff", b"\x7f", b"\x80")) + content[place + 1 :]


class Flood:
    """What the liar says."""

    def __init__(self, peer: Peer, seed: int) -> None:
        self.peer, self.rng, self.sent = peer, random.Random(seed), 0
        self.codec = peer.node.codec
        generator, layout, form = np.random.default_rng(seed), self.codec.layouts[0], peer.node.specs[0].message
        values = [jax.tree.map(lambda leaf: generator.normal(size=leaf.shape).astype(leaf.dtype), form) for _ in "ab"]
        told = [layout.pack(value) for value in values]
        self.contents = [
            *told,
            *(mutated_in_place(self.rng, content) for content in told),
            generator.bytes(layout.size),
        ]

    def any_round(self) -> int:
        near = self.peer.node.round + self.rng.randrange(-4, 12)
        return self.rng.choice((*FALSE_ROUNDS, *[max(0, near)] * 9))

    def header(self, round_: int) -> bytes:
        return Header(0, round_, self.rng.choice(self.contents)).frame()

    def hello(self, round_: int) -> bytes:
        return self.codec.hello(round_).frame()

    def told(self, round_: int) -> list[bytes]:
        """Return frames of one that is heard by this peer."""
        raw = framed(HEADER, b"\0", number(self.rng.choice(RAW_ROUNDS)), self.contents[0])
        return [self.header(round_), *chunks(self.contents[0]), raw]

    def answered(self, round_: int) -> list[bytes]:
        """Return frames of one that hears this peer."""
        phase = self.rng.choice((0, 0, 1, 2))
        return [
            Place(round_, phase).frame(PROGRESS),
            Receipt(0, round_, "stale", "late").frame(),
            Letter(0, "c", b"sealed").frame(),
            framed(PROGRESS, number(self.rng.choice(RAW_ROUNDS)), b"\0"),
        ]

    def conversation(self, first: bytes, frames: list[bytes]) -> list[bytes]:
        said = [first if self.rng.random() < 0.9 else mutated(self.rng, [first])]
        said += [
            self.rng.choice(frames) if self.rng.random() < 0.4 else mutated(self.rng, [first, *frames])
            for _ in range(self.rng.randrange(4, 16))
        ]
        return said

    def say(self, link: IncomingLink | OutgoingLink, said: list[bytes]) -> None:
        """Let a link hear frame after frame, as long as it reads; how the peer stands before each is noted."""
        for frame in said:
            self.peer.before = self.peer.state_now()
            self.sent += 1
            if not feed(link, frame):
                break

    async def run(self, frames: int) -> None:
        """Say so many frames, on one end of a link and on the other in turn."""
        peer = self.peer
        while self.sent < frames:
            rounds = self.sent // FRAMES_PER_ROUND
            answers = secured("welcome", "progress", "receipt", "answer", "end")
            heard = IncomingLink(LIAR, answers, self.codec, peer, peer, Limits())
            heard.start()
            self.say(heard, self.conversation(self.hello(self.any_round()), self.told(self.any_round())))
            peer.before = peer.state_now()
            await asyncio.sleep(0)
            heard.end(None)
            heard.stream.close()
            last = heard.over.result()
            if last is not None and last.reason and last.reason not in REASONS:
                raise BrokenInvariantError(f"a link ended for {last.reason!r}, which is not declared")
            dialled = OutgoingLink(LIAR, secured("hello", "header", "content"), self.codec, peer, peer)
            dialled.start(60.0, 60.0)
            welcome = Place(self.any_round(), 0).frame(WELCOME)
            self.say(dialled, self.conversation(welcome, self.answered(self.any_round())))
            dialled.close()
            if self.sent // FRAMES_PER_ROUND > rounds:
                peer.round()


def flood(frames: int, seed: int, directory: Path, form: str = "plain") -> Peer:
    """Let a peer be flooded, and do rounds after it; raises what broke."""
    peer = Peer(directory, setting_of(form))
    try:
        asyncio.run(Flood(peer, seed).run(frames))
        for _ in range(ROUNDS_AFTER):
            peer.round()
        if peer.store.ledger.releases != peer.own:
            raise BrokenInvariantError(f"{peer.store.ledger.releases} releases are booked in {peer.own} rounds")
    finally:
        peer.store.close()
    return peer


def main() -> int:
    """Flood peers and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000, help="in all forms together")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--seed", type=int, default=0)
    asked, violations = parser.parse_args(), 0
    for form in asked.forms:
        began, frames = time.monotonic(), asked.frames // len(asked.forms)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
            try:
                peer = flood(frames, asked.seed, Path(directory), form)
            except BrokenInvariantError as violation:
                violations += 1
                print(f"{form}: {violation}", flush=True)
                continue
        took = time.monotonic() - began
        print(f"{form}: {frames:,} frames in {took:.0f} s ({frames / took:,.0f} per second), {peer.taken:,} were taken")
        print(
            f"  {peer.own} rounds of its own, now in round {peer.node.round:,}; the honest neighbour was heard in "
            f"{peer.heard}"
        )
        print(f"  refusals: {dict(peer.refusals.most_common())}", flush=True)
    print(f"violations: {violations}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
