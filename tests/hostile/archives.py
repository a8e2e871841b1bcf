"""Zip archives that say what they like about their members."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STORED, DEFLATED = 0, 8
ZEROS = 2**24


class Member(NamedTuple):
    """A member of an archive as it is written, and the size that it is said to have."""

    name: str
    content: bytes
    said: int
    method: int = DEFLATED
    crc: int = 0


def npy_header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    """Return the header of an array, whatever follows it."""
    header = io.BytesIO()
    description: dict[str, Any] = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def array(name: str, values: np.ndarray) -> Member:
    """Return an honest member."""
    content = io.BytesIO()
    np.save(content, values)
    plain = content.getvalue()
    return Member(f"{name}.npy", plain, len(plain), STORED, zlib.crc32(plain))


def bomb(name: str, gib: int) -> Member:
    """Return a member that unpacks to so many GiB of zeros, and takes a thousandth of that."""
    head = npy_header((gib * 2**27,))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(ZEROS)) + packer.flush(zlib.Z_FULL_FLUSH)
    content = first + block * (gib * 2**30 // ZEROS) + packer.flush()
    return Member(f"{name}.npy", content, len(head) + gib * 2**30)


def deflated(content: bytes) -> bytes:
    """Return bytes packed as a member is."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def write(path: Path, *members: Member) -> Path:
    """Write an archive; every size is said in 64 bits."""
    body, directory = b"", b""
    for member in members:
        name = member.name.encode()
        facts = (member.method, 0, 33, member.crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name))
        extra = struct.pack("<HHQQ", 1, 16, member.said, len(member.content))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, *facts, len(extra), 0, 0, 0, 0, len(body))
        directory += name + extra
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, *facts, len(extra)) + name + extra + member.content
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path
