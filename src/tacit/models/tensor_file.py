"""Files of named arrays in the safetensors format, written and read by hand: 8 bytes, a JSON header, plain numbers.

    length of the header (8 bytes, little-endian) | header | numbers of all arrays, one after the other, no gaps

Nothing in such a file can run. All that a header says is checked against the file before an array is made, so that a
file asks for no more memory than it has bytes.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.errors import ModelError

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
"""Name in the format -> NumPy's; others that the format has are refused."""
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
LENGTH, ALIGNMENT = 8, 8
LONGEST_HEADER = 2**24
"""Bytes."""
MOST_AXES = 8
METADATA = "__metadata__"
AGAIN = "it was cut off or changed: copy it anew, or write it again"

Arrays = Mapping[str, NDArray[Any]]


def packed(arrays: Arrays, metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a file, the same for the same content.

    Args:
      arrays: Name -> array, of a type that `DTYPES` has.
      metadata: Further text by name.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
    pieces, end = [], 0
    for name, array in arrays.items():
        if array.dtype not in NAMES:
            raise ModelError(
                f"parameter {name!r} is of type {array.dtype}; expected one of {', '.join(map(str, NAMES))}"
            )
        if not np.isfinite(array).all():
            raise ModelError(
                f"parameter {name!r} has numbers that are not finite: the run diverged; take a smaller step"
            )
        pieces.append(np.ascontiguousarray(array).tobytes())
        start, end = end, end + len(pieces[-1])
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-len(text) % ALIGNMENT)
    if len(text) > LONGEST_HEADER:
        raise ModelError(f"the model's card and names take {len(text):,} bytes, expected at most {LONGEST_HEADER:,}")
    return b"".join((len(text).to_bytes(LENGTH, "little"), text, *pieces))


def read_bytes(path: Path) -> bytes:
    """Return what a plain file holds, refused before it is read where that is beyond the limit of memory."""
    try:
        # Not blocking: something else than a file might keep its reader waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: there is no such file; name a model, or the directory of a run") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); name another file, or change its owner") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ModelError(f"{path} is no plain file; name a model, or the directory of a run")
        limits.refuse_beyond(found.st_size, str(path), ModelError)
        return file.read(found.st_size)


def unpacked(content: bytes, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return arrays and metadata of a file, which is `name` in messages; anything wrong is a ModelError."""
    length = int.from_bytes(content[:LENGTH], "little")
    if len(content) < LENGTH + 2 or content[LENGTH : LENGTH + 1] != b"{":
        _refuse(name, "it is no model file (safetensors); name the file that a run wrote")
    if not 2 <= length <= min(LONGEST_HEADER, len(content) - LENGTH):
        _refuse(name, f"its header is said to have {length:,} bytes, of {len(content):,} in the file; {AGAIN}")
    header = strict_json(content[LENGTH : LENGTH + length], name)
    if not isinstance(header, dict):
        _refuse(name, f"its header is a {type(header).__name__}, expected an object; {AGAIN}")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        _refuse(name, f"its {METADATA} is not text by name; {AGAIN}")
    data = memoryview(content)[LENGTH + length :]
    spans = {key: _span(entry, key, name) for key, entry in header.items()}
    end = 0
    for key, (start, stop, *_) in sorted(spans.items(), key=lambda item: item[1][:2]):
        if start != end:
            _refuse(name, f"array {key!r} begins at byte {start:,}, expected {end:,}; {AGAIN}")
        end = stop
    if end != len(data):
        _refuse(name, f"its arrays take {end:,} bytes, but the file has {len(data):,} for them; {AGAIN}")
    arrays = {}
    for key, (start, stop, dtype, shape) in spans.items():
        array = np.frombuffer(data[start:stop], dtype).reshape(shape)
        if not np.isfinite(array).all():
            _refuse(name, f"array {key!r} has numbers that are not finite; {AGAIN}")
        arrays[key] = array
    return arrays, metadata


def _span(entry: Any, key: str, name: str) -> tuple[int, int, np.dtype[Any], tuple[int, ...]]:
    """Return start, stop, type and shape of an array, which fit each other."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        _refuse(name, f"array {key[:80]!r} is not described by dtype, shape and data_offsets; {AGAIN}")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        _refuse(name, f"array {key[:80]!r} is of type {str(code)[:20]!r}, expected one of {', '.join(DTYPES)}")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
            _refuse(
                name, f"array {key[:80]!r} has shape or offsets {str(numbers)[:60]}, expected whole numbers; {AGAIN}"
            )
    dtype = np.dtype(DTYPES[code])
    beyond = math.prod(max(axis, 1) for axis in shape) >= 2**48  # no array has such axes, not even one without numbers
    wanted = math.prod(shape) * dtype.itemsize
    if beyond or len(shape) > MOST_AXES or len(offsets) != 2 or offsets[1] - offsets[0] != wanted:
        _refuse(name, f"array {key[:80]!r} of shape {shape} does not fit its bytes {offsets}; {AGAIN}")
    return offsets[0], offsets[1], dtype, tuple(shape)


def strict_json(text: bytes | str, name: str) -> Any:
    """Return what JSON says, as `parsed`; `name` is the file in the error."""
    try:
        return parsed(text)
    except ValueError as error:
        raise ModelError(f"{name}: its header cannot be read ({str(error)[:200]}); {AGAIN}") from error


def parsed(text: bytes | str) -> Any:
    """Return what JSON says; numbers that are not finite, names that come twice and endless depth are ValueErrors."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large for a number")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _refuse(name: str, fault: str) -> NoReturn:
    raise ModelError(f"{name}: {fault}")
