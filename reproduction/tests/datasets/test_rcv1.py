"""RCV1's projections, its parts, and conversions of the official file that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reproduction.tests.datasets.published import SETS, TERMS, corpus, needs, place, sha256, sparse
from tacit.core.errors import ConfigError, DataError
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import rcv1


@pytest.fixture
def small(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prepared file of a small corpus, taken for the known one."""
    rcv1._read.cache_clear()
    place(SETS["rcv1"][0](monkeypatch).files, nowhere / "data")
    return nowhere / "data" / datasets.RCV1_FILE


@pytest.mark.data
@needs("rcv1")
def test_the_real_documents() -> None:
    documents = rcv1.sparse()
    if documents.part is None:
        pytest.skip("only the official file is here")
    assert documents.x.shape == (27_613, 47_236)
    assert [int((documents.y == label).sum()) for label in (1, -1, 0)] == [11_829, 11_920, 3_864]
    norms = np.sqrt(np.asarray(documents.x.multiply(documents.x).sum(axis=1)).ravel())
    np.testing.assert_allclose(norms, 1, atol=2e-5)
    data = rcv1.rcv1(columns=20)
    assert data.x.shape == (23_749, 20)
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.float32)
    assert not data.complete
    assert data.parts == {"train": slice(0, 19_341), "test": slice(19_341, 23_749)}
    assert all(words in data.description for words in ("23,749 documents", "20 singular", "3,864", "public", "norm 1"))
    train, test = data.parts["train"], data.parts["test"]
    least_squares = np.linalg.lstsq(data.x[train], data.y[train], rcond=None)[0]
    assert (np.sign(data.x[test] @ least_squares) == data.y[test]).mean() > 0.75


@pytest.mark.parametrize("reduction", ["random_projection", "public_svd"])
def test_rows_have_norm_one_and_never_more(small: Path, reduction: rcv1.Reduction) -> None:
    data = rcv1.rcv1(reduction, columns=7)
    norms = np.linalg.norm(data.x.astype(np.float64), axis=1)
    assert norms.max() <= 1
    filled = norms[norms > 0]
    np.testing.assert_allclose(filled, 1, atol=1e-5)
    assert len(data.columns) == data.x.shape[1] == 7


def test_the_public_projection_is_learnt_from_unlabelled_documents_only(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, _ = corpus()
    data = rcv1.rcv1(columns=3)
    public = x[y == 0].toarray().astype(np.float64)
    _, singular, right = np.linalg.svd(public, full_matrices=False)
    expected = (x[y != 0].toarray() - public.mean(axis=0)) @ (right[:3] / singular[:3, None]).T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    agreement = np.abs((expected * data.x).sum(axis=0)) / np.sum(expected**2, axis=0)
    np.testing.assert_allclose(agreement, 1, atol=1e-4)
    np.testing.assert_array_equal(data.y, y[y != 0])
    # Other labelled documents leave the projection of the first ones as it was.
    other = x.tolil()
    changed = np.flatnonzero(y != 0)[50:]
    other[changed] = corpus(seed=9)[0][changed]
    small.write_bytes(sparse(csr_matrix(other), y, part=corpus()[2]))
    rcv1._read.cache_clear()
    datasets.verify.cache_clear()
    monkeypatch.setattr(rcv1, "SUBSET_SHA256", sha256(small.read_bytes()))
    np.testing.assert_allclose(rcv1.rcv1(columns=3).x[:50], data.x[:50], atol=1e-6)


def test_a_random_projection_follows_its_seed(small: Path) -> None:
    one, again, two = (rcv1.rcv1("random_projection", columns=40, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.x, again.x)
    assert not np.allclose(one.x, two.x)
    assert "random projection to 40 columns (seed 1)" in one.description
    x, y, _ = corpus()
    rows = x[y != 0].toarray()
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1)
    # Inner products are kept up to about 1 / sqrt(40) each; their mean error over 160 x 160 pairs is far smaller.
    assert abs((one.x @ one.x.T - rows @ rows.T).mean()) < 0.05


def test_settings_that_cannot_be_used_are_refused(small: Path) -> None:
    for settings in ({"reduction": "hash"}, {"columns": 0}):
        with pytest.raises(ConfigError, match="expected"):
            rcv1.rcv1(**settings)
    public = int((corpus()[1] == 0).sum())
    with pytest.raises(DataError, match=rf"columns={public}: .* there are {public} of those .*random_projection"):
        rcv1.rcv1(columns=public)


@pytest.mark.parametrize("fault", ["y", "shape", "labels"])
def test_a_damaged_conversion_is_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(rcv1, "TERMS", TERMS if fault != "shape" else TERMS + 1)
    x, y, _ = corpus()
    content = sparse(x, y[:-1] if fault == "labels" else y)
    place(
        {datasets.RCV1_CONVERTED_FILE: content.replace(b"y.npy", b"z.npy") if fault == "y" else content},
        nowhere / "data",
    )
    expected = "there is no array 'y'" if fault == "y" else r"shape \(200, 60\) with (199|200) labels"
    with pytest.raises(DataError, match=rf"{expected}.*delete the file"):
        rcv1.sparse()
