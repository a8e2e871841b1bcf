"""Room Occupancy Detection: three files of comma-separated rows in one zip archive."""

import io
import zipfile
from pathlib import Path

import numpy as np

from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets

COLUMNS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")


def occupancy() -> Dataset:
    """Room Occupancy Detection: 20,560 readings of five sensors, y = +1 where the room is occupied.

    Returns:
      The data set, not standardised. `parts` has "train", "test" and "test2", one per published file, each in order of
      time; the days of "test" lie before those of "train".

    References: Candanedo and Feldheim (2016), UCI 357, CC BY 4.0.
    """
    # The header has 7 names, the rows 8 fields: a row number, which has no name, and the time come first.
    files = datasets.files_of("occupancy", _download)
    tables = [np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(2, 8), ndmin=2) for path in files]
    table = np.concatenate(tables)
    words, rows = f"Room Occupancy Detection, all {len(table):,} rows", map(len, tables)
    parts = dict(zip(("train", "test", "test2"), rows, strict=True))
    return datasets.two_classes("occupancy", table[:, :-1], table[:, -1], COLUMNS, words, parts)


def _download(known: datasets.Known) -> dict[str, bytes]:
    with datasets.open_url(known.url) as response:
        archive = zipfile.ZipFile(io.BytesIO(response.read()))
    return {file: archive.read(Path(file).name) for file in known.files}
