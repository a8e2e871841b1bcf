"""Rows of CSV and JSON lines: which become samples, and how the others are refused."""

from __future__ import annotations

import asyncio

import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.peer.sources.not_learnt import NotLearnt
from tacit.peer.sources.rows import LONGEST_LINE
from tests.peer.followed import HEADER, append, rows, tail, take, ys


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbfid, y ,"b","a"\r\nname,3,2,1\r\n\r\nname,"6", 5 ,4\r\n')
    taken = take(tail(path, features=["a", "b"]))
    assert [(list(s.x), s.y) for s in taken.samples] == [([1, 2], 3), ([4, 5], 6)]
    path.write_text("y,b,a\n3,2,1\n")
    assert list(take(tail(path)).samples[0].x) == [2, 1]


def test_json_lines(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"x": [1, 2], "y": 3}\n{"y": 6, "x": [4, 5], "note": "kept out"}\n')
    assert [(list(s.x), s.y) for s in take(tail(path, format="jsonl")).samples] == [([1, 2], 3), ([4, 5], 6)]
    path.write_text('{"a": 1, "b": 2, "y": 3}\n')
    assert [(list(s.x), s.y) for s in take(tail(path, format="jsonl", features=["b", "a"])).samples] == [([2, 1], 3)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1,2", "line 3: 2 fields; expected 3"),
        ("1,2,3,4", "line 3: 4 fields"),
        ("1,nan,3", "line 3, column 'b': the value is missing"),
        ("1,2,inf", "line 3, label: the value is not a finite"),
        ("1e39,2,3", "line 3, column 'a': the value is not a finite"),
        ("1,secret,3", "line 3, column 'b': text is not a number"),
        ("1,,3", "line 3, column 'b': the value is missing"),
        ("1,2_0,3", "line 3, column 'b': text is not a number"),
        ("1,2,secret", "line 3, column 'y': text is not a number"),
        ('1,"2,3', "line 3: not CSV"),
        (b"1,\xff,3", "line 3: byte 2 is not UTF-8"),
        (b"1,\x00,3", "line 3, column 'b'"),
    ],
)
def test_bad_rows_are_counted_and_take_a_place(tmp_path, line, fault):
    path, faults = tmp_path / "data.csv", []
    source = tail(path, not_learnt=NotLearnt("rows", faults.append))
    append(path, HEADER + rows(1))
    append(path, line)
    append(path, "\n" + rows(2))
    assert ys(take(source)) == [1, None, 2]
    assert source.not_learnt.bad == len(faults) == 1
    assert fault in str(faults[0])
    assert "secret" not in str(faults[0])
    asyncio.run(source.close())


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[1]", "3", '{"x": [1, 2]}', '{"y": 1}', '{"x": [1], "y": 1}', '{"x": [1, NaN], "y": 1}', "[" * 100_000),
        *('{"x": [1, true], "y": 1}', '{"x": [1, "2"], "y": 1}', '{"x": {"a": 1, "b": 2}, "y": 1}'),
    ],
)
def test_bad_json_lines_are_counted_and_take_a_place(tmp_path, line):
    path = tmp_path / "data.jsonl"
    source = tail(path, format="jsonl")
    append(path, line + '\n{"x": [1, 2], "y": 3}\n')
    assert ys(take(source, patience=1)) == [None, 3]
    assert source.not_learnt.bad == 1
    asyncio.run(source.close())


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x1f\x8b\x08\x00rest\n1\n", "compressed by gzip"),
        (b"a,b\n1,2\n", "column 'y' is named 0 times"),
        (b"a,a,y\n1,2,3\n", "column 'a' is named 2 times"),
        (b"a,b,c,y\n1,2,3,4\n", "3 columns besides 'y'; expected 2"),
        (b"\xff,b,y\n1,2,3\n", "line 1: byte 0 is not UTF-8"),
        (b"a" * (LONGEST_LINE + 1), "a header longer than"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_as_a_whole(tmp_path, content, fault):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(DataError, match=fault):
            take(tail(path))


def test_settings_and_cursors_that_cannot_be_used(tmp_path):
    path = tmp_path / "data.csv"
    with pytest.raises(ConfigError, match="format 'xml'"):
        tail(path, format="xml")
    with pytest.raises(ConfigError, match="3 columns .*expected 2"):
        tail(path, features=["a", "b", "c"])
    for features in (["a", "a"], ["a", "y"]):
        with pytest.raises(ConfigError, match="name each column once"):
            tail(path, features=features)
    for cursor in (7, None, {}, {"key": []} | {"other": 1}):
        with pytest.raises(DataError, match="not one of a file"):
            tail(path).resume(cursor)
    with pytest.raises(DataError, match="expected a regular file"):
        take(tail(tmp_path))


# -- identity --------------------------------------------------------------------------------------------------------------


def digests(folder, content, **settings):
    path = folder / "data"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [digest for _, digest in take(tail(path, **{"features": ["a", "b"], **settings})).seen]


def test_the_spelling_of_a_record_does_not_matter(tmp_path):
    (plain,) = digests(tmp_path, "id,a,b,y\n7,1,0.5,3\n")
    for other in (
        "id,a,b,y\r\n7,1,0.5,3\r\n",
        b"\xef\xbb\xbfid,a,b,y\n\n7,1,0.5,3\n",
        ' y ,"b",a,id\n 3 ,"0.50",1e0,007\n',
        "id,a,b,y\n7.0,1.000,5E-1,+3\n",
    ):
        assert digests(tmp_path, other) == [plain]
    assert digests(tmp_path, '{"b": 0.5, "y": 3.0, "id": "7", "a": 1}\n', format="jsonl") == [plain]


def test_records_that_differ_in_any_field_are_told_apart(tmp_path):
    long = 10**17
    rows = ["7,1,0.5,3", "7,1,0.5,4", "8,1,0.5,3", "7,1,0.25,3", "x,1,0.5,3", ",1,0.5,3", f"{long},1,1,1"]
    rows += [f"{long + 1},1,1,1", "7,x,0.5,3", "7,1,0.5", "7,1,0.5,3,3", "7,0.5,1,3", '"', "1_0,1,0.5,3", "10,1,0.5,3"]
    found = digests(tmp_path, "id,a,b,y\n" + "\n".join(rows) + "\n")
    assert len(set(found)) == len(found) == len(rows)
    assert digests(tmp_path, "id,a,b,z,y\n7,1,0.5,,3\n") != found[:1]


def test_a_long_number_is_an_identity_however_it_is_written(tmp_path):
    long = ("9007199254740993", "9007199254740993.0", "9007199254740993.000", " 9007199254740993 ")
    spelled = [digests(tmp_path, f"id,a,b,y\n{text},1,2,3\n", key=["id"]) for text in long]
    assert spelled == [spelled[0]] * len(long)
    assert digests(tmp_path, "id,a,b,y\n9007199254740992,1,2,3\n", key=["id"]) != spelled[0]


def test_a_nested_json_row_has_one_identity(tmp_path):
    settings = {"format": "jsonl", "features": None}
    (plain,) = digests(tmp_path, '{"x": [1, 2.50], "y": 3, "of": {"p": 1, "q": [2.0]}}\n', **settings)
    assert digests(tmp_path, '{"of": {"q": [2], "p": 1.0}, "y": 3.0,  "x": [1.0, 2.5]}\r\n', **settings) == [plain]
    assert digests(tmp_path, '{"x": [2.5, 1], "y": 3, "of": {"p": 1, "q": [2.0]}}\n', **settings) != [plain]


def test_with_a_key_the_other_columns_do_not_matter(tmp_path):
    one = digests(tmp_path, "id,a,b,y\n7,1,0.5,3\n8,1,0.5,3\n9,,,\n", key=["id"])
    other = digests(tmp_path, "b,a,y,id\n2,2,2,7.0\n3,3,3,8\n1,1,1,9\n", key=["id"])
    assert one == other
    assert len(set(one)) == 3
    both = digests(tmp_path, "id,a,b,y\n7,1,0.5,3\n7,1,0.5,4\n7,2,0.5,4\n", key=["id", "a"])
    assert len(both) == 2  # the second row is the first one's record


def test_a_key_is_no_feature_unless_it_is_named(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id,a,b,y\n7,1,2,3\n")
    (sample,) = take(tail(path, key=["id"])).samples
    assert list(sample.x) == [1, 2]
    (sample,) = take(tail(path, key=["id"], features=["id", "b"])).samples
    assert list(sample.x) == [7, 2]


@pytest.mark.parametrize(("format", "rows"), [
    ("csv", "id,a,b,y\n,1,2,3\nnan,1,2,3\n4,1,2,3\n"),
    ("jsonl", '{"a": 1, "b": 2, "y": 3}\n{"id": null, "a": 1, "b": 2, "y": 3}\n{"id": 4, "a": 1, "b": 2, "y": 3}\n'),
])  # fmt: skip
def test_a_row_without_its_key_is_not_used(tmp_path, format, rows):
    path, faults = tmp_path / "data", []
    path.write_text(rows)
    source = tail(path, format=format, features=["a", "b"], key=["id"], not_learnt=NotLearnt("rows", faults.append))
    assert ys(take(source)) == [None, None, 3]
    assert all("'id'" in str(fault) for fault in faults)
    assert len(faults) == 2


def test_a_file_without_the_key_s_column_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n1,2,3\n")
    with pytest.raises(DataError, match="column 'id' is named 0 times"):
        take(tail(path, key=["id"]))
