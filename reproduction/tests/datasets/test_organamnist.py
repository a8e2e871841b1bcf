from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.datasets.published import files_under, needs, serve
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import organamnist

ROWS = {"train": 33, "val": 4, "test": 11}


def arrays() -> dict[str, np.ndarray]:
    """The publisher's arrays, small; all organs are in the training part."""
    rng = np.random.default_rng(0)
    found = {}
    for called, rows in ROWS.items():
        found[f"{called}_images"] = rng.integers(0, 256, (rows, 28, 28), np.uint8)
        found[f"{called}_labels"] = (np.arange(rows, dtype=np.uint8) % 11)[:, None]
    return found


def packed(found: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file that is taken for the original."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **found)
    content = buffer.getvalue()
    monkeypatch.setattr(datasets, "ORGANAMNIST_SHA256", hashlib.sha256(content).hexdigest())
    parts = {name: (called, ROWS[called]) for name, (called, _) in organamnist.PARTS.items()}
    monkeypatch.setattr(organamnist, "PARTS", parts)
    return content


@pytest.fixture
def placed(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small file in the data folder."""
    path = nowhere / "data" / "organamnist.npz"
    path.write_bytes(packed(arrays(), monkeypatch))
    return path


@pytest.mark.data
@needs("organamnist")
def test_the_real_images() -> None:
    data = organamnist.organamnist()
    assert data.x.shape == (58_830, 784)
    assert (data.x.dtype, data.y.dtype, data.task) == (np.float32, np.int32, "multiclass")
    assert (data.x.min(), data.x.max()) == (0, 1)
    assert [s.stop - s.start for s in data.parts.values()] == [34_561, 6_491, 17_778]
    counts = np.bincount(data.y[data.parts["train"]]).tolist()
    assert counts == [1956, 1390, 1357, 1474, 3963, 3817, 6164, 3919, 3929, 3031, 3561]
    assert counts[organamnist.organ("liver")] == 6164


def test_rows_parts_and_scale(placed) -> None:
    data = organamnist.organamnist()
    published = arrays()
    images = np.concatenate([published[f"{called}_images"] for called in ROWS]).reshape(48, 784)
    np.testing.assert_allclose(data.x * 255, images, atol=1e-4)
    np.testing.assert_array_equal(data.y, [k % 11 for rows in ROWS.values() for k in range(rows)])
    assert data.parts == {"train": slice(0, 33), "validation": slice(33, 37), "test": slice(37, 48)}
    assert data.complete
    assert data.columns[29] == "pixel 1,1"
    assert datasets.available("organamnist")


def test_an_experiment_can_name_it(placed, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        "run = {rounds = 2}\ngraph = {kind = 'ring', agents = 5}\n"
        "stream = {kind = 'organamnist', batch = 2, standardise = false}\n"
        "objective = {kind = 'softmax', classes = 11}\nalgorithm = [{name = 'local_online', step = 0.1}]\n"
    )
    batch = build(load(file)).stream(0).chunk(0, 1)
    assert batch.x.shape == (1, 5, 2, 785)
    assert batch.y.dtype == np.int32


def test_organs_have_names() -> None:
    assert len(organamnist.ORGANS) == 11
    assert [organamnist.organ(name) for name in ("bladder", "left lung", "right lung", "spleen")] == [0, 7, 8, 10]
    with pytest.raises(DataError, match=r"no organ 'lung' .* expected one of bladder, left femur"):
        organamnist.organ("lung")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"val_images": np.zeros((5, 28, 28), np.uint8)},
            r"val_images is uint8 of shape \(5, 28, 28\), expected .*\(4,",
        ),
        ({"train_labels": np.zeros((33, 1))}, r"train_labels is float64 of shape \(33, 1\), expected uint8"),
        ({"test_labels": np.full((11, 1), 11, np.uint8)}, "label 11, expected classes 0 to 10"),
        ({"test_labels": np.array([None] * 11)}, "cannot be read .*test_labels"),
        ({"test_images": None}, "cannot be read .*test_images"),
    ],
    ids=["rows", "type", "class", "pickled", "absent"],
)
def test_another_edition_is_refused(nowhere, monkeypatch, change, message) -> None:
    found = {name: array for name, array in (arrays() | change).items() if array is not None}
    path = nowhere / "data" / "organamnist.npz"
    path.write_bytes(packed(found, monkeypatch))
    with pytest.raises(DataError, match=message) as refusal:
        organamnist.organamnist()
    assert str(path) in str(refusal.value)
    assert "replace it by the original" in str(refusal.value)


def test_a_damaged_file_is_refused(placed) -> None:
    placed.write_bytes(placed.read_bytes() + b"x")
    datasets.verify.cache_clear()
    with pytest.raises(DataError, match=f"{placed}: its SHA-256 is .*, expected"):
        organamnist.organamnist()


def test_what_is_downloaded_is_kept(nowhere, monkeypatch) -> None:
    asked = serve(monkeypatch, packed(arrays(), monkeypatch))
    assert len(organamnist.organamnist().y) == 48
    assert len(organamnist.organamnist().y) == 48
    assert asked == ["https://zenodo.org/records/10519652/files/organamnist.npz"]
    assert datasets.find("organamnist.npz") == nowhere / "cache" / "tacit" / "organamnist.npz"


@pytest.mark.parametrize("answer", [OSError("no route to host"), b"<html>moved</html>"], ids=["no network", "spoilt"])
def test_where_it_cannot_be_had_nothing_is_kept(nowhere, monkeypatch, answer) -> None:
    packed(arrays(), monkeypatch)
    serve(monkeypatch, answer)
    with pytest.raises(DataError) as refusal:
        organamnist.organamnist()
    for expected in (
        str(nowhere / "data"),
        "set TACIT_DATA",
        "Put organamnist.npz into",
        "no route to host" if isinstance(answer, OSError) else "its SHA-256 is",
        "https://medmnist.com",
    ):
        assert expected in str(refusal.value)
    assert files_under(nowhere) == set()
