"""Making and opening a ledger, one process at a time, and reading it meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tacit.core.errors import BudgetExceeded, LedgerError
from tacit.privacy.accounting import Budget
from tacit.privacy.ledger import Ledger, Replay, inspect
from tests.privacy.ledgers import BUDGET, EVENT, content, edit, listing, made, verify


def test_budget_job_and_witness_are_fixed_at_the_beginning(tmp_path: Path) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "witness"
    Ledger.create(path, BUDGET, witness, job="occupancy").close()
    for other in (Budget(epsilon=2.0), Budget(epsilon=0.5), Budget(rho=1.0), Budget(epsilon=1.0, delta=1e-6)):
        with pytest.raises(LedgerError, match="epsilon = 1, not "):
            Ledger.open(path, other, witness)
    with pytest.raises(LedgerError, match="job 'occupancy', not of 'rcv1'"):
        Ledger.open(path, BUDGET, witness, job="rcv1")
    with pytest.raises(LedgerError, match="has a witness"):
        Ledger.open(path, BUDGET)
    with Ledger.open(path, BUDGET, witness, "occupancy") as ledger:
        assert ledger.budget == BUDGET
        assert ledger.genesis.job == "occupancy"
    assert Ledger.open(path, witness=witness).close() is None  # type: ignore[func-returns-value]


def test_a_new_ledger_is_made_only_where_there_is_none(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 1)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="exists"):
        Ledger.create(path, BUDGET)
    assert path.read_bytes() == before
    for leftover in ("-wal", "-journal", "-shm"):
        (tmp_path / f"m.db{leftover}").write_bytes(b"of a ledger that was deleted")
        with pytest.raises(LedgerError, match=f"m.db{leftover} exists"):
            Ledger.create(tmp_path / "m.db", BUDGET)
        (tmp_path / f"m.db{leftover}").unlink()
    (tmp_path / "witness").write_text("{}")
    with pytest.raises(LedgerError, match="is not a witness"):
        Ledger.create(tmp_path / "m.db", BUDGET, tmp_path / "witness")
    with pytest.raises(LedgerError, match="no ledger can be made"):
        Ledger.create(tmp_path / "nowhere" / "l.db", BUDGET)
    with pytest.raises(LedgerError, match="job"):
        Ledger.create(tmp_path / "m.db", BUDGET, job="two\nlines")
    assert not (tmp_path / "m.db").exists()
    assert not [name for name in listing(tmp_path) if name.startswith(".")]


def other_application(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entry (x)")
    connection.commit()
    connection.close()


def of_a_later_format(path: Path) -> None:
    made(path, 1)
    edit(path, "PRAGMA user_version = 3")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.touch(), "application id 0x0"),
        (lambda path: path.write_text("release,epsilon\n" * 100), "not a database"),
        (other_application, "application id 0x0"),
        (of_a_later_format, "format 3, expected 2"),
    ],
)
def test_what_is_not_a_ledger_is_refused_and_left_as_it_is(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "x.db"
    make(path)
    before, names = path.read_bytes() if path.is_file() else None, listing(tmp_path)
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match=message):
            attempt(path)
        assert (path.read_bytes() if path.is_file() else None) == before
        assert listing(tmp_path) == names


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_a_read_only_file_can_be_verified_and_not_opened(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    path.chmod(0o400)
    assert verify(path).last.sequence == 2
    with pytest.raises(LedgerError, match="read-only"):
        Ledger.open(path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.create(path, BUDGET) as ledger:
        with pytest.raises(LedgerError, match="held by another process"):
            Ledger.open(path)
        (tmp_path / "alias.db").symlink_to(path)
        with pytest.raises(LedgerError, match="held by another process"):
            Ledger.open(tmp_path / "alias.db")
        ledger.charge("still works", EVENT)
    Ledger.open(path).close()


def hold(path: Path, ready: Any, finish: Any) -> None:
    with Ledger.open(path):
        ready.send(True)
        finish.recv()


def test_a_second_process_is_refused_until_the_first_is_gone_and_readers_are_not(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 3)
    spawn = multiprocessing.get_context("spawn")
    (ready, child_ready), (child_finish, _finish) = spawn.Pipe(duplex=False), spawn.Pipe(duplex=False)
    process = spawn.Process(target=hold, args=(path, child_ready, child_finish))
    process.start()
    assert ready.recv()
    with pytest.raises(LedgerError, match="held by another process"):
        Ledger.open(path)
    assert verify(path).last.sequence == 3
    process.kill()
    process.join()
    with Ledger.open(path) as ledger:
        assert ledger.releases == 3


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns; the child calls nothing of it
def test_a_forked_child_cannot_use_the_ledger_nor_harm_it(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    receiver, sender = os.pipe()
    with Ledger.create(path, BUDGET) as ledger:
        ledger.charge("before", EVENT)
        ledger._lock.acquire()  # as if another thread were in the midst of a charge
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)  # rather than to wait for ever for the lock
            answer = "drawn"
            try:
                ledger.release("in the child", EVENT, lambda: None)
            except LedgerError as error:
                answer = str(error)
            ledger.close()
            os.write(sender, answer.encode())
            os._exit(0)
        ledger._lock.release()
        os.close(sender)
        os.waitpid(child, 0)
        with os.fdopen(receiver) as answers:
            assert "forked" in answers.read()
        with pytest.raises(LedgerError, match="held by"):
            Ledger.open(path)
        ledger.charge("after", EVENT)
    assert [entry.release for entry in content(path)] == ["before", "after"]


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        refused: list[str] = []

        def charge(thread: int) -> None:
            for number in range(5):
                try:
                    ledger.charge(f"{thread} {number}", EVENT)
                except BudgetExceeded as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=charge, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.releases == 10
        assert len(refused) == 10
    verify(tmp_path / "l.db")


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    names = listing(tmp_path)
    verify(path)
    assert listing(tmp_path) == names


def test_a_writer_that_comes_while_it_is_read_makes_it_be_read_again(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    seen: list[int] = []

    def collect(replay: Replay) -> int:
        replay.run()
        if not seen:
            with Ledger.open(path) as ledger:
                ledger.charge("meanwhile", EVENT)
        seen.append(replay.last.sequence)
        return replay.last.sequence

    assert inspect(path, collect) == 3
    assert seen == [2, 3]
