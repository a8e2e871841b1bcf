"""Status door of a peer: HTTPS by mutual TLS 1.3 for observers and operators, and for nobody else.

It has a port of its own rather than a hello of its own at the links' door: a firewall can tell the two apart, what
reads it may be any program that speaks HTTPS with a certificate (Prometheus, curl), and no frame of a link gets more
meanings. Connections are counted and closed by the policy of the links' door (`[limits]`), before TLS begins.

Who asks is looked at with each request, by the authority's list and the clock of then: a certificate that is revoked or
ends cuts off whoever is connected by it. A peer's own certificate is refused: members see messages, and no status.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from cryptography import x509

from tacit.core.errors import ConfigError, MessageRefused, said
from tacit.peer.identity.credentials import IdentityWatch, holder_at
from tacit.peer.identity.identity import Holder
from tacit.peer.observing.secured_stream import SecuredStream
from tacit.peer.operations.counters import CONTENT_TYPE
from tacit.peer.operations.http_server import PATIENCE, Answer, HttpServer, Route, as_json
from tacit.peer.operations.logs import Log
from tacit.peer.transport.admission import Admission, DoorLimits, local_limit
from tacit.peer.transport.doors import Door
from tacit.peer.transport.frames import printable
from tacit.peer.transport.handshake import Secured
from tacit.peer.transport.listener import address_of, met
from tacit.privacy.ledger.open_files import descriptors_left

SPACING = 0.05
"""Seconds between two requests of one connection, at least."""
CLOSE = ("Connection", "close")


class Reports(Protocol):
    """What can be read, as plain data; see `Report`."""

    def status(self) -> dict[str, Any]:
        """Return the status."""

    async def ledger(self) -> dict[str, Any]:
        """Return the summary of the ledger, verified."""

    async def metrics(self) -> str:
        """Return figures in the format of Prometheus."""

    def close(self) -> None:
        """Make no more reports."""


class Caller(NamedTuple):
    """Who asks."""

    holder: Holder
    fingerprint: str
    """Serial number of the certificate, in hexadecimal, as `tacit peer revoke --list` has it."""


class StatusDoor:
    """Serves the reports of one peer.

    Args:
      reports: What can be read.
      watch: The peer's own identity, and the authority's list.
      refused: Told of reason, name (None: unknown) and detail of every refusal.
      limits: Of connections; fewer where few files can be opened.
      stop: Has the peer end, for an operator.
      log: Where acts of operators are noted.
    """

    def __init__(
        self,
        reports: Reports,
        watch: IdentityWatch,
        refused: Callable[[str, str | None, str], None],
        limits: DoorLimits,
        stop: Callable[[], None],
        log: Log,
    ) -> None:
        self._reports, self._watch, self._refused, self._stop, self._log = reports, watch, refused, stop, log
        most = local_limit(descriptors_left())
        least = limits._replace(connections=min(most, limits.connections), per_address=min(most, limits.per_address))
        self._door = Door(
            Admission(least), self._attend, lambda reason, where: refused(reason, None, f"a connection from {where}")
        )
        self.port = 0

    async def start(self, address: str) -> int:
        """Listen at "host:port" (port 0: any that is free); returns the port."""
        host, _, port = address.rpartition(":")
        try:
            self.port = self._door.open(host, int(port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {address!r} ({said(error)}): choose a free port of this host"
            ) from None
        return self.port

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        await self._door.close()
        self._reports.close()

    async def _attend(self, connection: socket.socket, ticket: int) -> None:
        """Serve a connection until it ends."""
        try:
            secured = await met(connection, self._watch.credentials(), self._refused, self._door.turns)
            if secured is not None:
                await self._serve(secured, ticket)
        finally:
            connection.close()

    async def _serve(self, secured: Secured, ticket: int) -> None:
        visit = _Visit(self, secured)
        with contextlib.suppress(MessageRefused):  # who may not ask is told so with its first request
            self._door.prove(ticket, str(self.caller(secured).holder))
        stream = SecuredStream(secured)
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            await HttpServer(visit.routes, self._log).serve(stream, stream)
            async with asyncio.timeout(PATIENCE):
                with contextlib.suppress(ssl.SSLWantReadError):
                    secured.tls.unwrap()
                await stream.drain()

    def caller(self, secured: Secured) -> Caller:
        """Return who is at the other end, by the list and the time of now, or refuse it."""
        holder = holder_at(secured.tls, self._watch.current())
        if holder.role == "peer":
            raise MessageRefused("role", f"{holder.name!r} is a peer; status is for observers and operators")
        der = secured.tls.getpeercert(binary_form=True)
        assert der is not None  # `holder_at` has read it
        certificate = x509.load_der_x509_certificate(der)
        if certificate.not_valid_after_utc <= datetime.now(UTC):
            raise MessageRefused("expired", f"the certificate of {str(holder)!r} has ended")
        return Caller(holder, f"{certificate.serial_number:x}")

    # -- requests ------------------------------------------------------------------------------------------------------

    async def status(self, _: Caller) -> Answer:
        """Answer with the status."""
        return as_json(HTTPStatus.OK, self._reports.status())

    async def ledger(self, _: Caller) -> Answer:
        """Answer with the summary of the ledger."""
        return as_json(HTTPStatus.OK, await self._reports.ledger())

    async def metrics(self, _: Caller) -> Answer:
        """Answer with the figures for Prometheus."""
        return Answer(HTTPStatus.OK, (await self._reports.metrics()).encode(), CONTENT_TYPE)

    async def stop(self, caller: Caller) -> Answer:
        """Have the peer end."""
        self._note("stop", caller)
        self._stop()
        return as_json(HTTPStatus.OK, {"done": True}, CLOSE)

    async def started(self, caller: Caller) -> Answer:
        """Note who had the peer started: whatever starts it, a service manager say, does not hand that on."""
        self._note("start", caller)
        return as_json(HTTPStatus.OK, {"done": True})

    def _note(self, act: str, caller: Caller) -> None:
        """Write an operator's act into the log; refuse it to anybody else."""
        if caller.holder.role != "operator":
            raise MessageRefused("role", f"{caller.holder.name!r} is an {caller.holder.role}, who may only read")
        self._log.warning(f"{act}, asked for by an operator", operator=caller.holder.name, serial=caller.fingerprint)

    async def answer(self, work: Callable[[Caller], Awaitable[Answer]], secured: Secured) -> Answer:
        """Answer one request, or refuse it and count it."""
        name = None
        try:
            caller = self.caller(secured)
            name = str(caller.holder)
            return await work(caller)
        except MessageRefused as refusal:
            where = address_of(secured.connection)
            self._refused(refusal.reason, name, printable(f"{refusal.detail}, from {where}"))
            content = {"error": printable(refusal.detail), "reason": refusal.reason}
            return as_json(HTTPStatus.FORBIDDEN, content, CLOSE)


class _Visit:
    """Requests of one connection, at a modest pace."""

    def __init__(self, door: StatusDoor, secured: Secured) -> None:
        self._door, self._secured, self._next = door, secured, 0.0
        self.routes: dict[str, Route] = {
            "/status": ("GET", partial(self._do, door.status)),
            "/ledger": ("GET", partial(self._do, door.ledger)),
            "/metrics": ("GET", partial(self._do, door.metrics)),
            "/stop": ("POST", partial(self._do, door.stop)),
            "/started": ("POST", partial(self._do, door.started)),
        }

    async def _do(self, work: Callable[[Caller], Awaitable[Answer]], _: bytes) -> Answer:
        now = asyncio.get_running_loop().time()
        due, self._next = self._next, max(now, self._next) + SPACING
        if due > now:
            await asyncio.sleep(due - now)
        return await self._door.answer(work, self._secured)
