"""MNIST (LeCun, Cortes and Burges 1998): handwritten digits as 28 x 28 grey values, classes 0 to 9.

The publisher's four idx files are read as they are: a header of big-endian 32-bit numbers (kind, then the length of
each axis), then one byte per value.
"""

from __future__ import annotations

import gzip
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets

SIDE = 28
UNSIGNED_BYTES = 0x08
"""The kind of values in an idx file; its lowest byte says how many axes there are."""


class _Part(NamedTuple):
    prefix: str
    """Of its files' names."""
    rows: int

    @property
    def images(self) -> str:
        return f"{self.prefix}-images-idx3-ubyte.gz"

    @property
    def labels(self) -> str:
        return f"{self.prefix}-labels-idx1-ubyte.gz"


PARTS = {"train": _Part("train", 60_000), "test": _Part("t10k", 10_000)}


def mnist() -> Dataset:
    """MNIST: all 70,000 handwritten digits, 28 x 28 grey values.

    Returns:
      The data set: rows of 784 grey values from 0 to 1, y the digit (int32). `parts` has "train" (60,000 rows) and
      "test" (10,000), in this order.

    Raises:
      DataError: The files are not here and cannot be downloaded, or are not the published ones.

    References: LeCun, Cortes and Burges (1998).
    """
    folder = datasets.local("mnist")
    if folder is None:
        folder = datasets.cache_folder() / datasets.MNIST_FOLDER
        with datasets.explained("mnist"):
            _download(folder)
    for file, sha256 in datasets.MNIST_SHA256.items():
        datasets.verify(folder / file, sha256)
    images = [read_idx(folder / part.images, (part.rows, SIDE, SIDE)) for part in PARTS.values()]
    labels = [read_idx(folder / part.labels, (part.rows,)) for part in PARTS.values()]
    rows = {name: part.rows for name, part in PARTS.items()}
    return datasets.grey_images("mnist", "MNIST", np.concatenate(images), np.concatenate(labels), rows)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read a compressed idx file of bytes, which must hold an array of this shape."""
    remedy = "replace the file by the original"
    header = 4 * (1 + len(shape))
    try:
        with gzip.open(path) as packed:
            content = packed.read(header + int(np.prod(shape)) + 1)  # no more than it may hold, whatever it holds
    except (OSError, EOFError, zlib.error) as fault:
        raise DataError(f"{path}: cannot be unpacked ({fault}); it is cut off or no gzip file: {remedy}") from fault
    expected = (UNSIGNED_BYTES << 8 | len(shape), *shape)
    if len(content) < header:
        raise DataError(f"{path}: {len(content)} bytes, fewer than the {header} of its header; {remedy}")
    given = tuple(np.frombuffer(content, ">u4", len(expected)).tolist())
    if given != expected:
        raise DataError(
            f"{path}: its header (magic number and lengths) says {given}, expected {expected}: another kind of file, "
            f"or another edition; {remedy}"
        )
    values = np.frombuffer(content, np.uint8, offset=header)
    if values.size != np.prod(shape):
        raise DataError(
            f"{path}: {values.size:,} values after the header, expected {np.prod(shape):,}; it is cut off or has a "
            f"tail: {remedy}"
        )
    return values.reshape(shape)


def _download(folder: Path) -> None:
    """Fetch all files, each from the first address that has it as it was published; keep all or none."""
    contents = {file: _fetched(file, sha256) for file, sha256 in datasets.MNIST_SHA256.items()}
    for file, content in contents.items():
        datasets.write(folder / file, content)


def _fetched(file: str, sha256: str) -> bytes:
    faults = []
    for address in (datasets.MNIST_URL, datasets.MNIST_MIRROR):
        try:
            return datasets.checked(datasets.fetched(address + file), sha256, address + file)
        except (OSError, HTTPException) as fault:
            faults.append(f"{address}{file}: {type(fault).__name__}: {fault}")
    raise OSError("; ".join(faults))
