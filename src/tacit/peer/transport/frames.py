"""Frames: parsing of untrusted bytes, and serialisation of content.

Content is read and written in place. It is an ordinary protobuf field, but protobuf would copy every chunk twice on
either side; and this way no frame that is large can be anything but content.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from tacit.core.errors import MessageRefused
from tacit.peer.transport.wire import tacit_pb2 as pb

CHUNK = 2**20
"""Bytes of content in a frame, at most."""
CONTROL_LIMIT = 2**16
"""Bytes of a frame that is neither content nor a key message, at most."""
INLINE = 2**15
"""Content up to this size travels in the header's own frame."""
KEY_MESSAGE_LIMIT = 2**20 + 2**12
"""Bytes of a key message, at most, with its overhead."""
TEXT_LIMIT = 500
"""Characters of a text from another peer that are looked at."""

_CONTENT_TAG = 0x22  # field 4, length-delimited
_LENGTH_BYTES = 3  # of a varint up to CHUNK
_COMPRESSED = (b"\x1f\x8b", b"\x78")  # gzip and zlib; no frame of ours begins like this


def parse_frame(data: bytes, limit: int = CONTROL_LIMIT) -> pb.Frame | memoryview:
    """Return content as a view of the bytes, or any other frame with its kind set; refuse everything else.

    `limit` is for frames that are not content.
    """
    if data[:1] == b"\x22":
        return _content_of(data)
    frame = pb.Frame()
    _parse_into(frame, data, limit)
    if frame.WhichOneof("kind") in (None, "content"):
        raise MessageRefused("malformed", f"a frame of {len(data)} bytes without a kind, or content that is not alone")
    return frame


def parse_key_message(data: bytes) -> pb.Letter:
    """Return a key-agreement message that is well-formed and not too long."""
    letter = pb.Letter()
    _parse_into(letter, data, KEY_MESSAGE_LIMIT)
    return letter


def parse_receipt(data: bytes) -> pb.Receipt:
    """Return a receipt that is well-formed."""
    receipt = pb.Receipt()
    _parse_into(receipt, data, CONTROL_LIMIT)
    return receipt


def content_frames(content: bytes) -> Iterator[bytes]:
    """Cut content into frames, one copy each."""
    view = memoryview(content)
    for begin in range(0, len(view), CHUNK):
        part = view[begin : begin + CHUNK]
        yield b"".join((bytes((_CONTENT_TAG,)), _varint(len(part)), part))


def printable(text: str) -> str:
    """Return a text from another peer so that it can be logged: short, on one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:TEXT_LIMIT])


def _parse_into(message: pb.Frame | pb.Letter | pb.Receipt, data: bytes, limit: int) -> None:
    if data.startswith(_COMPRESSED):
        raise MessageRefused("compressed", f"{len(data)} compressed bytes; send them as they are")
    if len(data) > limit:
        raise MessageRefused("oversized", f"{len(data)} bytes that are not content; at most {limit}")
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise MessageRefused("malformed", f"{len(data)} bytes that are no {message.DESCRIPTOR.name}: {error}") from None


def _content_of(data: bytes) -> memoryview:
    length = 0
    for place in range(_LENGTH_BYTES):
        byte = data[place + 1] if place + 1 < len(data) else 0
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            begin = place + 2
            break
    else:
        raise MessageRefused("oversized", f"a frame with more than {CHUNK} bytes of content; send it in parts")
    if length > CHUNK:
        raise MessageRefused("oversized", f"a frame with {length} bytes of content; at most {CHUNK}")
    if len(data) - begin != length or length == 0:
        raise MessageRefused("malformed", f"a frame of {len(data)} bytes that announces {length} bytes of content")
    return memoryview(data)[begin:]


def _varint(number: int) -> bytes:
    digits = []
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*digits, number))
