"""ijcnn1 (Prokhorov 2001, as Chang and Lin 2001 transformed it; LIBSVM's binary page): 22 features, +1 in a tenth.

Files are LIBSVM text, packed by bzip2: `label index:value index:value ...`, indices from 1 in rising order, what is
not named is 0. Copies differ in how they write numbers (-1 or -1.0, 0.000082 or 8.2e-05) and in how they are packed;
so not the bytes are checked against a known sum but the values read from them, which do not depend on that.
"""

from __future__ import annotations

import bz2
import hashlib
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.validate import check_features, check_labels
from tacit_reproduction.datasets import fetch as datasets

FEATURES = 22
REMEDY = "it is damaged or another edition, take the original file"


class _Part(NamedTuple):
    rows: int
    digest: str
    """Of the values, see `digest`."""


class Table(NamedTuple):
    """The rows of one file."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]


PARTS = {
    "train": _Part(35_000, "ae2fd8a1838f15c3bfea3df5d6b2723fe0126ec7c44e103b0616e63d04ec0d07"),
    "validation": _Part(14_990, "102547039dc91cfa3f1b0d83b786d2b38c00e0792b44843a30f70ff2b7404a4e"),
    "test": _Part(91_701, "2c258f2453f3cd2eb61b55ebad272948b493cb3f8e2aa4d3823d619a05820ca5"),
}


def ijcnn1() -> Dataset:
    """ijcnn1: all 141,691 rows as published, 22 columns, y -1 or +1.

    Returns:
      The data set. `parts` has "train" (35,000 rows), "validation" (14,990) and "test" (91,701), in this order.
      LIBSVM's file named just ijcnn1 holds the first two in one.

    Raises:
      DataError: The files are not here and cannot be downloaded, or hold other values.

    References: Prokhorov (2001); Chang and Lin (2001).
    """
    folder = datasets.local("ijcnn1")
    if folder is None:
        folder = datasets.cache_folder() / datasets.IJCNN1_FOLDER
        with datasets.explained("ijcnn1"):
            tables = _downloaded(folder)
    else:
        tables = [_read((folder / file).read_bytes(), str(folder / file), part) for file, part in _files()]
    y = np.concatenate([table.y for table in tables])
    return Dataset(
        "ijcnn1",
        check_features(np.concatenate([table.x for table in tables])),
        check_labels(y, len(y)).astype(np.float32),
        tuple(f"feature {index}" for index in range(1, FEATURES + 1)),
        f"ijcnn1, all {len(y):,} rows",
        complete=True,
        parts=datasets.slices({name: part.rows for name, part in PARTS.items()}),
    )


def parse(text: bytes, source: str, features: int) -> Table:
    """Read LIBSVM text of binary labels -1/+1 into a dense table.

    Example:
      >>> parse(b"+1 1:0.5 3:2", "a line", 3).x.tolist()
      [[0.5, 0.0, 2.0]]
    """
    lines = text.splitlines()
    x = np.zeros((len(lines), features), np.float32)
    y = np.empty(len(lines), np.float32)
    for number, line in enumerate(lines):
        try:
            label, *cells = line.split()
            y[number] = _sign(label)
            before = 0
            for cell in cells:
                index, value = cell.split(b":")
                column = int(index)
                if not before < column <= features:
                    raise ValueError(f"index {column} after {before}")
                before = column
                x[number, column - 1] = _finite(value)
        except ValueError as fault:
            raise DataError(
                f"{source}, line {number + 1}: {line[:60]!r} cannot be read ({fault}); expected a label -1 or +1 and "
                f"index:value pairs with rising indices from 1 to {features}: {REMEDY}"
            ) from fault
    return Table(x, y)


def digest(table: Table) -> str:
    """Return the SHA-256 of the values: features row by row as 32-bit little-endian numbers, then labels likewise."""
    found = hashlib.sha256()
    for values in table:
        found.update((values + 0.0).astype("<f4").tobytes())  # adding 0 makes a -0 of some copy a 0
    return found.hexdigest()


def _sign(label: bytes) -> float:
    value = float(label)
    if value not in (-1, 1):
        raise ValueError(f"label {value:g}")
    return value


def _finite(text: bytes) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the value {value} is not finite")
    return value


def _files() -> list[tuple[str, _Part]]:
    return list(zip(datasets.IJCNN1_FILES, PARTS.values(), strict=True))


def _read(packed: bytes, source: str, part: _Part) -> Table:
    try:
        text = bz2.decompress(packed)
    except (OSError, ValueError) as fault:
        raise DataError(f"{source}: cannot be unpacked ({fault}): {REMEDY}") from fault
    table = parse(text, source, FEATURES)
    if len(table.y) != part.rows:
        raise DataError(f"{source}: {len(table.y):,} rows, expected {part.rows:,}: {REMEDY}")
    found = digest(table)
    if found != part.digest:
        raise DataError(f"{source}: the SHA-256 of its values is {found}, expected {part.digest}: {REMEDY}")
    return table


def _downloaded(folder: Path) -> list[Table]:
    """Fetch all files and check their values; keep all or none."""
    contents, tables = [], []
    for file, part in _files():
        url = datasets.IJCNN1_URL + file
        contents.append(datasets.fetched(url))
        try:
            tables.append(_read(contents[-1], url, part))
        except DataError as fault:
            raise OSError(str(fault)) from fault  # a failed download, and said like one
    for (file, _), content in zip(_files(), contents, strict=True):
        datasets.write(folder / file, content)
    return tables
