from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tacit.core.errors import DataError
from tacit.streams import from_arrays, read_table

TEXT = """\
room,temperature,light,occupied
b,21.5,400,1
a,20,0,0
b,22.25,-3e2,1
"""
X = [[21.5, 400], [20, 0], [22.25, -300]]
COLUMNS = ["temperature", "light"]


def csv_file(folder: Path, text: str = TEXT, name: str = "rooms.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def parquet_file(folder: Path, **columns) -> Path:
    path = folder / "rooms.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def npz_file(folder: Path, **arrays) -> Path:
    path = folder / "rooms.npz"
    np.savez(path, **arrays)
    return path


def each_format(folder: Path) -> list[Path]:
    x, y, room = np.array(X), np.array([1, 0, 1]), ["b", "a", "b"]
    named = {"room": room, "temperature": x[:, 0], "light": x[:, 1], "occupied": y}
    return [
        csv_file(folder),
        csv_file(folder, name="rooms.csv.gz"),
        csv_file(folder, "\ufeff" + TEXT.replace("\n", "\r\n\r\n"), name="blank_lines.CSV"),
        parquet_file(folder, **named),
        npz_file(folder, **named),
        npz_file(folder / "..", X=x, columns=np.array(COLUMNS), room=np.array(room), occupied=y),
    ]


@pytest.mark.parametrize("which", range(6))
def test_every_format_gives_the_same_table(tmp_path: Path, which: int) -> None:
    (tmp_path / "inner").mkdir()
    table = read_table(each_format(tmp_path / "inner")[which], "occupied", owner="room")
    np.testing.assert_array_equal(table.x, np.array(X, np.float32))
    np.testing.assert_array_equal(table.y, [1, -1, 1])
    assert table.columns == ("temperature", "light")
    assert table.x.dtype == table.y.dtype == np.float32
    assert table.owners == ("a", "b")
    np.testing.assert_array_equal(table.owner, [1, 0, 1])
    stream = from_arrays(table.x, table.y, table.owner)
    np.testing.assert_array_equal(stream.data_size, [1, 2])


def test_features_may_be_chosen_and_ordered(tmp_path: Path) -> None:
    table = read_table(csv_file(tmp_path), "occupied", features=["light", "temperature"])
    np.testing.assert_array_equal(table.x, np.array(X, np.float32)[:, ::-1])
    assert (table.columns, table.owner, table.owners) == (("light", "temperature"), None, ())


def test_a_matrix_without_names_gets_some(tmp_path: Path) -> None:
    table = read_table(npz_file(tmp_path, X=np.array(X), y=[1, 0, 1], extra=[9, 9, 9]), "y")
    assert table.columns == ("x0", "x1")  # not `extra`: beside a matrix it must be named
    np.testing.assert_array_equal(table.x, np.array(X, np.float32))
    assert read_table(tmp_path / "rooms.npz", "y", features=["x1", "extra"]).x[0].tolist() == [400, 9]


def test_other_tasks(tmp_path: Path) -> None:
    text = "a,b\n1,0.5\n2,-7\n"
    np.testing.assert_array_equal(read_table(csv_file(tmp_path, text), "b", task="regression").y, [0.5, -7])
    several = csv_file(tmp_path, "a,b\n1,4\n2,0\n")
    found = read_table(several, "b", task="multiclass")
    assert (found.y.tolist(), found.y.dtype, found.classes) == ([1, 0], np.int32, ("0", "4"))
    assert read_table(several, "b", task="multiclass", classes=5).y.tolist() == [4, 0]


def test_true_and_false_are_labels_and_numbers(tmp_path: Path) -> None:
    table = read_table(csv_file(tmp_path, "a,b\ntrue,false\nfalse,true\n"), "b")
    assert (table.x.tolist(), table.y.tolist()) == ([[1], [0]], [-1, 1])


def test_numeric_owners_are_sorted_as_numbers(tmp_path: Path) -> None:
    table = read_table(csv_file(tmp_path, "a,b,who\n1,0,10\n2,1,9\n"), "b", owner="who")
    assert (table.owners, table.owner.tolist()) == (("9", "10"), [1, 0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("20,0,0", "20,,0", "rooms.csv, line 3, column 'light': the value is missing; fill it in"),
        ("20,0,0", "20,NA,0", "line 3, column 'light': the value is missing"),
        ("20,0,0", "20,bright,0", "line 3, column 'light': 'bright' is not a number.* features="),
        ("20,0,0", "20,1_0,0", "line 3, column 'light': '1_0' is not a number"),
        ("20,0,0", "20,inf,0", "line 3, column 'light': the value is inf"),
        ("20,0,0", "20,1e99,0", r"line 3, column 'light': the value is 1e\+99"),
        ("b,22.25", "\n\nb,x", "line 6, column 'temperature': 'x' is not a number"),
        ("-3e2,1", "-3e2,2", r"line 4, column 'occupied': 3 .*\(0, 1, 2\)"),
        ("-3e2,1", "-3e2,yes", "line 4, column 'occupied': 'yes' is not a number"),
        ("-3e2,1", "-3e2,", "line 4, column 'occupied': the value is missing"),
        ("a,20", ",20", "line 3, column 'room': the value is missing"),
        ("20,0,0", "20,0,0,7", "line 3: 5 fields, but the header names 4 columns; name every column"),
        ("light", "room", "column 'room' occurs more than once"),
        ("occupied", "busy", "no column 'occupied', only room, temperature, light, busy; name one of these"),
        (TEXT[TEXT.index("b,") :], "", "there are no rows below the header"),
        (TEXT, "", "not a CSV file that can be read .*save it as UTF-8 with a header line"),
    ],
)
@pytest.mark.parametrize("name", ["rooms.csv", "rooms.csv.gz"])
def test_a_fault_in_a_csv_file_is_named_as_seen_there(tmp_path: Path, name, old, new, message) -> None:
    assert old in TEXT
    path = csv_file(tmp_path, TEXT.replace(old, new, 1), name)
    with pytest.raises(DataError, match=message.replace("rooms.csv", name)) as refusal:
        read_table(path, "occupied", owner="room")
    assert str(path) in str(refusal.value)


def test_a_missing_header_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'y', only 1, 2.5, 0"):
        read_table(csv_file(tmp_path, "1,2.5,0\n2,3.5,1\n"), "y")


def test_text_among_features_is_one_column_per_category(tmp_path: Path) -> None:
    table = read_table(csv_file(tmp_path), "occupied")
    assert table.columns == ("room = a", "room = b", "temperature", "light")
    assert table.x[:, :2].tolist() == [[0, 1], [1, 0], [0, 1]]


def test_times_are_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2, column 'when': '2015-02-04 17:51:00'"):
        read_table(csv_file(tmp_path, "when,y\n2015-02-04 17:51:00,1\n"), "y")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_times_that_greenwich_has_not_are_refused_with_their_line(tmp_path: Path, time: str) -> None:
    (tmp_path / "a.csv").write_text(f"t,a,y\n2015-01-01T00:00:00+05:00,1,0\n{time},2,1\n")
    for asked in ({"time": "t"}, {"time_features": {"t": ["hour"]}}):
        with pytest.raises(DataError, match=rf"line 3, column 't'.*{time[:10]}"):
            read_table(tmp_path / "a.csv", label="y", **asked)


@pytest.mark.parametrize("features", [[], ["occupied"], ["light", "room"]])
def test_features_beside_label_and_owner_are_needed(tmp_path: Path, features) -> None:
    with pytest.raises(DataError, match="at least one column"):
        read_table(csv_file(tmp_path), "occupied", features=features, owner="room")


def test_faults_in_parquet(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, a=[1.0, float("nan")], b=[1, 0])
    with pytest.raises(DataError, match=r"row 2 .*row 1.*column 'a': .*missing"):
        read_table(path, "b")
    path = parquet_file(tmp_path, a=[1.0, 3.0, 2.0], b=[1, None, 0], c=["x", "y", "z"])
    with pytest.raises(DataError, match=r"row 2 .*column 'b': .*missing"):
        read_table(path, "b", features=["a"])
    path = parquet_file(tmp_path, a=[1.0, 3.0], b=[1, 0], c=["1", "z"])
    with pytest.raises(DataError, match=r"row 2 .*, column 'c': 'z' is not a number"):
        read_table(path, "b", features=["a", "c"])
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="not a Parquet file"):
        read_table(path, "b")


def test_faults_in_npz(tmp_path: Path) -> None:
    path = npz_file(tmp_path, X=np.array([[1.0, 2], [3, np.inf]]), y=[0, 1])
    with pytest.raises(DataError, match=r"row 1 .*from 0.*column 'x1': .*inf"):
        read_table(path, "y")
    with pytest.raises(DataError, match="column 'x0' has 2 .*column 'y' has 3"):
        read_table(npz_file(tmp_path, X=np.ones((2, 2)), y=[0, 1, 1]), "y")
    with pytest.raises(DataError, match="column 't': 'warm' is not a number"):
        read_table(npz_file(tmp_path, t=np.array(["4", "warm"]), y=[0, 1]), "y")
    with pytest.raises(DataError, match="column 'who' has 1 .*2"):
        read_table(npz_file(tmp_path, X=np.ones((2, 2)), y=[0, 1], who=[3]), "y", owner="who")
    with pytest.raises(DataError, match=r"row 1 .*column 'who': .*missing"):
        read_table(npz_file(tmp_path, X=np.ones((2, 2)), y=[0, 1], who=[3, np.nan]), "y", owner="who")
    with pytest.raises(DataError, match="column 'a' occurs more than once"):
        read_table(npz_file(tmp_path, X=np.ones((2, 2)), y=[0, 1], columns=np.array(["a", "a"])), "y")
    path.write_bytes(b"PK no archive")
    with pytest.raises(DataError, match="not an NPZ file"):
        read_table(path, "y")


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    touched = tmp_path / "touched"

    class Mischief:
        def __reduce__(self):
            return (Path.touch, (touched,))

    path = npz_file(tmp_path, X=np.array([[Mischief()]], object), y=[0])
    with pytest.raises(DataError, match=r"not an NPZ file.*object arrays"):
        read_table(path, "y")
    assert not touched.exists()


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.csv: .*no such file"):
        read_table(tmp_path / "none.csv", "y")
    with pytest.raises(DataError, match=r"data.xlsx: .*.csv, .csv.gz, .*.parquet, .npz"):
        read_table(tmp_path / "data.xlsx", "y")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(gzip.compress(TEXT.encode())[:-20])
    with pytest.raises(DataError, match=r"broken.csv.gz: not a CSV file"):
        read_table(broken, "occupied")
