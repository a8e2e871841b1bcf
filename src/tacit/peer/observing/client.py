"""Client of status doors: one peer, as an observer or an operator reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from typing import Any, cast

import h11

from tacit.core.errors import MessageRefused, RemoteError, said
from tacit.peer.identity.credentials import IdentityWatch, holder_at
from tacit.peer.identity.identity import Holder
from tacit.peer.transport.frames import printable
from tacit.peer.transport.handshake import handshake_reason, said_of

LARGEST = 2**22
"""Bytes of an answer at most."""
PATIENCE = 2.5
"""Seconds from a request to the end of its answer, the connection included."""


class StatusClient:
    """Reads the status of one peer, over one connection that is made anew where it has ended.

    What cannot be reached in time raises RemoteError; one that refuses, or is not who it should be, MessageRefused.

    Args:
      name: The peer's name, which its certificate has to have.
      address: "host:port" of its status door.
      watch: Own identity, of an observer or an operator.
      patience: Seconds for a whole request.
    """

    def __init__(self, name: str, address: str, watch: IdentityWatch, patience: float = PATIENCE) -> None:
        self.name, self.address, self.watch, self._patience = name, address, watch, patience
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def status(self) -> dict[str, Any]:
        """Return the peer's status."""
        return await self._asked("GET", "/status")

    async def ledger(self) -> dict[str, Any]:
        """Return the summary of its ledger."""
        return await self._asked("GET", "/ledger", 4 * self._patience)

    async def stop(self) -> None:
        """Have the peer end: for an operator."""
        self.close()  # an act is sent once, and never over a connection that may have ended
        await self._asked("POST", "/stop")

    async def started(self) -> None:
        """Tell the peer that whoever asks had it started, for its log: for an operator."""
        await self._asked("POST", "/started")

    def close(self) -> None:
        """Let the connection go."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _asked(self, method: str, path: str, patience: float | None = None) -> dict[str, Any]:
        patience = patience or self._patience
        try:
            async with asyncio.timeout(patience):
                fresh = self._streams is None
                try:
                    return await self._exchanged(method, path)
                except (EOFError, ConnectionError):
                    if fresh:
                        raise
                self.close()  # it had ended meanwhile, as idle connections do
                return await self._exchanged(method, path)
        except MessageRefused:
            self.close()
            raise
        except ssl.SSLError as error:
            self.close()
            raise MessageRefused(handshake_reason(error), f"{self.address}: {said_of(error)}") from None
        except TimeoutError:
            self.close()
            raise RemoteError(f"{self.name} ({self.address}) gave no answer within {patience:g} s") from None
        except (OSError, EOFError, ValueError, h11.RemoteProtocolError) as error:
            self.close()
            raise RemoteError(f"{self.name} ({self.address}): {printable(said(error))}") from None
        except BaseException:
            self.close()
            raise

    async def _exchanged(self, method: str, path: str) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await self._connected()
        reader, writer = self._streams
        http, body = h11.Connection(h11.CLIENT), b"{}" if method == "POST" else b""
        headers = [("Host", self.name), *([("Content-Type", "application/json")] if body else [])]
        headers.append(("Content-Length", str(len(body))))
        for event in (
            h11.Request(method=method, target=path, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            writer.write(http.send(event) or b"")
        await writer.drain()
        answer: h11.Response | None = None
        content, event = bytearray(), cast(Any, None)
        while not isinstance(event, h11.EndOfMessage):
            event = cast(Any, http.next_event())
            if event is h11.NEED_DATA:
                data = await reader.read(2**16)
                if not data and answer is None:
                    raise EOFError("it closed the connection")
                http.receive_data(data)
            elif isinstance(event, h11.Response):
                answer = event
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > LARGEST:
                    raise ValueError(f"an answer of more than {LARGEST} bytes")
        assert answer is not None  # h11 gives an end to nothing else
        if http.their_state is not h11.DONE or (b"connection", b"close") in answer.headers:
            self.close()
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("an answer that is no JSON object")
        if answer.status_code == 200:
            return found
        words = printable(str(found.get("error", "")))
        if answer.status_code == 403:
            raise MessageRefused(printable(str(found.get("reason", "identity"))), words)
        raise RemoteError(f"{self.name} ({self.address}): {answer.status_code}, {words}")

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and make sure whose door it is before anything is asked."""
        credentials = self.watch.credentials()
        host, _, port = self.address.rpartition(":")
        streams = await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=credentials.client, server_hostname=self.name
        )
        try:
            holder = holder_at(streams[1].get_extra_info("ssl_object"), self.watch.current())
            if holder != Holder(self.name):
                raise MessageRefused("server name", f"{self.address} is {str(holder)!r}, expected {self.name!r}")
        except BaseException:
            with contextlib.suppress(Exception):
                streams[1].transport.abort()
            raise
        return streams
