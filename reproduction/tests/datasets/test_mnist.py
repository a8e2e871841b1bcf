from __future__ import annotations

import gzip
import hashlib
import io
import struct
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.datasets.published import files_under, needs
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import mnist

ROWS = {"train": 40, "test": 10}
SIDE = 28


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in the publisher's format."""
    header = struct.pack(f">{1 + array.ndim}I", 0x0800 | array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def small(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, bytes], np.ndarray, np.ndarray]:
    """Four small files, taken for the originals; and the images and labels that are in them."""
    rng = np.random.default_rng(0)
    files, images, labels = {}, [], []
    for name, prefix in (("train", "train"), ("test", "t10k")):
        images.append(rng.integers(0, 256, (ROWS[name], SIDE, SIDE), np.uint8))
        labels.append(rng.permutation(np.arange(ROWS[name]) % 10))
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(idx(images[-1]), mtime=0)
        files[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels[-1]), mtime=0)
    assert files.keys() == datasets.MNIST_SHA256.keys()
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    monkeypatch.setattr(datasets, "MNIST_SHA256", sums)
    monkeypatch.setattr(mnist, "PARTS", {n: part._replace(rows=ROWS[n]) for n, part in mnist.PARTS.items()})
    return files, np.concatenate(images), np.concatenate(labels)


def serve(monkeypatch: pytest.MonkeyPatch, answers: dict[str, dict[str, bytes]]) -> list[str]:
    """Let each address have these files and no others."""
    asked: list[str] = []

    def open_url(url: str) -> io.BytesIO:
        asked.append(url)
        address, _, file = url.rpartition("/")
        found = answers.get(f"{address}/", {}).get(file)
        if found is None:
            raise OSError("404 not found")
        return io.BytesIO(found)

    monkeypatch.setattr(datasets, "open_url", open_url)
    return asked


@pytest.mark.data
@needs("mnist")
def test_the_real_images() -> None:
    data = mnist.mnist()
    assert data.x.shape == (70_000, 784)
    assert (data.x.dtype, data.y.dtype, data.task) == (np.float32, np.int32, "multiclass")
    assert (data.x.min(), data.x.max()) == (0, 1)
    train = data.parts["train"]
    assert [s.stop - s.start for s in data.parts.values()] == [60_000, 10_000]
    counts = np.bincount(data.y[train]).tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_allclose([data.x[train].mean(), data.x[train].std()], [0.1307, 0.3081], atol=1e-4)


@pytest.fixture
def placed(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray, np.ndarray]:
    """The small files in the data folder."""
    files, images, labels = small(monkeypatch)
    folder = nowhere / "data" / "mnist"
    folder.mkdir()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return folder, images, labels


def test_rows_parts_and_scale(placed) -> None:
    _, images, labels = placed
    data = mnist.mnist()
    np.testing.assert_allclose(data.x * 255, images.reshape(50, 784), atol=1e-4)
    np.testing.assert_array_equal(data.y, labels)
    assert data.parts == {"train": slice(0, 40), "test": slice(40, 50)}
    assert data.complete
    assert len(data.columns) == 784
    assert data.columns[29] == "pixel 1,1"
    assert data.description == "MNIST, all 50 images, grey values from 0 to 1"
    assert datasets.available("mnist")


def test_an_experiment_can_name_it(placed, tmp_path: Path) -> None:
    """`tacit run` with kind = "mnist": classes stay classes, so that softmax can be learnt."""
    file = tmp_path / "experiment.toml"
    file.write_text(
        "run = {rounds = 2}\ngraph = {kind = 'ring', agents = 5}\n"
        "stream = {kind = 'mnist', batch = 4, standardise = false,"
        " partition = {kind = 'label_shards', shards_per_agent = 1}}\n"
        "objective = {kind = 'softmax', classes = 10}\nalgorithm = [{name = 'local_online', step = 0.1}]\n"
    )
    stream = build(load(file)).stream(0)
    batch = stream.chunk(0, 1)
    assert batch.x.shape == (1, 5, 4, 785)
    assert batch.y.dtype == np.int32
    assert len(np.unique(batch.y)) > 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", "cannot be unpacked"),
        (gzip.compress(idx(np.zeros((3, 2, 2))))[:-9], "cannot be unpacked .* it is cut off or no gzip file"),
        (gzip.compress(b"\0\0\x08"), "3 bytes, fewer than the 16 of its header"),
        (gzip.compress(idx(np.zeros((3, 4)))[:12] + bytes(12)), r"says \(2050, 3, 4, 0\), expected \(2051, 3, 2, 2\)"),
        (gzip.compress(struct.pack(">4I", 0x0D03, 3, 2, 2) + bytes(12)), r"says \(3331, 3, 2, 2\), expected \(2051,"),
        (gzip.compress(idx(np.zeros((4, 2, 2)))), r"says \(2051, 4, 2, 2\), expected \(2051, 3, 2, 2\)"),
        (gzip.compress(idx(np.zeros((3, 2, 2)))[:-1]), "11 values after the header, expected 12; it is cut off"),
        (gzip.compress(idx(np.zeros((3, 2, 2))) + b"x"), "13 values after the header, expected 12"),
    ],
    ids=["no gzip", "cut off", "no header", "labels", "type", "rows", "a value short", "a value more"],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refusal:
        mnist.read_idx(path, (3, 2, 2))
    assert str(path) in str(refusal.value)
    assert "replace the file by the original" in str(refusal.value)


def test_an_idx_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(np.arange(12).reshape(3, 2, 2))))
    np.testing.assert_array_equal(mnist.read_idx(path, (3, 2, 2)), np.arange(12).reshape(3, 2, 2))


def test_a_damaged_file_is_refused(placed) -> None:
    folder, _, _ = placed
    path = folder / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes() + b"x")
    datasets.verify.cache_clear()
    with pytest.raises(DataError, match=f"{path}: its SHA-256 is .*, expected"):
        mnist.mnist()


def test_labels_and_images_must_be_of_one_number(placed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "PARTS", {n: part._replace(rows=39) for n, part in mnist.PARTS.items()})
    with pytest.raises(DataError, match=r"says \(2051, 40, 28, 28\), expected \(2051, 39, 28, 28\)"):
        mnist.mnist()


@pytest.mark.parametrize("fault", ["absent", "spoilt"])
def test_the_mirror_is_asked_where_the_official_address_fails(nowhere, monkeypatch, fault) -> None:
    files, _, labels = small(monkeypatch)
    spoilt = {} if fault == "absent" else dict.fromkeys(files, b"<html>moved</html>")
    asked = serve(monkeypatch, {datasets.MNIST_URL: spoilt, datasets.MNIST_MIRROR: files})
    np.testing.assert_array_equal(mnist.mnist().y, labels)
    assert len(asked) == 8
    assert datasets.local("mnist") == nowhere / "cache" / "tacit" / "mnist"
    mnist.mnist()
    assert len(asked) == 8, "what was downloaded is kept"


def test_where_one_file_cannot_be_had_nothing_is_kept(nowhere, monkeypatch) -> None:
    files, _, _ = small(monkeypatch)
    last = "t10k-labels-idx1-ubyte.gz"
    serve(monkeypatch, {datasets.MNIST_URL: {**files, last: b"?"}, datasets.MNIST_MIRROR: {}})
    with pytest.raises(DataError) as refusal:
        mnist.mnist()
    for expected in (
        str(nowhere / "data"),
        str(nowhere / "cache" / "tacit"),
        f"{datasets.MNIST_URL}{last}: its SHA-256 is",
        f"{datasets.MNIST_MIRROR}{last}: OSError: 404 not found",
        "set TACIT_DATA",
        "mnist/train-images-idx3-ubyte.gz",
    ):
        assert expected in str(refusal.value)
    assert files_under(nowhere) == set()
