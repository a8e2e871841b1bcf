"""All loaders alike: files of a folder, a download that is kept, damage, absence; and the real data where they are."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from reproduction.tests.datasets.published import SETS, Published, corpus, needs, npz, place, serve, sparse
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import ijcnn1, organamnist, rcv1, susy

each = pytest.mark.parametrize("name", SETS)
downloaded = pytest.mark.parametrize("name", [name for name in SETS if name != "rcv1"])


class Known(NamedTuple):
    made: Published
    loader: Callable[[], Any]
    folder: Path
    cache: Path


@pytest.fixture
def known(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Known:
    """A small edition of a data set that is nowhere yet."""
    return Known(SETS[name][0](monkeypatch), SETS[name][1], nowhere / "data", nowhere / "cache")


def matches(name: str, found: Dataset, made: Published) -> None:
    signs = np.sign((found.x * made.x).sum(axis=0)) if name == "rcv1" else 1  # of singular directions
    np.testing.assert_allclose(found.x * signs, made.x, atol=1e-5)
    np.testing.assert_array_equal(found.y, made.y)
    labels = np.int32 if found.task == "multiclass" else np.float32
    assert (found.x.dtype, found.y.dtype, found.parts) == (np.float32, labels, made.parts)
    assert len(found.columns) == found.x.shape[1]


@each
def test_files_of_a_folder_are_read(known: Known, name: str) -> None:
    assert not datasets.available(name)
    place(known.made.files, known.folder)
    found = known.loader()
    matches(name, found, known.made)
    assert found.complete == (name not in ("susy", "rcv1"))
    assert datasets.where(name).startswith(f"{name} is in {known.folder}")


@downloaded
def test_what_is_downloaded_is_the_same_and_is_kept(known: Known, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asked = serve(monkeypatch, known.made.answers)
    first = known.loader()
    matches(name, first, known.made)
    assert set(known.made.answers) == set(asked)
    np.testing.assert_array_equal(known.loader().x, first.x)
    assert len(asked) == len(known.made.answers)
    assert str(known.cache) in datasets.where(name)


@downloaded
@pytest.mark.parametrize("fault", ["absent", "moved", "cut off", "another edition", "no network", "full"])
def test_a_download_that_fails_is_told_with_the_remedy_and_leaves_nothing(
    known: Known, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    whole = known.made.answers
    last = list(whole)[-1]
    editions = {
        "susy": gzip.compress(b"1.0e+00" + b",2.5" * 18 + b"\n"), "ijcnn1": bz2.compress(b"1 1:1\n" * 6),
        # An archive may have a tail; its files may not.
        "occupancy": whole[last].replace(b"2015-02-04", b"2016-02-04")}  # fmt: skip
    answers: dict[str, Any] = {
        "absent": {url: content for url, content in whole.items() if url != last}, "full": whole,
        "no network": OSError("no route to host"), "moved": {**whole, last: b"<html>moved</html>"},
        "cut off": {**whole, last: whole[last][:-12]},
        "another edition": {**whole, last: editions.get(name, whole[last] + b"x")}}  # fmt: skip
    serve(monkeypatch, answers[fault])
    if fault == "full":

        def full(*_: object) -> None:
            raise OSError("disk is full")

        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError) as refusal:
        known.loader()
    assert not [path for path in known.folder.parent.rglob("*") if path.is_file()]
    for words in (known.folder, known.cache / "tacit", "set TACIT_DATA", datasets.KNOWN[name].official):
        assert str(words) in str(refusal.value)


@each
@pytest.mark.parametrize("fault", ["a tail", "cut off", "emptied"])
def test_a_damaged_file_is_refused_by_name(known: Known, name: str, fault: str) -> None:
    place(known.made.files, known.folder)
    path = known.folder / list(known.made.files)[-1]
    content = path.read_bytes()
    path.write_bytes({"a tail": content + b"x", "cut off": content[: len(content) // 2], "emptied": b""}[fault])
    if (name, fault) == ("ijcnn1", "a tail"):  # its values are checked, not its bytes
        matches(name, known.loader(), known.made)
        return
    with pytest.raises(DataError, match=str(path)):
        known.loader()


def test_places_in_order_and_an_unknown_name(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / "cache" / "tacit"
    assert datasets.search_path() == (nowhere / "data", cache)
    monkeypatch.delenv("TACIT_DATA")
    (nowhere / "project").mkdir()
    monkeypatch.chdir(nowhere / "project")
    places = datasets.search_path()
    assert places[0] == Path(__file__).resolve().parents[4] / "shared" / "data"
    assert places[-2:] == (nowhere / "shared" / "data", cache)
    with pytest.raises(DataError, match="no data set 'mnist9'; expected one of occupancy, susy, rcv1"):
        datasets.available("mnist9")


@pytest.mark.parametrize(("name", "columns"), [("ijcnn1", 23), ("organamnist", 785)])
def test_an_experiment_can_name_it(known: Known, name: str, columns: int) -> None:
    place(known.made.files, known.folder)
    objective = "{kind = 'softmax', classes = 11}" if columns == 785 else "{kind = 'logistic'}"
    file = known.cache.with_name("x.toml")
    file.write_text(
        f"run = {{rounds = 2}}\ngraph = {{kind = 'ring', agents = 3}}\nstream = {{kind = '{name}', batch = 2}}\n"
        f"objective = {objective}\nalgorithm = [{{name = 'local_online', step = 0.1}}]\n")  # fmt: skip
    batch = build(load(file)).stream(0).chunk(0, 1)
    assert batch.x.shape == (1, 3, 2, columns)
    assert batch.y.dtype == (np.int32 if columns == 785 else np.float32)


# -- of single data sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ijcnn1"])
@pytest.mark.parametrize("change", [(b"+1 ", b"-1 "), (b":0.", b":1."), (b" 2:", b" 23:"), (b"+1 ", b"one ")])
def test_other_values_in_ijcnn1_are_refused(known: Known, change: Any) -> None:
    text = bz2.decompress(known.made.files["ijcnn1/ijcnn1.val.bz2"]).replace(*change)
    place({**known.made.files, "ijcnn1/ijcnn1.val.bz2": bz2.compress(text)}, known.folder)
    with pytest.raises(DataError, match=r"ijcnn1\.val\.bz2.*original file"):
        ijcnn1.ijcnn1()


def test_a_subset_of_susy_of_another_size_is_refused(nowhere: Path) -> None:
    place({datasets.KNOWN["susy"].other: npz(X=np.zeros((3, 18)), y=np.zeros(3))}, nowhere / "data")
    with pytest.raises(DataError, match=r"shape \(3, 18\), expected \(39930, 18\); delete the file"):
        susy.susy()


@pytest.mark.parametrize("name", ["rcv1"])
def test_documents_have_norm_one_at_most_and_leave_the_projection_alone(known: Known) -> None:
    place(known.made.files, known.folder)
    (path,), (x, y, part) = datasets.local("rcv1") or [], corpus()
    data = rcv1.rcv1(3)
    norms = np.linalg.norm(data.x.astype(np.float64), axis=1)
    assert norms.max() <= 1
    np.testing.assert_allclose(norms[norms > 0], 1, atol=1e-5)
    for columns in (0, int((y == 0).sum())):
        with pytest.raises(DataError, match=f"columns={columns}: "):
            rcv1.rcv1(columns)
    other, changed = x.tolil(), np.flatnonzero(y != 0)[50:]
    other[changed] = corpus(seed=9)[0][changed]
    path.write_bytes(sparse(other.tocsr(), y, part=part))
    rcv1.read.cache_clear()
    again = rcv1._projected(rcv1.read(path), y != 0, 3)
    again /= np.linalg.norm(again, axis=1, keepdims=True)
    np.testing.assert_allclose(again[:50], data.x[:50], atol=1e-5)


@pytest.mark.parametrize("name", ["rcv1"])
def test_documents_are_converted_and_a_damaged_conversion_is_refused(known: Known, monkeypatch) -> None:
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


def right_of_least_squares(data: Dataset) -> float:
    train, test = data.parts["train"], data.parts["test"]
    weights = np.linalg.lstsq(data.x[train], data.y[train], rcond=None)[0]
    return float((np.sign(data.x[test] @ weights) == data.y[test]).mean())


REAL: dict[str, tuple[tuple[int, int], list[int], list[int], Callable[[Dataset], Any], Any]] = {
    "occupancy": ((20_560, 5), [8143, 2665, 9752], [1729, 972, 2049], lambda data: data.x[0],
                  [23.18, 27.272, 426, 721.25, 0.00479298817650529]),
    "susy": ((39_930, 18), [], [], lambda data: (data.y > 0).mean(), pytest.approx(0.458, abs=0.005)),
    "mnist": ((70_000, 784), [60_000, 10_000], [], lambda data: np.bincount(data.y[data.parts["train"]]),
              [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
    "ijcnn1": ((141_691, 22), [35_000, 14_990, 91_701], [3415, 1438, 8712], lambda data: data.x[0, 9:15],
               [0, -0.731854, 0.173431, 0, 0.00027, 0.011684]),
    "organamnist": ((58_830, 784), [34_561, 6_491, 17_778], [], lambda data: np.bincount(
        data.y[data.parts["train"]])[organamnist.ORGANS.index("liver")], 6164),
    "rcv1": ((23_749, 20), [19_341, 4_408], [], lambda data: right_of_least_squares(data) > 0.75, True),
}  # fmt: skip
"""Name -> shape, rows of the parts, of those how many are +1, and something that is known of the rows."""


@pytest.mark.data
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in REAL])
def test_the_real_rows(name: str) -> None:
    shape, rows, positive, of_rows, wanted = REAL[name]
    data = rcv1.rcv1(20) if name == "rcv1" else SETS[name][1]()
    assert (data.x.shape, [part.stop - part.start for part in data.parts.values()]) == (shape, rows)
    if data.task == "multiclass":
        assert (data.x.min(), data.x.max()) == (0, 1)
    else:
        assert set(np.unique(data.y)) == {-1, 1}
    assert [int((data.y[part] == 1).sum()) for part in data.parts.values()] == (
        positive or [0] * len(rows)
    ) or not positive
    found = of_rows(data)
    if isinstance(wanted, list):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    else:
        assert found == wanted
