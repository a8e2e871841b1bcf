"""A file that is rewritten is not read again: no record is released twice, whoever changes the file and however."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tacit.core.errors import DataError
from tacit.peer.sources import followed_file, known_records
from tests.peer.learner import Learner, lines, places
from tests.peer.stores import MEMORY

HEADER = "a,b,y\n"


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def peer(folder):
    made = []

    def make(text=HEADER + lines(*range(1, 13)), **settings):
        (folder / "data.csv").write_text(text)
        made.append(Learner(folder, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def head_and_rows(path):
    first, *rest = path.read_text().splitlines(keepends=True)
    return first, rest


def prepend(path):
    first, rest = head_and_rows(path)
    path.write_text(first + lines(100 + len(rest)) + "".join(rest))


def crlf(path):
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


def sort(path):
    first, rest = head_and_rows(path)
    path.write_text(first + "".join(sorted(rest, reverse=True)))


def copy_over(path):
    prepend(path)
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def rename_and_copy(path):
    path.rename(path.with_name("data.csv.1"))
    first, rest = head_and_rows(path.with_name("data.csv.1"))
    path.write_text(first + "".join(reversed(rest)))


def empty_and_refill(path):
    first, rest = head_and_rows(path)
    os.truncate(path, 0)
    path.write_text(first + rest[-1] + "".join(rest[:-1]))


def respell(path):
    """Other columns first, other quotes, other blanks and other digits; the second time back again."""
    first, rest = head_and_rows(path)
    rows = [[field.strip(' "') for field in line.strip().split(",")] for line in rest]
    if first.startswith("a"):
        path.write_text("\ufeffy, b ,a\n" + "".join(f'"{y}", {float(b):.2e} ,{a}.0\n' for a, b, y in rows))
    else:
        path.write_text("a,b,y\n" + "".join(f"{float(a):g},{b},{y}\n" for y, b, a in rows))


def append_after_rewriting(path):
    prepend(path)
    with path.open("a") as file:
        file.write(lines(*(200 + file.tell() + k for k in range(2))))


REWRITINGS = [
    prepend, crlf, sort, copy_over, rename_and_copy, empty_and_refill, respell, append_after_rewriting
]  # fmt: skip


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("rewrite", REWRITINGS)
def test_no_record_is_released_twice(peer, rewrite, away):
    one = peer()
    one.rounds()
    assert one.released == dict.fromkeys(range(1, 13), 1)
    for _ in range(3):
        rewrite(one.path)
        if away:
            one.again()
        one.rounds()
    assert max(one.released.values()) == 1


@pytest.mark.parametrize("rewrite", REWRITINGS)
def test_a_file_rewritten_before_it_was_finished(peer, rewrite):
    one = peer()
    one.round()
    one.round()
    rewrite(one.path)
    one.rounds()
    assert max(one.released.values()) == 1
    assert set(range(1, 13)) <= set(one.released)


def correct_first(path):
    path.write_text(path.read_text().replace("1,0.0,1\n", "1,0.5,1\n", 1))


def correct_middle(path):
    path.write_text(path.read_text().replace("6,0.0,0\n", "6,0.25,0\n", 1))


def correct_and_sort(path):
    correct_middle(path)
    sort(path)


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("correct", [correct_first, correct_middle, correct_and_sort])
def test_a_corrected_record_is_not_released_again(peer, correct, away):
    one = peer()
    one.rounds()
    correct(one.path)
    with one.path.open("a") as file:
        file.write(lines(13))
    if away:
        one.again()
    one.rounds()
    assert max(one.released.values()) == 1
    assert "11 of the 12 records" in str(one.faults[-1])
    assert "[stream] key" in str(one.faults[-1])


def test_it_works_again_when_the_file_was_put_right(peer):
    one = peer()
    one.rounds()
    whole = one.path.read_text()
    correct_middle(one.path)
    one.rounds()
    assert isinstance(one.feed.fault, DataError)
    one.path.write_text(whole + lines(13))
    one.rounds()
    assert one.feed.fault is None
    one.path.write_text(HEADER + lines(14, 15))  # a successor
    one.rounds()
    assert one.released == dict.fromkeys(range(1, 16), 1)


def test_a_file_is_looked_through_before_its_first_row_is_used(peer, monkeypatch):
    """A correction many chunks behind the new rows is found before any of them is used."""
    monkeypatch.setattr(followed_file, "CHUNK", 32)
    monkeypatch.setattr(known_records, "CHUNKS_AT_ONCE", 2)
    many = range(1, 61)
    one = peer(HEADER + lines(*many))
    one.rounds()
    assert one.released.total() == len(many)
    text = HEADER + lines(*range(100, 130)) + lines(*many)
    one.path.write_text(text.replace("60,0.0,0", "60,0.25,0"))
    for _ in range(40):
        one.round()
    assert one.released.total() == len(many)
    assert "59 of the 60 records" in str(one.faults[-1])
    one.path.write_text(text)
    for _ in range(40):
        one.round()
    assert one.released == dict.fromkeys([*many, *range(100, 130)], 1)


def test_rows_that_come_while_a_file_is_passed_are_looked_at_too(peer):
    """The file is rewritten once more, with a correction, between the look and the use."""
    one = peer()
    one.rounds()
    new = lines(*range(20, 26))
    one.path.write_text(HEADER + new + lines(*range(1, 13)))
    one.round()
    assert one.released.total() == 15
    one.path.write_text(HEADER + new + lines(*range(1, 12)) + lines(12, b=1.0))
    one.rounds()
    assert one.released.total() <= 18
    assert max(one.released.values()) == 1


def test_equal_records_are_told_from_repetitions(peer):
    one = peer(HEADER + lines(1, 1, 2))
    one.rounds()
    assert one.released == {1: 2, 2: 1}
    with one.path.open("a") as file:
        file.write(lines(1))
    one.rounds()
    assert one.released == {1: 3, 2: 1}
    one.path.write_text(HEADER + lines(2, 1, 1, 3, 1, 1))
    one.rounds()
    assert one.released == {1: 4, 2: 1, 3: 1}


def test_an_old_file_that_comes_back_is_known(peer):
    """Also where the first of what is written there was new, so that it began as a successor."""
    one = peer()
    one.rounds()
    one.path.write_text(HEADER + lines(20))
    one.rounds()
    assert one.released[20] == 1
    with one.path.open("a") as file:
        file.write(lines(*range(1, 8)))
    one.rounds()
    assert "7 of the 12 records" in str(one.faults[-1])
    with one.path.open("a") as file:
        file.write(lines(*range(8, 14)))
    one.rounds()
    assert one.released == dict.fromkeys([*range(1, 14), 20], 1)


def test_a_file_with_other_columns_is_refused(peer):
    """Its records might be the old ones."""
    one = peer()
    one.rounds()
    _, rest = head_and_rows(one.path)
    one.path.write_text("a,b,more,y\n" + "".join(line.replace(",0.0,", ",0.0,9,") for line in rest))
    one.rounds()
    assert max(one.released.values()) == 1
    assert "columns" in str(one.faults[-1])


# -- with a key ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("change", [*REWRITINGS, correct_first, correct_middle, correct_and_sort])
def test_with_a_key_whatever_is_new_is_learnt_once(peer, change, away):
    one = peer(key=["a"])
    one.rounds()
    for _ in range(2):
        change(one.path)
        if away:
            one.again()
        one.rounds()
    assert not one.faults
    first, rest = head_and_rows(one.path)
    at = first.strip("\ufeff\r\n").split(",").index("a")
    assert one.released == dict.fromkeys({int(float(line.split(",")[at])) for line in rest}, 1)


def test_with_a_key_a_repetition_takes_a_place_and_is_not_learnt(peer):
    one = peer(HEADER + lines(1, 2) + lines(1, b=5.0) + lines(3, 3, 4), key=["a"])
    one.rounds()
    assert [place[0] for place in places(one.batches)][:6] == [1, 2, 0, 3, 0, 4]
    assert one.tail.not_learnt.known == 2
    one.again()
    with one.path.open("a") as file:
        file.write(lines(4, 5))
    one.rounds()
    assert one.released == dict.fromkeys(range(1, 6), 1)


def test_a_key_cannot_be_changed_under_way(peer):
    """What was used is known by the old one, and would be used again."""
    one = peer()
    one.rounds()
    one.source["key"] = ["a"]
    one.close()
    with pytest.raises(DataError, match=r"all columns.*the key back"):
        one.start()
    one.source["key"] = []
    one.store.close()
    one.start()
    one.rounds()
    assert max(one.released.values()) == 1


def test_an_unusable_row_that_is_mended_has_had_its_turn(peer):
    """Else the place that it took and the place that it takes would both tell of one record."""
    one = peer(HEADER + lines(1) + "2,,0\n" + lines(3), key=["a"])
    one.rounds()
    one.path.write_text(HEADER + lines(1, 2, 3, 4))
    one.rounds()
    assert one.released == {1: 1, 3: 1, 4: 1}


# -- crashes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [[], ["a"]], ids=["all", "key"])
@pytest.mark.parametrize("rewrite", [prepend, sort, rename_and_copy])
def test_killed_between_taking_and_committing_and_after_it(peer, rewrite, key):
    one = peer(key=key)
    for _ in range(3):
        one.taken()
        one.again()
        one.round()
        one.again()
        rewrite(one.path)
    one.rounds()
    assert max(one.released.values()) == 1
    assert set(range(1, 13)) <= set(one.released)


def test_a_commit_that_fails_leaves_no_record_used(peer):
    one = peer()
    given = one.taken()
    one.store.commit = lambda **what: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        one.use(given)
    one.again()
    assert one.store.records.used_of_files() == {}
    one.rounds()
    assert one.released == dict.fromkeys(range(1, 13), 1)
    assert one.store.records.used_of_files() == {1: 12}


def test_json_lines(folder):
    def rows(*numbers, space=" "):
        return "".join(json.dumps({"x": [n, 0.5], "y": n % 2}, separators=("," + space, ":")) + "\n" for n in numbers)

    path = folder / "data.jsonl"
    path.write_text(rows(*range(1, 9)))
    one = Learner(folder, path, format="jsonl", features=None)
    one.rounds()
    path.write_bytes(b"\xef\xbb\xbf" + rows(20, *range(8, 0, -1), space="").replace("\n", "\r\n").encode())
    one.rounds()
    one.close()
    assert one.released == dict.fromkeys([*range(1, 9), 20], 1)


# -- unusable rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["", "x,y,z", "1,2", "nan,nan,nan", '"', "7" * 3_000_000])
@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_a_record_replaced_by_an_unusable_one_shifts_no_other(folder, k, bad):
    """Neighbouring files differ in one record; then batches differ in its place alone."""
    found = []
    for changed in (False, True):
        rows = [lines(n) for n in range(1, 13)]
        if changed:
            rows[k - 1] = (bad or ",,") + "\n"
        place = folder / str(changed)
        place.mkdir()
        (place / "data.csv").write_text(HEADER + "".join(rows))
        one = Learner(place)
        one.rounds()
        one.close()
        assert one.tail.not_learnt.bad == changed
        assert one.released.total() == 12 - changed
        found.append(places(one.batches))
    plain, other = (batches[:12] for batches in found)
    assert other[k - 1] == (0, 0, 0, 0)
    assert plain[: k - 1] + plain[k:] == other[: k - 1] + other[k:]
