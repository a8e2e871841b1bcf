"""Rows of CSV and JSON lines: which become samples, and how the others are refused."""

from __future__ import annotations

import asyncio

import pytest

from tacit.errors import ConfigError, DataError
from tacit.peer.row_formats import LONGEST_LINE
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
    source = tail(path, on_bad=faults.append)
    append(path, HEADER + rows(1))
    append(path, line)
    append(path, "\n" + rows(2))
    assert ys(take(source)) == [1, None, 2]
    assert source.bad == len(faults) == 1
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
    assert source.bad == 1
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
    with pytest.raises(ConfigError, match="3 columns are named as features; expected 2"):
        tail(path, features=["a", "b", "c"])
    for features in (["a", "a"], ["a", "y"]):
        with pytest.raises(ConfigError, match="name each column once"):
            tail(path, features=features)
    for cursor in (7, None, {}, {"key": []} | {"other": 1}):
        with pytest.raises(DataError, match="not one of a file"):
            tail(path).resume(cursor)
    with pytest.raises(DataError, match="expected a regular file"):
        take(tail(tmp_path))
