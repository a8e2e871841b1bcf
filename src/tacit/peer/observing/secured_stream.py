"""Both directions of a connection whose TLS handshake is over, in the manner of asyncio's streams."""

from __future__ import annotations

import asyncio
import ssl

from tacit.peer.operations.http_request import LONGEST_HEAD
from tacit.peer.transport.handshake import Secured

_BYTES = 2**14


class SecuredStream:
    """Reader and writer in one; never holds more than one request's head and one record.

    Args:
      secured: The connection, which stays its caller's to close.
    """

    def __init__(self, secured: Secured) -> None:
        self._secured, self._loop = secured, asyncio.get_running_loop()
        self._buffer, self._ended = bytearray(), False

    async def readuntil(self, separator: bytes, /) -> bytes:
        """Return what comes up to a separator, with it."""
        while (at := self._buffer.find(separator)) < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise asyncio.LimitOverrunError("no separator in what has come", len(self._buffer))
            await self._more()
        return self._taken(at + len(separator))

    async def readexactly(self, n: int, /) -> bytes:
        """Return so many bytes."""
        while len(self._buffer) < n:
            await self._more()
        return self._taken(n)

    async def read(self, n: int, /) -> bytes:
        """Return what comes, some bytes; none at the end."""
        if not self._buffer and not self._ended:
            try:
                await self._more()
            except EOFError:
                return b""
        return self._taken(n)

    def write(self, data: bytes, /) -> None:
        """Have bytes sent by the next `drain`."""
        if data:
            self._secured.tls.write(data)

    async def drain(self) -> None:
        """Send what was written."""
        await self._loop.sock_sendall(self._secured.connection, self._secured.outgoing.read())

    def can_write_eof(self) -> bool:
        """Whether the end can be said while the other end is still heard: not by TLS."""
        return False

    def write_eof(self) -> None:
        """Say nothing; see `can_write_eof`."""

    def _taken(self, n: int) -> bytes:
        taken = bytes(self._buffer[:n])
        del self._buffer[:n]
        return taken

    async def _more(self) -> None:
        """Decrypt one more record; asyncio.IncompleteReadError, which is an EOFError, where there is none."""
        secured = self._secured
        while not self._ended:
            try:
                data = secured.tls.read(_BYTES)
            except ssl.SSLWantReadError:
                await self.drain()  # an answer of TLS itself
                received = await self._loop.sock_recv(secured.connection, _BYTES)
                secured.incoming.write(received) if received else secured.incoming.write_eof()
                continue
            except ssl.SSLError:
                data = b""
            self._ended = not data
            self._buffer += data
            if data:
                return
        raise asyncio.IncompleteReadError(bytes(self._buffer), None)
