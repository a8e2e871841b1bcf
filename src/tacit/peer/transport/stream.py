"""Frames over one TLS connection: in and out, at the pace of the slower end, with signs of life.

What comes in is decrypted into the memory that the reader of frames names. What goes out is encrypted as the socket
takes it, in records of TLS that hold one frame each or a part of one, several at a time, and written at once. Nothing
waits: the owner is told when a connection ends, or when all that it had to say is out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections import deque
from typing import Protocol

import numpy as np

from tacit.core.errors import MessageRefused
from tacit.peer.transport.frames import BEAT_FRAME
from tacit.peer.transport.handshake import Secured, said_of
from tacit.peer.transport.reader import FrameOwner, FrameReader

RECORD = 2**14
"""Bytes in a record of TLS, at most."""
_RECEIVED, _ENCRYPTED = 2**18, 2**18
"""Bytes that are read from a socket, and encrypted for it, at a time."""


class _Memory(threading.local):
    """Memory of a thread, and so of an event loop, in which bytes of a socket lie until they are handed to TLS."""

    def __init__(self) -> None:
        self.received = np.empty(_RECEIVED, np.uint8).data


_MEMORY = _Memory()
"""All streams of a thread use it in turn: nothing in it is kept from one callback to the next."""


class StreamOwner(FrameOwner, Protocol):
    """Who speaks over a stream."""

    def refused(self, refusal: MessageRefused) -> None:
        """Note what came and cannot be taken; nothing more is read unless the owner resumes."""

    def broken(self, fault: Exception) -> None:
        """Note a fault of this peer in taking a frame."""

    def ended(self, why: str, error: ssl.SSLError | None) -> None:
        """Note that the other end has closed the connection or broken it: nothing comes any more."""

    def silent(self) -> None:
        """Note that nothing was heard for too long."""

    def drained(self) -> None:
        """Note that all that was to be sent has left."""


class Stream:
    """One connection after its handshake. Used by one event loop."""

    def __init__(self, secured: Secured, owner: StreamOwner) -> None:
        """Take over the connection; nothing is read before `start`."""
        self._socket, self._tls, self._incoming, self._outgoing = secured
        self._owner, self._reader = owner, FrameReader(owner)
        self._loop = asyncio.get_running_loop()
        self._received = _MEMORY.received
        self._records: deque[bytes | memoryview] = deque()
        """Bytes to encrypt: one record of TLS each, or a long frame's next records."""
        self._waiting = 0
        """Bytes that are not encrypted yet."""
        self._rest = memoryview(b"")
        """Encrypted bytes that the socket did not take."""
        self._paused = self._ended = self._closed = False
        self._listening = self._writing = False
        self._heard = self._spoke = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._out = asyncio.Event()
        """Set whenever all is out, or nothing can go out any more."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def certificate(self) -> bytes | None:
        """Certificate that the other end has shown, as DER."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def pending(self) -> int:
        """Bytes that the other end has not taken."""
        return self._waiting + len(self._rest)

    @property
    def is_between_frames(self) -> bool:
        """Whether no frame is half there."""
        return self._reader.is_between

    def start(self, every: float, timeout: float) -> None:
        """Begin to read. A sign of life is sent `every` seconds, and one expected within that time and `timeout`."""
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(every, self._look, every, timeout)
        self._listen()
        self._take()

    # -- out -----------------------------------------------------------------------------------------------------------

    def put(self, *parts: bytes | memoryview) -> None:
        """Have a frame, or several that belong together, sent with the next `push`; only the last part may be long."""
        size = sum(map(len, parts))
        self._waiting += size
        if size <= RECORD:
            self._records.append(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        *heads, body = parts
        head, body = b"".join(heads), memoryview(body)
        first = RECORD - len(head)
        self._records.append(b"".join((head, body[:first])))
        self._records.extend(body[begin : begin + _ENCRYPTED] for begin in range(first, len(body), _ENCRYPTED))

    def push(self) -> None:
        """Send what the socket takes; the rest follows by itself."""
        if self._closed or self._writing:
            return
        try:
            while self._fill() and self._send():
                pass
        except (OSError, ssl.SSLError) as error:
            self._end(error)
            return
        self._spoke = self._loop.time()
        if self._rest:
            self._writing = True
            self._loop.add_writer(self._socket, self._writable)

    def send(self, *parts: bytes | memoryview) -> None:
        """Send a frame now."""
        self.put(*parts)
        self.push()

    def _fill(self) -> bool:
        """Encrypt more if all that was encrypted is out; returns whether there is something to send."""
        if not self._rest and (self._records or self._outgoing.pending):
            while self._records and self._outgoing.pending < _ENCRYPTED:
                record = self._records.popleft()
                self._waiting -= len(record)
                self._tls.write(record)
            self._rest = memoryview(self._outgoing.read())
        return bool(self._rest)

    def _send(self) -> bool:
        """Give the socket what it takes; returns whether it took all."""
        try:
            sent = self._socket.send(self._rest)
        except (BlockingIOError, InterruptedError):
            return False
        self._rest = self._rest[sent:]
        return not self._rest

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._writing = False
        self.push()
        if not self.pending and not self._closed:
            self._out.set()
            self._owner.drained()

    # -- in ------------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read no more for now, not even what has come already."""
        self._paused = True

    def resume(self) -> None:
        """Read again, soon."""
        if not self._paused:
            return
        self._paused = False
        self._heard = self._loop.time()
        waits = self._incoming.pending or self._tls.pending() or not self._reader.is_between
        if waits or not self._listening:  # else what comes next is heard anyway
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._closed and not self._paused:
            self._take()
            self._listen()

    def _listen(self) -> None:
        if not self._listening and not self._ended and not self._closed:
            self._loop.add_reader(self._socket, self._readable)
            self._listening = True

    def _deafen(self) -> None:
        if self._listening:
            self._loop.remove_reader(self._socket)
            self._listening = False

    def _readable(self) -> None:
        if self._paused and self._incoming.pending >= _RECEIVED:
            self._deafen()
            return
        try:
            count = self._socket.recv_into(self._received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        self._heard = self._loop.time()
        if count:
            self._incoming.write(self._received[:count])
        else:
            self._incoming.write_eof()
            self._deafen()
            if self._paused:  # what waits to be read is not waited for
                self._end(None)
                return
        self._take()

    def _take(self) -> None:
        """Decrypt what has come, and hand on its frames."""
        reader = self._reader
        try:
            while not self._paused and not self._closed:
                if reader.advance():
                    continue
                if not (self._incoming.pending or self._tls.pending() or self._incoming.eof):
                    break  # else TLS would say so by an exception
                count = self._decrypt(reader.space())
                if not count:
                    self._end(None)
                    return
                reader.took(count)
            if self._outgoing.pending:  # an answer of TLS itself
                self.push()
        except ssl.SSLWantReadError:
            if self._outgoing.pending:
                self.push()
        except ssl.SSLError as error:
            self._end(error)
        except MessageRefused as refusal:
            self.pause()
            self._owner.refused(refusal)
        except Exception as fault:
            self.pause()
            self._owner.broken(fault)

    def _decrypt(self, space: memoryview) -> int:
        """Put the next record of TLS into some memory, or as much of a long frame as has come; returns how much."""
        read, incoming = self._tls.read, self._incoming
        count = int(read(len(space), space))
        if self._reader.is_long:
            with contextlib.suppress(ssl.SSLWantReadError):
                while 0 < count < len(space) and incoming.pending:
                    more = int(read(len(space) - count, space[count:]))
                    if not more:
                        break
                    count += more
        return count

    def _look(self, every: float, timeout: float) -> None:
        """Send a sign of life if nothing else was said, and look for the other end's."""
        now = self._loop.time()
        if not self._paused and now - self._heard > every + timeout:
            self._timer = None
            self._owner.silent()
            return
        if not self.pending and now - self._spoke >= every / 2:
            self.send(BEAT_FRAME)
        if not self._closed:
            self._timer = self._loop.call_later(every, self._look, every, timeout)

    # -- end -----------------------------------------------------------------------------------------------------------

    def _end(self, error: Exception | None) -> None:
        """Note that the other end is gone."""
        self._deafen()
        if self._ended or self._closed:
            return
        self._ended = True
        self._out.set()
        if error is None or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self._owner.ended("closed the connection", None)
        elif isinstance(error, ssl.SSLError):
            self._owner.ended(said_of(error), error)
        else:
            self._owner.ended(getattr(error, "strerror", None) or str(error), None)

    async def finish(self, seconds: float) -> None:
        """Send what is left, say that it is all, and wait for the other end to close, no longer than `seconds`."""
        self.pause()
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(seconds):
                while self.pending and not self._ended:
                    self._out.clear()
                    await self._out.wait()
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                self._deafen()
                await self._loop.sock_sendall(self._socket, self._outgoing.read())
                self._socket.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv_into(self._socket, self._received):
                    pass
        self.close()

    def close(self) -> None:
        """End the connection now; what was not sent is lost."""
        if self._closed:
            return
        self._closed = True
        self._deafen()
        if self._writing:
            self._loop.remove_writer(self._socket)
        if self._timer is not None:
            self._timer.cancel()
        self._records.clear()
        self._reader.release()  # at once, and not with the next collection of garbage
        self._socket.close()


async def linger(connection: socket.socket, seconds: float) -> None:
    """Close a connection so that its last bytes arrive: what the other end still sends is read and thrown away."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(seconds):
            connection.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(connection, RECORD):
                pass
    connection.close()
