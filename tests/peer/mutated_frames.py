"""Frames that are read, or damaged, by hand, and links that are fed with them."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from tacit.core.errors import MessageRefused
from tacit.peer.transport.frames import CONTENT, KINDS
from tacit.peer.transport.handshake import Secured
from tacit.peer.transport.reader import FrameReader


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of these frames, damaged once or a few times."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place:]
            case 2:
                data[place:place] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                data[place:] = rng.choice(seeds)[place:]
            case 4:
                data[place : place + 1] = b"\xff" * rng.randrange(1, 10) + b"\x01"  # a large number
            case 5:
                data += rng.choice(seeds)
            case _:
                del data[place : place + rng.randrange(1, 9)]
    return bytes(data)


_QUIET = socket.socketpair()
"""Nothing is ever written there."""


class Silence:
    """Both ends of a connection that carries nothing: a link over it is fed by hand."""

    def __init__(self, kinds: set[str]) -> None:
        self._kinds, self._reader = kinds, FrameReader(self)

    def frame(self, kind: int, payload: memoryview) -> None:
        assert KINDS[kind] in self._kinds, KINDS[kind]

    # -- a socket, and TLS ---------------------------------------------------------------------------------------------

    pending: Any = 0
    eof = False

    def setsockopt(self, *_: Any) -> None: ...

    def close(self) -> None: ...

    def fileno(self) -> int:
        return _QUIET[0].fileno()

    def read(self, *into: Any) -> bytes:
        if into:
            raise ssl.SSLWantReadError
        return b""

    def write(self, data: bytes) -> int:
        """Look at what the link says: it must be frames of the kinds that its end may send."""
        space = self._reader.space()
        space[: len(data)] = data
        self._reader.took(len(data))
        while self._reader.advance():
            pass
        return len(data)


class SilentTls(Silence):
    """TLS over it, which asks for what it holds by a call."""

    def pending(self) -> int:
        return 0


def secured(*kinds: str) -> Secured:
    """Return a connection that carries nothing, whose end may send frames of these kinds."""
    silence: Any = Silence(set(kinds))
    tls: Any = SilentTls(set(kinds))
    return Secured(silence, tls, silence, silence)


def feed(link: Any, data: bytes) -> bool:
    """Let a link read these bytes; returns whether it would read on."""
    stream = link.stream
    reader, place = stream._reader, 0
    while True:
        try:
            while not stream._paused and reader.advance():
                pass
        except MessageRefused as refusal:
            link.refused(refusal)
            return False
        if stream._paused:
            return False
        if place == len(data):
            return True
        space = reader.space()
        part = data[place : place + len(space)]
        space[: len(part)] = part
        reader.took(len(part))
        place += len(part)


class Frames(list[tuple[int, bytes]]):
    """All frames that a reader hands on; content lies in memory of its own."""

    def frame(self, kind: int, payload: memoryview) -> None:
        self.append((kind, bytes(payload)))

    def content(self, size: int) -> memoryview:
        self.memory = memoryview(bytearray(size))
        return self.memory

    def chunk(self, size: int) -> None:
        self.append((CONTENT, bytes(self.memory)))


def read(data: bytes, step: int | None = None) -> Frames:
    """Return the frames in these bytes, which come so many at a time."""
    found = Frames()
    reader, place = FrameReader(found), 0
    while True:
        while reader.advance():
            pass
        if place == len(data):
            return found
        space = reader.space()
        part = data[place : place + min(len(space), step or len(data))]
        space[: len(part)] = part
        reader.took(len(part))
        place += len(part)
