"""Listening side of the transport: in-neighbours open their links here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import Any, NamedTuple

from tacit.core.errors import ConfigError, MessageRefused, said
from tacit.peer.identity.credentials import (
    IdentityWatch,
    caller_certificate,
    grpc,
    peer_name,
    require_direct_issue,
    server_credentials,
    server_options,
)
from tacit.peer.node.exchange import KnownPosition, Reception
from tacit.peer.transport.admission import Admission, DoorLimits
from tacit.peer.transport.codec import Assembler, Codec, kind
from tacit.peer.transport.doors import Door, Inner
from tacit.peer.transport.frames import TEXT_LIMIT, parse_frame, parse_key_message, printable
from tacit.peer.transport.incoming import IncomingLink
from tacit.peer.transport.link import SERVICE, LinkEvents, common_options
from tacit.peer.transport.wire import tacit_pb2 as pb
from tacit.privacy.ledger.open_files import descriptors_left

_LOG = logging.getLogger(__name__)


class Limits(NamedTuple):
    """Limits of a listener. Times in seconds."""

    hello_time: float = 5.0
    """From the opening of a link to its hello."""
    relay_time: float = 10.0
    relays: int = 4
    """Key-agreement messages of one neighbour that may be on their way at once."""
    connection_age: float = 900.0
    """After this a connection must be made anew, with the certificate that the neighbour has then."""
    calls: int = 256
    """At once, beside those that every neighbour may have."""
    calls_per_connection: int = 8
    ping_every: float = 2.0
    ping_timeout: float = 4.0
    door: DoorLimits = DoorLimits()
    """Limits for connections that have not proved their identity."""
    neighbours: int = 0
    """Number of in-neighbours."""


class Listener:
    """Listens to neighbours: checks identities, reads messages one by one, and answers with this peer's position."""

    def __init__(
        self, reception: Reception, watch: IdentityWatch, events: LinkEvents, limits: Limits | None = None
    ) -> None:
        self._reception, self._watch, self._events = reception, watch, events
        self._limits = limits or Limits()
        self._codec = Codec(reception.job, reception.specs)
        self._links: dict[str, IncomingLink] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        """One lock for each neighbour that was ever admitted."""
        self._relaying: Counter[str] = Counter()
        self._server: grpc.aio.Server | None = None
        self._inner: Inner | None = None
        self._door: Door | None = None

    @property
    def connected(self) -> frozenset[str]:
        """Names of the neighbours whose link is up."""
        return frozenset(name for name, link in self._links.items() if link.welcomed)

    @property
    def fault(self) -> str | None:
        """Fault by which no neighbour can connect; None if all is well."""
        return None if self._inner is None else self._inner.fault

    @property
    def doors(self) -> dict[str, float]:
        """Number of strangers, and their limits."""
        if self._door is None:
            return {}
        admission = self._door.admission
        return {"strangers": admission.strangers, **admission.limits._asdict()}

    async def start(self, address: str) -> int:
        """Listen at "host:port" (port 0: any that is free); returns the port."""
        limits = self._limits
        calls = limits.calls + limits.neighbours * limits.calls_per_connection
        self._server = grpc.aio.server(options=self._options(), maximum_concurrent_rpcs=calls)
        handlers = {
            "Link": grpc.stream_stream_rpc_method_handler(self._link),
            # One message each; as a stream, because gRPC would wait for it before it shows whose call it is.
            "Relay": grpc.stream_unary_rpc_method_handler(self._relay),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        credentials, admission = server_credentials(self._watch), Admission(self._door_limits())
        self._inner = Inner()
        self._door = Door(admission, self._inner.hand_on, self._turn_away)
        self._server.add_secure_port(self._inner.target, credentials)
        await self._server.start()
        host, _, port = address.rpartition(":")
        try:
            return self._door.open(host, int(port))
        except OSError as error:
            await self.close(0)
            raise ConfigError(
                f"cannot listen at {address!r} ({said(error)}): choose a free port of this host"
            ) from None

    async def close(self, grace: float = 1.0) -> None:
        """Send the position and end all links; links that do not end within `grace` seconds are cut off."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(self._tell_once(link) for link in tuple(self._links.values())))
        for link in self._links.values():
            link.end(grpc.StatusCode.UNAVAILABLE, "this peer stops")
        if self._door is not None:
            self._door.shut()
        if self._server is not None:
            await self._server.stop(grace)
        if self._door is not None:
            await self._door.settle()
            await self._door.close()
        if self._inner is not None:
            self._inner.remove()

    def progressed(self) -> None:
        """Send the new position where it is due; several steps close together are sent as one."""
        for link in self._links.values():
            link.moved.set()

    async def send_key_message(self, name: str, sender: str, payload: bytes) -> None:
        """Hand a key message of `sender` to the neighbour `name`; MessageRefused if its link is not up."""
        link = self._links.get(name)
        if link is None or not link.welcomed:
            raise MessageRefused("recipient", f"{name} is not connected; send the letter again later")
        gone = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.relay_time):
                gone = await link.write(pb.Frame(letter=pb.Letter(correspondent=sender, payload=payload)))
        if not gone:
            raise MessageRefused("recipient", f"the link to {name} broke; send the letter again later")

    # ------------------------------------------------------------------------------------------------------------------

    def _options(self) -> list[tuple[str, Any]]:
        limits = self._limits
        return [
            *server_options(),
            *common_options(limits.ping_every, limits.ping_timeout),
            ("grpc.max_concurrent_streams", limits.calls_per_connection),
            ("grpc.max_connection_age_ms", round(limits.connection_age * 1000)),
            ("grpc.max_connection_age_grace_ms", round(limits.hello_time * 1000)),
            # Senders ping as often as this side does; gRPC would otherwise take that for an attack.
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
            ("grpc.http2.max_ping_strikes", 10),
        ]

    async def _caller(self, context: Any) -> str:
        """Return the name of the in-neighbour that calls; any other caller is refused."""
        name = None
        try:
            name = peer_name(context.auth_context())
            require_direct_issue(caller_certificate(context.auth_context()), self._watch.current())
            self._reception.admit(name)
        except MessageRefused as refusal:
            self._count(refusal, name)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, _told(refusal))
        assert name is not None
        if self._door is not None and self._inner is not None:
            ticket = self._inner.ticket(context.peer())
            if ticket is not None:
                self._door.prove(ticket, name)
        return name

    def _door_limits(self) -> DoorLimits:
        limits, left = self._limits, descriptors_left()
        found = limits.door.beside(limits.neighbours).within(left, limits.neighbours)
        if found is None:
            raise ConfigError(
                f"this process may open {left} more files, too few for a peer with {limits.neighbours} neighbour(s): "
                "raise the limit (`ulimit -n 1024`, LimitNOFILE= of systemd)"
            )
        return found

    def _turn_away(self, reason: str, address: str) -> None:
        self._events.refused(reason, None, f"a connection from {address}")

    async def _link(self, _: Any, context: Any) -> None:
        name = await self._caller(context)
        link = IncomingLink(name, context)
        older = self._links.get(name)
        self._links[name] = link
        if older is not None:  # half-open, perhaps
            older.end(grpc.StatusCode.ABORTED, "a newer link of the same peer has taken over")
        # Cancelled when the connection breaks, which gRPC would log as an error of ours.
        with contextlib.suppress(asyncio.CancelledError):
            await self._attend(link)

    async def _attend(self, link: IncomingLink) -> None:
        conversation = asyncio.ensure_future(self._converse(link))
        telling = asyncio.ensure_future(self._tell(link))
        ending = asyncio.ensure_future(link.ending.wait())
        tasks = (conversation, telling, ending)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            fault = next((task.exception() for task in (conversation, telling) if task.done()), None)
            if fault is not None:  # gRPC would tell the neighbour what it was
                _LOG.error("the link of %s ends by a fault of this peer", link.name, exc_info=fault)
                await link.context.abort(grpc.StatusCode.INTERNAL, "a fault of this peer")
            if ending.done():
                await link.context.abort(*link.status)
            refusal = conversation.result()
            if refusal is not None:
                await link.context.abort(grpc.StatusCode.INVALID_ARGUMENT, _told(refusal))
        finally:
            if self._links.get(link.name) is link:
                del self._links[link.name]
            if link.receiving is not None and not link.ending.is_set():
                missing = MessageRefused("truncated", f"the link ended {link.receiving.missing} bytes early")
                self._count(missing, link.name)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(self, link: IncomingLink) -> MessageRefused | None:
        """Read until the neighbour ends the link, or return the refusal for which this side must end it."""
        turn = self._turns.setdefault(link.name, asyncio.Lock())
        async with turn:  # nothing of an older link may come in after the welcome of this one
            try:
                await self._greet(link)
                while (data := await link.context.read()) is not grpc.aio.EOF:
                    await self._read(link, data)
                await link.settle()
            except MessageRefused as refusal:
                link.receiving = None
                await self._refuse(link, refusal, link.about)
                await link.settle()
                return refusal
            finally:
                if link.welcomed:
                    link.welcomed = False
                    self._events.linked(link.name, "in", False)
        return None

    async def _greet(self, link: IncomingLink) -> None:
        try:
            async with asyncio.timeout(self._limits.hello_time):
                data = await link.context.read()
        except TimeoutError:
            raise MessageRefused("hello", f"no hello within {self._limits.hello_time} s") from None
        if data is grpc.aio.EOF:
            raise MessageRefused("hello", "the link was closed before hello")
        self._reception.greeted(link.name, self._codec.check_hello(parse_frame(data)))
        position = self._reception.position(link.name)
        await link.write(pb.Frame(welcome=pb.Welcome(round=position.round, phase=position.phase)))
        link.told, link.welcomed = KnownPosition(position, self._reception.position_interval), True
        self._events.linked(link.name, "in", True)
        link.moved.set()

    async def _read(self, link: IncomingLink, data: bytes) -> None:
        """Take the next frame; raises MessageRefused where the link cannot go on."""
        frame = parse_frame(data)
        if isinstance(frame, memoryview):
            self._events.received(link.name, len(frame))
            await self._read_content(link, frame)
        elif frame.WhichOneof("kind") == "header":
            if link.receiving is not None:
                raise MessageRefused("order", f"a header while {link.receiving.missing} bytes are missing")
            await self._read_header(link, frame.header)
        else:
            raise MessageRefused("order", f"{kind(frame)} where a header or content was expected")

    async def _read_header(self, link: IncomingLink, header: pb.Header) -> None:
        self._events.received(link.name, len(header.content))
        link.about, link.skipping = header, 0
        try:
            link.receiving = self._codec.expect(header)
        except MessageRefused as refusal:
            # Its content can be told from what comes after it, so that the link goes on behind it.
            link.skipping = max((layout.size for layout in self._codec.layouts), default=0)
            link.about = pb.Header()
            await self._refuse(link, refusal, header)
            return
        await self._finish(link, link.receiving)

    async def _read_content(self, link: IncomingLink, chunk: memoryview) -> None:
        if link.receiving is not None:
            link.receiving.add(chunk)
            await self._finish(link, link.receiving)
        elif len(chunk) <= link.skipping:
            link.skipping -= len(chunk)
        elif link.skipping:
            raise MessageRefused("oversized", "a refused message is longer than any that this peer takes")
        else:
            raise MessageRefused("order", "content without a header")

    async def _finish(self, link: IncomingLink, received: Assembler) -> None:
        if received.missing:
            return
        about, link.about, link.receiving = link.about, pb.Header(), None
        try:
            message = received.message()
            await self._reception.take(link.name, received.phase, received.sent, message, received.masks)
        except MessageRefused as refusal:
            if refusal.reason == "repeated":  # it is here by an older link
                link.told.holds(received.sent, received.phase)
            await self._refuse(link, refusal, about)
            return
        self._events.accepted(link.name)
        link.told.holds(received.sent, received.phase)
        link.moved.set()  # a late one may be covered already

    async def _refuse(self, link: IncomingLink, refusal: MessageRefused, about: pb.Header) -> None:
        self._count(refusal, link.name)
        await link.answer(pb.Frame(receipt=_receipt(about, refusal)))

    def _count(self, refusal: MessageRefused, name: str | None) -> None:
        self._events.refused(refusal.reason, name, printable(refusal.detail))

    async def _tell(self, link: IncomingLink) -> None:
        while True:
            await link.moved.wait()
            link.moved.clear()
            if link.told.is_due(self._reception.position(link.name)):
                await self._tell_once(link)

    async def _tell_once(self, link: IncomingLink) -> None:
        position = self._reception.position(link.name)
        if link.welcomed and position != link.told.position:
            link.told.tell(position)
            await link.write(pb.Frame(progress=pb.Progress(round=position.round, phase=position.phase)))

    async def _relay(self, _: Any, context: Any) -> bytes:
        name = await self._caller(context)
        self._relaying[name] += 1
        try:
            await self._pass_on(name, context)
        except MessageRefused as refusal:
            self._count(refusal, name)
            return _receipt(pb.Header(), refusal).SerializeToString()
        finally:
            self._relaying[name] -= 1
        return pb.Receipt(accepted=True).SerializeToString()

    async def _pass_on(self, name: str, context: Any) -> None:
        if self._relaying[name] > self._limits.relays:
            raise MessageRefused("busy", f"{self._limits.relays} letters of {name} are on their way; send it later")
        try:
            async with asyncio.timeout(self._limits.relay_time):
                data = await context.read()
                letter = parse_key_message(b"" if data is grpc.aio.EOF else data)
                await self._reception.relay_key_message(name, letter.correspondent, letter.payload)
        except TimeoutError:
            raise MessageRefused("recipient", f"not handed on within {self._limits.relay_time} s") from None


def _receipt(about: pb.Header, refusal: MessageRefused) -> pb.Receipt:
    return pb.Receipt(phase=about.phase, round=about.round, reason=refusal.reason, detail=printable(refusal.detail))


def _told(refusal: MessageRefused) -> str:
    return f"{refusal.reason}: {refusal.detail}"[:TEXT_LIMIT]
