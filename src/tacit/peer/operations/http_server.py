"""HTTP/1.1 over one connection after the other: deadlines, limits, JSON and faults, for the doors of a peer.

What is served, and to whom, is its caller's: programs on the same machine (`local_http.py`), or observers and operators
that show a certificate (`tacit.peer.observing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, Protocol

import h11

from tacit.core.errors import DataError, TacitError
from tacit.peer.operations.http_request import LONGEST_HEAD, Refused, admit
from tacit.peer.operations.logs import Log

PATIENCE = 5.0
"""Seconds for a request to come in, and for its answer to be taken."""
HANDLER_PATIENCE = 30.0
"""Seconds for a handler; the first prediction compiles the model."""
RETRY_AFTER = ("Retry-After", "1")


class Answer(NamedTuple):
    """Answer to a request."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Route = tuple[str, Callable[[bytes], Awaitable[Answer]]]
"""Method, and what makes an answer of a body."""


class Incoming(Protocol):
    """What asyncio.StreamReader has of use here."""

    async def readuntil(self, separator: bytes, /) -> bytes:
        """Return what comes up to a separator, with it."""

    async def readexactly(self, n: int, /) -> bytes:
        """Return so many bytes."""

    async def read(self, n: int, /) -> bytes:
        """Return what comes, some bytes; none at the end."""


class Outgoing(Protocol):
    """What asyncio.StreamWriter has of use here."""

    def write(self, data: bytes, /) -> None:
        """Have bytes sent."""

    async def drain(self) -> None:
        """Wait until they are."""

    def can_write_eof(self) -> bool:
        """Whether the end can be said while the other end is still heard."""

    def write_eof(self) -> None:
        """Say that it was all."""


class HttpServer:
    """Answers the requests of connections by a table of routes.

    Args:
      routes: Path -> method, and what answers; these and no others are served.
      log: Where faults of ours go.
      patience: Seconds for a request to come in, and for its answer to be taken.
      local: Whether a request has to name a loopback host.
    """

    def __init__(
        self, routes: Mapping[str, Route], log: Log, *, patience: float = PATIENCE, local: bool = False
    ) -> None:
        self._routes, self._log, self._patience, self._local = routes, log, patience, local

    async def serve(self, reader: Incoming, writer: Outgoing, asked: Callable[[], None] = lambda: None) -> None:
        """Answer the requests of one connection, one after the other, until it ends or breaks the rules."""
        http, first = h11.Connection(h11.SERVER), True
        while http.our_state is h11.IDLE:
            try:
                async with asyncio.timeout(self._patience):
                    path, body = await self._receive(reader, writer, http)
            except EOFError:
                return
            except TimeoutError:
                if not first:
                    return  # idle after an answer
                fault = Refused(HTTPStatus.REQUEST_TIMEOUT, f"the request did not come within {self._patience} s")
                answer = _refusal(fault)
            except Refused as fault:
                answer = _refusal(fault)
            else:
                asked()
                answer = await self._handle(path, body)
            first = False
            await self._send(writer, http, answer)
            if set(http.states.values()) == {h11.DONE}:
                http.start_next_cycle()
        await self._drain_input(reader, writer)

    async def _receive(self, reader: Incoming, writer: Outgoing, http: h11.Connection) -> tuple[str, bytes]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            reason = f"more than {LONGEST_HEAD} bytes before the body"
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason) from None
        path, length = admit(
            http, head, {path: method for path, (method, _) in self._routes.items()}, local=self._local
        )
        if length and http.they_are_waiting_for_100_continue:
            writer.write(http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")) or b"")
        body = await reader.readexactly(length)
        if body:  # no bytes would mean the end of the connection
            http.receive_data(body)
        while isinstance(http.next_event(), h11.Data):
            pass
        return path, body

    async def _handle(self, path: str, body: bytes) -> Answer:
        _, handler = self._routes[path]
        try:
            async with asyncio.timeout(HANDLER_PATIENCE):
                return await handler(body)
        except DataError as fault:
            return as_json(HTTPStatus.BAD_REQUEST, {"error": str(fault)})
        except TacitError as fault:
            return as_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(fault)}, RETRY_AFTER)
        except TimeoutError:
            return as_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the peer is busy; try again"}, RETRY_AFTER)
        except Exception as fault:  # a fault of ours must not take the door away
            self._log.error("a request failed", fault, path=path)
            return as_json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "a fault in the peer; its log says more"})

    async def _send(self, writer: Outgoing, http: h11.Connection, answer: Answer) -> None:
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        phrase = HTTPStatus(answer.status).phrase.encode()
        response = h11.Response(status_code=answer.status, headers=headers, reason=phrase)
        for event in (response, h11.Data(data=answer.body), h11.EndOfMessage()):
            writer.write(http.send(event) or b"")
        async with asyncio.timeout(self._patience):
            await writer.drain()

    async def _drain_input(self, reader: Incoming, writer: Outgoing) -> None:
        """Read on for a moment before closing: a reset might overtake the answer to a client that is still sending."""
        if writer.can_write_eof():
            writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(1.0, self._patience)):
                while await reader.read(2**16):
                    pass


def as_json(status: int, content: object, *headers: tuple[str, str]) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, json.dumps(content, allow_nan=False).encode() + b"\n", headers=headers)


def _refusal(fault: Refused) -> Answer:
    answer = as_json(fault.status, {"error": fault.reason}, *fault.headers, ("Connection", "close"))
    return answer if fault.reason else answer._replace(body=b"")
