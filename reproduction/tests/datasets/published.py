"""Small files in the publishers' own formats, taken for the originals; and what a publisher's server answers."""

import bz2
import gzip
import hashlib
import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import ijcnn1, mnist, occupancy, organamnist, rcv1, susy

TERMS, KNOWN = 60, datasets.KNOWN


class Published(NamedTuple):  # a small edition of a data set
    files: dict[str, bytes]  # by their paths in a data folder
    answers: dict[str, bytes]  # of the official addresses
    x: np.ndarray
    y: np.ndarray  # what a loader has to return
    parts: Mapping[str, slice]


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where the data set is not on this machine, saying where it was looked for."""
    return pytest.mark.skipif(not datasets.available(name), reason=datasets.where(name))


def serve(monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception | Mapping[str, bytes]) -> list[str]:
    """Let every address answer with this, or with what is its own; returns the list of those that are asked."""
    asked: list[str] = []

    def open_url(url: str) -> io.BytesIO:
        asked.append(url)
        found = answer.get(url, OSError("404 not found")) if isinstance(answer, Mapping) else answer
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(found)

    monkeypatch.setattr(datasets, "open_url", open_url)
    return asked


def place(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def take(patch: pytest.MonkeyPatch, name: str, contents: Any) -> dict[str, bytes]:
    """Take these contents for those of the published files, of which the bytes are known."""
    files = dict(zip(KNOWN[name].files, contents, strict=True))
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    patch.setitem(KNOWN, name, KNOWN[name]._replace(files=sums))
    return files


def each_by_itself(name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {KNOWN[name].url + Path(file).name: content for file, content in files.items()}


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def of_occupancy(patch: pytest.MonkeyPatch) -> Published:
    x, y = np.random.default_rng(0).integers(0, 99, (3, 5, 5)) + 0.5, np.arange(5) % 2
    header, at = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"', "2015-02-04 17:5"
    rows = [[f'"{r}","{at}{r}:00",{",".join(map(str, part[r]))},{y[r]}' for r in range(5)] for part in x]
    files = take(patch, "occupancy", ["\n".join([header, *part, ""]).encode() for part in rows])
    packed, cuts = io.BytesIO(), {"train": slice(0, 5), "test": slice(5, 10), "test2": slice(10, 15)}
    with zipfile.ZipFile(packed, "w") as archive:
        for file, content in files.items():
            archive.writestr(Path(file).name, content)
    answers = {KNOWN["occupancy"].url: packed.getvalue()}
    return Published(files, answers, x.reshape(15, 5), np.tile(2 * y - 1, 3), cuts)


def of_susy(patch: pytest.MonkeyPatch) -> Published:
    patch.setattr(susy, "ROWS", 50)
    patch.setattr(susy, "SUBSET_ROWS", 20)
    drawn = np.sort(np.random.default_rng(279).choice(50, 20, replace=False))
    x = np.repeat(drawn[:, None] + 0.5, 18, axis=1)
    lines = (f"{r % 2}.0e+00," + ",".join([f"{r}.5"] * 18) + "\n" for r in range(50))
    files = take(patch, "susy", [npz(X=x.astype(np.float32), y=drawn % 2)])
    answers = {KNOWN["susy"].url: gzip.compress("".join(lines).encode(), mtime=0)}
    return Published(files, answers, x, 2 * (drawn % 2) - 1, {})


def corpus(seed: int = 0, documents: int = 200) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """60 terms, two labelled classes, a fifth of both, ten parts; the first document has no terms."""
    rng = np.random.default_rng(seed)
    dense = random_array((documents, TERMS), density=0.2, rng=rng, dtype=np.float32).toarray()
    dense[0] = 0
    y = rng.choice([-1, 0, 1], documents, p=[0.4, 0.2, 0.4]).astype(np.int8)
    return csr_matrix(dense), y, np.repeat(np.arange(10), documents // 10).astype(np.uint8)


def sparse(x: csr_matrix, y: np.ndarray, **more: np.ndarray) -> bytes:
    return npz(data=x.data, indices=x.indices.astype(np.uint16), indptr=x.indptr.astype(np.int32), y=y, **more)


def of_rcv1(patch: pytest.MonkeyPatch) -> Published:
    """Three columns of the prepared file, by a dense decomposition; the official file has no public documents."""
    rcv1.read.cache_clear()
    x, y, part = corpus()
    patch.setattr(rcv1, "TERMS", TERMS)
    patch.setattr(rcv1, "OFFICIAL_ROWS", int((y != 0).sum()))
    public = x[y == 0].toarray().astype(np.float64)
    _, singular, right = np.linalg.svd(public, full_matrices=False)
    projected = (x[y != 0].toarray() - public.mean(axis=0)) @ (right[:3] / singular[:3, None]).T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    cut = int((part[y != 0] < 8).sum())
    parts = {"train": slice(0, cut), "test": slice(cut, len(projected))}
    return Published(take(patch, "rcv1", [sparse(x, y, part=part)]), {}, projected, y[y != 0], parts)


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in MNIST's format."""
    return struct.pack(f">{1 + array.ndim}I", 0x0800 | array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def of_mnist(patch: pytest.MonkeyPatch) -> Published:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (rows, 28, 28), np.uint8) for rows in (40, 10)]
    labels = [rng.permutation(np.arange(rows) % 10) for rows in (40, 10)]
    arrays = (images[0], labels[0], images[1], labels[1])
    files = take(patch, "mnist", [gzip.compress(idx(each), mtime=0) for each in arrays])
    x, cuts = np.concatenate(images).reshape(50, 784) / 255, {"train": slice(0, 40), "test": slice(40, 50)}
    return Published(files, each_by_itself("mnist", files), x, np.concatenate(labels), cuts)


def of_ijcnn1(patch: pytest.MonkeyPatch) -> Published:
    rng, contents, tables = np.random.default_rng(0), [], []
    for part, rows in {"train": 30, "validation": 4, "test": 6}.items():
        x = np.round(rng.normal(size=(rows, 22)), 6) * (rng.random((rows, 22)) < 0.6)
        x[0, :2] = 0.00002, -0.0
        tables.append(ijcnn1.Table(x.astype(np.float32), np.where(np.arange(rows) % 3 == 0, 1, -1).astype(np.float32)))
        lines = []
        for values, y in zip(*tables[-1], strict=True):
            if part == "test":  # as a copy has it that was written anew from numbers
                lines.append(f"{y:.1f} " + " ".join(f"{c}:{float(f'{v:f}')!r}" for c, v in enumerate(values, start=1)))
            else:
                lines.append(f"{int(y):+d} " + " ".join(f"{c}:{v:f}" for c, v in enumerate(values, start=1) if v) + " ")
        contents.append(bz2.compress("\n".join([*lines, ""]).encode()))
        patch.setitem(ijcnn1.VALUES, part, ijcnn1.digest(tables[-1]))
    files, (x, y) = (
        dict(zip(KNOWN["ijcnn1"].files, contents, strict=True)),
        map(np.concatenate, zip(*tables, strict=True)),
    )
    cuts = {"train": slice(0, 30), "validation": slice(30, 34), "test": slice(34, 40)}
    return Published(files, each_by_itself("ijcnn1", files), x, y, cuts)


def of_organamnist(patch: pytest.MonkeyPatch) -> Published:
    rng, rows = np.random.default_rng(0), {"train": 33, "val": 4, "test": 11}
    images = {part: rng.integers(0, 256, (count, 28, 28), np.uint8) for part, count in rows.items()}
    labels = {part: (np.arange(count, dtype=np.uint8) % 11)[:, None] for part, count in rows.items()}
    both = {f"{part}_{kind}": of[part] for kind, of in (("images", images), ("labels", labels)) for part in rows}
    files, x = take(patch, "organamnist", [npz(**both)]), np.concatenate(list(images.values())).reshape(48, 784) / 255
    cuts = {"train": slice(0, 33), "validation": slice(33, 37), "test": slice(37, 48)}
    answers = {KNOWN["organamnist"].url: files["organamnist.npz"]}
    return Published(files, answers, x, np.concatenate(list(labels.values())).ravel(), cuts)


SETS: dict[str, tuple[Callable[[pytest.MonkeyPatch], Published], Callable[[], Any]]] = {
    "occupancy": (of_occupancy, occupancy.occupancy), "susy": (of_susy, susy.susy),
    "rcv1": (of_rcv1, lambda: rcv1.rcv1(3)), "mnist": (of_mnist, mnist.mnist),
    "ijcnn1": (of_ijcnn1, ijcnn1.ijcnn1), "organamnist": (of_organamnist, organamnist.organamnist),
}  # fmt: skip
"""Name -> its small edition, and its loader."""
