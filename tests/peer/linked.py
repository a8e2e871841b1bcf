"""A federation on loopback for tests of the transport: certificates, and peers that only write down what happens."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit.core.contract import Message, unprotected
from tacit.core.errors import MessageRefused
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.credentials import (
    IdentityWatch,
    channel_credentials,
    channel_options,
    grpc,
    server_credentials,
)
from tacit.peer.identity.identity import identity_files, install, request
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.transport.codec import REASONS, Codec
from tacit.peer.transport.dialer import LOSSES, Dialer, Settings
from tacit.peer.transport.link import LINK
from tacit.peer.transport.listener import Limits, Listener
from tacit.peer.transport.wire import tacit_pb2 as pb
from tacit.runtime import MessageSpec, ReleaseSpec

JOB = "5f" * 32
LIMIT = 600.0
"""Seconds after which a test that waits has failed."""


def within(story: Coroutine[Any, Any, None], seconds: float = LIMIT) -> None:
    """Run what a test tells, in limited time."""

    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await story

    asyncio.run(limited())


QUICK = Settings(connect_time=5.0, first_pause=0.02, longest_pause=0.1, ping_every=0.3, ping_timeout=60.0)
"""Nobody is taken for dead on a busy machine."""
HURRIED = QUICK._replace(ping_timeout=0.5)


def spec(*leaves: tuple[str, tuple[int, ...]], public: Sequence[tuple[str, tuple[int, ...]]] = ()) -> MessageSpec:
    def tree(described: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Any]:
        return {f"leaf{k}": jax.ShapeDtypeStruct(shape, np.dtype(d)) for k, (d, shape) in enumerate(described)}

    return MessageSpec(Message(tree(leaves), tree(public)), "share", False, ReleaseSpec(unprotected, 1, True))


SPECS = (spec(("float32", (3, 2)), public=[("int32", ())]), spec(("float64", (5,)), ("bool", (3,)), ("float32", (2,))))


def message(phase: int, seed: int = 0) -> Message:
    rng = np.random.default_rng(seed)

    def leaf(s: Any) -> np.ndarray:
        return np.asarray(rng.normal(size=s.shape) * 3 if s.dtype != bool else rng.random(s.shape) < 0.5, s.dtype)

    return jax.tree.map(leaf, SPECS[phase].message)


def parcel(receiver: str, sent: int, phase: int = 0, seed: int | None = None) -> Parcel:
    content = Codec(JOB, SPECS).pack(phase, message(phase, sent if seed is None else seed))
    return Parcel("peers", phase, sent, receiver, content)


def _watch(home: Path) -> IdentityWatch:
    def fail(fault: Exception) -> None:
        raise fault

    return IdentityWatch(identity_files(home), fail)


class Federation:
    """One authority and the identities that it has issued."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.directory = directory
        init_ca(directory / "authority", "test authority")
        self.watches = {name: self.member(name) for name in names}

    def member(self, name: str) -> IdentityWatch:
        home, ca = self.directory / name, self.directory / "authority"
        wanted = request(name, home)
        install(issue(wanted.csr, name, ca, home / "new.crt"), ca / "ca.crt", home)
        (home / "new.crt").unlink()
        return _watch(home)

    @classmethod
    def reopened(cls, directory: Path, *names: str) -> Federation:
        """Return a federation that another process has made."""
        federation = cls.__new__(cls)
        federation.directory, federation.watches = directory, {name: _watch(directory / name) for name in names}
        return federation

    def server(self, name: str) -> grpc.ServerCredentials:
        return server_credentials(self.watches[name])

    def client(self, name: str) -> Callable[[], grpc.ChannelCredentials]:
        return lambda: channel_credentials(self.watches[name].current())


class Watched:
    """Something whose changes can be waited for."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that is written here makes the condition true."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class Diary(Watched):
    """Link events that are kept, all of them."""

    def __init__(self) -> None:
        self.refusals: list[tuple[str, str | None, str]] = []
        self.losses: list[tuple[str, str, str]] = []
        self.out: Counter[str] = Counter()
        self.into: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.links: list[tuple[str, str, bool]] = []
        super().__init__()

    def refused(self, reason: str, name: str | None, detail: str) -> None:
        assert reason in REASONS
        self.refusals.append((reason, name, detail))
        self.changed.set()

    def lost(self, name: str, reason: str, detail: str) -> None:
        assert reason in LOSSES
        self.losses.append((name, reason, detail))
        self.changed.set()

    def sent(self, name: str, size: int) -> None:
        self.out[name] += size
        self.changed.set()

    def received(self, name: str, size: int) -> None:
        self.into[name] += size
        self.changed.set()

    def accepted(self, name: str) -> None:
        self.taken[name] += 1
        self.changed.set()

    def linked(self, name: str, direction: str, up: bool) -> None:
        self.links.append((name, direction, up))
        self.changed.set()

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _, _ in self.refusals]


class Hearing(Watched):
    """A reception that takes every message once, and holds back while `gate` is shut."""

    position_interval = 1

    def __init__(self, *neighbours: str, specs: Sequence[MessageSpec] = SPECS, job: str = JOB) -> None:
        self.job, self.specs, self.neighbours = job, specs, neighbours
        self.at = Position(1, 0)
        self.taken: list[tuple[str, int, int]] = []
        self.messages: list[Message | None] = []
        self.calls = 0
        self.rounds: dict[str, int] = {}
        self.letters: list[tuple[str, str, bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        super().__init__()

    def admit(self, name: str) -> None:
        if name not in self.neighbours:
            raise MessageRefused("sender", f"{name} is not heard here")

    def position(self, name: str) -> Position:
        return self.at

    def greeted(self, name: str, at_round: int) -> None:
        self.rounds[name] = at_round

    async def take(self, name: str, phase: int, sent: int, message: Message | None, masks: bytes = b"") -> None:
        self.calls += 1
        if (sent, phase) < self.at:
            raise MessageRefused("stale", f"round {sent} is over")
        if (name, phase, sent) in self.taken:
            raise MessageRefused("repeated", f"round {sent} is here already")
        await self.gate.wait()
        self.taken.append((name, phase, sent))
        self.messages.append(message)
        self.changed.set()

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        if recipient not in self.neighbours:
            raise MessageRefused("recipient", f"{recipient} is not a neighbour")
        self.letters.append((name, recipient, payload))
        self.changed.set()


class Sending(Watched):
    """A dispatch with a list of parcels."""

    def __init__(self, *parcels: Parcel, specs: Sequence[MessageSpec] = SPECS, job: str = JOB) -> None:
        self.job, self.specs, self.parcels = job, specs, list(parcels)
        self.positions: list[Position] = []
        self.refusals: list[tuple[str, int, str]] = []
        self.letters: list[tuple[str, str, bytes]] = []
        super().__init__()

    def current_round(self) -> int:
        return 7

    def waiting(self, name: str) -> list[Parcel]:
        return [parcel for parcel in self.parcels if parcel.receiver == name]

    def confirmed(self, name: str, position: Position) -> None:
        self.positions.append(position)
        self.parcels = [p for p in self.parcels if p.receiver != name or (p.round, p.phase) >= position]
        self.changed.set()

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        self.refusals.append((name, parcel.round, reason))
        self.changed.set()

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        self.letters.append((relay, sender, payload))
        self.changed.set()


class Ear:
    """A listener with its reception and its diary."""

    def __init__(self, federation: Federation, name: str, hearing: Hearing, limits: Limits | None = None) -> None:
        self.name, self.hearing, self.diary = name, hearing, Diary()
        self.listener = Listener(hearing, federation.watches[name], self.diary, limits)
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def ear(
    federation: Federation, name: str, hearing: Hearing, limits: Limits | None = None, port: int = 0
) -> AsyncIterator[Ear]:
    one = Ear(federation, name, hearing, limits)
    one.port = await one.listener.start(f"127.0.0.1:{port}")
    try:
        yield one
    finally:
        await one.listener.close()


class Mouth:
    """A dialer with its dispatch and its diary."""

    def __init__(
        self, federation: Federation, name: str, sending: Sending, to: str, address: str, settings: Settings = QUICK
    ) -> None:
        self.sending, self.diary = sending, Diary()
        self.dialer = Dialer(sending, to, address, federation.watches[name], self.diary, settings)


@contextlib.asynccontextmanager
async def mouth(
    federation: Federation, name: str, sending: Sending, to: str, address: str, settings: Settings = QUICK
) -> AsyncIterator[Mouth]:
    one = Mouth(federation, name, sending, to, address, settings)
    running = asyncio.ensure_future(one.dialer.run())
    try:
        yield one
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def far_end(*arguments: str) -> subprocess.Popen[str]:
    """Start the other end in a process of its own."""
    command = [sys.executable, "-m", "tests.peer.far_end", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class RawLink:
    """A link spoken by hand, for what a dialer never says."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def say(self, *frames: bytes) -> None:
        for frame in frames:
            await self.call.write(frame)

    async def hear(self) -> pb.Frame:
        data = await self.call.read()
        assert data is not grpc.aio.EOF
        return pb.Frame.FromString(data)

    async def rest(self) -> list[pb.Frame]:
        """Read all that is still said."""
        heard = []
        with contextlib.suppress(grpc.RpcError):
            while (data := await self.call.read()) is not grpc.aio.EOF:
                heard.append(pb.Frame.FromString(data))
        return heard

    async def ending(self) -> tuple[grpc.StatusCode, str]:
        """Read what is left and return how the link ended."""
        await self.rest()
        return await self.call.code(), await self.call.details()


@contextlib.asynccontextmanager
async def raw_link(federation: Federation, name: str, to: Ear, *options: Any, **channel: Any) -> AsyncIterator[RawLink]:
    credentials = federation.client(name)()
    opened = grpc.aio.secure_channel(to.address, credentials, options=channel_options(to.name, *options), **channel)
    async with opened:
        yield RawLink(opened.stream_stream(LINK)(timeout=LIMIT))


def frame(**kind: Any) -> bytes:
    """Return one frame as it lies on the wire."""
    return pb.Frame(**kind).SerializeToString()


def frames(parcel: Parcel, codec: Codec | None = None) -> list[bytes]:
    """Return all frames of a message."""
    return list((codec or Codec(JOB, SPECS)).frames(parcel))


HELLO = Codec(JOB, SPECS).hello(1)
