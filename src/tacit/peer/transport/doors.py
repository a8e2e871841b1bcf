"""Listening socket that admits connections, per address and in all, before a byte of them is read.

`admission` decides which connections may stay; here are the sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tacit.peer.transport.admission import CROWDED, FEWEST, UNPROVEN, Admission
from tacit.peer.transport.turns import Turns
from tacit.privacy.ledger.open_files import SHORT

BACKLOG, AT_ONCE = 1024, 16
"""Connections that wait in the kernel, and those that are accepted before anything else is done."""
PAUSE = 0.2
"""Seconds without accepting connections, where no descriptor is left."""

Attend = Callable[[socket.socket, int], Awaitable[None]]
"""Serves a connection with this ticket, and closes its socket."""


@dataclass
class _Visit:
    connection: socket.socket
    address: str
    task: asyncio.Task[None] | None = None


class Door:
    """Accepts connections, and serves those that may stay until they end."""

    def __init__(
        self,
        admission: Admission,
        attend: Attend,
        refused: Callable[[str, str], None],
        *,
        silent: bool = True,
        expected: int = FEWEST,
    ) -> None:
        """Serve by `attend`, from the first byte on or, if not `silent`, at once; tell `refused` reason and address.

        More strangers at a time than are `expected` are a crowd, and get no more than a share of the time.
        """
        self.admission, self._attend, self._refused, self._silent = admission, attend, refused, silent
        self.turns = Turns(lambda: admission.strangers > expected)
        self._visits: dict[int, _Visit] = {}
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, host: str, port: int) -> int:
        """Listen; returns the port. OSError says that it cannot."""
        self._socket = listening(host, port)
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        return int(self._socket.getsockname()[1])

    @property
    def serving(self) -> int:
        """Number of connections that are open."""
        return len(self._visits)

    def spoke(self, ticket: int) -> None:
        """Note that a connection has sent a request."""
        self.admission.spoke(ticket)

    def prove(self, ticket: int, name: str) -> None:
        """Note that a connection is that of a neighbour."""
        for gone in self.admission.prove(ticket, name, self._now()):
            self._end(gone, CROWDED)

    def shut(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def close(self) -> None:
        """Accept no more connections, and end all open ones."""
        self.shut()
        if self._timer is not None:
            self._timer.cancel()
        tasks = [visit.task for visit in self._visits.values() if visit.task is not None]
        for ticket in tuple(self._visits):
            self._end(ticket, None)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def settle(self, seconds: float) -> None:
        """Wait for connections that are ending by themselves, no longer than `seconds`."""
        tasks = [visit.task for visit in self._visits.values() if visit.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    # ------------------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _accept(self) -> None:
        with self.turns.counted():
            self._accept_some()
        wait = self.turns.wait
        if wait > 0 and self._socket is not None:
            self._pause(wait)

    def _accept_some(self) -> None:
        for _ in range(AT_ONCE):
            if self._socket is None:
                return
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in SHORT:
                    return  # of a connection that broke before it was accepted
                self._make_room()
                return
            connection.setblocking(False)
            if self._receive(connection, str(address[0])):
                return  # those that go still hold their descriptors: they end before the next ones are accepted

    def _make_room(self) -> None:
        """Close one connection, and accept none for a moment: no descriptor is left."""
        oldest = self.admission.oldest()
        if oldest is not None:
            self._end(oldest, CROWDED)
        self._pause(PAUSE)

    def _pause(self, seconds: float) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        if loop.remove_reader(self._socket):
            loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _receive(self, connection: socket.socket, address: str) -> bool:
        """Take a connection in; returns whether another one has to go for it, and is yet to end."""
        ticket, crowded_out = self.admission.arrive(address, self._now())
        self._visits[ticket] = _Visit(connection, address)
        if not self._silent or _has_spoken(connection):  # or it would look silent to those who come with it
            self._begin(ticket, spoke=self._silent)
        else:
            asyncio.get_running_loop().add_reader(connection, self._heard, ticket)
        for gone in crowded_out:
            self._end(gone, CROWDED)
        if self._timer is None:
            self._watch()
        return any(gone in self._visits for gone in crowded_out)

    def _heard(self, ticket: int) -> None:
        connection = self._visits[ticket].connection
        asyncio.get_running_loop().remove_reader(connection)
        if _has_spoken(connection):
            self._begin(ticket, spoke=True)
        else:  # gone without a word
            self._forget(ticket)

    def _begin(self, ticket: int, *, spoke: bool) -> None:
        visit = self._visits[ticket]
        if spoke:
            self.admission.spoke(ticket)
        visit.task = asyncio.ensure_future(self._attend(visit.connection, ticket))
        visit.task.add_done_callback(lambda _: self._forget(ticket))

    def _forget(self, ticket: int) -> None:
        visit = self._visits.pop(ticket, None)
        self.admission.leave(ticket)
        if visit is not None:
            visit.connection.close()
            if visit.task is not None and not visit.task.cancelled():
                visit.task.exception()  # reported by `attend` itself

    def _end(self, ticket: int, reason: str | None) -> None:
        visit = self._visits.get(ticket)
        if visit is None:
            return
        if reason is not None:
            self._refused(reason, visit.address)
        if visit.task is None:
            asyncio.get_running_loop().remove_reader(visit.connection)
            self._forget(ticket)
        else:
            self.admission.leave(ticket)
            visit.task.cancel()

    def _watch(self) -> None:
        """End those whose time is up, and come back when the next one's will be."""
        for ticket in self.admission.overdue(self._now()):
            self._end(ticket, UNPROVEN)
        at = self.admission.deadline()
        self._timer = None if at is None else asyncio.get_running_loop().call_at(at, self._watch)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; OSError says that it cannot."""
    host = host.strip("[]")
    if host in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():  # both
        return socket.create_server(("::", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address, family=family, backlog=BACKLOG)


def _has_spoken(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
