"""Room Occupancy Detection: three files of comma-separated rows in one zip archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from tacit.streams.dataset import Dataset
from tacit.streams.validate import check_features, check_labels
from tacit_reproduction.datasets import fetch as datasets

COLUMNS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")


def occupancy() -> Dataset:
    """Room Occupancy Detection: 20,560 readings of five sensors, y = +1 where the room is occupied.

    Returns:
      The data set, not standardised. `parts` has "train", "test" and "test2", one per published file, each in order of
      time; the days of "test" lie before those of "train".

    Raises:
      DataError: The files are not here and cannot be downloaded, or are not the published ones.

    References: Candanedo and Feldheim (2016), UCI 357, CC BY 4.0.
    """
    # The header has 7 names, the rows 8 fields: a row number, which has no name, and the time come first.
    files = datasets.files_of("occupancy", _download)
    tables = [np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(2, 8), ndmin=2) for path in files]
    table = np.concatenate(tables)
    return Dataset(
        "occupancy",
        check_features(table[:, :-1]),
        check_labels(table[:, -1], len(table)).astype(np.float32),
        COLUMNS,
        f"Room Occupancy Detection, all {len(table):,} rows",
        complete=True,
        parts=datasets.slices({part: len(own) for part, own in zip(("train", "test", "test2"), tables, strict=True)}),
    )


def _download() -> dict[str, bytes]:
    known = datasets.KNOWN["occupancy"]
    archive = zipfile.ZipFile(io.BytesIO(datasets.fetched(known.url)))
    return {file: archive.read(Path(file).name) for file in known.files}
