"""A file that is rewritten is not read again: no record is released twice, whoever changes the file and however."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.peer.learner import Learner, lines, places
from tests.peer.stores import MEMORY

HEADER = "a,b,y\n"


@pytest.fixture
def folder(tmp_path_factory):
    import tempfile

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield type(tmp_path_factory.getbasetemp())(name)


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
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


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
    text = path.read_text().replace("12,0.0,0\n", "") + lines(12)
    first, rest = head_and_rows(path)
    os.truncate(path, 0)
    path.write_text(first + rest[-1] + "".join(rest[:-1]))
    assert sorted(text) == sorted(path.read_text())


def respell(path):
    first, rest = head_and_rows(path)
    rows = [dict(zip(first.strip("\ufeff\n").replace(" ", "").split(","), line.strip().replace('"', "").split(","), strict=True)) for line in rest]
    path.write_text("\ufeffy, b ,a\n" + "".join(f'"{row["y"]}", {float(row["b"]):.2e} ,{row["a"]}0\n' if "." in row["a"] else f'{row["y"]},{row["b"]},{row["a"]}.0\n' for row in rows))


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
        found.append(places(one.batches)[:12])
    plain, other = found
    assert other[k - 1] == (0, 0, 0, 0)
    assert plain[: k - 1] + plain[k:] == other[: k - 1] + other[k:]
