"""RCV1-v2 (Lewis, Yang, Rose and Li 2004): newswire documents as 47,236 term weights, +1 = CCAT or ECAT.

Streams are dense, so the terms are reduced to few columns first, and by nothing that is private: either by a
random projection, or by what is learnt from the documents that belong to both classes. Those have no binary
label, are neither trained nor tested on, and are **taken to be public**; every description says so.

A reduction maps each document by itself, so a record stays a record and the privacy account is untouched. Rows
have Euclidean norm 1 (0 where nothing is left of a document).
"""

from __future__ import annotations

import bz2
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, DataError
from tacit.streams.dataset import Dataset
from tacit.streams.reading.npz import read_npz
from tacit.streams.validate import check_count, check_features, check_labels
from tacit_reproduction.datasets import fetch as datasets

TERMS = 47_236
SUBSET_SHA256 = "42fe6ebdd8206a8763f81f8d9a06c9677fa6be81c8adf01367ba3fac0de0e666"
OFFICIAL_ROWS = 20_242
PARTS, TEST_PARTS = 10, (8, 9)
TEST_SHARE = 0.2

Reduction = Literal["random_projection", "public_svd"]


class Documents(NamedTuple):
    """The documents as published, sparse."""

    x: Any
    """scipy CSR matrix (documents, 47,236): log TF-IDF weights, each row of norm 1."""
    y: NDArray[np.int8]
    """+1, -1, or 0 for a document of both classes."""
    part: NDArray[np.uint8] | None
    """Number of the random half (of ten) of each document; the official file has none."""
    origin: str


def rcv1(reduction: Reduction = "public_svd", columns: int = 100, seed: int = 0) -> Dataset:
    """RCV1-v2: the documents with a binary label, reduced to few dense columns.

    Args:
      reduction: "random_projection" (Gaussian) or "public_svd": the first singular directions of the public documents,
        their mean subtracted, each column divided by its singular value, so that they are about white.
      columns: Number of columns, at least 1.
      seed: Seed of the random projection.

    Returns:
      The data set, training part first; `parts` has "train" and "test", the last two of the ten published halves (of
      the official file the last fifth).

    Raises:
      ConfigError: An argument is out of range.
      DataError: The file is not here and cannot be downloaded, or is not as expected.

    References: Lewis, Yang, Rose and Li (2004).
    """
    if reduction not in get_args(Reduction):
        raise ConfigError(f"reduction={reduction!r}: expected one of {', '.join(get_args(Reduction))}")
    check_count("columns", columns)
    documents = sparse()
    labelled = documents.y != 0
    private = documents.x[labelled]
    x: NDArray[Any]
    if reduction == "random_projection":
        x = private @ np.random.default_rng(seed).standard_normal((private.shape[1], columns), np.float32)
        words = f"random projection to {columns} columns (seed {seed})"
    else:
        x = _public_projection(documents, columns)(private)
        words = (
            f"projected on {columns} singular directions of the {int((~labelled).sum()):,} documents without a binary "
            "label, which are taken to be public"
        )
    norm = np.linalg.norm(x, axis=1)
    # Rounding to single precision must not lift a norm above 1: clips and sensitivities count on it.
    x = (x / np.where(norm > 0, norm * (1 + 1e-6), 1)[:, None]).astype(np.float32)
    rows = len(x)
    if documents.part is None:
        test, split = np.arange(rows) >= rows - round(TEST_SHARE * rows), "the last fifth"
    else:
        test, split = np.isin(documents.part[labelled], TEST_PARTS), "halves {} and {} of {}".format(*TEST_PARTS, PARTS)
    order = np.argsort(test, kind="stable")
    return Dataset(
        "rcv1",
        check_features(x[order]),
        check_labels(documents.y[labelled][order], rows).astype(np.float32),
        tuple(f"{reduction} {column}" for column in range(columns)),
        f"{documents.origin}, {words}, rows of norm 1, test part {split}",
        complete=False,
        parts=datasets.slices({"train": int((~test).sum()), "test": int(test.sum())}),
    )


def sparse() -> Documents:
    """Read the documents: the prepared subset where it is found, else LIBSVM's rcv1_train.binary."""
    prepared = datasets.find(datasets.RCV1_FILE)
    if prepared is not None:
        datasets.verify(prepared, SUBSET_SHA256)
        return _read(prepared, official=False)
    path = datasets.find(datasets.RCV1_CONVERTED_FILE)
    if path is None:
        path = datasets.cache_folder() / datasets.RCV1_CONVERTED_FILE
        with datasets.explained("rcv1"):
            datasets.write(path, _converted(datasets.fetched(datasets.RCV1_URL)))
    return _read(path, official=True)


@functools.lru_cache(maxsize=1)
def _read(path: Path, official: bool) -> Documents:
    from scipy.sparse import csr_matrix

    archive = read_npz(path)
    absent = {"data", "indices", "indptr", "y", "shape"} - archive.keys()
    if absent:
        raise DataError(f"{path}: there is no array {min(absent)!r}; delete the file, and it is made anew")
    data, indices, indptr = archive["data"], archive["indices"].astype(np.int32), archive["indptr"]
    y, shape = archive["y"].astype(np.int8), tuple(archive["shape"].tolist())
    part = archive.get("part")
    if shape != (len(y), TERMS):
        raise DataError(
            f"{path}: shape {shape} with {len(y)} labels, expected one label for each document and {TERMS} terms; "
            "delete the file, and it is made anew"
        )
    labelled = int((y != 0).sum())
    if official:
        origin = f"RCV1-v2, LIBSVM's rcv1_train.binary, all {labelled:,} documents"
    else:
        origin = f"RCV1-v2, a random subset of {labelled:,} documents of one class (not LIBSVM's {OFFICIAL_ROWS:,})"
    return Documents(csr_matrix((data, indices, indptr), shape=shape), y, part, origin)


def _public_projection(documents: Documents, columns: int) -> Callable[[Any], NDArray[np.float64]]:
    from scipy.sparse.linalg import svds

    public = documents.x[documents.y == 0].astype(np.float64)
    if public.shape[0] <= columns:
        raise DataError(
            f"columns={columns}: that many directions are learnt from documents without a binary label, but there are "
            f"{public.shape[0]} of those ({documents.origin}); use fewer, or reduction='random_projection'"
        )
    start = np.ones(min(public.shape))  # a fixed start makes the result the same every time
    _, singular, transposed = svds(public, k=columns, v0=start)
    order = np.argsort(-singular)
    directions = (transposed[order] / singular[order, None]).T
    offset = np.asarray(public.mean(axis=0)).ravel() @ directions
    return lambda x: x @ directions - offset


def _converted(packed_text: bytes) -> bytes:
    """Turn LIBSVM's text into the prepared file's format.

    No SHA-256 of it is known: its own check sums (bzip2) and its size must hold.
    """
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(
        io.BytesIO(bz2.decompress(packed_text)), n_features=TERMS, dtype=np.float32, zero_based=False
    )
    if len(y) != OFFICIAL_ROWS or not np.isin(y, (-1, 1)).all():
        raise DataError(
            f"{datasets.RCV1_URL}: {len(y):,} documents, expected {OFFICIAL_ROWS:,} with labels -1 and +1; nothing was "
            "kept: try again"
        )
    packed = io.BytesIO()
    arrays = {"data": x.data, "indices": x.indices.astype(np.uint16), "indptr": x.indptr.astype(np.int32)}
    np.savez_compressed(packed, **arrays, y=y.astype(np.int8), shape=np.array(x.shape))
    return packed.getvalue()
