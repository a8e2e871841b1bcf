"""Finder of data sets: local folders first, then a verified download from the official address.

Search order: the folder named by TACIT_DATA; without it `shared/data` beside the repository (in a checkout) and beside
the current folder; then the cache, `tacit` in XDG_CACHE_HOME or ~/.cache. Downloads go to the cache. What is asked for,
present or absent, is noted: results depend on both.
"""

import functools
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.validate import check_features, check_labels


class Known(NamedTuple):
    """Files of a data set, and where they come from."""

    files: Mapping[str, str]
    """Path in a data folder -> SHA-256; empty where the loader checks values in place of bytes."""
    url: str  # of the download, or what its files' names are put behind
    official: str
    other: str = ""  # A file that serves as well: made of the official download, or the publisher's own table


_UCI, _LIBSVM = "https://archive.ics.uci.edu", "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_CALCOFI = "https://calcofi.org/data/oceanographic-data/bottle-database/"
KNOWN = {
    "occupancy": Known(
        {
            "occupancy/datatraining.txt": "b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56",
            "occupancy/datatest.txt": "1b92c7c1b2838963464fa891a610cf3c5db4becb7189189b29b330107a584c7f",
            "occupancy/datatest2.txt": "d026d1bd5aeccd4aff4f3b3710d48e40613bd5fc370db7e61bbdcaa50d985095"},
        f"{_UCI}/static/public/357/occupancy+detection.zip", f"{_UCI}/dataset/357/occupancy+detection"),
    "susy": Known(
        {"susy_subset.npz": "745d91cb15fd0d6d74d619b363a94f478b8c8ae3f9c5b545f950ef43dbbad1ca"},
        f"{_UCI}/ml/machine-learning-databases/00279/SUSY.csv.gz", f"{_UCI}/dataset/279/susy",
        "susy_official_subset.npz"),
    "rcv1": Known(
        {"rcv1_v2_subset.npz": "42fe6ebdd8206a8763f81f8d9a06c9677fa6be81c8adf01367ba3fac0de0e666"},
        f"{_LIBSVM}/rcv1_train.binary.bz2", f"{_LIBSVM}.html#rcv1.binary", "rcv1_official_train.npz"),
    "mnist": Known(
        {
            "mnist/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
        "https://ossci-datasets.s3.amazonaws.com/mnist/",  # a mirror: what the publisher answers is often a page
        "http://yann.lecun.com/exdb/mnist/"),
    "ijcnn1": Known(
        {f"ijcnn1/ijcnn1.{part}.bz2": "" for part in ("tr", "val", "t")}, f"{_LIBSVM}/", f"{_LIBSVM}.html#ijcnn1"),
    "organamnist": Known(
        {"organamnist.npz": "7c8c8b0753e2c0d7f70928817eac02be7cbb09f6beff4346e9d0ea79ecb598bd"},
        "https://zenodo.org/records/10519652/files/organamnist.npz", "https://medmnist.com"),
    "calcofi": Known(
        {"calcofi_bottle_1970_2020.npz": "dca8eb9d2fa1a9491dd247bed23bfd093ed316b2bdc672cb0c5703be90f16921"},
        _CALCOFI, _CALCOFI, "bottle.csv")}  # fmt: skip


def available(name: str) -> bool:
    """Tell whether the data set ("occupancy", "calcofi", ...) is on this machine, so that it needs no network."""
    return local(name) is not None


def where(name: str) -> str:
    """Return a sentence with the place of the data set, or with the folders that were searched."""
    found, known = local(name), KNOWN[name]
    if found is not None:
        return f"{name} is in {found[0].parent}"
    files = ", ".join(known.files) + (f" or {known.other}" if known.other else "")
    return f"{name} ({files}) is not in {', '.join(map(str, search_path()))}"


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


def find(*files: str) -> Path | None:
    """Return the first file's path in the first folder that has them all."""
    looked_for(files)
    places = (folder for folder in search_path() if all((folder / file).is_file() for file in files))
    return next((folder / files[0] for folder in places), None)


def local(name: str) -> list[Path] | None:
    """Return the files of a data set on this machine, all of one folder, or the one that serves as well."""
    if name not in KNOWN:
        raise DataError(f"there is no data set {name!r}; expected one of {', '.join(KNOWN)}")
    first = find(*KNOWN[name].files)
    if first is not None:
        return [first.parent / Path(file).name for file in KNOWN[name].files]
    other = find(KNOWN[name].other) if KNOWN[name].other else None
    return None if other is None else [other]


def fetched(known: Known) -> dict[str, bytes]:
    """Return the contents of the known files, each as its official address answers."""
    if known.url == _CALCOFI:
        raise OSError("the bottle database cannot be downloaded by itself")
    contents = {}
    for file in known.files:
        with open_url(known.url + Path(file).name * known.url.endswith("/")) as response:
            contents[file] = response.read()
    return contents


def files_of(name: str, download: Callable[[Known], Mapping[str, bytes]] = fetched) -> list[Path]:
    """Return a data set's files, verified; where they are not, they are downloaded into the cache, all or none.

    Args:
      name: A key of `KNOWN`.
      download: Returns contents by their paths in a data folder: the known files, or the one that serves as well.
    """
    found, sums = local(name), {Path(file).name: sha256 for file, sha256 in KNOWN[name].files.items()}
    if found is None:
        with _explained(name):
            contents = download(KNOWN[name])
            for file, content in contents.items():
                _check(hashlib.sha256(content).hexdigest(), sums.get(Path(file).name, ""), file)
            found = [_written(cache_folder() / file, content) for file, content in contents.items()]
    for path in found:
        _check(_sha256(path, _stamp(path)), sums.get(path.name, ""), str(path))
    return found


def _check(found: str, sha256: str, name: str) -> None:
    if sha256 not in (found, ""):
        remedy = "replace it by the original, or delete it and it is downloaded anew"
        raise DataError(
            f"{name}: its SHA-256 is {found}, expected {sha256}; it is damaged or another edition: {remedy}"
        )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn a failed download into an error with the remedy."""
    from http.client import HTTPException

    faults = (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile, HTTPException, DataError)
    try:
        yield
    except faults as fault:
        known = KNOWN[name]
        raise DataError(
            f"{where(name)}, and the download from {known.url} failed ({type(fault).__name__}: {fault}). Put it "
            f"into a folder and set TACIT_DATA to that; official address: {known.official}"
        ) from fault


def open_url(url: str) -> IO[bytes]:
    """Open an official address."""
    from urllib.request import urlopen

    opened: IO[bytes] = urlopen(url, timeout=30.0)
    return opened


def _written(path: Path, content: bytes) -> Path:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        return Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# -- what was asked for ------------------------------------------------------------------------------------------------

_ASKED: set[str] = set()


def looked_for(more: Iterable[str] = ()) -> frozenset[str]:
    """Return the files that this process has asked for, having taken in some more."""
    _ASKED.update(more)
    return frozenset(_ASKED)


def digests(files: Iterable[str], folders: Sequence[Path]) -> dict[str, str | None]:
    """Return the SHA-256 of each file as it lies in the first folder that has it; None where none has."""
    found = {file: next((f / file for f in folders if (f / file).is_file()), None) for file in sorted(files)}
    return {file: None if path is None else _sha256(path, _stamp(path)) for file, path in found.items()}


def _stamp(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@functools.cache
def _sha256(path: Path, stamp: tuple[int, int, int]) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# -- parts of loaders --------------------------------------------------------------------------------------------------


def slices(rows: Mapping[str, int]) -> dict[str, slice]:
    """Return where parts of so many rows are that follow each other."""
    ends = np.cumsum(list(rows.values())).tolist()
    return {name: slice(end - rows[name], end) for name, end in zip(rows, ends, strict=True)}


def two_classes(
    name: str, x: Any, y: Any, columns: Sequence[str], words: str, parts: Mapping[str, int], complete: bool = True
) -> Dataset:
    """Return rows of two classes as a data set with labels -1 and +1."""
    labels = check_labels(y, len(x)).astype(np.float32)
    return Dataset(name, check_features(x), labels, tuple(columns), words, complete, slices(parts))


def grey_images(
    name: str, title: str, images: Sequence[NDArray[np.uint8]], labels: Sequence[ArrayLike], parts: Sequence[str]
) -> Dataset:
    """Return images (rows, 28, 28) of bytes, part by part, as a data set of grey values from 0 to 1, classes as are."""
    x = np.concatenate(images).reshape(-1, 28 * 28)
    y = check_labels(np.concatenate([np.ravel(own) for own in labels]), len(x), "multiclass")
    pixels = tuple(f"pixel {row},{column}" for row in range(28) for column in range(28))
    words, rows = f"{title}, all {len(x):,} images, grey values from 0 to 1", map(len, images)
    cut = slices(dict(zip(parts, rows, strict=True)))
    return Dataset(name, x.astype(np.float32) / np.float32(255), y, pixels, words, True, cut, "multiclass")
