"""Finder of data sets: local folders first, then a verified download from the official address.

Search order: the folder named by TACIT_DATA; without it `shared/data` beside the repository (in a checkout) and beside
the current folder; then the cache, `tacit` in XDG_CACHE_HOME or ~/.cache. Downloads go to the cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.validate import check_labels
from tacit_reproduction.datasets.looked_for import looked_for

TIMEOUT_S = 30.0
OCCUPANCY_URL = "https://archive.ics.uci.edu/static/public/357/occupancy+detection.zip"
OCCUPANCY_FOLDER = "occupancy"
OCCUPANCY_FILES = ("datatraining.txt", "datatest.txt", "datatest2.txt")
SUSY_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"
SUSY_FILE = "susy_subset.npz"
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


class _Known(NamedTuple):
    local: Callable[[], Path | None]
    files: str
    official: str
    url: str


def available(name: str) -> bool:
    """Tell whether the data set ("occupancy", "calcofi", ...) is on this machine, so that it needs no network."""
    return local(name) is not None


def where(name: str) -> str:
    """Return a sentence with the place of the data set, or with the folders that were searched."""
    found = local(name)
    if found is not None:
        return f"{name} is in {found}"
    return f"{name} ({_known(name).files}) is not in {', '.join(str(f) for f in search_path())}"


def cache_folder() -> Path:
    """Return the folder of downloads (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tacit"


def search_path() -> tuple[Path, ...]:
    """Return the folders that are searched, in this order."""
    named = os.environ.get("TACIT_DATA")
    if named:
        return (Path(named).expanduser(), cache_folder())
    here = Path(__file__).resolve()
    checkout = [folder for folder in here.parents if (folder / "reproduction" / "pyproject.toml").is_file()]
    beside = [folder.parent / "shared" / "data" for folder in (*checkout[:1], Path.cwd())]
    return (*dict.fromkeys(beside), cache_folder())


def _known(name: str) -> _Known:
    if name not in _KNOWN:
        raise DataError(f"there is no data set {name!r}; expected one of {', '.join(_KNOWN)}")
    return _KNOWN[name]


def find(*files: str) -> Path | None:
    """Return the first file's path in the first folder that has them all."""
    looked_for(files)
    places = (folder for folder in search_path() if all((folder / file).is_file() for file in files))
    return next((folder / files[0] for folder in places), None)


def local(name: str) -> Path | None:
    """Return the file or folder of a data set on this machine."""
    return _known(name).local()


def _in_folder(name: str, files: Iterable[str], official: str, url: str) -> _Known:
    paths = [f"{name}/{file}" for file in files]

    def folder() -> Path | None:
        found = find(*paths)
        return found and found.parent

    return _Known(folder, ", ".join(paths), official, url)


_UCI, _LIBSVM = "https://archive.ics.uci.edu/dataset", f"{IJCNN1_URL[:-1]}.html"
_KNOWN = {
    "occupancy": _in_folder(OCCUPANCY_FOLDER, OCCUPANCY_FILES, f"{_UCI}/357/occupancy+detection", OCCUPANCY_URL),
    "susy": _Known(lambda: find(SUSY_FILE) or find(SUSY_DRAWN_FILE), SUSY_FILE, f"{_UCI}/279/susy", SUSY_URL),
    "rcv1": _Known(lambda: find(RCV1_FILE) or find(RCV1_CONVERTED_FILE), RCV1_FILE, f"{_LIBSVM}#rcv1.binary", RCV1_URL),
    "mnist": _in_folder(MNIST_FOLDER, MNIST_SHA256, MNIST_URL, f"{MNIST_URL} and {MNIST_MIRROR}"),
    "ijcnn1": _in_folder(IJCNN1_FOLDER, IJCNN1_FILES, f"{_LIBSVM}#ijcnn1", IJCNN1_URL),
    "organamnist": _Known(lambda: find(ORGANAMNIST_FILE), ORGANAMNIST_FILE, "https://medmnist.com", ORGANAMNIST_URL),
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


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a failed download into an error with the remedy."""
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


def fetched(url: str) -> bytes:
    """Return what an official address answers."""
    with open_url(url) as response:
        return response.read()


def checked(content: bytes, sha256: str, name: str) -> bytes:
    """Return what was fetched, if it is what was published; else the download has failed."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise OSError(f"{name}: its SHA-256 is {found}, expected {sha256}; nothing was kept")
    return content


def slices(rows: Mapping[str, int]) -> dict[str, slice]:
    """Return where parts of so many rows are that follow each other."""
    ends = np.cumsum(list(rows.values())).tolist()
    return {name: slice(end - rows[name], end) for name, end in zip(rows, ends, strict=True)}


def grey_images(
    name: str, title: str, images: NDArray[np.uint8], labels: ArrayLike, rows: Mapping[str, int]
) -> Dataset:
    """Return images (rows, side, side) of bytes as a data set of grey values from 0 to 1, classes as they are."""
    side = images.shape[1]
    x = images.reshape(-1, side * side)
    return Dataset(
        name,
        x.astype(np.float32) / np.float32(255),
        check_labels(np.asarray(labels), len(x), "multiclass"),
        tuple(f"pixel {row},{column}" for row in range(side) for column in range(side)),
        f"{title}, all {len(x):,} images, grey values from 0 to 1",
        complete=True,
        parts=slices(rows),
        task="multiclass",
    )


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
