"""Neighbours that do not do their part, in a thread of their own.

Of those that are dialled one never reads, one reads drop by drop, one falls silent, and one does not even shake hands.
Of those that dial one freezes after the handshake, and one after its hello; whenever their link is cut they are back.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from tacit.peer.identity.credentials import load_credentials
from tacit.peer.identity.identity import identity_files
from tacit.peer.transport.frames import BEAT_FRAME, WELCOME, Place
from tacit.peer.transport.handshake import Secured, shake_hands

DEAF, MUTE, SLOW, STIFF = "deaf", "mute", "slow", "stiff"
"""It welcomes, gives signs of life and reads nothing; it welcomes, and neither reads nor says anything more; it
welcomes, gives signs of life, reads a few bytes at a time and confirms nothing; it takes a connection, and that is
all."""
FROZEN, HAILED = "frozen", "hailed"
"""It shakes hands and is still; it shakes hands, says hello and is still. Both dial."""
DROP, BEAT_EVERY = 64, 1.0
"""Bytes that one takes at a time, ten times a second, and seconds between two signs of life."""
AGAIN_AFTER = 0.2
"""Seconds from a cut link to the next."""


class BadNeighbours:
    """Listens under the names of members: `with BadNeighbours({"d": (home, "127.0.0.1:7000", DEAF)}): ...`."""

    def __init__(self, members: Mapping[str, tuple[Path, str, str]], hello: bytes = b"") -> None:
        """Take directory of the identity, address and kind of each; those that dial dial that address."""
        self._members, self._hello, self._ready = members, hello, Future[None]()
        self.welcomed = dict.fromkeys(members, 0)
        """Links that each has taken, or made."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="bad neighbours", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        dialling = (FROZEN, HAILED)
        tasks = [
            asyncio.ensure_future(self._dial(name) if kind in dialling else self._listen(name))
            for name, (_, _, kind) in self._members.items()
        ]
        self._ready.set_result(None)
        await self._over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, name: str) -> None:
        home, address, _ = self._members[name]
        host, _, port = address.rpartition(":")
        context, links = load_credentials(identity_files(home)).server, set[asyncio.Task[None]]()
        with socket.create_server((host, int(port))) as listening:
            listening.setblocking(False)
            try:
                while True:
                    connection, _ = await self._loop.sock_accept(listening)
                    links.add(asyncio.ensure_future(self._hold(name, connection, context)))
            finally:
                for link in links:
                    link.cancel()
                await asyncio.gather(*links, return_exceptions=True)

    async def _hold(self, name: str, connection: socket.socket, context: object) -> None:
        kind = self._members[name][2]
        with connection, contextlib.suppress(OSError):
            if kind == STIFF:
                self.welcomed[name] += 1
                await self._over.wait()
            secured = await shake_hands(connection, context, server_side=True)  # type: ignore[arg-type]
            await self._say(secured, Place(1, 0).frame(WELCOME))
            self.welcomed[name] += 1
            while True:
                if kind == SLOW:
                    await self._trickle(connection)
                else:
                    await asyncio.sleep(BEAT_EVERY)
                if kind != MUTE:
                    await self._say(secured, BEAT_FRAME)

    async def _trickle(self, connection: socket.socket) -> None:
        for _ in range(10):
            if not await self._loop.sock_recv(connection, DROP):
                raise ConnectionError
            await asyncio.sleep(BEAT_EVERY / 10)

    async def _dial(self, name: str) -> None:
        home, address, kind = self._members[name]
        host, _, port = address.rpartition(":")
        context = load_credentials(identity_files(home)).client
        while True:
            with socket.socket() as connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                await self._loop.sock_connect(connection, (host, int(port)))
                secured = await shake_hands(connection, context, server_side=False)
                if kind == HAILED:
                    await self._say(secured, self._hello)
                self.welcomed[name] += 1
                while await self._loop.sock_recv(connection, 4096):
                    pass
            await asyncio.sleep(AGAIN_AFTER)

    async def _say(self, secured: Secured, frame: bytes) -> None:
        secured.tls.write(frame)
        await self._loop.sock_sendall(secured.connection, secured.outgoing.read())
