from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.datasets.published import files_under, needs, says_where_it_looked, serve
from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset, with_bias
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import occupancy, susy

HEADER = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'


def small_occupancy(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Three files in the publisher's format, small, taken for the originals."""
    contents, parts = {}, {}
    for name, part in occupancy.PARTS.items():
        rows = "".join(f'"{r}","2015-02-04 17:5{r}:00",23.{r},27,4{r}6,700,0.004,{r % 2}\n' for r in range(4))
        contents[part.file] = (HEADER + rows + f'"9",2015-02-05 01:00:00,{len(parts)},1,2,3,4,1\n').encode()
        parts[name] = part._replace(rows=5, sha256=hashlib.sha256(contents[part.file]).hexdigest())
    monkeypatch.setattr(occupancy, "PARTS", parts)
    return contents


def zipped(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.data
@needs("occupancy")
def test_occupancy_has_the_published_counts_and_shares() -> None:
    data = occupancy.occupancy()
    assert data.x.shape == (20_560, 5)
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.float32)
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    assert [s.stop - s.start for s in data.parts.values()] == [8143, 2665, 9752]
    assert [int((data.y[s] > 0).sum()) for s in data.parts.values()] == [1729, 972, 2049]
    assert [int(100 * (data.y[s] > 0).mean()) for s in data.parts.values()] == [21, 36, 21]
    np.testing.assert_allclose(data.x[0], [23.18, 27.272, 426, 721.25, 0.00479298817650529], rtol=1e-6)
    assert data.complete
    assert data.columns == ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
    assert "all 20,560 rows" in data.description


@pytest.mark.data
@needs("susy")
def test_susy_is_a_subset_and_says_so() -> None:
    data = susy.susy()
    assert data.x.shape == (39_930, 18)
    assert len(data.columns) == 18
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    assert abs((data.y > 0).mean() - 0.458) < 0.005
    assert not data.complete
    assert data.description.startswith("SUSY, a random subset of 39,930 of 5,000,000 rows")


@pytest.mark.data
@needs("susy")
def test_the_column_names_are_those_of_the_prepared_file() -> None:
    path = datasets.find(datasets.SUSY_FILE)
    if path is None:
        pytest.skip(f"only the subset drawn from the official file is here: {datasets.where('susy')}")
    with np.load(path) as archive:
        assert tuple(archive["columns"].tolist()) == susy.COLUMNS


def test_absent_data_name_every_place_and_the_official_address(nowhere: Path) -> None:
    assert not datasets.available("occupancy")
    assert datasets.where("occupancy").startswith("occupancy (occupancy/datatraining.txt, ")
    with pytest.raises(DataError) as refusal:
        occupancy.occupancy()
    official = "https://archive.ics.uci.edu/dataset/357/occupancy+detection"
    says_where_it_looked(refusal.value, nowhere, "occupancy/datatest2.txt", official)
    with pytest.raises(DataError, match=r"susy_subset.npz.*https://archive.ics.uci.edu/dataset/279/susy"):
        susy.susy()
    assert files_under(nowhere) == set()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DataError, match="no data set 'mnist9'; expected one of occupancy, susy, rcv1"):
        datasets.available("mnist9")


def test_occupancy_is_downloaded_once_and_verified(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = small_occupancy(monkeypatch)
    asked = serve(monkeypatch, zipped(contents))
    data = occupancy.occupancy()
    assert data.x.shape == (15, 5)
    assert data.x[[4, 9, 14], 0].tolist() == [0, 1, 2]  # train, test, test2
    assert data.y[:5].tolist() == [-1, 1, -1, 1, 1]
    assert files_under(nowhere) == set(contents)
    assert datasets.available("occupancy")
    assert str(nowhere / "cache") in datasets.where("occupancy")
    np.testing.assert_array_equal(occupancy.occupancy().x, data.x)
    assert asked == [datasets.OCCUPANCY_URL]


@pytest.mark.parametrize("victim", ["datatraining.txt", "datatest2.txt"])
def test_a_download_with_another_checksum_is_refused_and_leaves_nothing(nowhere, monkeypatch, victim) -> None:
    contents = small_occupancy(monkeypatch)
    serve(monkeypatch, zipped(contents | {victim: contents[victim] + b" "}))
    with pytest.raises(DataError, match=rf"{victim} from .*: its SHA-256 is \w+, expected \w+; nothing was kept"):
        occupancy.occupancy()
    assert files_under(nowhere) == set()


def test_a_broken_archive_is_refused_and_leaves_nothing(nowhere, monkeypatch) -> None:
    contents = small_occupancy(monkeypatch)
    for answer, fault in (
        (zipped(contents)[:-30], "BadZipFile"),
        (zipped({"datatest.txt": contents["datatest.txt"]}), "KeyError"),
        (TimeoutError("timed out"), "timed out"),
    ):
        serve(monkeypatch, answer)
        with pytest.raises(DataError, match=rf"the download from .* failed \(.*{fault}"):
            occupancy.occupancy()
    assert files_under(nowhere) == set()


def test_a_write_that_fails_leaves_nothing(nowhere, monkeypatch) -> None:
    contents = small_occupancy(monkeypatch)
    serve(monkeypatch, zipped(contents))

    def full(*_: object) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match="disk is full"):
        occupancy.occupancy()
    assert files_under(nowhere) == set()


def test_a_changed_file_is_refused(nowhere, monkeypatch) -> None:
    contents = small_occupancy(monkeypatch)
    folder = nowhere / "data" / "occupancy"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content.replace(b"23.1", b"23.2"))
    with pytest.raises(DataError, match=r"datatraining.txt: its SHA-256 is .*, expected .*; the file is damaged"):
        occupancy.occupancy()


def test_a_file_with_missing_rows_is_refused(nowhere, monkeypatch) -> None:
    contents = small_occupancy(monkeypatch)
    part = occupancy.PARTS["test"]
    monkeypatch.setitem(occupancy.PARTS, "test", part._replace(rows=6))
    serve(monkeypatch, zipped(contents))
    with pytest.raises(DataError, match=r"datatest.txt: 5 rows, expected 6"):
        occupancy.occupancy()


def susy_text(rows: int) -> bytes:
    return "".join(f"{r % 2}.0e+00," + ",".join([f"{r}.5"] * 18) + "\n" for r in range(rows)).encode()


def test_susy_is_drawn_from_the_official_file(nowhere, monkeypatch) -> None:
    monkeypatch.setattr(susy, "ROWS", 50)
    monkeypatch.setattr(susy, "SUBSET_ROWS", 20)
    asked = serve(monkeypatch, gzip.compress(susy_text(50)))
    data = susy.susy()
    number = data.x[:, 0] - 0.5
    assert data.x.shape == (20, 18)
    assert len(set(number.tolist())) == 20
    assert (data.x == data.x[:, :1]).all()
    np.testing.assert_array_equal(data.y, np.where(number % 2 == 1, 1, -1))
    assert data.description.endswith("20 of 50 rows, drawn from the official file with a fixed seed")
    np.testing.assert_array_equal(susy.susy().x, data.x)
    assert asked == [datasets.SUSY_URL]
    assert datasets.available("susy")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (gzip.compress(susy_text(49)), "49 rows, expected 50; nothing was kept"),
        (gzip.compress(susy_text(50))[:-12], "EOFError"),
        (b"<html>moved</html>", "BadGzipFile"),
        (gzip.compress(b"not,a,number\n" * 50), "ValueError"),
    ],
    ids=["a row short", "cut off", "no archive", "no numbers"],  # the bytes of an archive hold the time
)
def test_a_broken_official_susy_is_refused_and_leaves_nothing(nowhere, monkeypatch, answer, message) -> None:
    monkeypatch.setattr(susy, "ROWS", 50)
    monkeypatch.setattr(susy, "SUBSET_ROWS", 20)
    serve(monkeypatch, answer)
    with pytest.raises(DataError, match=message):
        susy.susy()
    assert files_under(nowhere) == set()


def test_a_subset_of_another_size_is_refused(nowhere) -> None:
    np.savez(nowhere / "data" / datasets.SUSY_DRAWN_FILE, X=np.zeros((3, 18)), y=np.zeros(3))
    with pytest.raises(DataError, match=r"shape \(3, 18\), expected \(39930, 18\); delete the file"):
        susy.susy()


def test_a_prepared_subset_must_be_the_known_one(nowhere) -> None:
    np.savez(nowhere / "data" / datasets.SUSY_FILE, X=np.zeros((3, 18)), y=np.zeros(3))
    with pytest.raises(DataError, match=f"expected {susy.SHA256}"):
        susy.susy()


def test_places_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / "cache" / "tacit"
    assert datasets.search_path() == (nowhere / "data", cache)
    monkeypatch.delenv("TACIT_DATA")
    (nowhere / "project").mkdir()
    monkeypatch.chdir(nowhere / "project")
    places = datasets.search_path()
    assert places[-2:] == (nowhere / "shared" / "data", cache)
    checkout = Path(__file__).resolve().parents[3]
    assert places[0] == checkout.parent / "shared" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(nowhere))
    assert datasets.cache_folder() == nowhere / ".cache" / "tacit"


def test_standardised_and_bias() -> None:
    x = np.array([[1, 5], [3, 5], [5, 5]], np.float32)
    raw = Dataset("toy", x, np.ones(3, np.float32), ("a", "b"), "a toy", complete=True, parts={})
    scaled = raw.standardised()
    np.testing.assert_allclose(scaled.x, [[-1.2247449, 0], [0, 0], [1.2247449, 0]], rtol=1e-6)
    assert scaled.description == "a toy, columns standardised"
    np.testing.assert_array_equal(raw.x, x)
    np.testing.assert_array_equal(with_bias(x), [[1, 5, 1], [3, 5, 1], [5, 5, 1]])
    assert with_bias(x).dtype == np.float32
