"""Compressed text and Parquet files, measured while they are read: what they hold may be far larger than they are."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

from tacit.core import limits
from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.reading.source import refuse_large

FIRST_LOOK = 2**24
"""Bytes that are unpacked before the size of the whole is projected; where that is too large, all are counted."""
ROWS_AT_ONCE = 4096


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, refused when more of it has come than may.

    The last bytes of such a file say its size, but may lie. So what comes is measured.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, path.stat().st_size
        self._packed = path.open("rb")
        self._content = gzip.GzipFile(fileobj=self._packed)
        self._taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._content.readinto(buffer)
        self._taken += found
        if self._taken > limits.limit():
            limits.refuse_beyond(max(self._taken, self.projected), f"{self._path} unpacked", DataError)
        return found

    @property
    def projected(self) -> float:
        """How large the whole would be if the rest were packed as closely as what has come."""
        return self._taken * self._size / max(self._packed.tell(), 1)

    def close(self) -> None:
        self._content.close()
        self._packed.close()
        super().close()


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file, unpacked where its name ends in .gz; one that is larger than the limit is refused."""
    limits.refuse_beyond(path.stat().st_size, str(path), DataError)
    if not path.name.lower().endswith(".gz"):
        return path.open("rb")
    with _Unpacked(path) as content:  # its size shows before any part of it is kept
        left = FIRST_LOOK
        # A table may begin with much of the same: the size projected from the first part is checked, and not believed.
        while (left > 0 or content.projected > limits.limit()) and (found := len(content.read(2**20) or b"")):
            left -= found
    return io.BufferedReader(_Unpacked(path), 2**18)


def read_parquet(path: Path) -> Any:
    """Return a Parquet file as an Arrow table."""
    pyarrow, parquet, types = (require(f"pyarrow{name}", extra="data") for name in ("", ".parquet", ".types"))

    schema = parquet.read_schema(path)
    # A word that comes in many rows stands in the file once, and is kept so until it is known how much it would be.
    words = [field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)]
    with parquet.ParquetFile(path, read_dictionary=words) as file:
        refuse_large(str(path), file.metadata.num_rows, file.metadata.num_columns)
        batches: list[Any] = []
        taken = 0
        for batch in file.iter_batches(ROWS_AT_ONCE):
            taken += sum(map(_plain_bytes, batch.columns))
            limits.refuse_beyond(taken, f"{path}: {len(batches) * ROWS_AT_ONCE + len(batch):,} rows", DataError)
            batches.append(batch)
    return pyarrow.Table.from_batches(batches, file.schema_arrow).cast(_without_dictionaries(file.schema_arrow))


def _plain_bytes(column: Any) -> int:
    """Return what a column takes when every word is written out."""
    compute, types = (require(f"pyarrow.{name}", extra="data") for name in ("compute", "types"))

    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return int(compute.sum(lengths).as_py() or 0) + 8 * len(column)


def _without_dictionaries(schema: Any) -> Any:
    pyarrow, types = require("pyarrow", extra="data"), require("pyarrow.types", extra="data")

    plain = [field.with_type(field.type.value_type) if types.is_dictionary(field.type) else field for field in schema]
    return pyarrow.schema(plain)
