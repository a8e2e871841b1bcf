"""Arrays and a few facts as one string of bytes, for a peer's own disk. Nothing in it can be executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.core.errors import StoreError

_LENGTH = 8


def pack(facts: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Return facts (whatever JSON can hold) and arrays as bytes."""
    leaves = [np.asarray(array) for array in arrays]
    described = [{"dtype": leaf.dtype.str, "shape": leaf.shape} for leaf in leaves]
    header = json.dumps({"facts": facts, "arrays": described}, separators=(",", ":")).encode()
    return b"".join((len(header).to_bytes(_LENGTH, "little"), header, *(leaf.tobytes() for leaf in leaves)))


def unpack(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Read back what `pack` has made; anything else is a StoreError."""
    try:
        length = int.from_bytes(data[:_LENGTH], "little")
        header = json.loads(data[_LENGTH : _LENGTH + length])
        begin, arrays = _LENGTH + length, []
        for leaf in header["arrays"]:
            dtype, shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
            if dtype.hasobject:
                raise ValueError(f"arrays of {dtype}")
            size = math.prod(shape) * dtype.itemsize
            arrays.append(np.frombuffer(data[begin : begin + size], dtype).reshape(shape))
            begin += size
        facts = dict(header["facts"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(f"a snapshot that cannot be read ({error}): it was written by another version") from error
    if begin != len(data):
        raise StoreError(f"a snapshot of {len(data)} bytes, expected {begin}: it is damaged")
    return facts, arrays
