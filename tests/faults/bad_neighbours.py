"""Neighbours that are dialled and do not do their part: one never reads, one falls silent, in a thread of their own."""

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

DEAF, MUTE = "deaf", "mute"
"""It welcomes, gives signs of life and reads nothing; it welcomes, and neither reads nor says anything more."""


class BadNeighbours:
    """Listens under the names of members: `with BadNeighbours({"d": (home, "127.0.0.1:7000", DEAF)}): ...`."""

    def __init__(self, members: Mapping[str, tuple[Path, str, str]]) -> None:
        """Take directory of the identity, address and kind of each."""
        self._members, self._ready = members, Future[None]()
        self.welcomed = dict.fromkeys(members, 0)
        """Links that each has taken."""
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
        tasks = [asyncio.ensure_future(self._listen(name)) for name in self._members]
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
        with connection, contextlib.suppress(OSError):
            secured = await shake_hands(connection, context, server_side=True)  # type: ignore[arg-type]
            await self._say(secured, Place(1, 0).frame(WELCOME))
            self.welcomed[name] += 1
            while True:
                await asyncio.sleep(1.0)
                if self._members[name][2] == DEAF:
                    await self._say(secured, BEAT_FRAME)

    async def _say(self, secured: Secured, frame: bytes) -> None:
        secured.tls.write(frame)
        await self._loop.sock_sendall(secured.connection, secured.outgoing.read())
