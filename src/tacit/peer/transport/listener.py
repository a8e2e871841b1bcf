"""Listening side of the transport: in-neighbours open their links here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tacit.core.errors import ConfigError, MessageRefused, said
from tacit.peer.identity.credentials import Credentials, IdentityWatch, peer_of
from tacit.peer.node.exchange import Reception
from tacit.peer.transport.admission import FEWEST, Admission, DoorLimits
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.doors import Door
from tacit.peer.transport.frames import End, printable
from tacit.peer.transport.handshake import Secured, handshake_reason, said_of, shake_hands
from tacit.peer.transport.incoming import IncomingLink
from tacit.peer.transport.link import LinkEvents
from tacit.peer.transport.stream import linger
from tacit.peer.transport.turns import Turns
from tacit.privacy.ledger.open_files import descriptors_left

if TYPE_CHECKING:
    from tacit.peer.identity.revocation import RevocationList

PARTING_TIME = 1.0
"""Seconds for which a connection that this side ends is kept, so that its last words arrive."""


class Limits(NamedTuple):
    """Limits of a listener. Times in seconds."""

    hello_time: float = 5.0
    """From the opening of a link to its hello."""
    relay_time: float = 10.0
    relays: int = 4
    """Key-agreement messages of one neighbour that may be on their way at once."""
    connection_age: float = 900.0
    """After this a connection must be made anew, with the certificate that the neighbour has then."""
    ping_every: float = 2.0
    """Between two signs of life; all peers have the same."""
    ping_timeout: float = 4.0
    """For which a sign of life may be late."""
    confirm_within: float = 0.1
    """For which a position may be left, where rounds wait for every neighbour and so keep its messages anyway."""
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
        self._door: Door | None = None
        self._telling = False
        self._reminder: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> frozenset[str]:
        """Names of the neighbours whose link is up."""
        return frozenset(name for name, link in self._links.items() if link.welcomed)

    def connection(self, name: str) -> object | None:
        """Return the connection of a neighbour, to tell it from later ones; None while its link is down."""
        link = self._links.get(name)
        return link if link is not None and link.welcomed else None

    @property
    def doors(self) -> dict[str, float]:
        """Number of strangers, and their limits."""
        if self._door is None:
            return {}
        admission = self._door.admission
        return {"strangers": admission.strangers, **admission.limits._asdict()}

    async def start(self, address: str) -> int:
        """Listen at "host:port" (port 0: any that is free); returns the port."""
        expected = max(FEWEST, self._limits.neighbours)
        self._door = Door(Admission(self._door_limits()), self._attend, self._turn_away, expected=expected)
        host, _, port = address.rpartition(":")
        try:
            return self._door.open(host, int(port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {address!r} ({said(error)}): choose a free port of this host"
            ) from None

    async def close(self, grace: float = 1.0) -> None:
        """Send the position and end all links; links that do not end within `grace` seconds are cut off."""
        if self._door is None:
            return
        self._door.shut()
        if self._reminder is not None:
            self._reminder.cancel()
        for link in tuple(self._links.values()):
            link.tell()
            link.end(End("", "this peer stops"))
        await self._door.settle(grace)
        await self._door.close()

    def progressed(self) -> None:
        """Send the new position where it is due; several steps close together are sent as one."""
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._telling = False
        patience = self._reception.patience
        left = [link.tell_if_due(patience) for link in tuple(self._links.values())]
        if any(left) and self._reminder is None:
            self._reminder = asyncio.get_running_loop().call_later(self._limits.confirm_within, self._tell_the_rest)

    def _tell_the_rest(self) -> None:
        self._reminder = None
        for link in tuple(self._links.values()):
            link.tell_if_due()

    def cut(self, name: str, reason: str, detail: str = "") -> None:
        """End the link of a neighbour, if it has one, with the reason that it is told."""
        link = self._links.get(name)
        if link is not None:
            link.end(End(reason, detail))

    def cut_revoked(self, listed: RevocationList) -> None:
        """End the links of neighbours whose certificates are on a list."""
        for name, link in tuple(self._links.items()):
            if listed.revokes(link.stream.certificate):
                detail = f"the authority has revoked the certificate of {name!r}"
                self._events.refused("revoked", name, detail)
                self.cut(name, "revoked", detail)

    def notify(self, name: str, payload: bytes) -> bool:
        """Send a notice to an in-neighbour; returns whether its link was up and had room for it."""
        link = self._links.get(name)
        return link is not None and link.notify(payload)

    async def send_key_message(self, name: str, sender: str, payload: bytes) -> None:
        """Hand a key message of `sender` to the neighbour `name`; MessageRefused if its link is not up, or is full."""
        link = self._links.get(name)
        if link is None or not link.welcomed:
            raise MessageRefused("recipient", f"{name} is not connected; send the letter again later")
        if not link.send_key_message(sender, payload):
            raise MessageRefused("recipient", f"{name} does not read what it is sent; send the letter again later")

    # ------------------------------------------------------------------------------------------------------------------

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

    async def _attend(self, connection: socket.socket, ticket: int) -> None:
        """Serve a connection until it ends."""
        try:
            caller = await self._caller(connection)
            if caller is not None:
                await self._serve(*caller, ticket)
        finally:
            connection.close()

    async def _caller(self, connection: socket.socket) -> tuple[str, Secured] | None:
        """Return the in-neighbour at the other end, by its certificate; anybody else is refused."""
        credentials = self._watch.credentials()
        assert self._door is not None  # it let this connection in
        secured = await met(connection, credentials, self._events.refused, self._door.turns)
        if secured is None:
            return None
        name = None
        try:
            name = peer_of(secured.tls, self._watch.current())  # by the list of now, not of before the handshake
            self._reception.admit(name)
        except MessageRefused as refusal:
            self._events.refused(refusal.reason, name, printable(f"{refusal.detail}, from {address_of(connection)}"))
            with contextlib.suppress(OSError, ssl.SSLError):
                secured.tls.write(End(refusal.reason, printable(refusal.detail)).frame())
                await asyncio.get_running_loop().sock_sendall(connection, secured.outgoing.read())
                await linger(connection, PARTING_TIME)
            return None
        return name, secured

    async def _serve(self, name: str, secured: Secured, ticket: int) -> None:
        """Hold the link of a neighbour while it lasts; a newer one takes the place of an older one."""
        if self._door is not None:
            self._door.prove(ticket, name)
        link = IncomingLink(name, secured, self._codec, self._reception, self._events, self._limits, self.progressed)
        older, self._links[name] = self._links.get(name), link
        try:
            if older is not None:  # half-open, perhaps
                older.end(End("", "a newer link of the same peer has taken over"))
            link.start()
            await link.over
        finally:
            if self._links.get(name) is link:
                del self._links[name]
            link.end(None)
            try:
                await link.close(PARTING_TIME)
            finally:
                link.stream.close()


async def met(
    connection: socket.socket,
    credentials: Credentials,
    refused: Callable[[str, str | None, str], None],
    turns: Turns,
) -> Secured | None:
    """Shake hands with a caller; None where that fails, after the caller and `refused` were told why."""
    where = address_of(connection)
    try:
        return await shake_hands(connection, credentials.server, server_side=True, turns=turns)
    except ssl.SSLError as error:
        refused(handshake_reason(error), None, f"{said_of(error)}, from {where}")
        await linger(connection, PARTING_TIME)
    except OSError as error:
        if not isinstance(error, ConnectionError):
            refused("handshake", None, f"{said(error)}, from {where}")
    return None


def address_of(connection: socket.socket) -> str:
    """Return where a connection comes from."""
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return "a connection that is gone"
