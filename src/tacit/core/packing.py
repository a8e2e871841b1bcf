"""Packings: how the numbers of a message are written in fewer bytes, as a property of a phase.

A sender rounds what it sends to values that its packing can write (`tacit.algorithms.compressed`), so that `unpack` of
`pack` gives the same numbers, to the last bit where numbers are shared and within a rounding or two of their type where
a sender has multiplied them by its weights. A simulation sends the rounded numbers as they are, and counts `size`.
Whatever else is packed is rounded to the nearest value that can be written.

Numbers are little-endian. What comes from outside is checked: a place beyond the end is refused, and numbers that are
not finite are found by the codec in what was unpacked.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tacit.core.errors import MessageRefused

Bytes = npt.NDArray[np.uint8]


class Packing(Protocol):
    """A way to write an array of floating numbers in fewer bytes."""

    def size(self, count: int, width: int) -> int:
        """Return the bytes of so many numbers, each of so many bytes when it is not packed.

        Args:
          count: Numbers of the array.
          width: Bytes of one number of its type.
        """

    def pack(self, values: np.ndarray) -> bytes:
        """Return numbers as bytes.

        Args:
          values: (count,) floating numbers.
        """

    def unpack(self, content: Bytes, count: int, dtype: np.dtype) -> np.ndarray:
        """Return the numbers in `content`.

        Args:
          content: As many bytes as `size` says.
          count: Numbers of the array.
          dtype: Their type.
        """


class Rounded(NamedTuple):
    """Whole multiples of a scale, one scale for each block of numbers.

    Args:
      bits: Of a number: 8 (multiples from -127 to 127) or 4 (-7 to 7).
      block: Numbers that have one scale.

    Example:
      >>> import numpy as np
      >>> from tacit.core.packing import Rounded
      >>> Rounded(8, 256).size(1000, 4)  # 1,000 bytes, and four scales
      1016
      >>> values = np.array([-7, 0, 3, 7], np.float32) / 8
      >>> Rounded(4, 64).unpack(np.frombuffer(Rounded(4, 64).pack(values), np.uint8), 4, values.dtype).tolist()
      [-0.875, 0.0, 0.375, 0.875]
    """

    bits: int
    block: int

    @property
    def most(self) -> int:
        """Largest multiple."""
        return (1 << (self.bits - 1)) - 1

    def size(self, count: int, width: int) -> int:
        """Return the bytes: those of the scales, and of the multiples."""
        return -(-count // self.block) * width + -(-count * self.bits // 8)

    def pack(self, values: np.ndarray) -> bytes:
        """Return scales and multiples."""
        rows = _rows(values, self.block)
        scale = np.max(np.abs(rows), axis=1) / rows.dtype.type(self.most)
        divisor = np.where(scale > 0, scale, scale.dtype.type(1))[:, None]
        whole = np.clip(np.rint(rows / divisor), -self.most, self.most).reshape(-1)[: values.size].astype(np.int8)
        return _little(scale) + (whole.tobytes() if self.bits == 8 else _nibbles(whole))

    def unpack(self, content: Bytes, count: int, dtype: np.dtype) -> np.ndarray:
        """Return multiples times scales."""
        scales = -(-count // self.block)
        scale, rest = _read(content, scales, dtype)
        if self.bits == 8:
            whole = rest.view(np.int8)
        else:
            whole = np.stack([rest & 15, rest >> 4], axis=1).reshape(-1)[:count].astype(np.int8) - 8
        with np.errstate(over="ignore", invalid="ignore"):  # found where values are checked
            values: np.ndarray = whole.astype(dtype) * np.repeat(scale, self.block)[:count]
        return values


class Largest(NamedTuple):
    """The largest numbers with their places; the others are 0.

    Args:
      share: Part of the numbers that is written, above 0 and below 1; at least one number.
    """

    share: float

    def kept(self, count: int) -> int:
        """Return how many of so many numbers are written.

        Args:
          count: Numbers of the array.
        """
        return max(1, math.ceil(self.share * count))

    def size(self, count: int, width: int) -> int:
        """Return the bytes: numbers, and two or four for each place."""
        return self.kept(count) * (width + _places(count).itemsize)

    def pack(self, values: np.ndarray) -> bytes:
        """Return places and numbers."""
        kept = self.kept(values.size)
        chosen = np.sort(np.argpartition(-np.abs(values), kept - 1)[:kept])
        return _little(chosen.astype(_places(values.size))) + _little(values[chosen])

    def unpack(self, content: Bytes, count: int, dtype: np.dtype) -> np.ndarray:
        """Return the numbers in their places."""
        chosen, rest = _read(content, self.kept(count), _places(count))
        if chosen.size and int(chosen.max()) >= count:
            raise MessageRefused("content", f"a number in place {int(chosen.max())} of {count}")
        values = np.zeros(count, dtype)
        values[chosen] = _read(rest, chosen.size, dtype)[0]
        return values


class EveryFew(NamedTuple):
    """Every few-th number, from one place on; the others are 0.

    Which numbers these are takes one place to say, as the places of a random subset would not.

    Args:
      stride: From each number that is written to the next.
    """

    stride: int

    def kept(self, count: int) -> int:
        """Return how many of so many numbers are written at most.

        Args:
          count: Numbers of the array.
        """
        return -(-count // self.stride)

    def size(self, count: int, width: int) -> int:
        """Return the bytes: four for the first place, and the numbers."""
        return 4 + self.kept(count) * width

    def pack(self, values: np.ndarray) -> bytes:
        """Return the first place and the numbers."""
        first = int(np.argmax(values != 0)) % self.stride
        written = values[first :: self.stride]
        padding = np.zeros(self.kept(values.size) - written.size, values.dtype)
        return _little(np.array([first], np.uint32)) + _little(np.concatenate([written, padding]))

    def unpack(self, content: Bytes, count: int, dtype: np.dtype) -> np.ndarray:
        """Return the numbers in their places."""
        (first,), rest = _read(content, 1, np.dtype(np.uint32))
        if first >= self.stride:
            raise MessageRefused("content", f"every {self.stride}th number from place {first} on")
        values = np.zeros(count, dtype)
        into = values[int(first) :: self.stride]
        into[:] = _read(rest, self.kept(count), dtype)[0][: into.size]
        return values


class Signs(NamedTuple):
    """Signs of numbers that are equally large, block by block.

    Args:
      block: Numbers that have one size.
    """

    block: int

    def size(self, count: int, width: int) -> int:
        """Return the bytes: those of the sizes, and a bit for each number."""
        return -(-count // self.block) * width + -(-count // 8)

    def pack(self, values: np.ndarray) -> bytes:
        """Return sizes and signs."""
        return _little(np.max(np.abs(_rows(values, self.block)), axis=1)) + np.packbits(values < 0).tobytes()

    def unpack(self, content: Bytes, count: int, dtype: np.dtype) -> np.ndarray:
        """Return sizes with signs."""
        large, rest = _read(content, -(-count // self.block), dtype)
        each = np.repeat(large, self.block)[:count]
        return np.where(np.unpackbits(rest, count=count) > 0, -each, each)


def packed_size(packing: Packing | None, count: int, dtype: np.dtype) -> int | None:
    """Return the bytes of an array under a packing; None where it is sent as it is.

    Whole numbers and what would not become shorter are not packed.

    Args:
      packing: Of the phase.
      count: Numbers of the array.
      dtype: Their type.

    Example:
      >>> import numpy as np
      >>> from tacit.core.packing import Rounded, packed_size
      >>> packed_size(Rounded(8, 256), 100, np.dtype("float32")), packed_size(Rounded(8, 256), 1, np.dtype("float32"))
      (104, None)
    """
    if packing is None or count == 0 or dtype.kind in "biuc":  # the small floats of ml_dtypes are of kind V
        return None
    size = packing.size(count, dtype.itemsize)
    return size if size < count * dtype.itemsize else None


def _rows(values: np.ndarray, block: int) -> np.ndarray:
    rows = np.zeros((-(-values.size // block), block), values.dtype)
    rows.reshape(-1)[: values.size] = values
    return rows


def _nibbles(whole: np.ndarray) -> bytes:
    codes = np.zeros(2 * -(-whole.size // 2), np.uint8)
    codes[: whole.size] = whole + 8
    return (codes[::2] | codes[1::2] << 4).tobytes()


def _places(count: int) -> np.dtype:
    return np.dtype(np.uint16 if count <= 2**16 else np.uint32)


def _little(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()


def _read(content: Bytes, count: int, dtype: np.dtype) -> tuple[np.ndarray, Bytes]:
    """Return the first numbers of content, and what comes behind them."""
    end = count * dtype.itemsize
    return np.frombuffer(content[:end].tobytes(), dtype.newbyteorder("<")).astype(dtype, copy=False), content[end:]
