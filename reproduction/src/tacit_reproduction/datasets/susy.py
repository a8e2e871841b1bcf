"""SUSY: a random subset of the simulated collisions, prepared beforehand or drawn from the official file."""

import gzip
import io

import numpy as np

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.reading.npz import read_npz
from tacit_reproduction.datasets import fetch as datasets

ROWS, SUBSET_ROWS = 5_000_000, 39_930
COLUMNS = (
    *("lepton 1 pT", "lepton 1 eta", "lepton 1 phi", "lepton 2 pT", "lepton 2 eta", "lepton 2 phi"),
    *("missing energy magnitude", "missing energy phi", "MET_rel", "axial MET", "M_R", "M_TR_2"),
    *("R", "MT2", "S_R", "M_Delta_R", "dPhi_r_b", "cos(theta_r1)"),
)


def susy() -> Dataset:
    """SUSY: 39,930 of 5,000,000 simulated collisions, 18 columns, y = +1 for a signal.

    Always a random subset, and `description` says which: the prepared file where it is found; else one of the
    same size, drawn with a fixed seed while the official file (about 900 MB) streams by.

    Returns:
      The data set, not standardised, without parts.

    References: Baldi, Sadowski and Whiteson (2014), UCI 279, CC BY 4.0.
    """
    (path,) = datasets.files_of("susy", _download)
    drawn = path.name == datasets.KNOWN["susy"].other
    archive = read_npz(path)
    x, y = archive["X"], archive["y"]
    if x.shape != (SUBSET_ROWS, len(COLUMNS)):
        expected = (SUBSET_ROWS, len(COLUMNS))
        raise DataError(f"{path}: features of shape {x.shape}, expected {expected}; delete the file, it is made anew")
    source = ", drawn from the official file with a fixed seed" if drawn else ""
    words = f"SUSY, a random subset of {SUBSET_ROWS:,} of {ROWS:,} rows{source}"
    return datasets.two_classes("susy", x, y, COLUMNS, words, {}, complete=False)


def _download(known: datasets.Known) -> dict[str, bytes]:
    """Make a seeded random subset of the official rows.

    No SHA-256 of the official file is known: its own check sum (gzip) and its number of rows must hold.
    """
    wanted = np.sort(np.random.default_rng(279).choice(ROWS, SUBSET_ROWS, replace=False)).tolist()
    lines: list[bytes] = []
    rows = 0
    with datasets.open_url(known.url) as response, gzip.GzipFile(fileobj=response) as text:
        for rows, line in enumerate(text, start=1):
            if len(lines) < len(wanted) and rows - 1 == wanted[len(lines)]:
                lines.append(line)
    if rows != ROWS:
        raise DataError(f"{rows:,} rows, expected {ROWS:,}; nothing was kept: try again")
    table = np.array([line.split(b",") for line in lines], np.float64)
    packed = io.BytesIO()
    np.savez_compressed(packed, X=table[:, 1:].astype(np.float32), y=table[:, 0].astype(np.uint8))
    return {known.other: packed.getvalue()}
