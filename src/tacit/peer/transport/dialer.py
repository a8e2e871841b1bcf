"""Sending side of the transport: one dialer for each out-neighbour."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from tacit.core.errors import IdentityError, MessageRefused, RemoteError, said
from tacit.peer.identity.credentials import Credentials, IdentityWatch, peer_of
from tacit.peer.node.exchange import Dispatch
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.frames import printable
from tacit.peer.transport.handshake import Secured, handshake_reason, said_of, shake_hands
from tacit.peer.transport.link import LinkEvents
from tacit.peer.transport.outgoing import Loss, OutgoingLink

if TYPE_CHECKING:
    from tacit.peer.identity.revocation import RevocationList

LOSSES = ("unreachable", "silent", "untrusted", "turned away", "ended", "own identity")
"""Why a link is down: no answer at the address; the neighbour stopped answering; it has another identity; it refuses
this peer's messages; it closed the link; this peer's own certificate cannot be used."""


AT_ONCE = 32
"""Links that one event loop opens at a time: it has to do with all of them within `connect_time`."""
_openings: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class Settings(NamedTuple):
    """Times of a dialer, in seconds."""

    connect_time: float = 5.0
    """Until the neighbour has welcomed this peer."""
    lifetime: float = 600.0
    """Of a link: after this it is made anew, with the certificates that both have then."""
    parting_time: float = 5.0
    """For the neighbour's last receipts on a link that ends."""
    first_pause: float = 0.1
    longest_pause: float = 2.0
    ping_every: float = 2.0
    """Between two signs of life; all peers have the same."""
    ping_timeout: float = 4.0
    """For which a sign of life may be late."""
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
        self._link: OutgoingLink | None = None

    @property
    def connected(self) -> bool:
        """Whether the link is up."""
        return self._link is not None and self._link.welcomed

    @property
    def connection(self) -> object | None:
        """The connection in use, to tell it from later ones; None while the link is down."""
        return self._link if self.connected else None

    def wake(self) -> None:
        """Note that there is more to send."""
        if self._link is not None:
            self._link.send_waiting()

    def notify(self, payload: bytes) -> bool:
        """Send a notice; returns whether the link was up and had room for it."""
        return self._link is not None and self._link.notify(payload)

    def cut_revoked(self, listed: RevocationList) -> None:
        """End the link if the neighbour's certificate is on a list."""
        if self._link is not None and listed.revokes(self._link.stream.certificate):
            detail = f"the authority has revoked the certificate of {self._name!r}"
            self._events.refused("revoked", self._name, detail)
            self._link.distrust(detail)

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
        if self._link is None or not self._link.welcomed:
            raise RemoteError(f"{self._name} is not connected; send the letter again later")
        await self._link.send_key_message(recipient, payload, self._settings.relay_time)

    # ------------------------------------------------------------------------------------------------------------------

    async def _connect(self) -> tuple[bool, bool]:
        """Make one connection and use it; returns whether it came to its planned end, and whether it got a welcome."""
        settings = self._settings
        try:
            credentials = self._watch.credentials()
        except IdentityError as error:
            self._events.lost(self._name, "own identity", str(error))
            return False, False
        link = None
        try:
            async with _opening(), asyncio.timeout(settings.connect_time):
                secured = await self._secured(credentials)
                link = self._link = OutgoingLink(self._name, secured, self._codec, self._dispatch, self._events)
                link.start(settings.ping_every, settings.ping_timeout)
                await link.until_welcomed()
            lost = await self._use(link)
        except TimeoutError:
            lost = Loss("silent", f"{self._address} gave no welcome within {settings.connect_time} s")
        except _LostError as error:
            lost = error.loss
        finally:
            self._link = None
            if link is not None:
                link.close()
        if lost is not None:
            self._events.lost(self._name, lost.reason, printable(lost.detail))
        return lost is None, link is not None and link.was_welcomed

    async def _use(self, link: OutgoingLink) -> Loss | None:
        """Send over a link until it ends or has lived long enough; returns why it is down, if that was not planned."""
        settings = self._settings
        lost = await link.until_over(settings.lifetime)
        if link.is_over:
            return lost
        # What is still said: the last receipts. A message that is held back over there has no receipt yet; the next
        # link brings it again.
        link.retire()
        await link.until_over(settings.parting_time)
        return None

    async def _secured(self, credentials: Credentials) -> Secured:
        """Connect and shake hands; returns the connection to the neighbour, which has shown who it is."""
        try:
            connection = await _connected(self._address)
        except OSError as error:
            raise _LostError("unreachable", f"{self._address}: {said(error)}") from None
        try:
            return await self._verified(connection, credentials)
        except BaseException:
            connection.close()
            raise

    async def _verified(self, connection: socket.socket, credentials: Credentials) -> Secured:
        try:
            secured = await shake_hands(connection, credentials.client, server_side=False)
            name = peer_of(secured.tls, self._watch.current())  # by the list of now, not of before the handshake
            if name != self._name:
                raise MessageRefused("server name", f"{self._address} is {name!r}, expected {self._name!r}")
        except ssl.SSLError as error:
            self._distrust(handshake_reason(error), said_of(error))
        except OSError as error:
            raise _LostError("unreachable", f"{self._address}: {said(error)}") from None
        except MessageRefused as refusal:
            self._distrust(refusal.reason, refusal.detail)
        return secured

    def _distrust(self, reason: str, detail: str) -> None:
        """Refuse a neighbour by its handshake; nothing was said to it so far."""
        self._events.refused(reason, self._name, printable(detail))
        raise _LostError("untrusted", detail) from None


class _LostError(RemoteError):
    """No link came about."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.loss = Loss(reason, detail)


def _opening() -> asyncio.Semaphore:
    """Return what is held while a link is opened, by all dialers of this event loop."""
    return _openings.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))


async def _connected(address: str) -> socket.socket:
    """Return a connection to "host:port", at the first of its addresses that answers."""
    loop = asyncio.get_running_loop()
    host, _, port = address.rpartition(":")
    fault = OSError(f"{host} has no address")
    for family, kind, protocol, _, where in await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, where)
        except OSError as error:
            fault = error
            connection.close()
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise fault
