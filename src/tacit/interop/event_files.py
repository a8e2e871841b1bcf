"""TensorBoard's event files, written without TensorBoard.

A file is a sequence of records (the TFRecord format): length (8 bytes, little-endian), its checksum (4), the content,
its checksum (4). The content is an `Event` in protobuf's encoding, of which a curve needs four fields:

    Event: 1 wall_time (double), 2 step (varint), 3 file_version (string), 5 summary (message)
    Summary: 1 value (message) with 1 tag (string), 2 simple_value (float)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_DOUBLE, _BYTES, _FLOAT = 1, 2, 5
"""Protobuf's wire types; a varint is type 0."""


class Point(NamedTuple):
    """One point of one curve."""

    tag: str
    step: int
    value: float


def write_events(path: Path, points: Iterable[Point], wall_time: float) -> None:
    """Write curves as one event file, in place of one of that name."""
    path.write_bytes(_record(_field(1, _DOUBLE, struct.pack("<d", wall_time)) + _text(3, b"brain.Event:2")))
    append_events(path, points, wall_time)


def append_events(path: Path, points: Iterable[Point], wall_time: float) -> None:
    """Write more points of curves behind those that a file holds: TensorBoard reads on where it was."""
    with path.open("ab") as file:
        for point in points:
            value = _text(1, point.tag.encode()) + _field(2, _FLOAT, struct.pack("<f", point.value))
            event = _field(1, _DOUBLE, struct.pack("<d", wall_time)) + b"\x10" + _varint(point.step)
            file.write(_record(event + _text(5, _text(1, value))))


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _masked_checksum(length) + content + _masked_checksum(content)


def _field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + content


def _text(number: int, content: bytes) -> bytes:
    return _field(number, _BYTES, _varint(len(content)) + content)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _masked_checksum(content: bytes) -> bytes:
    """CRC-32C (Castagnoli), rotated and shifted, so that a checksum of data that hold checksums is no weaker."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]
