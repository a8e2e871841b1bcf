"""HTTP/1.1 server for programs on the peer's own machine: health, metrics, status, learn, predict and control.

It binds to loopback addresses only. What changes the peer's links (/control) takes the token in its control file, which
only its user can read. A web page in a browser on this
machine cannot use it: a request must name a loopback host (against DNS rebinding), and a POST must declare
application/json, which a browser does not send to another site unasked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import math
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from tacit.core.errors import ConfigError, DataError
from tacit.peer.operations import counters
from tacit.peer.operations.http_request import LONGEST_HEAD
from tacit.peer.operations.http_server import PATIENCE, RETRY_AFTER, Answer, HttpServer, Route, as_json
from tacit.peer.operations.logs import Log
from tacit.peer.transport.admission import Admission, DoorLimits, local_limit
from tacit.peer.transport.doors import Door
from tacit.privacy.ledger.open_files import descriptors_left


class Handlers(NamedTuple):
    """Functions that serve the requests. DataError is the caller's fault (400), another TacitError ours (503)."""

    health: Callable[[], Awaitable[Sequence[str]]]
    """Reasons why the peer is not well; none if it is."""
    status: Callable[[], Awaitable[Mapping[str, Any]]]
    metrics: Callable[[], Awaitable[str]]
    learn: Callable[[Sequence[tuple[object, object]]], Awaitable[bool]]
    """Samples (x, y) as JSON gave them, all or none; False where there is no room now."""
    predict: Callable[[object], Awaitable[Mapping[str, Any]]]
    """Features as JSON gave them -> named fields; see `predictions`."""
    control: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]] | None = None
    """Acts of the operator, who knows the token in the control file; None: there are none."""


class LocalServer:
    """Serves handlers on a loopback address."""

    def __init__(self, handlers: Handlers, *, patience: float = PATIENCE) -> None:
        """Serve `handlers`; a client that is slower than `patience` seconds is dropped."""
        self._handlers, self._log = handlers, Log()
        self._door: Door | None = None
        self._port = 0
        routes: dict[str, Route] = {
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/status": ("GET", self._status),
            "/learn": ("POST", self._learn),
            "/predict": ("POST", self._predict),
            "/control": ("POST", self._control),
        }
        self.serve = HttpServer(routes, self._log, patience=patience, local=True).serve
        """Answers the requests of one connection."""

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._door is None:
            raise ConfigError("the local server was not started; await start() first")
        return self._port

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 lets the system choose one. Any address but loopback is refused."""
        address = loopback_address(host)
        most = local_limit(descriptors_left())
        # All come from one address, and each has its own times to keep: see `serve`.
        admission = Admission(DoorLimits(most, most, proof_time=math.inf))
        door = Door(
            admission, self._attend, lambda reason, _: self._log.seldom(reason, "local", reason=reason), silent=False
        )
        try:
            self._port = door.open(address, port)
            self._door = door
        except OSError as fault:
            raise ConfigError(
                f"{address}, port {port}: cannot listen there ({fault.strerror}); choose another"
            ) from fault

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        if self._door is not None:
            await self._door.close()

    async def _attend(self, connection: socket.socket, ticket: int) -> None:
        assert self._door is not None  # it has let this one in
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=LONGEST_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await self.serve(reader, writer, partial(self._door.spoke, ticket))
        finally:
            transport.abort() if transport.get_write_buffer_size() else writer.close()

    async def _health(self, _: bytes) -> Answer:
        reasons = list(await self._handlers.health())
        if reasons:
            return as_json(HTTPStatus.SERVICE_UNAVAILABLE, {"healthy": False, "reasons": reasons})
        return as_json(HTTPStatus.OK, {"healthy": True})

    async def _metrics(self, _: bytes) -> Answer:
        return Answer(HTTPStatus.OK, (await self._handlers.metrics()).encode(), counters.CONTENT_TYPE)

    async def _status(self, _: bytes) -> Answer:
        return as_json(HTTPStatus.OK, dict(await self._handlers.status()))

    async def _learn(self, body: bytes) -> Answer:
        given = _parsed(body)
        rows = given if isinstance(given, list) else [given]
        samples = [_members(row, ("x", "y"), f"sample {i}") for i, row in enumerate(rows)]
        if not await self._handlers.learn([(x, y) for x, y in samples]):
            fault = {"error": "the queue of samples is full; none was taken: send them again later"}
            return as_json(HTTPStatus.TOO_MANY_REQUESTS, fault, RETRY_AFTER)
        return as_json(HTTPStatus.OK, {"accepted": len(samples)})

    async def _predict(self, body: bytes) -> Answer:
        (x,) = _members(_parsed(body), ("x",), "the request")
        return as_json(HTTPStatus.OK, dict(await self._handlers.predict(x)))

    async def _control(self, body: bytes) -> Answer:
        asked = _parsed(body)
        if not isinstance(asked, dict) or self._handlers.control is None:
            raise DataError("expected a JSON object, as `tacit peer links` and `tacit peer leave` send it")
        return as_json(HTTPStatus.OK, dict(await self._handlers.control(asked)))


def loopback_address(host: str) -> str:
    """Return the address to bind to, or refuse one that other machines can reach."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise ConfigError(
            f"host {host!r}: health, metrics and samples are served on loopback only; expected 127.0.0.1, ::1 or "
            "localhost: let a proxy with its own authentication pass on what others may see"
        )
    return str(address)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise DataError("the body is not JSON in UTF-8 (which has no NaN and no Infinity); mend it") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _members(given: object, names: tuple[str, ...], where: str) -> tuple[object, ...]:
    if not isinstance(given, dict) or set(given) != set(names):
        raise DataError(f"{where}: expected a JSON object with {' and '.join(names)}, and nothing else")
    return tuple(given[name] for name in names)
