"""ijcnn1 (Prokhorov 2001, as Chang and Lin 2001 transformed it; LIBSVM's binary page): 22 features, +1 in a tenth.

Copies of the files differ in how they write numbers (-1 or -1.0, 0.000082 or 8.2e-05) and in how they are packed;
so not the bytes are checked against a known sum but the values read from them, which do not depend on that.
"""

import bz2
import hashlib
import io
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets

FEATURES = 22
VALUES: Mapping[str, str] = {
    "train": "ae2fd8a1838f15c3bfea3df5d6b2723fe0126ec7c44e103b0616e63d04ec0d07",
    "validation": "102547039dc91cfa3f1b0d83b786d2b38c00e0792b44843a30f70ff2b7404a4e",
    "test": "2c258f2453f3cd2eb61b55ebad272948b493cb3f8e2aa4d3823d619a05820ca5",
}
"""Part -> SHA-256 of its values, see `digest`."""


class Table(NamedTuple):
    """The rows of one file."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]


def ijcnn1() -> Dataset:
    """ijcnn1: all 141,691 rows as published, 22 columns, y -1 or +1.

    Returns:
      The data set. `parts` has "train" (35,000 rows), "validation" (14,990) and "test" (91,701), in this order.
      LIBSVM's file named just ijcnn1 holds the first two in one.

    References: Prokhorov (2001); Chang and Lin (2001).
    """
    files = datasets.files_of("ijcnn1", _download)
    tables = [_read(path.read_bytes(), str(path), part) for path, part in zip(files, VALUES, strict=True)]
    x, y = map(np.concatenate, zip(*tables, strict=True))
    columns = [f"feature {index}" for index in range(1, FEATURES + 1)]
    parts = zip(VALUES, (len(table.y) for table in tables), strict=True)
    return datasets.two_classes("ijcnn1", x, y, columns, f"ijcnn1, all {len(y):,} rows", dict(parts))


def digest(table: Table) -> str:
    """Return the SHA-256 of the values: features row by row as 32-bit little-endian numbers, then labels likewise."""
    found = hashlib.sha256()
    for values in table:
        found.update((values + 0.0).astype("<f4").tobytes())  # adding 0 makes a -0 of some copy a 0
    return found.hexdigest()


def _read(packed: bytes, source: str, part: str) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        text = io.BytesIO(bz2.decompress(packed))
        x, y = load_svmlight_file(text, n_features=FEATURES, dtype=np.float32, zero_based=False)
        table = Table(x.toarray(), y.astype(np.float32))
        if (found := digest(table)) != VALUES[part]:
            raise ValueError(f"the SHA-256 of its values is {found}, expected {VALUES[part]}")
    except (OSError, ValueError, EOFError) as fault:
        raise DataError(f"{source}: {fault}; it is damaged or another edition, take the original file") from fault
    return table


def _download(known: datasets.Known) -> dict[str, bytes]:
    contents = datasets.fetched(known)
    for (file, content), part in zip(contents.items(), VALUES, strict=True):
        _read(content, file, part)
    return contents
