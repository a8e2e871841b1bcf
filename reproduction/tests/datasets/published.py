"""Small files in the publishers' own formats, taken for the originals; and what a publisher's server answers."""

from __future__ import annotations

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

from tacit_reproduction.datasets import calcofi, ijcnn1, mnist, occupancy, organamnist, rcv1, susy
from tacit_reproduction.datasets import fetch as datasets

TERMS = 60
COLUMNS = (*calcofi.COLUMNS, calcofi.TARGET)


class Published(NamedTuple):
    """A small edition of a data set."""

    files: dict[str, bytes]
    """By their paths in a data folder."""
    answers: dict[str, bytes]
    """Of the official addresses."""
    x: np.ndarray
    y: np.ndarray
    """What a loader has to return."""
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


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def of_occupancy(patch: pytest.MonkeyPatch) -> Published:
    rng, contents, parts, x, y = np.random.default_rng(0), {}, {}, [], []
    for name, part in occupancy.PARTS.items():
        x.append(rng.integers(0, 99, (5, 5)) + 0.5)
        y.append(np.arange(5) % 2)
        rows = (f'"{r}","2015-02-04 17:5{r}:00",{",".join(map(str, x[-1][r]))},{y[-1][r]}' for r in range(5))
        header = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"'
        contents[part.file] = "\n".join([header, *rows, ""]).encode()
        parts[name] = part._replace(rows=5, sha256=sha256(contents[part.file]))
    patch.setattr(occupancy, "PARTS", parts)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    cuts = {"train": slice(0, 5), "test": slice(5, 10), "test2": slice(10, 15)}
    files = {f"occupancy/{name}": content for name, content in contents.items()}
    return Published(
        files, {datasets.OCCUPANCY_URL: packed.getvalue()}, np.concatenate(x), 2 * np.concatenate(y) - 1, cuts
    )


def of_susy(patch: pytest.MonkeyPatch) -> Published:
    patch.setattr(susy, "ROWS", 50)
    patch.setattr(susy, "SUBSET_ROWS", 20)
    drawn = np.sort(np.random.default_rng(279).choice(50, 20, replace=False))
    x = np.repeat(drawn[:, None] + 0.5, 18, axis=1)
    lines = (f"{r % 2}.0e+00," + ",".join([f"{r}.5"] * 18) + "\n" for r in range(50))
    prepared = npz(X=x.astype(np.float32), y=drawn % 2)
    patch.setattr(susy, "SHA256", sha256(prepared))
    packed = gzip.compress("".join(lines).encode(), mtime=0)
    return Published({datasets.SUSY_FILE: prepared}, {datasets.SUSY_URL: packed}, x, 2 * (drawn % 2) - 1, {})


def corpus(seed: int = 0, documents: int = 200) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """60 terms, two labelled classes, a fifth of both, ten parts; the first document has no terms."""
    rng = np.random.default_rng(seed)
    dense = random_array((documents, TERMS), density=0.2, rng=rng, dtype=np.float32).toarray()
    dense[0] = 0
    y = rng.choice([-1, 0, 1], documents, p=[0.4, 0.2, 0.4]).astype(np.int8)
    return csr_matrix(dense), y, np.repeat(np.arange(10), documents // 10).astype(np.uint8)


def sparse(x: csr_matrix, y: np.ndarray, **more: np.ndarray) -> bytes:
    parts = {"data": x.data, "indices": x.indices.astype(np.uint16), "indptr": x.indptr.astype(np.int32)}
    return npz(**parts, shape=np.array(x.shape), y=y, **more)


def of_rcv1(patch: pytest.MonkeyPatch) -> Published:
    """Loaded as a random projection, which the official file can be, too."""
    x, y, part = corpus()
    prepared = sparse(x, y, part=part)
    patch.setattr(rcv1, "TERMS", TERMS)
    patch.setattr(rcv1, "SUBSET_SHA256", sha256(prepared))
    labelled = np.flatnonzero(y != 0)
    patch.setattr(rcv1, "OFFICIAL_ROWS", len(labelled))
    text = "".join(
        f"{y[row]} " + " ".join(f"{c + 1}:{v:.6f}" for c, v in zip(x[row].indices, x[row].data, strict=True)) + "\n"
        for row in labelled
    )
    projected = x[labelled] @ np.random.default_rng(0).standard_normal((TERMS, 9), np.float32)
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    cut = int((part[labelled] < 8).sum())
    parts = {"train": slice(0, cut), "test": slice(cut, len(labelled))}
    answers = {datasets.RCV1_URL: bz2.compress(text.encode())}
    return Published(
        {datasets.RCV1_FILE: prepared}, answers, projected / np.where(norms > 0, norms, 1), y[labelled], parts
    )


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in MNIST's format."""
    return struct.pack(f">{1 + array.ndim}I", 0x0800 | array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def of_mnist(patch: pytest.MonkeyPatch) -> Published:
    rng, files, images, labels = np.random.default_rng(0), {}, [], []
    rows = {"train": 40, "test": 10}
    for name, part in mnist.PARTS.items():
        images.append(rng.integers(0, 256, (rows[name], 28, 28), np.uint8))
        labels.append(rng.permutation(np.arange(rows[name]) % 10))
        files[part.images], files[part.labels] = (gzip.compress(idx(each[-1]), mtime=0) for each in (images, labels))
    assert files.keys() == datasets.MNIST_SHA256.keys()
    patch.setattr(datasets, "MNIST_SHA256", {file: sha256(content) for file, content in files.items()})
    patch.setattr(mnist, "PARTS", {name: part._replace(rows=rows[name]) for name, part in mnist.PARTS.items()})
    answers = {
        datasets.MNIST_MIRROR + file: content for file, content in files.items()
    }  # the publisher is often silent
    x = np.concatenate(images).reshape(50, 784) / 255
    return Published({f"mnist/{file}": content for file, content in files.items()}, answers, x, np.concatenate(labels),
                     {"train": slice(0, 40), "test": slice(40, 50)})  # fmt: skip


def of_ijcnn1(patch: pytest.MonkeyPatch) -> Published:
    rng, files, tables, parts = np.random.default_rng(0), {}, [], {}
    for file, (name, rows) in zip(
        datasets.IJCNN1_FILES, {"train": 30, "validation": 4, "test": 6}.items(), strict=True
    ):
        x = np.round(rng.normal(size=(rows, 22)), 6) * (rng.random((rows, 22)) < 0.6)
        x[0, :2] = 0.00002, -0.0
        tables.append(ijcnn1.Table(x.astype(np.float32), np.where(np.arange(rows) % 3 == 0, 1, -1).astype(np.float32)))
        lines = []
        for values, y in zip(*tables[-1], strict=True):
            if name == "test":  # as a copy has it that was written anew from numbers
                lines.append(f"{y:.1f} " + " ".join(f"{c}:{float(f'{v:f}')!r}" for c, v in enumerate(values, start=1)))
            else:
                lines.append(f"{int(y):+d} " + " ".join(f"{c}:{v:f}" for c, v in enumerate(values, start=1) if v) + " ")
        files[file] = bz2.compress("\n".join([*lines, ""]).encode())
        parts[name] = ijcnn1._Part(rows, ijcnn1.digest(tables[-1]))
    patch.setattr(ijcnn1, "PARTS", parts)
    x, y = map(np.concatenate, zip(*tables, strict=True))
    answers = {datasets.IJCNN1_URL + file: content for file, content in files.items()}
    cuts = {"train": slice(0, 30), "validation": slice(30, 34), "test": slice(34, 40)}
    return Published({f"ijcnn1/{file}": content for file, content in files.items()}, answers, x, y, cuts)


def organ_arrays() -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for called, rows in {"train": 33, "val": 4, "test": 11}.items():
        found[f"{called}_images"] = rng.integers(0, 256, (rows, 28, 28), np.uint8)
        found[f"{called}_labels"] = (np.arange(rows, dtype=np.uint8) % 11)[:, None]
    return found


def of_organamnist(patch: pytest.MonkeyPatch, changed: Mapping[str, Any] | None = None) -> Published:
    found = organ_arrays()
    content = npz(**{name: array for name, array in (found | dict(changed or {})).items() if array is not None})
    patch.setattr(datasets, "ORGANAMNIST_SHA256", sha256(content))
    parts = {name: (called, len(found[f"{called}_labels"])) for name, (called, _) in organamnist.PARTS.items()}
    patch.setattr(organamnist, "PARTS", parts)
    images, labels = (
        np.concatenate([found[f"{called}_{kind}"] for called, _ in parts.values()]) for kind in ("images", "labels")
    )
    cuts = {"train": slice(0, 33), "validation": slice(33, 37), "test": slice(37, 48)}
    name = datasets.ORGANAMNIST_FILE
    return Published(
        {name: content}, {datasets.ORGANAMNIST_URL: content}, images.reshape(48, 784) / 255, labels.ravel(), cuts
    )


SETS: dict[str, tuple[Callable[[pytest.MonkeyPatch], Published], Callable[[], Any]]] = {
    "occupancy": (of_occupancy, occupancy.occupancy),
    "susy": (of_susy, susy.susy),
    "rcv1": (of_rcv1, lambda: rcv1.rcv1("random_projection", 9)),
    "mnist": (of_mnist, mnist.mnist),
    "ijcnn1": (of_ijcnn1, ijcnn1.ijcnn1),
    "organamnist": (of_organamnist, organamnist.organamnist),
}
"""Name -> its small edition, and its loader."""
