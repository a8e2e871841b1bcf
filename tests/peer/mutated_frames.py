"""Frames that somebody has damaged, and a connection that brings them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

from tacit.peer.identity.credentials import grpc


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


class Wire:
    """A connection that brings given frames and swallows what is written."""

    def __init__(self, said: Sequence[bytes]) -> None:
        self.said, self.read_so_far, self.written = deque(said), 0, list[bytes]()

    async def read(self) -> Any:
        if not self.said:
            return grpc.aio.EOF
        self.read_so_far += 1
        return self.said.popleft()

    async def write(self, data: bytes) -> None:
        self.written.append(data)
