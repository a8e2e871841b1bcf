"""All loaders alike: files of a folder, a download that is kept, damage, absence; and the real data where they are."""

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction.tests.datasets.published import SETS, corpus, needs, npz, place, serve, sparse
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import ijcnn1, mnist, occupancy, organamnist, rcv1, susy

each = pytest.mark.parametrize("name", SETS)
downloaded = pytest.mark.parametrize("name", [name for name in SETS if name != "rcv1"])


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def matches(name: str, found: Dataset, made: Any) -> None:
    signs = np.sign((found.x * made.x).sum(axis=0)) if name == "rcv1" else 1  # of singular directions
    np.testing.assert_allclose(found.x * signs, made.x, atol=1e-5)
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
    matches(name, found, made)
    assert found.complete == (name not in ("susy", "rcv1"))
    assert datasets.where(name).startswith(f"{name} is in {nowhere / 'data'}")


@downloaded
def test_what_is_downloaded_is_the_same_and_is_kept(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    asked = serve(monkeypatch, made.answers)
    first = loader()
    matches(name, first, made)
    assert set(made.answers) == set(asked)
    np.testing.assert_array_equal(loader().x, first.x)
    assert len(asked) == len(made.answers)
    assert str(nowhere / "cache") in datasets.where(name)


@downloaded
@pytest.mark.parametrize("fault", ["absent", "moved", "cut off", "another edition", "no network", "full"])
def test_a_download_that_fails_is_told_with_the_remedy_and_leaves_nothing(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    made, loader = SETS[name][0](monkeypatch), SETS[name][1]
    last = list(made.answers)[-1]
    others = {"moved": b"<html>moved</html>", "cut off": made.answers[last][:-12]}
    others["another edition"] = {
        "susy": gzip.compress(b"1.0e+00" + b",2.5" * 18 + b"\n"),
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
    for words in (nowhere / "data", nowhere / "cache" / "tacit", "set TACIT_DATA", datasets.KNOWN[name].official):
        assert str(words) in str(refusal.value)


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
        matches(name, loader(), made)
        return
    with pytest.raises(DataError, match=str(path)):
        loader()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DataError, match="no data set 'mnist9'; expected one of occupancy, susy, rcv1"):
        datasets.available("mnist9")


def test_places_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / "cache" / "tacit"
    assert datasets.search_path() == (nowhere / "data", cache)
    monkeypatch.delenv("TACIT_DATA")
    (nowhere / "project").mkdir()
    monkeypatch.chdir(nowhere / "project")
    places = datasets.search_path()
    assert places[0] == Path(__file__).resolve().parents[4] / "shared" / "data"
    assert places[-2:] == (nowhere / "shared" / "data", cache)


@pytest.mark.parametrize(("name", "columns"), [("ijcnn1", 23), ("organamnist", 785)])
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


# -- of single data sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [(b"+1 ", b"-1 "), (b":0.", b":1."), (b" 2:", b" 23:"), (b"+1 ", b"one ")])
def test_other_values_in_ijcnn1_are_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    made = SETS["ijcnn1"][0](monkeypatch)
    text = bz2.decompress(made.files["ijcnn1/ijcnn1.val.bz2"]).replace(*change)
    place({**made.files, "ijcnn1/ijcnn1.val.bz2": bz2.compress(text)}, nowhere / "data")
    with pytest.raises(DataError, match=r"ijcnn1\.val\.bz2.*original file"):
        ijcnn1.ijcnn1()


def test_a_subset_of_susy_of_another_size_is_refused(nowhere: Path) -> None:
    place({datasets.KNOWN["susy"].other: npz(X=np.zeros((3, 18)), y=np.zeros(3))}, nowhere / "data")
    with pytest.raises(DataError, match=r"shape \(3, 18\), expected \(39930, 18\); delete the file"):
        susy.susy()


def test_documents_have_norm_one_at_most_and_leave_the_projection_alone(nowhere: Path, monkeypatch) -> None:
    place(SETS["rcv1"][0](monkeypatch).files, nowhere / "data")
    (path,), (x, y, part) = datasets.local("rcv1") or [], corpus()
    data = rcv1.rcv1(3)
    norms = np.linalg.norm(data.x.astype(np.float64), axis=1)
    assert norms.max() <= 1
    np.testing.assert_allclose(norms[norms > 0], 1, atol=1e-5)
    for columns in (0, int((y == 0).sum())):
        with pytest.raises(DataError, match=f"columns={columns}: "):
            rcv1.rcv1(columns)
    other = x.tolil()
    changed = np.flatnonzero(y != 0)[50:]
    other[changed] = corpus(seed=9)[0][changed]
    path.write_bytes(sparse(other.tocsr(), y, part=part))
    rcv1.read.cache_clear()
    again = rcv1._projected(rcv1.read(path), y != 0, 3)
    again /= np.linalg.norm(again, axis=1, keepdims=True)
    np.testing.assert_allclose(again[:50], data.x[:50], atol=1e-5)


def test_documents_are_converted_and_a_damaged_conversion_is_refused(nowhere: Path, monkeypatch) -> None:
    SETS["rcv1"][0](monkeypatch)
    x, y, _ = corpus()
    rows = [(y[k], zip(x[k].indices, x[k].data, strict=True)) for k in np.flatnonzero(y)]
    text = "".join(f"{sign} " + " ".join(f"{c + 1}:{v:.6f}" for c, v in own) + "\n" for sign, own in rows)
    serve(monkeypatch, bz2.compress(text.encode()))
    (path,) = datasets.files_of("rcv1", rcv1._download)
    found = rcv1.read(path)
    np.testing.assert_allclose(found.x.toarray(), x[y != 0].toarray(), atol=1e-6)
    assert (found.y.tolist(), found.part) == (y[y != 0].tolist(), None)
    path.write_bytes(path.read_bytes().replace(b"y.npy", b"z.npy"))
    rcv1.read.cache_clear()
    with pytest.raises(DataError, match="no array 'y'; delete the file"):
        rcv1.rcv1()
    path.unlink()
    serve(monkeypatch, bz2.compress(b"1 1:0.5\n-1 2:0.5\n"))
    with pytest.raises(DataError, match="2 documents, expected"):
        rcv1.rcv1()


# -- the real data -----------------------------------------------------------------------------------------------------

REAL: dict[str, tuple[Any, tuple[int, int], list[int], list[int]]] = {
    "occupancy": (occupancy.occupancy, (20_560, 5), [8143, 2665, 9752], [1729, 972, 2049]),
    "susy": (susy.susy, (39_930, 18), [], []),
    "mnist": (mnist.mnist, (70_000, 784), [60_000, 10_000], []),
    "ijcnn1": (ijcnn1.ijcnn1, (141_691, 22), [35_000, 14_990, 91_701], [3415, 1438, 8712]),
    "organamnist": (organamnist.organamnist, (58_830, 784), [34_561, 6_491, 17_778], []),
    "rcv1": (lambda: rcv1.rcv1(20), (23_749, 20), [19_341, 4_408], []),
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
    if name == "rcv1":
        train, test = data.parts["train"], data.parts["test"]
        least_squares = np.linalg.lstsq(data.x[train], data.y[train], rcond=None)[0]
        assert (np.sign(data.x[test] @ least_squares) == data.y[test]).mean() > 0.75
    if name == "mnist":
        train = data.parts["train"]
        assert np.bincount(data.y[train]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    if name == "organamnist":
        assert np.bincount(data.y[data.parts["train"]])[organamnist.ORGANS.index("liver")] == 6164
