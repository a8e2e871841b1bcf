"""Reader of frames, without input or output: bytes are put where it says, and it hands on frame after frame."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tacit.core.errors import MessageRefused
from tacit.peer.transport.frames import CONTENT, KINDS, LIMITS, number_at

_CAPACITY, _ROOM = 2**17, 2**14
"""Bytes that are kept for small frames, and those for which there is always room: a record of TLS."""


class FrameOwner(Protocol):
    """Who gets the frames of one connection; each method may raise MessageRefused."""

    def frame(self, kind: int, payload: memoryview) -> None:
        """Take a frame that is not content; the payload is good until this returns."""

    def content(self, size: int) -> memoryview:
        """Return the memory for a chunk of content of this size, which is about to come."""

    def chunk(self, size: int) -> None:
        """Note that the chunk is there."""


class FrameReader:
    """Cuts the bytes of one connection into frames. Long ones are put together in the memory that they stay in."""

    def __init__(self, owner: FrameOwner) -> None:
        self._owner = owner
        self._buffer = np.empty(_CAPACITY, np.uint8).data
        self._begin = self._end = 0
        self._kind, self._filled = 0, 0
        self._target: memoryview | None = None
        """Memory of the long frame that is under way."""

    @property
    def is_between(self) -> bool:
        """Whether no frame has begun."""
        return self._target is None and self._begin == self._end

    def release(self) -> None:
        """Give the memory back; nothing more is read."""
        self._buffer, self._target, self._begin, self._end = memoryview(b""), None, 0, 0

    def space(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        if self._target is not None:
            return self._target[self._filled :]
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end > _CAPACITY - _ROOM:
            left = self._end - self._begin
            self._buffer[:left] = bytes(self._buffer[self._begin : self._end])
            self._begin, self._end = 0, left
        return self._buffer[self._end :]

    @property
    def is_long(self) -> bool:
        """Whether what comes next belongs to a long frame, which nobody looks at before it is all there."""
        return self._target is not None

    def took(self, count: int) -> None:
        """Note that so many bytes were put there."""
        if self._target is not None:
            self._filled += count
        else:
            self._end += count

    def advance(self) -> bool:
        """Hand on the next frame that is complete; returns whether there may be another."""
        if self._target is not None:
            return self._finish(self._target)
        data = self._buffer[self._begin : self._end]
        if len(data) < 2:
            return False
        kind = data[0]
        limit = LIMITS.get(kind)
        if limit is None:
            raise MessageRefused("malformed", f"a frame of kind {kind}, which is none")
        found = number_at(data, 1)
        if found is None:
            return False
        size, place = found
        if size > limit:
            raise MessageRefused("oversized", f"{KINDS[kind]} of {size} bytes; at most {limit}")
        if kind != CONTENT and place + size <= len(data):
            self._begin += place + size
            self._owner.frame(kind, data[place : place + size])
            return True
        if kind != CONTENT and place + size <= _CAPACITY - 2 * _ROOM:
            return False
        self._begin_long(kind, size, data[place : place + size])
        self._begin += place + self._filled
        return True

    def _begin_long(self, kind: int, size: int, here: memoryview) -> None:
        if kind == CONTENT:
            if not size:
                raise MessageRefused("malformed", "a frame of content without any")
            target = self._owner.content(size)
        else:
            target = memoryview(bytearray(size))
        target[: len(here)] = here
        self._kind, self._target, self._filled = kind, target, len(here)

    def _finish(self, target: memoryview) -> bool:
        if self._filled < len(target):
            return False
        self._target = None
        if self._kind == CONTENT:
            self._owner.chunk(len(target))
        else:
            self._owner.frame(self._kind, target)
        return True
