"""Sending side of the transport: one dialer for each out-neighbour."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from tacit.core.errors import IdentityError, MessageRefused, RemoteError
from tacit.peer.identity.credentials import (
    IdentityWatch,
    channel_credentials,
    channel_options,
    grpc,
    refused_server,
    require_direct_issue,
    server_certificates,
)
from tacit.peer.identity.identity import Identity
from tacit.peer.node.exchange import Dispatch, Parcel, Position
from tacit.peer.transport.codec import REASONS, Codec, kind
from tacit.peer.transport.frames import KEY_MESSAGE_LIMIT, parse_frame, parse_receipt, printable
from tacit.peer.transport.link import LINK, RELAY, LinkEvents, common_options
from tacit.peer.transport.wire import tacit_pb2 as pb

LOSSES = ("unreachable", "silent", "untrusted", "turned away", "ended", "own identity")
"""Why a link is down: no answer at the address; the neighbour stopped answering; it has another identity; it refuses
this peer's messages; it closed the link; this peer's own certificate cannot be used."""


_Key = tuple[int, int, bytes]
"""Phase, round and masks, which identify a parcel to one neighbour."""


class Settings(NamedTuple):
    """Times of a dialer, in seconds."""

    connect_time: float = 5.0
    """Until the neighbour has welcomed this peer."""
    lifetime: float = 600.0
    """Of a link: after this it is made anew, with the certificates that both have then."""
    lifetime_grace: float = 60.0
    """Time to finish a message that is under way then."""
    parting_time: float = 5.0
    """For the neighbour's last receipts on a link that ends."""
    first_pause: float = 0.1
    longest_pause: float = 2.0
    ping_every: float = 2.0
    ping_timeout: float = 4.0
    relay_time: float = 10.0


class Dialer:
    """Keeps a link to one neighbour and sends its messages one after the other."""

    def __init__(
        self,
        dispatch: Dispatch,
        name: str,
        address: str,
        watch: IdentityWatch,
        events: LinkEvents,
        settings: Settings | None = None,
    ) -> None:
        """Dial `name` at `address` ("host:port"); `watch` is asked anew for each connection."""
        self._dispatch, self._name, self._address = dispatch, name, address
        self._watch, self._events = watch, events
        self._settings = settings or Settings()
        self._codec = Codec(dispatch.job, dispatch.specs)
        self._more = asyncio.Event()
        self._channel: Any = None
        self._welcomed = False

    @property
    def connected(self) -> bool:
        """Whether the link is up."""
        return self._welcomed

    def wake(self) -> None:
        """Note that there is more to send."""
        self._more.set()

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        pause, loop = self._settings.first_pause, asyncio.get_running_loop()
        while True:
            begun = loop.time()
            retired, welcomed = await self._connect()
            if welcomed and loop.time() - begun > self._settings.longest_pause:
                pause = self._settings.first_pause
            if not retired:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, self._settings.longest_pause)

    async def send_key_message(self, recipient: str, payload: bytes) -> None:
        """Have the neighbour relay a key message; MessageRefused if it does not, RemoteError if that is unknown."""
        if self._channel is None or not self._welcomed:
            raise RemoteError(f"{self._name} is not connected; send the letter again later")
        letter = pb.Letter(correspondent=recipient, payload=payload).SerializeToString()
        relay = self._channel.unary_unary(RELAY)
        try:
            receipt = parse_receipt(await relay(letter, timeout=self._settings.relay_time))
        except grpc.RpcError as error:
            raise RemoteError(f"{self._name} did not take a letter: {_details(error)}; send it again later") from None
        if not receipt.accepted:
            raise MessageRefused(_known(receipt.reason), f"{self._name} says: {printable(receipt.detail)}")

    # ------------------------------------------------------------------------------------------------------------------

    def _options(self) -> list[tuple[str, Any]]:
        settings = self._settings
        return channel_options(
            self._name,
            *common_options(settings.ping_every, settings.ping_timeout),
            # gRPC takes the least pause for the time that a connection attempt may take. `run` makes a new channel
            # long before gRPC would try again by itself.
            ("grpc.min_reconnect_backoff_ms", round(settings.connect_time * 1000)),
            ("grpc.initial_reconnect_backoff_ms", round(settings.first_pause * 1000)),
            ("grpc.max_reconnect_backoff_ms", round(settings.longest_pause * 1000)),
            ("grpc.enable_retries", 0),
        )

    async def _connect(self) -> tuple[bool, bool]:
        """Make one connection and use it; returns whether it came to its planned end, and whether it got a welcome."""
        try:
            identity = self._watch.current()
            credentials = channel_credentials(identity)
        except IdentityError as error:
            self._events.lost(self._name, "own identity", str(error))
            return False, False
        channel = grpc.aio.secure_channel(self._address, credentials, options=self._options())
        retired = welcomed = False
        try:
            lifetime = self._settings.lifetime + self._settings.lifetime_grace
            call = channel.stream_stream(LINK)(timeout=lifetime)
            position = await self._greet(call)
            self._check_server(identity)
            self._dispatch.confirmed(self._name, position)
            self._channel, self._welcomed, welcomed = channel, True, True
            self._events.linked(self._name, "out", True)
            retired = await self._converse(call)
        except grpc.RpcError as error:
            self._note_loss(error, welcomed)
        except asyncio.InvalidStateError:  # a write to a call that has ended
            self._events.lost(self._name, "ended", "the link ended while something was being sent")
        except TimeoutError:
            detail = f"{self._address} gave no welcome within {self._settings.connect_time} s"
            self._events.lost(self._name, "silent", detail)
        except _TurnedAwayError as error:
            self._events.lost(self._name, "turned away", str(error))
        except _UntrustedError as error:
            self._events.lost(self._name, "untrusted", str(error))
        except MessageRefused as refusal:
            self._events.refused(refusal.reason, self._name, printable(refusal.detail))
            self._events.lost(self._name, "ended", f"{self._name} said what cannot be understood")
        finally:
            self._channel, self._welcomed = None, False
            if welcomed:
                self._events.linked(self._name, "out", False)
            await channel.close()
        return retired, welcomed

    async def _greet(self, call: Any) -> Position:
        async with asyncio.timeout(self._settings.connect_time):
            await call.write(self._codec.hello(self._dispatch.current_round()))
            data = await call.read()
        if data is grpc.aio.EOF:
            raise MessageRefused("order", "the link was closed instead of a welcome")
        frame = parse_frame(data, KEY_MESSAGE_LIMIT)
        if not isinstance(frame, memoryview) and frame.WhichOneof("kind") == "receipt":
            raise _TurnedAwayError(f"{_known(frame.receipt.reason)}: {printable(frame.receipt.detail)}")
        if isinstance(frame, memoryview) or frame.WhichOneof("kind") != "welcome":
            raise MessageRefused("order", f"{kind(frame)} instead of a welcome")
        return self._codec.position(frame.welcome)

    def _check_server(self, identity: Identity) -> None:
        """Refuse a neighbour whose certificate our authority did not sign itself; nothing but hello was said so far."""
        certificates = server_certificates(self._address)
        try:
            for certificate in certificates or [b""]:
                require_direct_issue(certificate, identity)
        except MessageRefused as refusal:
            self._events.refused(refusal.reason, self._name, refusal.detail)
            raise _UntrustedError(refusal.detail) from None

    async def _converse(self, call: Any) -> bool:
        """Send and listen at once; returns whether the link came to its planned end."""
        sent: dict[_Key, Parcel] = {}
        listening = asyncio.ensure_future(self._listen(call, sent))
        sending = asyncio.ensure_future(self._send_waiting(call, sent))
        try:
            await asyncio.wait((listening, sending), return_when=asyncio.FIRST_COMPLETED)
            retired = not listening.done() and sending.exception() is None
            if retired:
                await call.done_writing()
            # What is still said: the last receipts, or why a write failed. A message that is held back over there has
            # no receipt yet; the next link brings it again.
            await asyncio.wait((listening,), timeout=self._settings.parting_time)
            if retired:
                return True
            if listening.done():
                listening.result()
                self._events.lost(self._name, "ended", f"{self._name} closed the link")
            else:
                sending.result()
            return False
        finally:
            for task in (listening, sending):
                task.cancel()
            await asyncio.gather(listening, sending, return_exceptions=True)

    async def _send_waiting(self, call: Any, sent: dict[_Key, Parcel]) -> None:
        """Send whatever waits and was not sent on this link, until the link has lived long enough."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.lifetime
        while loop.time() < end:
            self._more.clear()
            parcel = self._next(sent)
            if parcel is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self._more.wait()
                continue
            sent[_key(parcel)] = parcel
            for frame in self._codec.frames(parcel):
                await call.write(frame)
            self._events.sent(self._name, len(parcel.content))

    def _next(self, sent: dict[_Key, Parcel]) -> Parcel | None:
        """Return the oldest parcel that was not sent on this link; those that wait no more are let go."""
        waiting = self._dispatch.waiting(self._name)
        for key in sent.keys() - {_key(parcel) for parcel in waiting}:
            del sent[key]
        return next((parcel for parcel in waiting if _key(parcel) not in sent), None)

    async def _listen(self, call: Any, sent: dict[_Key, Parcel]) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            frame = parse_frame(data, KEY_MESSAGE_LIMIT)
            which = kind(frame)
            if isinstance(frame, memoryview) or which not in ("receipt", "progress", "letter"):
                raise MessageRefused("order", f"{which} where a receipt, progress or a letter was expected")
            if which == "progress":
                self._dispatch.confirmed(self._name, self._codec.position(frame.progress))
                self._more.set()  # so that what was confirmed is let go
            elif which == "letter":
                self._deliver(frame.letter)
            else:
                self._note_refusal(frame.receipt, sent)

    def _note_refusal(self, receipt: pb.Receipt, sent: Mapping[_Key, Parcel]) -> None:
        about = receipt.phase, receipt.round
        parcel = next((parcel for key, parcel in sent.items() if key[:2] == about), None)
        if parcel is not None:
            self._dispatch.refused(self._name, parcel, _known(receipt.reason), printable(receipt.detail))

    def _deliver(self, letter: pb.Letter) -> None:
        try:
            self._dispatch.key_message(self._name, letter.correspondent, letter.payload)
        except MessageRefused as refusal:  # the relay cannot see what is in it: the link goes on
            self._events.refused(refusal.reason, self._name, printable(refusal.detail))

    def _note_loss(self, error: grpc.RpcError, welcomed: bool) -> None:
        code, details = error.code(), _details(error)
        untrusted = refused_server(details)
        if untrusted is not None:
            if untrusted == "server name":  # other faults of a certificate are in gRPC's log, and counted from there
                self._events.refused(untrusted, self._name, details)
            self._events.lost(self._name, "untrusted", details)
        elif code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT):
            self._events.lost(self._name, "turned away", details)
        elif "ping timeout" in details.lower() or "keepalive" in details.lower():
            self._events.lost(self._name, "silent", details)
        elif code is grpc.StatusCode.UNAVAILABLE and not welcomed:
            self._events.lost(self._name, "unreachable", details)
        else:
            self._events.lost(self._name, "ended", details)


class _TurnedAwayError(RemoteError):
    """The neighbour answered hello with a refusal."""


class _UntrustedError(RemoteError):
    """The neighbour has another identity than expected."""


def _key(parcel: Parcel) -> _Key:
    return parcel.phase, parcel.round, parcel.masks


def _known(reason: str) -> str:
    """Return a neighbour's reason if it is one of ours."""
    return reason if reason in REASONS else "unknown"


def _details(error: grpc.RpcError) -> str:
    return printable(error.details() or str(error.code()))
