"""A federation on loopback for tests of the transport: certificates, and peers that only write down what happens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit.core.contract import Message, unprotected
from tacit.core.errors import MessageRefused
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import identity_files
from tacit.peer.node.exchange import Arrival, Parcel, Position
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import REASONS, Codec
from tacit.peer.transport.dialer import LOSSES, Dialer, Settings, _connected
from tacit.peer.transport.handshake import Secured, shake_hands
from tacit.peer.transport.listener import Limits, Listener
from tacit.peer.transport.reader import FrameReader
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
LIVELY = Limits(ping_every=QUICK.ping_every, ping_timeout=60.0)
"""Of a listener that gives signs of life as often."""


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

    position_interval, patience = 1, 0

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
        self.held: list[Arrival] = []
        self.curious = False
        self.notices: list[tuple[str, bytes]] = []
        super().__init__()

    def admit(self, name: str) -> None:
        if name not in self.neighbours:
            raise MessageRefused("sender", f"{name} is not heard here")

    def position(self, name: str) -> Position:
        return self.at

    def greeted(self, name: str, at_round: int) -> None:
        self.rounds[name] = at_round

    def take(self, arrival: Arrival) -> None:
        self.calls += 1
        name, phase, sent = arrival.name, arrival.phase, arrival.sent
        if (sent, phase) < self.at:
            arrival.decide(MessageRefused("stale", f"round {sent} is over"))
        elif (name, phase, sent) in self.taken:
            arrival.decide(MessageRefused("repeated", f"round {sent} is here already"))
        elif self.gate.is_set():
            self.let_in(arrival)
        else:
            self.held.append(arrival)
        self.changed.set()

    def let_in(self, arrival: Arrival) -> None:
        if arrival.is_open:
            self.taken.append((arrival.name, arrival.phase, arrival.sent))
            self.messages.append(arrival.message)
            arrival.decide(None)
            self.changed.set()

    def open_gate(self) -> None:
        """Let in what is held back, and all that comes."""
        self.gate.set()
        held, self.held = self.held, []
        for arrival in held:
            self.let_in(arrival)

    def noticed(self, name: str, payload: bytes) -> None:
        if not self.curious:
            raise MessageRefused("order", "no notice is expected")
        self.notices.append((name, payload))
        self.changed.set()

    def parting(self, name: str) -> bytes:
        return b""

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
        self.curious = False
        self.notices: list[tuple[str, bytes]] = []
        self.wake: Callable[[], None] = lambda: None
        """Of the dialer, which has to let go what is confirmed."""
        super().__init__()

    def current_round(self) -> int:
        return 7

    def waiting(self, name: str) -> list[Parcel]:
        return [parcel for parcel in self.parcels if parcel.receiver == name]

    def confirmed(self, name: str, position: Position) -> None:
        self.positions.append(position)
        self.parcels = [p for p in self.parcels if p.receiver != name or (p.round, p.phase) >= position]
        self.wake()
        self.changed.set()

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        self.refusals.append((name, parcel.round, reason))
        self.changed.set()

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        self.letters.append((relay, sender, payload))
        self.changed.set()

    def noticed(self, name: str, payload: bytes) -> None:
        if not self.curious:
            raise MessageRefused("order", "no notice is expected")
        self.notices.append((name, payload))
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
        sending.wake = self.dialer.wake


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


class Said(NamedTuple):
    """A frame that a listener has sent."""

    kind: str
    value: Any


class RawLink:
    """A link spoken by hand, for what a dialer never says."""

    def __init__(self, secured: Secured) -> None:
        self.secured, self._reader, self._heard = secured, FrameReader(self), list[Said]()
        self._loop = asyncio.get_running_loop()

    async def say(self, *frames: bytes) -> None:
        for frame in frames:
            for begin in range(0, len(frame), 2**14):
                self.secured.tls.write(frame[begin : begin + 2**14])
            await self._loop.sock_sendall(self.secured.connection, self.secured.outgoing.read())

    def frame(self, kind: int, payload: memoryview) -> None:
        if kind != wire.BEAT:
            value = bytes(payload) if kind == wire.NOTICE else wire.parse(kind, payload)
            self._heard.append(Said(wire.KINDS[kind], value))

    async def _next(self) -> Said | None:
        while not self._heard:
            if self._reader.advance():
                continue
            space = self._reader.space()
            try:
                count = self.secured.tls.read(len(space), space)
            except ssl.SSLWantReadError:
                data = await self._loop.sock_recv(self.secured.connection, 2**16)
                self.secured.incoming.write(data) if data else self.secured.incoming.write_eof()
                continue
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return None
            if not count:
                return None
            self._reader.took(int(count))
        return self._heard.pop(0)

    async def hear(self) -> Said:
        said = await self._next()
        assert said is not None
        return said

    async def rest(self) -> list[Said]:
        """Read all that is still said."""
        heard = []
        with contextlib.suppress(ConnectionError):
            while (said := await self._next()) is not None:
                heard.append(said)
        return heard

    async def ending(self) -> wire.End:
        """Read what is left and return the last word."""
        heard = await self.rest()
        assert heard, "the link ended without a word"
        assert heard[-1].kind == "end"
        return heard[-1].value

    async def half_close(self) -> None:
        """Say that nothing more comes."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.secured.tls.unwrap()
        await self._loop.sock_sendall(self.secured.connection, self.secured.outgoing.read())
        self.secured.connection.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Break the connection."""
        linger = struct.pack("ii", 1, 0)
        self.secured.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.secured.connection.close()


@contextlib.asynccontextmanager
async def raw_link(federation: Federation, name: str, to: Ear) -> AsyncIterator[RawLink]:
    connection = await _connected(to.address)
    try:
        client = federation.watches[name].credentials().client
        yield RawLink(await shake_hands(connection, client, server_side=False))
    finally:
        connection.close()


def frames(parcel: Parcel, codec: Codec | None = None) -> list[bytes]:
    """Return all frames of a message."""
    return [head + bytes(part) for head, part in (codec or Codec(JOB, SPECS)).frames(parcel)]


def chunks(content: bytes) -> list[bytes]:
    """Return content as frames of its own."""
    return [head + bytes(part) for head, part in wire.content_frames(content)]


HELLO = Codec(JOB, SPECS).hello(1).frame()
