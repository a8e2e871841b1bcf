"""Arrays of an NPZ file, whose sizes are checked before anything is unpacked.

A member says its size three times: in the archive's directory, in the header of its array, and by the bytes that are
there. numpy believes the header and asks for that much memory. Here the three have to agree, and what they say has to
be possible: deflate packs a thousandfold at most.
"""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.errors import DataError

BEST_RATIO = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1040, zipfile.ZIP_BZIP2: 10**6, zipfile.ZIP_LZMA: 10**6}
"""Packing -> how many bytes one byte can stand for at most, or a little more."""
FAULTS = (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""Errors of an archive that is damaged, encrypted or packed in a way that is not known."""
SMALLEST_ITEM = 8
"""Bytes of a number once it is read, whatever it takes in the file."""
SHOWN = 20
"""Names of arrays that a message has, at most."""


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name; no array of Python objects is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return arrays_of(archive, path.stat().st_size, str(path))
    except FAULTS as fault:
        raise DataError(
            f"{path}: not an NPZ file of plain arrays ({fault}); save it by numpy.savez, without object arrays"
        ) from fault


def arrays_of(archive: zipfile.ZipFile, size: int, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an open archive of so many bytes; a `FAULTS` or DataError where it cannot be read."""
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    asked = sum(_size(archive, member, size) for member in members)
    limits.refuse_beyond(asked, f"{name}: {', '.join(_name(m) for m in members[:SHOWN])} unpacked", DataError)
    return {_name(member): _array(archive, member) for member in members}


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> int:
    """Return what an array will take in memory, having compared all that the file says of it."""
    packed = min(member.compress_size, most)
    if member.compress_type not in BEST_RATIO:
        raise ValueError(f"{_name(member)} is packed by method {member.compress_type}")
    if member.file_size > BEST_RATIO[member.compress_type] * packed + 64:
        raise ValueError(f"{_name(member)} is said to be {member.file_size:,} bytes, made of {packed:,}")
    with archive.open(member) as content:
        shape, dtype = _header(content)
        begin = content.tell()
    if dtype.hasobject:
        raise ValueError(f"{_name(member)} holds Python objects")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or begin + count * dtype.itemsize != member.file_size:
        raise ValueError(
            f"{_name(member)} is said to be {dtype} of shape {shape}, {count * dtype.itemsize:,} bytes, but there are "
            f"{member.file_size - begin:,}"
        )
    if 0 in shape and max(shape) > 1:
        raise ValueError(f"{_name(member)} of shape {shape} holds nothing")
    return count * max(dtype.itemsize, SMALLEST_ITEM)


def _header(content: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(content)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the array format is not known")
    shape, _, dtype = read(content)
    return shape, dtype


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as content:
        return np.asarray(np.lib.format.read_array(content, allow_pickle=False))


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")
