"""RCV1-v2 (Lewis, Yang, Rose and Li 2004): newswire documents as 47,236 term weights, +1 = CCAT or ECAT.

Streams are dense, so the terms are reduced to few columns first, and by nothing that is private: by what is learnt from
the documents that belong to both classes. Those have no binary label, are neither trained nor tested on, and are
**taken to be public**; every description says so.

The reduction maps each document by itself, so a record stays a record and the privacy account is untouched. Rows
have Euclidean norm 1 (0 where nothing is left of a document).
"""

import bz2
import functools
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.reading.npz import read_npz
from tacit_reproduction.datasets import fetch as datasets

TERMS = 47_236
OFFICIAL_ROWS = 20_242
PARTS, TEST_PARTS = 10, (8, 9)
TEST_SHARE = 0.2


class Documents(NamedTuple):
    """The documents as published, sparse."""

    x: Any  # scipy CSR matrix (documents, 47,236): log TF-IDF weights, each row of norm 1
    y: NDArray[np.int8]  # +1, -1, or 0 for a document of both classes
    part: NDArray[np.uint8] | None  # number of the random half (of ten) of each document; the official file has none
    origin: str


def rcv1(columns: int = 100) -> Dataset:
    """RCV1-v2: the documents with a binary label, reduced to few dense columns.

    Args:
      columns: So many first singular directions of the public documents, their mean subtracted, each column divided by
        its singular value, so that they are about white.

    Returns:
      The data set, training part first; `parts` has "train" and "test", the last two of the ten published halves (of
      the official file the last fifth).

    References: Lewis, Yang, Rose and Li (2004).
    """
    (path,) = datasets.files_of("rcv1", _download)
    documents = read(path)
    labelled = documents.y != 0
    x = _projected(documents, labelled, columns)
    norm = np.linalg.norm(x, axis=1)
    # Rounding to single precision must not lift a norm above 1: clips and sensitivities count on it.
    x = (x / np.where(norm > 0, norm * (1 + 1e-6), 1)[:, None]).astype(np.float32)
    rows = len(x)
    if documents.part is None:
        test, split = np.arange(rows) >= rows - round(TEST_SHARE * rows), "the last fifth"
    else:
        test, split = np.isin(documents.part[labelled], TEST_PARTS), "halves {} and {} of {}".format(*TEST_PARTS, PARTS)
    order = np.argsort(test, kind="stable")
    words = (
        f"{documents.origin}, projected on {columns} singular directions of the {int((~labelled).sum()):,} documents "
        f"without a binary label, which are taken to be public, rows of norm 1, test part {split}"
    )
    names, parts = [f"public_svd {k}" for k in range(columns)], {"train": int((~test).sum()), "test": int(test.sum())}
    return datasets.two_classes("rcv1", x[order], documents.y[labelled][order], names, words, parts, complete=False)


@functools.lru_cache(maxsize=1)
def read(path: Path) -> Documents:
    """Read the prepared subset, or what was made of LIBSVM's rcv1_train.binary."""
    from scipy.sparse import csr_matrix

    archive = read_npz(path)
    absent = {"data", "indices", "indptr", "y"} - archive.keys()
    if absent:
        raise DataError(f"{path}: there is no array {min(absent)!r}; delete the file, and it is made anew")
    arrays = archive["data"], archive["indices"].astype(np.int32), archive["indptr"]
    y = archive["y"].astype(np.int8)
    labelled = int((y != 0).sum())
    if path.name == datasets.KNOWN["rcv1"].other:
        origin = f"RCV1-v2, LIBSVM's rcv1_train.binary, all {labelled:,} documents"
    else:
        origin = f"RCV1-v2, a random subset of {labelled:,} documents of one class (not LIBSVM's {OFFICIAL_ROWS:,})"
    return Documents(csr_matrix(arrays, shape=(len(y), TERMS)), y, archive.get("part"), origin)


def _projected(documents: Documents, labelled: NDArray[np.bool_], columns: int) -> NDArray[np.float64]:
    from scipy.sparse.linalg import svds

    public = documents.x[~labelled].astype(np.float64)
    if not 1 <= columns < public.shape[0]:
        raise DataError(
            f"columns={columns}: that many directions are learnt from documents without a binary label; expected "
            f"fewer than the {public.shape[0]} of those ({documents.origin}), and at least 1"
        )
    start = np.ones(min(public.shape))  # a fixed start makes the result the same every time
    _, singular, transposed = svds(public, k=columns, v0=start)
    order = np.argsort(-singular)
    directions = (transposed[order] / singular[order, None]).T
    return np.asarray(documents.x[labelled] @ directions - np.asarray(public.mean(axis=0)).ravel() @ directions)


def _download(known: datasets.Known) -> dict[str, bytes]:
    """Turn LIBSVM's text into the prepared file's format.

    No SHA-256 of it is known: its own check sums (bzip2) and its size must hold.
    """
    from sklearn.datasets import load_svmlight_file

    with datasets.open_url(known.url) as response:
        text = io.BytesIO(bz2.decompress(response.read()))
    x, y = load_svmlight_file(text, n_features=TERMS, dtype=np.float32, zero_based=False)
    if len(y) != OFFICIAL_ROWS or not np.isin(y, (-1, 1)).all():
        raise DataError(f"{len(y):,} documents, expected {OFFICIAL_ROWS:,} with labels -1 and +1; nothing was kept")
    packed = io.BytesIO()
    arrays = {"data": x.data, "indices": x.indices.astype(np.uint16), "indptr": x.indptr.astype(np.int32)}
    np.savez_compressed(packed, **arrays, y=y.astype(np.int8), shape=np.array(x.shape))
    return {known.other: packed.getvalue()}
