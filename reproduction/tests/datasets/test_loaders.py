"""All loaders alike: files of a folder, a download that is kept, damage, absence; and the real data where they are."""

from __future__ import annotations

import bz2
import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction.tests.datasets.published import SETS, idx, needs, npz, of_organamnist, place, serve
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit.streams.dataset import Dataset, with_bias
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import ijcnn1, mnist, occupancy, organamnist, rcv1, susy

each = pytest.mark.parametrize("name", SETS)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    datasets.verify.cache_clear()
    rcv1._read.cache_clear()


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def matches(found: Dataset, made: Any) -> None:
    np.testing.assert_allclose(found.x, made.x, atol=2e-6)
    np.testing.assert_array_equal(found.y, made.y)
    assert found.x.dtype == np.float32
    assert found.y.dtype == (np.int32 if found.task == "multiclass" else np.float32)
    assert found.parts == made.parts
    assert len(found.columns) == found.x.shape[1]


@each
def test_files_of_a_folder_are_read(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    assert not datasets.available(name)
    place(made.files, nowhere / "data")
    found = loader()
    matches(found, made)
    assert found.complete == (name not in ("susy", "rcv1"))
    assert datasets.where(name).startswith(f"{name} is in {nowhere / 'data'}")


@each
def test_what_is_downloaded_is_the_same_and_is_kept(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    asked = serve(monkeypatch, made.answers)
    first = loader()
    if name == "rcv1":  # the official file has no parts
        rows = len(made.y)
        made = made._replace(
            parts={"train": slice(0, rows - round(rows / 5)), "test": slice(rows - round(rows / 5), rows)}
        )
    matches(first, made)
    count = len(asked)
    assert set(made.answers) <= set(asked)
    np.testing.assert_array_equal(loader().x, first.x)
    assert len(asked) == count
    assert str(nowhere / "cache") in datasets.where(name)


@each
@pytest.mark.parametrize("fault", ["absent", "moved", "cut off", "another edition", "no network", "full"])
def test_a_download_that_fails_is_told_with_the_remedy_and_leaves_nothing(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    last = list(made.answers)[-1]
    others = {"moved": b"<html>moved</html>", "cut off": made.answers[last][:-12]}
    others["another edition"] = {
        "susy": gzip.compress(b"1.0e+00" + b",2.5" * 18 + b"\n"),
        "rcv1": bz2.compress(b"1 1:0.5\n-1 2:0.5\n"),
        "ijcnn1": bz2.compress(b"1 1:1\n" * 6),
    }.get(name, made.answers[last] + b"x")
    if name == "occupancy":  # an archive may have a tail; its files may not
        others["another edition"] = made.answers[last].replace(b"2015-02-04", b"2016-02-04")
    without = {url: content for url, content in made.answers.items() if url != last}
    answers = {"absent": without, "no network": OSError("no route to host"), "full": made.answers}
    serve(monkeypatch, answers[fault] if fault in answers else {**made.answers, last: others[fault]})
    if fault == "full":

        def full(*_: object) -> None:
            raise OSError("disk is full")

        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError) as refusal:
        loader()
    assert kept(nowhere) == set()
    if "nothing was kept" not in str(refusal.value) or fault == "no network":
        official = datasets._KNOWN[name].official
        for words in (str(nowhere / "data"), str(nowhere / "cache" / "tacit"), "set TACIT_DATA", official):
            assert words in str(refusal.value)


@each
@pytest.mark.parametrize("fault", ["a tail", "cut off", "emptied"])
def test_a_damaged_file_is_refused_by_name(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    place(made.files, nowhere / "data")
    path = nowhere / "data" / list(made.files)[-1]
    content = path.read_bytes()
    path.write_bytes({"a tail": content + b"x", "cut off": content[: len(content) // 2], "emptied": b""}[fault])
    if (name, fault) == ("ijcnn1", "a tail"):  # its values are checked, not its bytes
        matches(loader(), made)
        return
    with pytest.raises(DataError, match=str(path)):
        loader()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DataError, match="no data set 'mnist9'; expected one of occupancy, susy, rcv1"):
        datasets.available("mnist9")


@pytest.mark.parametrize(("name", "columns"), [("occupancy", 6), ("mnist", 785), ("ijcnn1", 23), ("organamnist", 785)])
def test_an_experiment_can_name_it(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    place(SETS[name][0](monkeypatch).files, nowhere / "data")
    objective = "{kind = 'softmax', classes = 11}" if columns == 785 else "{kind = 'logistic'}"
    (nowhere / "x.toml").write_text(
        f"run = {{rounds = 2}}\ngraph = {{kind = 'ring', agents = 3}}\nstream = {{kind = '{name}', batch = 2}}\n"
        f"objective = {objective}\nalgorithm = [{{name = 'local_online', step = 0.1}}]\n"
    )
    batch = build(load(nowhere / "x.toml")).stream(0).chunk(0, 1)
    assert batch.x.shape == (1, 3, 2, columns)
    assert batch.y.dtype == (np.int32 if columns == 785 else np.float32)


def test_places_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / "cache" / "tacit"
    assert datasets.search_path() == (nowhere / "data", cache)
    monkeypatch.delenv("TACIT_DATA")
    (nowhere / "project").mkdir()
    monkeypatch.chdir(nowhere / "project")
    places = datasets.search_path()
    assert places[0] == Path(__file__).resolve().parents[4] / "shared" / "data"
    assert places[-2:] == (nowhere / "shared" / "data", cache)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(nowhere))
    assert datasets.cache_folder() == nowhere / ".cache" / "tacit"


def test_standardised_and_bias() -> None:
    x = np.array([[1, 5], [3, 5], [5, 5]], np.float32)
    raw = Dataset("toy", x, np.ones(3, np.float32), ("a", "b"), "a toy", complete=True, parts={})
    np.testing.assert_allclose(raw.standardised().x, [[-1.2247449, 0], [0, 0], [1.2247449, 0]], rtol=1e-6)
    np.testing.assert_array_equal(with_bias(x), [[1, 5, 1], [3, 5, 1], [5, 5, 1]])


# -- what one format has and no other ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", "not enough values"), (b"0 1:1", "label 0"), (b"yes 1:1", "could not convert"),
        (b"1 0:1", "index 0 after 0"), (b"1 1:1 4:1", "index 4 after 1"), (b"1 2:1 2:1", "index 2 after 2"),
        (b"1 1:nan", "nan is not finite"), (b"1 1:0.5:1", "too many values"), (b"1 a:0.5", "invalid literal"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_refused_by_its_number(line: bytes, fault: str) -> None:
    with pytest.raises(DataError, match=rf"^here\.txt, line 3: .*{fault}"):
        ijcnn1.parse(b"1 1:0.5\n-1 2:1\r\n" + line + b"\n1 1:1\n", "here.txt", 3)


@pytest.mark.parametrize("change", [(b":0.000020", b":0.000021"), (b"+1", b"-1"), (b"\n-1", b"\n")])
def test_other_values_of_ijcnn1_are_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    made = SETS["ijcnn1"][0](monkeypatch)
    text = bz2.decompress(made.files["ijcnn1/ijcnn1.val.bz2"]).replace(*change)
    place({**made.files, "ijcnn1/ijcnn1.val.bz2": bz2.compress(text)}, nowhere / "data")
    with pytest.raises(DataError, match=r"ijcnn1\.val\.bz2.*original file"):
        ijcnn1.ijcnn1()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x08", "3 bytes, fewer than the 16 of its header"),
        (idx(np.zeros((3, 4)))[:12] + bytes(12), r"says \(2050, 3, 4, 0\), expected \(2051, 3, 2, 2\)"),
        (struct.pack(">4I", 0x0D03, 3, 2, 2) + bytes(12), r"says \(3331, 3, 2, 2\)"),
        (idx(np.zeros((4, 2, 2))), r"says \(2051, 4, 2, 2\)"),
        (idx(np.zeros((3, 2, 2)))[:-1], "11 values after the header, expected 12"),
        (idx(np.zeros((3, 2, 2))) + bytes(10**6), "13 values after the header, expected 12"),
    ],
    ids=["no header", "labels", "type", "rows", "a value short", "a bomb"],
)
def test_an_idx_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=message) as refusal:
        mnist.read_idx(path, (3, 2, 2))
    assert "replace the file by the original" in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"val_images": np.zeros((5, 28, 28), np.uint8)},
            r"val_images is uint8 of shape \(5, 28, 28\), expected .*\(4,",
        ),
        ({"train_labels": np.zeros((33, 1))}, r"train_labels is float64"),
        ({"test_labels": np.full((11, 1), 11, np.uint8)}, "label 11, expected classes 0 to 10"),
        ({"test_labels": np.array([None] * 11)}, "cannot be read .*test_labels"),
        ({"test_images": None}, "cannot be read .*test_images"),
    ],
    ids=["rows", "type", "class", "pickled", "absent"],
)
def test_another_edition_of_the_organs_is_refused(nowhere: Path, monkeypatch, change: Any, message: str) -> None:
    place(of_organamnist(monkeypatch, change).files, nowhere / "data")
    with pytest.raises(DataError, match=message):
        organamnist.organamnist()


def test_organs_have_names() -> None:
    assert [organamnist.organ(name) for name in ("bladder", "left lung", "right lung", "spleen")] == [0, 7, 8, 10]
    with pytest.raises(DataError, match=r"no organ 'lung' .* expected one of bladder, left femur"):
        organamnist.organ("lung")


def test_a_subset_of_susy_of_another_size_is_refused(nowhere: Path) -> None:
    place({datasets.SUSY_DRAWN_FILE: npz(X=np.zeros((3, 18)), y=np.zeros(3))}, nowhere / "data")
    with pytest.raises(DataError, match=r"shape \(3, 18\), expected \(39930, 18\); delete the file"):
        susy.susy()


# -- the real data -----------------------------------------------------------------------------------------------------

REAL: dict[str, tuple[Any, tuple[int, int], list[int], list[int]]] = {
    "occupancy": (occupancy.occupancy, (20_560, 5), [8143, 2665, 9752], [1729, 972, 2049]),
    "susy": (susy.susy, (39_930, 18), [], []),
    "mnist": (mnist.mnist, (70_000, 784), [60_000, 10_000], []),
    "ijcnn1": (ijcnn1.ijcnn1, (141_691, 22), [35_000, 14_990, 91_701], [3415, 1438, 8712]),
    "organamnist": (organamnist.organamnist, (58_830, 784), [34_561, 6_491, 17_778], []),
}
"""Loader, shape, rows of the parts, and of those how many are +1."""


@pytest.mark.data
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in REAL])
def test_the_real_rows(name: str) -> None:
    loader, shape, rows, positive = REAL[name]
    data = loader()
    assert data.x.shape == shape
    assert [part.stop - part.start for part in data.parts.values()] == rows
    if data.task == "multiclass":
        assert (data.x.min(), data.x.max()) == (0, 1)
    else:
        assert set(np.unique(data.y)) == {-1, 1}
    if positive:
        assert [int((data.y[part] == 1).sum()) for part in data.parts.values()] == positive
    if name == "occupancy":
        np.testing.assert_allclose(data.x[0], [23.18, 27.272, 426, 721.25, 0.00479298817650529], rtol=1e-6)
    if name == "ijcnn1":
        np.testing.assert_allclose(data.x[0, 9:15], [0, -0.731854, 0.173431, 0, 0.00027, 0.011684], rtol=1e-6)
    if name == "susy":
        assert abs((data.y > 0).mean() - 0.458) < 0.005
        path = datasets.find(datasets.SUSY_FILE)
        assert path is None or tuple(np.load(path)["columns"].tolist()) == susy.COLUMNS
    if name == "mnist":
        train = data.parts["train"]
        assert np.bincount(data.y[train]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    if name == "organamnist":
        assert np.bincount(data.y[data.parts["train"]])[organamnist.organ("liver")] == 6164
