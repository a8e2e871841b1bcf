"""Many connections from nobody in particular, kept open in a thread; those that the other end closes are opened again."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS ClientHello, after which nothing comes."""
PAUSE = 0.02
"""Seconds between two looks."""


class Crowd:
    """`count` connections to a port of this host: `with Crowd(port, 200) as crowd: ...`."""

    def __init__(
        self, port: int, count: int, *, says: bytes = b"", sources: Sequence[str] = ("127.0.0.1",), rate: int = 500
    ) -> None:
        """Open them from these addresses in turn, at most `rate` a second; each begins with what it `says`."""
        self._port, self._count, self._says, self._sources, self._rate = port, count, says, sources, rate
        self.opened = self.closed = self.most = 0
        """Connections made, those that the other end closed, and the most that were open at a time."""
        self._open: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._ending = threading.Event()
        self._all_tried = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._all_tried.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        for one in self._open:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._ending.wait(PAUSE):
            allowed = self._rate * (time.monotonic() - begun)
            while len(self._open) < self._count and self.opened < allowed and not self._ending.is_set():
                self._connect()
            self.most = max(self.most, len(self._open))
            if self.opened >= self._count:
                self._all_tried.set()
            for key, _ in self._selector.select(0):
                self._look(key.fileobj)  # type: ignore[arg-type]

    def _connect(self) -> None:
        one = socket.socket()
        one.setblocking(False)
        one.bind((self._sources[self.opened % len(self._sources)], 0))
        self.opened += 1
        with contextlib.suppress(OSError):
            one.connect(("127.0.0.1", self._port))
        self._open.add(one)
        self._selector.register(one, selectors.EVENT_READ | (selectors.EVENT_WRITE if self._says else 0))

    def _look(self, one: socket.socket) -> None:
        try:
            if self._selector.get_key(one).events & selectors.EVENT_WRITE:
                one.send(self._says)
                self._selector.modify(one, selectors.EVENT_READ)
                return
            if one.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._selector.unregister(one)
        self._open.discard(one)
        one.close()
        self.closed += 1
