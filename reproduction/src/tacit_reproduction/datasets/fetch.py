"""The texts' data sets: found on this machine, or fetched from their official address and verified.

Looked for in this order: the folder named by TACIT_DATA; without it `../shared/data` beside the repository
(when run from a checkout) and beside the current folder; then the cache (XDG_CACHE_HOME, or ~/.cache,
/tacit). What is found nowhere is downloaded into the cache.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.npz import read_npz
from tacit.streams.validate import check_features, check_labels
from tacit_reproduction.datasets.looked_for import looked_for

TIMEOUT_S = 30.0
OCCUPANCY_URL = "https://archive.ics.uci.edu/static/public/357/occupancy+detection.zip"
OCCUPANCY_COLUMNS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
SUSY_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"
SUSY_ROWS, SUSY_SUBSET_ROWS = 5_000_000, 39_930
SUSY_FILE = "susy_subset.npz"
SUSY_SHA256 = "745d91cb15fd0d6d74d619b363a94f478b8c8ae3f9c5b545f950ef43dbbad1ca"
SUSY_DRAWN_FILE = "susy_official_subset.npz"
RCV1_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/rcv1_train.binary.bz2"
RCV1_FILE = "rcv1_v2_subset.npz"
RCV1_CONVERTED_FILE = "rcv1_official_train.npz"
MNIST_URL = "http://yann.lecun.com/exdb/mnist/"
MNIST_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FOLDER = "mnist"
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
IJCNN1_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
IJCNN1_FOLDER = "ijcnn1"
IJCNN1_FILES = ("ijcnn1.tr.bz2", "ijcnn1.val.bz2", "ijcnn1.t.bz2")
ORGANAMNIST_URL = "https://zenodo.org/records/10519652/files/organamnist.npz"
ORGANAMNIST_FILE = "organamnist.npz"
ORGANAMNIST_SHA256 = "7c8c8b0753e2c0d7f70928817eac02be7cbb09f6beff4346e9d0ea79ecb598bd"
CALCOFI_URL = "https://calcofi.org/data/oceanographic-data/bottle-database/"
CALCOFI_FILE = "calcofi_bottle_1970_2020.npz"
CALCOFI_SHA256 = "dca8eb9d2fa1a9491dd247bed23bfd093ed316b2bdc672cb0c5703be90f16921"
CALCOFI_TABLE = "bottle.csv"
SUSY_COLUMNS = (
    *("lepton 1 pT", "lepton 1 eta", "lepton 1 phi", "lepton 2 pT", "lepton 2 eta", "lepton 2 phi"),
    *("missing energy magnitude", "missing energy phi", "MET_rel", "axial MET", "M_R", "M_TR_2"),
    *("R", "MT2", "S_R", "M_Delta_R", "dPhi_r_b", "cos(theta_r1)"),
)


class _Part(NamedTuple):
    file: str
    rows: int
    sha256: str


OCCUPANCY_PARTS = {
    "train": _Part("datatraining.txt", 8143, "b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56"),
    "test": _Part("datatest.txt", 2665, "1b92c7c1b2838963464fa891a610cf3c5db4becb7189189b29b330107a584c7f"),
    "test2": _Part("datatest2.txt", 9752, "d026d1bd5aeccd4aff4f3b3710d48e40613bd5fc370db7e61bbdcaa50d985095"),
}


def occupancy() -> Dataset:
    """Room Occupancy Detection (UCI 357; Candanedo and Feldheim 2016; CC BY 4.0): 20,560 x 5, +1 = occupied.

    Rows come file by file, train, test, test2, each in order of time (the days of `test` lie before those of
    `train`).
    """
    folder = _occupancy_folder()
    if folder is None:
        folder = cache_folder() / "occupancy"
        with explained("occupancy"):
            _download_occupancy(folder)
    tables = []
    for part in OCCUPANCY_PARTS.values():
        verify(folder / part.file, part.sha256)
        tables.append(_occupancy_table(folder / part.file, part.rows))
    table = np.concatenate(tables)
    ends = np.cumsum([part.rows for part in OCCUPANCY_PARTS.values()]).tolist()
    return Dataset(
        "occupancy",
        check_features(table[:, :-1]),
        check_labels(table[:, -1], len(table)).astype(np.float32),
        OCCUPANCY_COLUMNS,
        f"Room Occupancy Detection, all {len(table):,} rows",
        complete=True,
        parts={name: slice(a, b) for name, a, b in zip(OCCUPANCY_PARTS, [0, *ends[:-1]], ends, strict=True)},
    )


def susy() -> Dataset:
    """SUSY (UCI 279; Baldi, Sadowski and Whiteson 2014; CC BY 4.0): 39,930 of 5,000,000 x 18, +1 = signal.

    Always a random subset, and `description` says which: the prepared file where it is found; else one of the
    same size, drawn with a fixed seed while the official file (about 900 MB) streams by.
    """
    prepared = find(SUSY_FILE)
    if prepared is not None:
        verify(prepared, SUSY_SHA256)
        drawn_from = ""
    else:
        prepared = find(SUSY_DRAWN_FILE) or cache_folder() / SUSY_DRAWN_FILE
        if not prepared.exists():
            with explained("susy"):
                _download_susy(prepared)
        drawn_from = ", drawn from the official file with a fixed seed"
    archive = read_npz(prepared)
    x, y = archive["X"], archive["y"]
    if x.shape != (SUSY_SUBSET_ROWS, len(SUSY_COLUMNS)):
        raise DataError(
            f"{prepared}: features of shape {x.shape}, expected {(SUSY_SUBSET_ROWS, len(SUSY_COLUMNS))}; "
            "delete the file, and it is made anew"
        )
    return Dataset(
        "susy",
        check_features(x),
        check_labels(y, len(x)).astype(np.float32),
        SUSY_COLUMNS,
        f"SUSY, a random subset of {SUSY_SUBSET_ROWS:,} of {SUSY_ROWS:,} rows{drawn_from}",
        complete=False,
        parts={},
    )


class _Known(NamedTuple):
    local: Callable[[], Path | None]
    files: str
    official: str
    url: str


def available(name: str) -> bool:
    """Tell whether the data set is on this machine, so that loading it needs no network."""
    return _known(name).local() is not None


def where(name: str) -> str:
    """Say in words where the data set was found, or where it was looked for."""
    found = _known(name).local()
    if found is not None:
        return f"{name} is in {found}"
    return f"{name} ({_known(name).files}) is not in {', '.join(str(f) for f in search_path())}"


def cache_folder() -> Path:
    """Return the folder for what was downloaded (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tacit"


def search_path() -> tuple[Path, ...]:
    """Return the folders that are looked into, first one first."""
    named = os.environ.get("TACIT_DATA")
    if named:
        return (Path(named).expanduser(), cache_folder())
    checkout = [folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file()]
    beside = [folder.parent / "shared" / "data" for folder in (*checkout[:1], Path.cwd())]
    return (*dict.fromkeys(beside), cache_folder())


def _known(name: str) -> _Known:
    if name not in _KNOWN:
        raise DataError(f"there is no data set {name!r}; expected one of {', '.join(_KNOWN)}")
    return _KNOWN[name]


def find(*files: str) -> Path | None:
    """Return the first file's path in the first folder that has them all."""
    looked_for(files)
    for folder in search_path():
        if all((folder / file).is_file() for file in files):
            return folder / files[0]
    return None


def _occupancy_folder() -> Path | None:
    found = find(*(f"occupancy/{part.file}" for part in OCCUPANCY_PARTS.values()))
    return found and found.parent


def mnist_folder() -> Path | None:
    """Return the folder in which all of MNIST's files are."""
    found = find(*(f"{MNIST_FOLDER}/{file}" for file in MNIST_SHA256))
    return found and found.parent


def ijcnn1_folder() -> Path | None:
    """Return the folder in which all of ijcnn1's files are."""
    found = find(*(f"{IJCNN1_FOLDER}/{file}" for file in IJCNN1_FILES))
    return found and found.parent


_KNOWN = {
    "occupancy": _Known(
        _occupancy_folder,
        "occupancy/datatraining.txt, occupancy/datatest.txt, occupancy/datatest2.txt",
        "https://archive.ics.uci.edu/dataset/357/occupancy+detection",
        OCCUPANCY_URL,
    ),
    "susy": _Known(
        lambda: find(SUSY_FILE) or find(SUSY_DRAWN_FILE),
        SUSY_FILE,
        "https://archive.ics.uci.edu/dataset/279/susy",
        SUSY_URL,
    ),
    "rcv1": _Known(
        lambda: find(RCV1_FILE) or find(RCV1_CONVERTED_FILE),
        RCV1_FILE,
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#rcv1.binary",
        RCV1_URL,
    ),
    "mnist": _Known(
        mnist_folder,
        ", ".join(f"{MNIST_FOLDER}/{file}" for file in MNIST_SHA256),
        MNIST_URL,
        f"{MNIST_URL} and {MNIST_MIRROR}",
    ),
    "ijcnn1": _Known(
        ijcnn1_folder,
        ", ".join(f"{IJCNN1_FOLDER}/{file}" for file in IJCNN1_FILES),
        f"{IJCNN1_URL[:-1]}.html#ijcnn1",
        IJCNN1_URL,
    ),
    "organamnist": _Known(
        lambda: find(ORGANAMNIST_FILE),
        ORGANAMNIST_FILE,
        "https://medmnist.com",
        ORGANAMNIST_URL,
    ),
    "calcofi": _Known(
        lambda: find(CALCOFI_FILE) or find(CALCOFI_TABLE),
        f"{CALCOFI_FILE} or the database's {CALCOFI_TABLE}",
        CALCOFI_URL,
        CALCOFI_URL,
    ),
}


@functools.cache
def verify(path: Path, sha256: str) -> None:
    """Check a file against its known sum, once per process."""
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise DataError(
            f"{path}: its SHA-256 is {found}, expected {sha256}; the file is damaged or another edition: "
            "replace it by the original, or delete it and it is downloaded anew"
        )


def _occupancy_table(path: Path, rows: int) -> NDArray[np.float64]:
    # The header has 7 names, the rows 8 fields: a row number, which has no name, and the time come first.
    with path.open(encoding="ascii", newline="") as text:
        records = list(csv.reader(text))[1:]
    if len(records) != rows:
        raise DataError(f"{path}: {len(records)} rows, expected {rows}; replace the file by the original")
    return np.array([record[2:] for record in records], np.float64)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn whatever goes wrong in a download into an error that says what to do."""
    from http.client import HTTPException

    known = _KNOWN[name]
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, HTTPException, KeyError) as fault:
        raise DataError(
            f"{where(name)}, and the download from {known.url} failed ({type(fault).__name__}: {fault}). Put "
            f"{known.files} into a folder and set TACIT_DATA to it; official address: {known.official}"
        ) from fault


def open_url(url: str) -> IO[bytes]:
    """Open an official address."""
    from urllib.request import urlopen

    opened: IO[bytes] = urlopen(url, timeout=TIMEOUT_S)
    return opened


def _download_occupancy(folder: Path) -> None:
    with open_url(OCCUPANCY_URL) as response:
        archive = zipfile.ZipFile(io.BytesIO(response.read()))
    contents = {part: archive.read(part.file) for part in OCCUPANCY_PARTS.values()}
    for part, content in contents.items():
        found = hashlib.sha256(content).hexdigest()
        if found != part.sha256:
            raise DataError(
                f"{part.file} from {OCCUPANCY_URL}: its SHA-256 is {found}, expected {part.sha256}; nothing "
                f"was kept: try again, or put the original files into {folder}"
            )
    for part, content in contents.items():
        write(folder / part.file, content)


def _download_susy(path: Path) -> None:
    """Keep a seeded random subset of the official rows.

    No SHA-256 of the official file is known: its own check sum (gzip) and its number of rows must hold.
    """
    wanted = np.sort(np.random.default_rng(279).choice(SUSY_ROWS, SUSY_SUBSET_ROWS, replace=False)).tolist()
    lines: list[bytes] = []
    rows = 0
    with open_url(SUSY_URL) as response, gzip.GzipFile(fileobj=response) as text:
        for rows, line in enumerate(text, start=1):
            if len(lines) < len(wanted) and rows - 1 == wanted[len(lines)]:
                lines.append(line)
    if rows != SUSY_ROWS:
        raise DataError(f"{SUSY_URL}: {rows:,} rows, expected {SUSY_ROWS:,}; nothing was kept: try again")
    table = np.array([line.split(b",") for line in lines], np.float64)
    arrays: dict[str, Any] = {"X": table[:, 1:].astype(np.float32), "y": table[:, 0].astype(np.uint8)}
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    write(path, packed.getvalue())


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
