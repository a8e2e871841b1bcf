"""Following a file: each record once, whatever happens to the file, and to the peer, in between."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import tracemalloc

import pytest

from tacit.core.errors import DataError
from tacit.peer.sources.file_follower import FileTail
from tacit.peer.sources.followed_file import BLOCK
from tacit.peer.sources.rows import LONGEST_LINE
from tests.peer.followed import FORM, HEADER, Records, Time, append, everything, reopened, rows, tail, take, ys


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.csv"


@pytest.fixture
def source(path):
    made = tail(path)
    yield made
    asyncio.run(made.close())


def test_it_waits_for_the_file_the_header_and_the_end_of_a_line(path):
    steps = ["", "a,b", ",y", "\n", "1,2", ",3", "4", "\n5,6,7"]
    time = Time([(0.2 * (i + 1), lambda text=text: append(path, text)) for i, text in enumerate(steps)])
    source = tail(path, time)
    taken = take(source, 1, 60)
    assert [sample.y for sample in taken.samples] == [34]
    assert time.now == pytest.approx(1.6, abs=0.06)
    assert take(source, 1, 0.5).samples == []  # 5,6,7 might become 5,6,78
    append(path, "8\n")
    assert ys(take(source, 1)) == [78]
    asyncio.run(source.close())


def test_take_returns_with_enough_at_once_and_with_less_after_its_patience(path):
    time = Time([(3.0, lambda: append(path, rows(3)))])
    source = tail(path, time, poll=0.4)
    append(path, HEADER + rows(1, 2))
    assert ys(take(source, 2, 1000)) == [1, 2]
    assert time.sleeps == 0
    assert ys(take(source, 2, 5)) == [3]
    assert time.now == 5
    assert time.sleeps <= 14
    asyncio.run(source.close())


def test_a_cursor_goes_on_where_it_stood(path, source):
    append(path, HEADER + rows(*range(10)))
    first = take(source, 3)
    take(source, 4)
    append(path, rows(10))
    assert ys(take(reopened(path, first.cursor))) == list(range(3, 11))
    assert ys(take(reopened(path, take(tail(path), 0).cursor))) == list(range(11))


@pytest.mark.parametrize("cut", [LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE])
def test_a_huge_line_is_skipped_even_across_a_restart(path, cut):
    append(path, HEADER + rows(1))
    append(path, b"7" * cut)
    source = tail(path)
    first = take(source, 5, 1)
    append(path, b"7" * 10 + b"\n" + rows(2).encode())
    again = reopened(path, first.cursor)
    assert ys(first) + ys(take(again, 5, 1)) == [1, None, 2]  # it takes a place
    assert source.not_learnt.bad + again.not_learnt.bad == 1
    last = take(again)
    assert last.cursor["line"] == 4
    assert last.cursor["offset"] == path.stat().st_size


def test_a_line_may_be_as_long_as_the_limit(path):
    row = b'{"x": [1, 2], "y": 3}'
    source = tail(path, format="jsonl")
    append(path, row + b" " * (LONGEST_LINE - len(row)))
    assert take(source).samples == []
    append(path, b"\n" + row + b" " * (LONGEST_LINE - len(row) + 1) + b"\n")
    assert ys(take(source, 2, 1)) == [3, None]
    assert source.not_learnt.bad == 1


def test_memory_stays_bounded(path):
    append(path, HEADER)
    for _ in range(40):
        append(path, b"7" * LONGEST_LINE)
    append(path, "\n" + rows(1))
    tracemalloc.start()
    assert ys(take(tail(path), 2, 1)) == [None, 1]
    assert tracemalloc.get_traced_memory()[1] < 8 * LONGEST_LINE
    tracemalloc.stop()


def test_rotation_finishes_the_old_file_and_begins_the_new(path, source):
    append(path, HEADER + rows(1, 2, 3))
    assert ys(take(source, 1)) == [1]
    path.rename(path.with_name("data.csv.1"))
    assert ys(take(source, 1)) == [2]  # nothing new there yet
    path.write_text("b,y,a\n" + "0,9,0\n")
    append(path.with_name("data.csv.1"), rows(4) + "5,5,")
    assert ys(take(source, 10, 1)) == [3, 4, None]
    assert source.not_learnt.bad == 1  # the line without an end
    assert ys(take(source, 10, 1)) == [9]  # another file is met when all before it is used
    append(path, "0,10,0\n")
    assert ys(take(source)) == [10]


@pytest.mark.parametrize("taken_before", [0, 1, 3])
def test_rotation_while_the_peer_is_away(path, taken_before):
    append(path, HEADER + rows(1, 2, 3))
    known = Records()
    cursor = take(tail(path, known=known), taken_before).cursor
    path.rename(path.with_name("data.csv.1"))
    path.with_name("data.csv.other").write_text("something else\n")
    expected = list(range(taken_before + 1, 4))
    again = reopened(path, cursor, known=Records(known))
    assert ys(take(again, patience=1)) == expected
    path.write_text(HEADER + rows(4, 5))
    assert everything(reopened(path, cursor, known=Records(known))) == [*expected, 4, 5]
    assert everything(again) == [4, 5]


def test_a_rotated_file_is_not_passed_over_without_descriptors(path, monkeypatch):
    append(path, HEADER + rows(1, 2, 3))
    known = Records()
    cursor = take(tail(path, known=known), 1).cursor
    path.rename(path.with_name("data.csv.1"))
    path.write_text(HEADER + rows(4))
    again = reopened(path, cursor, known=Records(known))

    def fail(folder):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        with pytest.raises(DataError, match="Too many open files"):
            take(again)
    assert everything(again) == [2, 3, 4]


def test_an_empty_successor_does_not_end_the_old_file(path):
    source = tail(path, format="jsonl")
    path.touch()
    assert take(source).samples == []
    path.rename(path.with_name("data.csv.1"))
    path.touch()
    assert take(source).samples == []
    append(path.with_name("data.csv.1"), '{"x": [1, 2], "y": 3}\n')
    assert ys(take(source)) == [3]
    asyncio.run(source.close())


def test_a_deleted_file_is_finished_while_it_is_open(path, source):
    append(path, HEADER + rows(1, 2))
    assert ys(take(source, 1)) == [1]
    path.unlink()
    path.write_text(HEADER + rows(3))
    assert everything(source) == [2, 3]


def test_a_new_file_with_the_same_header_and_a_used_inode_is_a_new_file(path):
    append(path, HEADER + rows(1, 2))
    known = Records()
    cursor = take(tail(path, known=known)).cursor
    path.write_text(HEADER + rows(3, 4, 5))
    assert path.stat().st_ino == cursor["inode"]
    assert ys(take(reopened(path, cursor, known=known))) == [3, 4, 5]


def test_emptied_in_place_and_begun_anew(path, source):
    append(path, HEADER + rows(1, 2))
    assert ys(take(source)) == [1, 2]
    os.truncate(path, 0)
    assert take(source).samples == []
    append(path, HEADER)
    assert take(source).samples == []
    append(path, rows(3))
    assert ys(take(source)) == [3]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_file_cut_short_is_refused_until_it_is_whole_again(path, source, keep):
    append(path, HEADER + rows(1, 2, 3))
    cursor = take(source).cursor
    whole = path.read_text()
    os.truncate(path, len(HEADER + rows(*range(1, keep + 1))))
    for follower in (source, reopened(path, cursor, known=source._known)):
        with pytest.raises(DataError, match=rf"{keep} of the 3 records .*used twice"):
            take(follower)
    path.write_text(whole + rows(4))
    for follower in (source, reopened(path, cursor, known=Records(source._known))):
        assert ys(take(follower)) == [4]


def test_a_file_rewritten_where_it_was_read_is_refused(path, source):
    append(path, HEADER + rows(*range(100, 120)))
    cursor = take(source).cursor
    path.write_text(path.read_text().replace("115,-115,115", "915,-115,115") + rows(1))
    for follower in (source, reopened(path, cursor, known=source._known)):
        for _ in range(2):
            with pytest.raises(DataError, match=r"19 of the 20 records .* 2 rows"):
                take(follower)


def test_a_file_that_is_being_put_back_is_not_read_twice(path, source):
    append(path, HEADER + rows(10, 20))
    take(source)
    whole = path.read_text()
    for length in range(len(whole)):
        path.write_text(whole[:length])
        with contextlib.suppress(DataError):
            assert take(source).samples == []
    path.write_text(whole + rows(30))
    assert ys(take(source)) == [30]


def test_a_new_file_with_a_record_of_the_old_one_is_refused(path, source):
    """The others might be corrections of those that are missing."""
    append(path, HEADER + rows(1, 2, 3))
    assert [ys(take(source, 1)) for _ in range(3)] == [[1], [2], [3]]
    path.write_text(HEADER + rows(1))
    with pytest.raises(DataError, match="used twice"):
        take(source)
    append(path, rows(5))
    with pytest.raises(DataError, match="1 of the 3 records"):
        take(source)
    path.write_text(HEADER + rows(5, 6))
    assert ys(take(source)) == [5, 6]


def test_a_copy_in_the_place_of_the_file_is_not_read_twice(path, source):
    append(path, HEADER + rows(1, 2))
    first = take(source)
    copy = path.with_name("copy")
    copy.write_text(path.read_text() + rows(3))
    copy.replace(path)
    assert ys(take(reopened(path, first.cursor, known=Records(source._known)))) == [3]
    assert everything(source) == [3]


def test_what_was_taken_before_a_fault_is_handed_out_first(path, source):
    append(path, HEADER + rows(1, 2))
    assert ys(take(source, 1)) == [1]
    path.rename(path.with_name("data.csv.1"))
    path.write_text("wrong,header\n")
    assert ys(take(source, 10, 1)) == [2]
    with pytest.raises(DataError, match="line 1: column 'y' is named 0 times"):
        take(source, 10, 1)
    path.write_text(HEADER + rows(3))
    assert ys(take(source, 10, 1)) == [3]


def test_a_cancelled_take_has_not_happened(path):
    append(path, HEADER + rows(1))

    async def run():
        asleep = asyncio.Event()

        async def sleep(_):
            asleep.set()
            await asyncio.Event().wait()

        source = FileTail(path, FORM, format="csv", label="y", known=Records(), clock=lambda: 0.0, sleep=sleep)
        waiting = asyncio.create_task(source.take(3, 100))
        async with asyncio.timeout(120):
            await asleep.wait()
        path.rename(path.with_name("data.csv.1"))
        path.write_text(HEADER + rows(2))
        waiting.cancel()
        await asyncio.wait([waiting])
        asleep.clear()
        waiting = asyncio.create_task(source.take(3, 100))  # finds that there is another file, and is not waited for
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(120):
            first, second = await source.take(2, 100), await source.take(1, 100)
        await source.close()
        return ys(first) + ys(second)

    assert asyncio.run(run()) == [1, 2]


@pytest.mark.parametrize("seed", range(30))
def test_each_record_once_under_random_writes_rotations_and_crashes(path, seed):
    """Writes cut anywhere, rotations, and kills before or after the commit of what was taken."""
    draw = random.Random(seed)
    written, pending, used, cursor, files, known = 0, b"", [], None, 0, Records()
    source = tail(path, known=known)

    def restarted():
        asyncio.run(source.close())
        return reopened(path, cursor, known=known) if cursor else tail(path, known=known)

    for _ in range(120):
        step = draw.random()
        if step < 0.5:
            if not path.exists():
                append(path, HEADER)
            for _ in range(draw.randrange(4)):
                pending += rows(written).encode()
                written += 1
            cut = draw.randrange(len(pending) + 1)
            append(path, pending[:cut])
            pending = pending[cut:]
        elif step < 0.6 and path.exists():
            append(path, pending)
            pending = b""
            # The follower must have seen the last rotation: of two at once it may miss the file between.
            if source._file.inode == path.stat().st_ino:
                files += 1
                path.rename(path.with_name(f"data.csv.{files}"))
        elif step < 0.9:
            taken = asyncio.run(source.take(draw.randrange(1, 6), 0.2))
            if draw.random() < 0.8:
                cursor = taken.cursor
                known.keep(taken.seen)
                used += ys(taken)
            else:
                source = restarted()
        elif step < 0.95:
            source = restarted()
    append(path, (b"" if path.exists() else HEADER.encode()) + pending)
    used += everything(source)
    asyncio.run(source.close())
    assert used == list(range(written))
    assert written > 20


def test_a_file_is_known_by_all_that_was_read_of_it(path):
    """However long its lines are, and however far from the cursor it was changed."""
    append(path, HEADER + "1," + " " * 3 * BLOCK + "2,3\n" + rows(*range(1000, 1000 + BLOCK // 20)))
    source = tail(path)
    count = len(everything(source))
    cursor = take(source).cursor
    assert cursor["offset"] == path.stat().st_size
    append(path, rows(5))
    assert ys(take(reopened(path, cursor))) == [5]
    whole = path.read_bytes()
    for position in (len(HEADER), BLOCK, len(whole) // 2, cursor["offset"] - 2):
        path.write_bytes(whole[:position] + b"7" + whole[position + 1 :])
        with pytest.raises(DataError, match=f"{count - 1} of the {count} records"):
            take(reopened(path, cursor, known=source._known), patience=1)
