from __future__ import annotations

import bz2
import io
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.datasets.published import files_under, needs, says_where_it_looked
from tacit.config.experiment import load
from tacit.core.errors import DataError
from tacit.experiments.build import build
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import ijcnn1

ROWS = {"train": 30, "validation": 4, "test": 6}


def text(table: ijcnn1.Table, style: str) -> bytes:
    """The rows as LIBSVM has them, or as a copy has them that was written anew from numbers."""
    lines = []
    for x, y in zip(table.x, table.y, strict=True):
        if style == "official":
            cells = [f"{c}:{value:f}" for c, value in enumerate(x, start=1) if value != 0]
            lines.append(f"{int(y):+d} {' '.join(cells)} ".encode())
        else:
            cells = [f"{c}:{float(f'{value:f}')!r}" for c, value in enumerate(x, start=1)]
            lines.append(f"{y:.1f} {' '.join(cells)}".encode())
    return b"\n".join(lines) + b"\n"


def small(monkeypatch: pytest.MonkeyPatch, style: str = "official") -> tuple[dict[str, bytes], ijcnn1.Table]:
    """Three small files, taken for the originals, and all their rows."""
    rng = np.random.default_rng(0)
    files, tables, parts = {}, [], {}
    for file, (name, rows) in zip(datasets.IJCNN1_FILES, ROWS.items(), strict=True):
        x = np.round(rng.normal(size=(rows, 22)), 6) * (rng.random((rows, 22)) < 0.6)
        x[0, :2] = 0.00002, -0.0
        tables.append(ijcnn1.Table(x.astype(np.float32), np.where(np.arange(rows) % 3 == 0, 1, -1).astype(np.float32)))
        files[file] = bz2.compress(text(tables[-1], style))
        parts[name] = ijcnn1._Part(rows, ijcnn1.digest(tables[-1]))
    monkeypatch.setattr(ijcnn1, "PARTS", parts)
    return files, ijcnn1.Table(*map(np.concatenate, zip(*tables, strict=True)))


def serve(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> list[str]:
    asked: list[str] = []

    def open_url(url: str) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(files[url.removeprefix(datasets.IJCNN1_URL)])

    monkeypatch.setattr(datasets, "open_url", open_url)
    return asked


def place(files: dict[str, bytes], folder: Path) -> Path:
    folder.mkdir()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return folder


@pytest.mark.data
@needs("ijcnn1")
def test_the_real_rows() -> None:
    data = ijcnn1.ijcnn1()
    assert data.x.shape == (141_691, 22)
    assert (data.x.dtype, data.y.dtype, data.task) == (np.float32, np.float32, "binary")
    assert [s.stop - s.start for s in data.parts.values()] == [35_000, 14_990, 91_701]
    assert list(data.parts) == ["train", "validation", "test"]
    assert [int((data.y[s] == 1).sum()) for s in data.parts.values()] == [3415, 1438, 8712]
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    first = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, -0.731854, 0.173431, 0, 0.00027, 0.011684]
    np.testing.assert_allclose(data.x[0, :15], first, rtol=1e-6)
    assert data.complete


@pytest.mark.parametrize("style", ["official", "rewritten"])
def test_rows_and_parts_of_either_edition(nowhere, monkeypatch, style) -> None:
    files, expected = small(monkeypatch, style)
    folder = place(files, nowhere / "data" / "ijcnn1")
    data = ijcnn1.ijcnn1()
    np.testing.assert_allclose(data.x, expected.x, atol=1e-7)
    np.testing.assert_array_equal(data.y, expected.y)
    assert data.parts == {"train": slice(0, 30), "validation": slice(30, 34), "test": slice(34, 40)}
    assert data.columns[21] == "feature 22"
    assert data.description == "ijcnn1, all 40 rows"
    assert datasets.where("ijcnn1") == f"ijcnn1 is in {folder}"


def test_an_experiment_can_name_it(nowhere, monkeypatch) -> None:
    files, _ = small(monkeypatch)
    place(files, nowhere / "data" / "ijcnn1")
    file = nowhere / "experiment.toml"
    file.write_text(
        "run = {rounds = 2}\ngraph = {kind = 'ring', agents = 5}\n"
        "stream = {kind = 'ijcnn1', partition = {kind = 'unequal', smallest = 2, largest = 12, alpha = 1.0}}\n"
        "objective = {kind = 'logistic'}\nalgorithm = [{name = 'local_online', step = 0.1}]\n"
    )
    stream = build(load(file)).stream(0)
    assert stream.chunk(0, 1).x.shape == (1, 5, 23)
    assert len(set(stream.data_size.tolist())) > 1
    assert stream.description.endswith("shared out by unequal, smallest 2, largest 12, alpha 1")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", "not enough values"),
        (b"0 1:1", "label 0"),
        (b"yes 1:1", "could not convert"),
        (b"1 0:1", "index 0 after 0"),
        (b"1 1:1 4:1", "index 4 after 1"),
        (b"1 2:1 1:1", "index 1 after 2"),
        (b"1 2:1 2:1", "index 2 after 2"),
        (b"1 1:nan", "nan is not finite"),
        (b"1 1:0.5 2", "not enough values"),
        (b"1 1:0.5:1", "too many values"),
        (b"1 a:0.5", "invalid literal"),
        (b"1 1:", "could not convert"),
    ],
)
def test_a_malformed_line_is_refused_by_its_number(line: bytes, fault: str) -> None:
    with pytest.raises(DataError, match=rf"^here\.txt, line 3: .*{fault}.*rising indices from 1 to 3: .*original"):
        ijcnn1.parse(b"1 1:0.5\n-1 2:1\r\n" + line + b"\n1 1:1\n", "here.txt", 3)


@pytest.mark.parametrize("fault", ["cut off", "a row short", "a value changed", "labels changed"])
def test_a_damaged_file_is_refused(nowhere, monkeypatch, fault) -> None:
    files, _ = small(monkeypatch)
    path = place(files, nowhere / "data" / "ijcnn1") / "ijcnn1.val.bz2"
    lines = bz2.decompress(path.read_bytes()).splitlines(keepends=True)
    content, message = {
        "cut off": (path.read_bytes()[:-5], "cannot be unpacked"),
        "a row short": (bz2.compress(b"".join(lines[:-1])), "3 rows, expected 4"),
        "a value changed": (bz2.compress(b"".join(lines).replace(b":0.000020", b":0.000021")), "SHA-256 of its values"),
        "labels changed": (bz2.compress(b"".join(lines).replace(b"+1", b"-1")), "SHA-256 of its values"),
    }[fault]
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"^{path}: .*{message}.*: .*take the original file"):
        ijcnn1.ijcnn1()


def test_the_official_files_are_fetched_once_and_checked_by_their_values(nowhere, monkeypatch) -> None:
    files, expected = small(monkeypatch)
    asked = serve(monkeypatch, files)
    assert not datasets.available("ijcnn1")
    for _ in range(2):
        np.testing.assert_array_equal(ijcnn1.ijcnn1().y, expected.y)
    assert asked == [datasets.IJCNN1_URL + file for file in datasets.IJCNN1_FILES]
    assert datasets.local("ijcnn1") == nowhere / "cache" / "tacit" / "ijcnn1"


@pytest.mark.parametrize("answer", [b"<html>moved</html>", bz2.compress(b"1 1:1\n" * 6), bz2.compress(b"1 x\n")])
def test_a_broken_download_is_refused_and_leaves_nothing(nowhere, monkeypatch, answer) -> None:
    files, _ = small(monkeypatch)
    serve(monkeypatch, {**files, "ijcnn1.t.bz2": answer})
    with pytest.raises(
        DataError, match=r"download from .* failed .*binary/ijcnn1\.t\.bz2.* Put ijcnn1/ijcnn1\.tr\.bz2"
    ):
        ijcnn1.ijcnn1()
    assert files_under(nowhere) == set()


def test_absent_files_name_every_place_and_the_official_address(nowhere: Path) -> None:
    with pytest.raises(DataError) as refusal:
        ijcnn1.ijcnn1()
    official = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#ijcnn1"
    says_where_it_looked(refusal.value, nowhere, official)
