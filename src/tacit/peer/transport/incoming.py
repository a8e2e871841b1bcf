"""One link of an in-neighbour, as the listener holds it."""

from __future__ import annotations

import asyncio
from typing import Any

from tacit.peer.identity.credentials import grpc
from tacit.peer.node.exchange import KnownPosition, Position
from tacit.peer.transport.codec import Assembler
from tacit.peer.transport.wire import tacit_pb2 as pb


class IncomingLink:
    """A link of one neighbour, while it lasts."""

    def __init__(self, name: str, context: Any) -> None:
        self.name, self.context = name, context
        self.welcomed = False
        self.told = KnownPosition(Position(0, 0), 1)
        self.moved, self.ending = asyncio.Event(), asyncio.Event()
        self.status = (grpc.StatusCode.OK, "")
        self.receiving: Assembler | None = None
        self.about = pb.Header()
        """Header of the message that is being received."""
        self.skipping = 0
        """Bytes of content that still may come after a refused header."""
        self._writing = asyncio.Lock()
        self._answer: asyncio.Task[bool] | None = None

    def end(self, code: grpc.StatusCode, why: str) -> None:
        """Have this side end the link."""
        self.status = code, why
        self.ending.set()

    async def write(self, frame: pb.Frame) -> bool:
        """Send one frame; returns whether it went out. If the link broke, its reader notices."""
        async with self._writing:
            try:
                await self.context.write(frame.SerializeToString())
            except grpc.aio.BaseError:
                return False
            return True

    async def answer(self, frame: pb.Frame) -> None:
        """Send one frame while the next message is read already.

        Only one is ever under way: a neighbour that does not read answers is not read either.
        """
        await self.settle()
        self._answer = asyncio.ensure_future(self.write(frame))

    async def settle(self) -> None:
        """Wait until the last answer is out."""
        if self._answer is not None:
            await self._answer
