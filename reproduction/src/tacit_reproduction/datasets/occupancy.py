"""Room Occupancy Detection: three files of comma-separated rows in one zip archive."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.validate import check_features, check_labels
from tacit_reproduction.datasets import fetch as datasets

COLUMNS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")


class _Part(NamedTuple):
    file: str
    rows: int
    sha256: str


PARTS = {
    "train": _Part("datatraining.txt", 8143, "b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56"),
    "test": _Part("datatest.txt", 2665, "1b92c7c1b2838963464fa891a610cf3c5db4becb7189189b29b330107a584c7f"),
    "test2": _Part("datatest2.txt", 9752, "d026d1bd5aeccd4aff4f3b3710d48e40613bd5fc370db7e61bbdcaa50d985095"),
}


def occupancy() -> Dataset:
    """Room Occupancy Detection: 20,560 readings of five sensors, y = +1 where the room is occupied.

    Returns:
      The data set, not standardised. `parts` has "train", "test" and "test2", one per published file, each in order of
      time; the days of "test" lie before those of "train".

    Raises:
      DataError: The files are not here and cannot be downloaded, or are not the published ones.

    References: Candanedo and Feldheim (2016), UCI 357, CC BY 4.0.
    """
    folder = datasets.local("occupancy")
    if folder is None:
        folder = datasets.cache_folder() / "occupancy"
        with datasets.explained("occupancy"):
            _download(folder)
    tables = []
    for part in PARTS.values():
        datasets.verify(folder / part.file, part.sha256)
        tables.append(_table(folder / part.file, part.rows))
    table = np.concatenate(tables)
    return Dataset(
        "occupancy",
        check_features(table[:, :-1]),
        check_labels(table[:, -1], len(table)).astype(np.float32),
        COLUMNS,
        f"Room Occupancy Detection, all {len(table):,} rows",
        complete=True,
        parts=datasets.slices({name: part.rows for name, part in PARTS.items()}),
    )


def _table(path: Path, rows: int) -> NDArray[np.float64]:
    # The header has 7 names, the rows 8 fields: a row number, which has no name, and the time come first.
    with path.open(encoding="ascii", newline="") as text:
        records = list(csv.reader(text))[1:]
    if len(records) != rows:
        raise DataError(f"{path}: {len(records)} rows, expected {rows}; replace the file by the original")
    return np.array([record[2:] for record in records], np.float64)


def _download(folder: Path) -> None:
    archive = zipfile.ZipFile(io.BytesIO(datasets.fetched(datasets.OCCUPANCY_URL)))
    contents = {part: datasets.checked(archive.read(part.file), part.sha256, part.file) for part in PARTS.values()}
    for part, content in contents.items():
        datasets.write(folder / part.file, content)
