"""Frames: what lies on the wire, written and parsed.

A frame is a byte for its kind, the length of its payload and the payload. Numbers are little-endian in groups of seven
bits, the shortest way; texts and bytes have their length before them, but for the last bytes of a payload, which need
none. No frame says who sent it: the sender is whom its certificate names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tacit.core.errors import MessageRefused

CHUNK = 2**20
"""Bytes of content in a frame, at most."""
CONTROL_LIMIT = 2**16
"""Bytes of the payload of a frame that is neither content nor a key message, at most."""
INLINE = 2**15
"""Content up to this size travels in the header's own frame."""
KEY_MESSAGE_LIMIT = 2**20 + 2**12
"""Bytes of a key message, at most, with its overhead."""
TEXT_LIMIT = 500
"""Characters of a text from another peer that are looked at."""

HELLO, WELCOME, HEADER, CONTENT, RECEIPT, PROGRESS, LETTER, ANSWER, NOTICE, BEAT, END = range(1, 12)
_NAMES = ("hello", "welcome", "header", "content", "receipt", "progress", "letter", "answer", "notice", "beat", "end")
KINDS = dict(enumerate(_NAMES, HELLO))
"""Names of the kinds of frames."""
LIMITS = dict.fromkeys(KINDS, CONTROL_LIMIT) | {CONTENT: CHUNK, LETTER: KEY_MESSAGE_LIMIT, BEAT: 0}
"""Bytes of a payload, at most, by kind."""
_NUMBER_BYTES, _LARGEST = 5, 2**32 - 1


class Leaf(NamedTuple):
    """Type and shape of one array of a message."""

    dtype: str
    shape: tuple[int, ...]


Form = tuple[Leaf, ...]
"""What a phase sends."""


class Hello(NamedTuple):
    """First frame of a link, of the end that opens it."""

    version: int
    job: str
    round: int
    """In which the sender is."""
    forms: tuple[Form, ...]
    """What each phase sends: said once, and not with every message."""

    def frame(self) -> bytes:
        """Return the frame."""
        parts = [number(self.version), _text(self.job), number(self.round), number(len(self.forms))]
        for form in self.forms:
            parts.append(number(len(form)))
            for dtype, shape in form:
                parts += [_text(dtype), number(len(shape)), *map(number, shape)]
        return framed(HELLO, *parts)


class Header(NamedTuple):
    """Beginning of a message; links, sizes and types follow from its phase."""

    phase: int = 0
    round: int = 0
    """In which it was sent."""
    content: bytes | memoryview = b""
    """All of it where it is short; otherwise none, and it follows in frames of its own."""
    masks: bytes = b""
    """Where messages are masked: 8 bytes of the session shared with each partner, by the partners' ids."""
    nothing: bool = False
    """Of a phase that names whom it is for: not for the receiver."""

    def frame(self) -> bytes:
        """Return the frame."""
        marked = number(self.phase << 2 | self.nothing << 1 | bool(self.masks))
        tags = number(len(self.masks)) + self.masks if self.masks else b""
        return framed(HEADER, marked, number(self.round), tags, self.content)


class Receipt(NamedTuple):
    """Refusal of a message."""

    phase: int
    round: int
    reason: str
    detail: str

    def frame(self) -> bytes:
        """Return the frame."""
        return framed(RECEIPT, number(self.phase), number(self.round), _text(self.reason), _text(self.detail))


class Letter(NamedTuple):
    """A sealed key message."""

    number: int
    """By which it is answered; 0 on its way down."""
    correspondent: str
    """Up: for whom it is; down: whose it is, as the relay says."""
    payload: bytes

    def frame(self) -> bytes:
        """Return the frame."""
        return framed(LETTER, number(self.number), _text(self.correspondent), self.payload)


class Answer(NamedTuple):
    """What became of a key message; no reason: it was passed on."""

    number: int
    reason: str = ""
    detail: str = ""

    def frame(self) -> bytes:
        """Return the frame."""
        return framed(ANSWER, number(self.number), _text(self.reason), _text(self.detail))


class End(NamedTuple):
    """Last frame of a link, of either end; the reason is that of a refusal, or empty."""

    reason: str = ""
    detail: str = ""

    def frame(self) -> bytes:
        """Return the frame."""
        return framed(END, _text(self.reason), _text(self.detail))


class Place(NamedTuple):
    """A position as it was said, not checked yet."""

    round: int
    phase: int

    def frame(self, kind: int) -> bytes:
        """Return the frame, a welcome or progress."""
        return framed(kind, number(self.round), number(self.phase))


BEAT_FRAME = bytes((BEAT, 0))


def framed(kind: int, *parts: bytes | memoryview) -> bytes:
    """Return a frame whose payload are these parts."""
    return b"".join((bytes((kind,)), number(sum(map(len, parts))), *parts))


def content_frames(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Cut content into frames: the bytes before a chunk, and the chunk in its place."""
    view = memoryview(content)
    for begin in range(0, len(view), CHUNK):
        part = view[begin : begin + CHUNK]
        yield bytes((CONTENT,)) + number(len(part)), part


def number(value: int) -> bytes:
    """Return a number as it lies on the wire."""
    if value < 0x80:
        return bytes((value,))
    digits = []
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*digits, value))


def number_at(data: memoryview, place: int) -> tuple[int, int] | None:
    """Return the number at a place and the place behind it; None where it is not all there yet."""
    value = shift = 0
    for behind, byte in enumerate(data[place : place + _NUMBER_BYTES], place + 1):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _LARGEST or (byte == 0 and shift):
                raise MessageRefused("malformed", f"the number {value}, too large or not written the shortest way")
            return value, behind
        shift += 7
    if shift == 7 * _NUMBER_BYTES:
        raise MessageRefused("malformed", f"a number of more than {_NUMBER_BYTES} bytes")
    return None


def printable(text: str) -> str:
    """Return a text from another peer so that it can be logged: short, on one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:TEXT_LIMIT])


class _Fields:
    """The fields of a payload, one after the other; what is no field is refused."""

    def __init__(self, kind: int, payload: memoryview) -> None:
        self._kind, self._payload, self._place = kind, payload, 0

    def number(self) -> int:
        found = number_at(self._payload, self._place)
        if found is None:
            raise self._malformed("is cut off")
        value, self._place = found
        return value

    def data(self) -> bytes:
        size = self.number()
        begin, self._place = self._place, self._place + size
        if self._place > len(self._payload):
            raise self._malformed("is cut off")
        return bytes(self._payload[begin : self._place])

    def text(self) -> str:
        try:
            return self.data().decode()
        except UnicodeDecodeError:
            raise self._malformed("has a text that is none") from None

    def some(self) -> range:
        """Take the number of things that follow, each of a byte at least."""
        count = self.number()
        if count > len(self._payload):
            raise self._malformed(f"announces {count} things")
        return range(count)

    def rest(self) -> memoryview:
        begin, self._place = self._place, len(self._payload)
        return self._payload[begin:]

    def end(self) -> None:
        left = len(self._payload) - self._place
        if left:
            raise self._malformed(f"has {left} bytes too many")

    def _malformed(self, how: str) -> MessageRefused:
        return MessageRefused("malformed", f"{KINDS[self._kind]} of {len(self._payload)} bytes that {how}")


def parse(kind: int, payload: memoryview) -> Any:
    """Return what a frame says, of a kind with fields; refuse one that is not well-formed."""
    fields = _Fields(kind, payload)
    found = _PARSERS[kind](fields)
    fields.end()
    return found


def _hello(take: _Fields) -> Hello:
    version, job, at_round = take.number(), take.text(), take.number()
    forms = tuple(tuple(_leaf(take) for _ in take.some()) for _ in take.some())
    return Hello(version, job, at_round, forms)


def _leaf(take: _Fields) -> Leaf:
    return Leaf(take.text(), tuple(take.number() for _ in take.some()))


def _header(take: _Fields) -> Header:
    """Take a header; its content is a view of the payload."""
    marked, sent = take.number(), take.number()
    masks = take.data() if marked & 1 else b""
    if marked & 1 and not masks:
        raise MessageRefused("malformed", "a header that announces masks and has none")
    return Header(marked >> 2, sent, take.rest(), masks, bool(marked & 2))


_PARSERS: dict[int, Callable[[_Fields], NamedTuple]] = {
    HELLO: _hello,
    HEADER: _header,
    WELCOME: lambda take: Place(take.number(), take.number()),
    PROGRESS: lambda take: Place(take.number(), take.number()),
    RECEIPT: lambda take: Receipt(take.number(), take.number(), take.text(), take.text()),
    LETTER: lambda take: Letter(take.number(), take.text(), bytes(take.rest())),
    ANSWER: lambda take: Answer(take.number(), take.text(), take.text()),
    END: lambda take: End(take.text(), take.text()),
}


def _text(text: str) -> bytes:
    data = text.encode(errors="replace")
    return number(len(data)) + data
