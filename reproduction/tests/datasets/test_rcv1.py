from __future__ import annotations

import bz2
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from reproduction.tests.datasets.published import files_under, needs, says_where_it_looked, serve
from tacit.core.errors import ConfigError, DataError
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import rcv1

TERMS = 60


def corpus(seed: int = 0, documents: int = 200) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """A small corpus: 60 terms, two labelled classes, a fifth of both, ten parts."""
    rng = np.random.default_rng(seed)
    dense = random_array((documents, TERMS), density=0.2, rng=rng, dtype=np.float32).toarray()
    dense[0] = 0  # a document without terms
    x = csr_matrix(dense)
    y = rng.choice([-1, 0, 1], documents, p=[0.4, 0.2, 0.4]).astype(np.int8)
    return x, y, np.repeat(np.arange(10), documents // 10).astype(np.uint8)


def arrays(x: csr_matrix, y: np.ndarray, **more: np.ndarray) -> dict[str, np.ndarray]:
    parts = {"data": x.data, "indices": x.indices.astype(np.uint16), "indptr": x.indptr.astype(np.int32)}
    return {**parts, "shape": np.array(x.shape), "y": y, **more}


@pytest.fixture
def small(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prepared file of a small corpus, taken for the known one."""
    x, y, part = corpus()
    path = nowhere / "data" / datasets.RCV1_FILE
    np.savez(path, **arrays(x, y, part=part))
    monkeypatch.setattr(rcv1, "TERMS", TERMS)
    monkeypatch.setattr(rcv1, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def official_text(x: csr_matrix, y: np.ndarray) -> bytes:
    rows = []
    for row, label in zip(x, y, strict=True):
        cells = " ".join(f"{c + 1}:{v:.6f}" for c, v in zip(row.indices, row.data, strict=True))
        rows.append(f"{label} {cells}")
    return ("\n".join(rows) + "\n").encode()


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
    kept = rcv1.rcv1(reduction, columns=7, keep=2)
    sizes = np.abs(kept.x.astype(np.float64))
    assert sizes.sum(axis=1).max() <= 1
    assert (np.count_nonzero(kept.x, axis=1) <= 2).all()
    full = np.abs(data.x)
    largest = np.sort(full, axis=1)[:, -2:].sum(axis=1)
    inside = np.where(sizes > 0, full, 0).sum(axis=1)
    np.testing.assert_allclose(inside, largest, atol=1e-6)
    assert (kept.x * data.x >= 0).all()
    assert "the 2 largest coordinates" in kept.description


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
    np.savez(small, **arrays(csr_matrix(other), y, part=corpus()[2]))
    rcv1._read.cache_clear()
    datasets.verify.cache_clear()
    monkeypatch.setattr(rcv1, "SUBSET_SHA256", hashlib.sha256(small.read_bytes()).hexdigest())
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


def test_the_split_by_halves_and_by_seed(small: Path) -> None:
    _, y, part = corpus()
    by_part = rcv1.rcv1("random_projection", columns=40)
    rows = int((part[y != 0] < 8).sum())
    assert by_part.parts == {"train": slice(0, rows), "test": slice(rows, int((y != 0).sum()))}
    assert by_part.description.endswith("test part halves 8 and 9 of 10")
    drawn, again, other = (rcv1.rcv1("random_projection", 40, split_seed=seed) for seed in (3, 3, 4))
    total = len(by_part.y)
    assert drawn.parts["test"] == slice(total - round(0.2 * total), total)
    np.testing.assert_array_equal(drawn.x, again.x)
    tests = [{row.tobytes() for row in data.x[data.parts["test"]]} for data in (drawn, other)]
    assert tests[0] != tests[1]
    assert drawn.description.endswith("a fifth at random (seed 3)")
    label = {row.tobytes(): sign for row, sign in zip(by_part.x, by_part.y, strict=True)}
    assert len(label) == total
    assert all(label[row.tobytes()] == sign for row, sign in zip(drawn.x, drawn.y, strict=True))
    assert not (tests[0] & {row.tobytes() for row in drawn.x[drawn.parts["train"]]})


def test_settings_that_cannot_be_used_are_refused(small: Path) -> None:
    with pytest.raises(ConfigError, match="reduction='hash': expected one of random_projection, public_svd"):
        rcv1.rcv1("hash")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="columns=0: expected a whole number of at least 1"):
        rcv1.rcv1(columns=0)
    with pytest.raises(ConfigError, match="keep=0"):
        rcv1.rcv1(keep=0)
    public = int((corpus()[1] == 0).sum())
    with pytest.raises(DataError, match=rf"columns={public}: .* there are {public} of those .*random_projection"):
        rcv1.rcv1(columns=public)


def test_another_file_of_that_name_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rcv1, "SUBSET_SHA256", "0" * 64)
    with pytest.raises(DataError, match=f"{small}: its SHA-256 is .*, expected {'0' * 64}"):
        rcv1.sparse()


def test_absent_documents_name_every_place_and_the_official_address(nowhere: Path) -> None:
    assert not datasets.available("rcv1")
    with pytest.raises(DataError) as refusal:
        rcv1.sparse()
    official = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#rcv1.binary"
    says_where_it_looked(refusal.value, nowhere, "rcv1_v2_subset.npz", "rcv1_train.binary.bz2", official)
    assert files_under(nowhere) == set()


def test_the_official_file_is_converted_once(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = corpus()
    x, y = x[y != 0], y[y != 0]
    monkeypatch.setattr(rcv1, "TERMS", TERMS)
    monkeypatch.setattr(rcv1, "OFFICIAL_ROWS", len(y))
    asked = serve(monkeypatch, bz2.compress(official_text(x, y)))
    documents = rcv1.sparse()
    np.testing.assert_allclose(documents.x.toarray(), x.toarray(), atol=1e-6)
    np.testing.assert_array_equal(documents.y, y)
    assert documents.part is None
    rcv1._read.cache_clear()
    data = rcv1.rcv1("random_projection", columns=9)
    assert asked == [datasets.RCV1_URL]
    assert datasets.available("rcv1")
    assert data.description.startswith(f"RCV1-v2, LIBSVM's rcv1_train.binary, all {len(y)} documents, ")
    assert data.description.endswith("test part the last fifth")
    assert data.parts["test"] == slice(len(y) - round(0.2 * len(y)), len(y))
    np.testing.assert_array_equal(data.y, y)
    with pytest.raises(DataError, match=r"there are 0 of those \(RCV1-v2, LIBSVM"):
        rcv1.rcv1("public_svd", columns=2)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (bz2.compress(b"1 1:0.5\n-1 2:0.5\n"), r"2 documents, expected 3 with labels -1 and \+1; nothing was kept"),
        (bz2.compress(b"1 1:0.5\n2 2:0.5\n-1 3:1\n"), r"3 documents, expected 3 with labels -1 and \+1"),
        (bz2.compress(b"1 1:0.5\n" * 3)[:-6], "ValueError"),
        (b"<html>moved</html>", "OSError"),
        (bz2.compress(b"1 61:0.5\n" * 3), "ValueError"),
    ],
)
def test_a_broken_official_file_is_refused_and_leaves_nothing(nowhere, monkeypatch, answer, message) -> None:
    monkeypatch.setattr(rcv1, "TERMS", TERMS)
    monkeypatch.setattr(rcv1, "OFFICIAL_ROWS", 3)
    serve(monkeypatch, answer)
    with pytest.raises(DataError, match=message):
        rcv1.sparse()
    assert files_under(nowhere) == set()


@pytest.mark.parametrize("fault", ["y", "shape", "labels"])
def test_a_damaged_conversion_is_refused(nowhere, monkeypatch, fault) -> None:
    monkeypatch.setattr(rcv1, "TERMS", TERMS if fault != "shape" else TERMS + 1)
    x, y, _ = corpus()
    kept = arrays(x, y[:-1] if fault == "labels" else y)
    if fault == "y":
        del kept["y"]
    packed = io.BytesIO()
    np.savez(packed, **kept)
    (nowhere / "data" / datasets.RCV1_CONVERTED_FILE).write_bytes(packed.getvalue())
    expected = "there is no array 'y'" if fault == "y" else r"shape \(200, 60\) with (199|200) labels"
    with pytest.raises(DataError, match=rf"{expected}.*delete the file"):
        rcv1.sparse()
