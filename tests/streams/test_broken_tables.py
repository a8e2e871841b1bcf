"""Tables that are broken in the ways in which files are: the right result, or a refusal with place and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.streams import SqlQuery, read_owners, read_table, scaled
from tests.streams import broken_tables
from tests.streams.broken_tables import COLUMNS, ROWS, lines, written

X = np.array([[float(row[1]), float(row[2]), row[3] == "cœur", row[3] == "général"] for row in ROWS], np.float32)
Y = [1 if row[4] == "yes" else -1 for row in ROWS]
OWNERS = ("Arles", "Cork", "Zürich")


def read(data: Any, **settings: Any) -> Any:
    return read_table(data, "again", owner="clinic", **settings)


def refused(*words: str, call: Any = read, **settings: Any) -> str:
    """Return the refusal, having looked for its place and remedy."""
    with pytest.raises(TacitError) as caught:
        call(**settings)
    said = str(caught.value)
    for word in words:
        assert word in said, said
    return said


def check_whole(table: Any) -> None:
    """The six rows as they were meant."""
    assert table.columns == ("age", "cost", "ward = cœur", "ward = général")
    np.testing.assert_array_equal(table.x, X)
    assert (table.y.tolist(), table.owners) == (Y, OWNERS)


# -- encoding


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_that_are_known_by_themselves(tmp_path: Path, code: str) -> None:
    check_whole(read(broken_tables.encoding(tmp_path, code=code)))


def test_another_encoding_is_refused_with_its_byte_and_read_if_named(tmp_path: Path) -> None:
    path = broken_tables.encoding(tmp_path)
    place = path.read_bytes().index("é".encode("cp1252"))
    refused("line 2", "field 4", f"byte {place} ", "'général'", 'encoding = "cp1252"', data=path)
    check_whole(read(path, encoding="cp1252"))
    check_whole(read(broken_tables.encoding(tmp_path, code="utf-8"), encoding="cp1252"))  # it says itself what it is
    packed = broken_tables.written(tmp_path / "le.csv", lines(COLUMNS, ROWS).encode("utf-16-le"))
    refused("line 1", 'encoding = "utf-16-le"', data=packed)
    check_whole(read(packed, encoding="utf-16-le"))
    refused("line 2", "0x8f", data=broken_tables.written(path, b"clinic,age,again\nA\x8f,1,2\n"), encoding="cp1252")
    refused("encoding", "'klingon'", data=path, encoding="klingon")


def test_bytes_in_a_frame_are_no_words() -> None:
    import pyarrow as pa

    frame = pa.table({"ward": [b"general", b"heart"], "cost": [b"\xff\xfe", b"a"], "again": [0, 1]})
    assert read_table(frame, "again", ["ward"]).columns == ("ward = general", "ward = heart")
    refused("row 0", "'cost'", "binary", call=read_table, data=frame, label="again", features=["cost"])


# -- separator, decimal mark, quotes


def test_separator_and_decimal_comma_are_hinted_at(tmp_path: Path) -> None:
    path = broken_tables.separator(tmp_path)
    refused("line 1", "separator = ';'", "decimal = ','", data=path)
    refused("line 2", "'cost'", "'4,5'", "decimal = ','", data=path, separator=";")
    check_whole(read(path, separator=";", decimal=","))
    for mark, name in (("\t", "tab.tsv"), ("|", "bar.txt")):
        other = written(tmp_path / name, lines(COLUMNS, ROWS, mark).encode())
        check_whole(read(other, separator=None if mark == "\t" else mark))
    refused("line 1", "separator = ','", data=broken_tables.encoding(tmp_path, code="utf-8"), separator=";")
    refused("separator", "';;'", data=path, separator=";;")
    refused("separator", "decimal", data=path, separator=",", decimal=",")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("1,234", "2,000"), ("'1,234'", "decimal")),
        (("1.234.567", "2"), ("'1.234.567'",)),
        (("12 %", "3 %"), ("'12 %'", "categories")),
        (("1.5", "1.234,5"), ("'1.234,5'",)),
        (("0x10", "3"), ("'0x10'",)),
    ],
)
def test_numbers_with_marks_are_not_guessed_at(tmp_path: Path, values: tuple[str, str], words: tuple[str, ...]) -> None:
    text = lines(("cost", "y"), [(f'"{value}"', str(k)) for k, value in enumerate(values)])
    refused("line", "'cost'", *words, call=read_table, data=written(tmp_path / "a.csv", text.encode()), label="y")


def test_a_point_is_no_decimal_mark_where_the_comma_is(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"cost;y\n1,5;0\n1.234;1\n")
    refused("line 3", "'1.234'", call=read_table, data=path, label="y", separator=";", decimal=",")


def test_quotes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b'ward,y\n"a, b",0\n"c ""d""",1\n')
    assert read_table(path, "y").columns == ("ward = a, b", 'ward = c "d"')
    inches = written(tmp_path / "b.csv", b'size,y\n"5 inch,0\n6 inch,1\n7 inch,0\n')
    refused("line 2", 'quote = ""', call=read_table, data=inches, label="y")
    assert len(read_table(inches, "y", quote="").y) == 3
    closed = written(tmp_path / "d.csv", inches.read_bytes() + b'"8 inch,1\n')  # an even number, and rows lost
    refused("line 2", 'quote = ""', call=read_table, data=closed, label="y")
    marks = written(tmp_path / "e.csv", b'size,y\n5" pipe,0\n6" pipe,1\n7" pipe,1\n')
    assert len(read_table(marks, "y").columns) == 3
    single = written(tmp_path / "c.csv", b"ward,y\n'a, b',0\nc,1\n")
    assert read_table(single, "y", quote="'").columns == ("ward = a, b", "ward = c")


def test_ends_of_lines(tmp_path: Path) -> None:
    for end in ("\r\n", "\r"):
        path = written(tmp_path / "a.csv", lines(COLUMNS, ROWS).replace("\n", end).encode())
        check_whole(read(path))
        text = lines(COLUMNS, broken_tables.changed("age", r4="old")).replace("\n", end)
        refused("line 5", "'old'", data=written(path, text.encode()))


def test_a_name_may_hold_a_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a|b,y\n1,0\n2,1\n")
    assert read_table(path, "y").columns == ("a|b",)


def test_codes_keep_their_zeros_where_they_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"code,y\n01067,01\n1067,02\n")
    table = read_table(path, "y", categories={"code": ["01067", "1067"]}, classes=["02", "01"])
    assert (table.x.tolist(), table.y.tolist()) == ([[1, 0], [0, 1]], [1, -1])


# -- gaps


def test_marks_of_gaps_are_hinted_at_wherever_they_stand(tmp_path: Path) -> None:
    for column in ("age", "ward", "clinic", "again"):
        refused("line 4", repr(column), "'?'", 'missing_marks = ["?"]', data=broken_tables.gaps(tmp_path, column))
    table = read(broken_tables.gaps(tmp_path, "age"), missing_marks=["?"], missing="indicate")
    assert table.x[2, :2].tolist() == [0, 1]
    assert table.columns[:2] == ("age", "age is missing")
    refused("line 4", "'clinic'", "missing", data=broken_tables.gaps(tmp_path, "clinic"), missing_marks=["?"])
    assert "ward = ?" in read(broken_tables.gaps(tmp_path, "ward"), missing_marks=[]).columns  # if that is what it is
    refused("line 4", "'age'", "missing", data=broken_tables.gaps(tmp_path, "age", mark=" NA "))


def test_plus_and_minus_are_words(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"test,y\n+,0\n-,1\n")
    assert read_table(path, "y").columns == ("test = +", "test = -")


def test_blanks_around_words_are_none(tmp_path: Path) -> None:
    rows = [(row[0], f" {row[1]}", *row[2:3], f"{row[3]}  ", f" {row[4]} ") for row in ROWS]
    check_whole(read(written(tmp_path / "a.csv", lines([f" {name}" for name in COLUMNS], rows).encode())))


# -- classes


def test_seven_classes_from_one_to_seven(tmp_path: Path) -> None:
    table = read_table(broken_tables.classes(tmp_path), "kind", task="multiclass")
    assert table.classes == tuple("1234567")
    assert table.y.tolist() == [2, 0, 6, 1, 4, 5, 3, 0]
    refused("line 4", "7 ", call=read_table, data=broken_tables.classes(tmp_path), label="kind")
    two = read_table(broken_tables.classes(tmp_path, ("2", "1", "2")), "kind")
    assert (two.classes, two.y.tolist()) == (("1", "2"), [1, -1, 1])
    numbers = read_table(broken_tables.classes(tmp_path, ("1.0", "2.0")), "kind", classes=["2", "1"])
    assert numbers.y.tolist() == [1, -1]


# -- dates


def test_times_give_their_parts_if_asked(tmp_path: Path) -> None:
    parts = {"at": ["hour", "weekday", "month"]}
    path = broken_tables.dates(tmp_path)
    refused("line 2", "'at'", "time_features", call=read_table, data=path, label="y")
    table = read_table(path, "y", time_features=parts)
    assert table.columns[:2] == ("at hour (sine)", "at hour (cosine)")
    turns = np.array([[6 / 24, 4 / 7, 2 / 12], [18 / 24, 6 / 7, 0], [0, 0, 6 / 12]])  # Friday, Sunday, Monday
    expected = np.stack([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=-1).reshape(3, 6)
    np.testing.assert_allclose(table.x, expected, atol=1e-6)
    assert table.learnt == ()
    np.testing.assert_array_equal(scaled(table).x, table.x)  # they need no scale
    by_time = read_table(path, "y", time="at", time_features={"at": ["month"]})
    assert by_time.y.tolist() == [1, -1, -1]
    np.testing.assert_array_equal(table.preprocessing.apply(path), table.x)


def test_times_in_other_forms(tmp_path: Path) -> None:
    parts = {"at": ["hour", "weekday", "month"]}
    expected = read_table(broken_tables.dates(tmp_path), "y", time_features=parts).x
    path = broken_tables.dates(tmp_path, "german")
    said = refused("line 2", "'at'", "time_format", call=read_table, data=path, label="y")
    assert "01.03.2024 06:00" in said
    assert "%d.%m.%Y %H:%M" in said
    german = read_table(path, "y", time_features=parts, time_format="%d.%m.%Y %H:%M")
    np.testing.assert_array_equal(german.x, expected)
    zones = read_table(broken_tables.dates(tmp_path, "zones"), "y", time_features=parts)
    np.testing.assert_array_equal(zones.x, expected)  # by the clock on the wall
    path = broken_tables.dates(tmp_path, "broken")
    refused("line 3", "'2024-02-30", call=read_table, data=path, label="y", time_features=parts)
    refused("'century'", "month", call=read_table, data=path, label="y", time_features={"at": ["century"]})


def test_a_clock_is_no_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"at,y\n17:51,0\n6:00,1\n")
    refused("line 2", "'17:51'", "%H:%M", call=read_table, data=path, label="y")
    hours = read_table(path, "y", time_features={"at": ["hour"]}, time_format="%H:%M").x
    np.testing.assert_allclose(hours[1], [1, 0], atol=1e-6)


def test_times_may_name_owners(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"week,a,y\n2024-01-08,1,0\n2024-01-01,2,1\n")
    assert read_table(path, "y", owner="week").owners == ("2024-01-01", "2024-01-08")


# -- owners


def test_one_file_for_each_owner(tmp_path: Path) -> None:
    pattern = broken_tables.owners(tmp_path)
    table = read_table(pattern, "again")
    assert table.owners == ("Arles", "Bonn", "Cork") == read_owners(pattern)
    assert np.bincount(table.owner).tolist() == [3, 2, 4]
    assert table.x[table.owner == 0, 0].tolist() == [30, 31, 32]
    own = scaled(table, "owner").preprocessing
    np.testing.assert_array_equal(own.apply(tmp_path / "Arles.csv"), scaled(table, "owner").x[table.owner == 0])
    listed = read_table([tmp_path / "Bonn.csv", tmp_path / "Arles.csv"], "again")
    assert listed.owners == ("Arles", "Bonn")
    assert listed.owner.tolist() == [1, 1, 0, 0, 0]
    refused(
        "Arles.csv",
        "Bonn.csv",
        "'age'",
        "'years'",
        call=read_table,
        data=broken_tables.owners(tmp_path, odd=True),
        label="again",
    )
    refused("none-*.csv", call=read_table, data=str(tmp_path / "none-*.csv"), label="again")
    refused("once", call=read_table, data=[tmp_path / "Bonn.csv"] * 2, label="again")


def test_a_fault_in_one_of_several_files_is_named_there(tmp_path: Path) -> None:
    pattern = broken_tables.owners(tmp_path)
    written(tmp_path / "Arles.csv", b"age,again\n1,0\n2,1\nold,0\n")
    refused("Arles.csv, line 4", "'old'", call=read_table, data=pattern, label="again")


# -- 1 % positives, three rows, huge numbers, several types


def test_rare_labels_that_come_late_are_found(tmp_path: Path) -> None:
    table = read_table(broken_tables.rare(tmp_path), "y")
    assert (len(table.y), int((table.y == 1).sum()), table.classes) == (160_000, 100, ("0", "1"))
    assert table.x[151_099].tolist() == [np.float32(151_099.9)]


def test_three_rows(tmp_path: Path) -> None:
    table = scaled(read(broken_tables.few(tmp_path)), bias=True)
    np.testing.assert_allclose(table.x[:, 0], (X[:3, 0] - X[:3, 0].mean()) / X[:3, 0].std(), atol=1e-6)
    assert (table.y.tolist(), table.owners) == (Y[:3], ("Arles", "Zürich"))
    header = written(tmp_path / "none.csv", lines(COLUMNS, ()).encode())
    refused("none.csv", "no rows", data=header)


@pytest.mark.parametrize("number", [2**53 + 1, 10**20])
def test_numbers_beyond_all_digits(tmp_path: Path, number: int) -> None:
    path = broken_tables.huge(tmp_path, number)
    refused("line 2", "'patient'", str(number)[:8], "features", call=read_table, data=path, label="y", owner="clinic")
    table = read_table(path, "y", features=["age"], owner="clinic")
    assert table.owners == (str(number), str(number + 1))
    refused("line 2", "2^53", call=read_table, data=path, label="patient", features=["age"], task="regression")
    frame = read_table(path, "y", features=["age", "clinic"], categories={"clinic": [str(number), str(number + 1)]})
    assert frame.x[:, 1:].tolist() == [[1, 0], [0, 1]] * 2


def test_rows_of_norm_one_whatever_their_size(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b,y\n3e30,4e30,0\n3e-30,4e-30,1\n0,0,1\n3,4,0\n")
    x = scaled(read_table(path, "y"), None, unit=True).x
    np.testing.assert_allclose(x, [[0.6, 0.8], [0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-6)


def test_words_among_numbers(tmp_path: Path) -> None:
    refused("line 5", "'age'", "'seventy'", "features", data=broken_tables.mixed(tmp_path))


# -- frames and queries


def frames() -> list[Any]:
    import pandas as pd
    import polars as pl

    columns = {name: [row[k] for row in ROWS] for k, name in enumerate(COLUMNS)}
    columns |= {"age": [int(age) for age in columns["age"]], "cost": [float(cost) for cost in columns["cost"]]}
    return [pd.DataFrame(columns, index=range(5, 11)), pd.DataFrame(columns, dtype=object), pl.DataFrame(columns)]


@pytest.mark.parametrize("which", range(3), ids=["pandas", "objects", "polars"])
def test_data_frames(which: int) -> None:
    check_whole(read(frames()[which]))


def test_a_frame_of_several_types_is_refused_with_its_row() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, "two", None], "y": [0, 1, 0]})
    refused("row 1", "'a'", "'two'", call=read_table, data=frame, label="y")
    with pytest.raises(DataError, match="dict"):
        read_table({"a": [1]}, "a")


def test_encodings_without_their_mark_and_of_no_file_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,y\n1.5,no\n2.5,yé\n".encode("utf-16-le"))
    refused("a.csv", "utf-16-le", call=read_table, data=path, label="y", encoding="utf-16")
    assert read_table(path, "y", encoding="utf-16-le").classes == ("no", "yé")
    for name in ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"):
        with pytest.raises(ConfigError, match=name):
            read_table(path, "y", encoding=name)


def test_queries_and_their_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    base = sqlite3.connect(tmp_path / "visits.db")
    base.execute(f"CREATE TABLE visits ({', '.join(COLUMNS)})")
    rows = [(row[0], int(row[1]), float(row[2]), *row[3:]) for row in ROWS]
    base.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows)
    base.commit()
    url = f"sqlite:///{tmp_path}/visits.db"
    check_whole(read(SqlQuery(url, "SELECT * FROM visits")))
    base.execute("UPDATE visits SET age = 'old' WHERE cost = 9")
    base.commit()
    refused("row 3", "'old'", data=SqlQuery(url, "SELECT * FROM visits"))
    refused("visit", data=SqlQuery(url, "SELECT * FROM visit"))
    refused("no rows", data=SqlQuery(url, "SELECT * FROM visits WHERE cost < 0"))
    for query in ("DELETE FROM visits RETURNING *", "DROP TABLE visits", "CREATE TABLE more (a)"):
        refused("write", data=SqlQuery(url, query))
    assert base.execute("SELECT count(*) FROM visits").fetchone() == (6,)
    refused("visit.db", data=SqlQuery(url.replace("visits", "visit"), "SELECT 1"))
    assert not (tmp_path / "visit.db").exists()
    base.close()
    monkeypatch.setenv("SECRET", "hunter/2")
    for address in ("postgresql+psycopg2://me:${SECRET}@nowhere/x", "sqlite:///${SECRET}/no.db", "nonsense"):
        said = refused(data=SqlQuery(address, "SELECT 1"))
        assert "hunter" not in said.replace(str(tmp_path), "")
        assert (
            "hunter" not in repr(SqlQuery(address.replace("${SECRET}", "hunter/2"), "SELECT 1")) or "@" not in address
        )
    refused("NOT_THERE", data=SqlQuery("sqlite:///${NOT_THERE}", "SELECT 1"))


def test_a_column_without_a_name_is_no_feature(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b",a,y\n0,1.5,0\n1,2.5,1\n")
    refused("features", call=read_table, data=path, label="y")
    assert read_table(path, "y", ["a"]).x.shape == (2, 1)


def test_the_script_writes_all_ten(tmp_path: Path) -> None:
    assert len(broken_tables.TABLES) == 10
    with pytest.raises(ConfigError, match="decimal"):
        read(broken_tables.few(tmp_path), decimal="'")
