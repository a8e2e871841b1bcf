"""No descriptor left: nothing is written, nothing fails, and it goes on when there is one."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.open_files import descriptors_left, raise_limit, shortage, when_free
from tests.privacy.ledgers import BUDGET, EVENT, made, verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted as Linux has them")


@contextlib.contextmanager
def none_left() -> Iterator[Callable[[], None]]:
    """Take all descriptors of this process; gives what gives them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def give_back() -> None:
        while taken:
            os.close(taken.pop())

    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 32, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield give_back
    finally:
        give_back()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def waited_for(act: Callable[[], object]) -> str:
    """Run something without descriptors in a thread, give them back when it waits, and return what health says."""
    with none_left() as give_back:
        thread = threading.Thread(target=act)
        thread.start()
        while (told := shortage()) is None and thread.is_alive():
            pass
        give_back()
        thread.join()
    assert shortage() is None
    assert told is not None, "it did not wait"
    return told


def test_a_charge_waits_for_its_witness(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "w"
    with Ledger.create(path, BUDGET, witness) as ledger:
        assert "ulimit" in waited_for(lambda: ledger.charge("round 1", EVENT))
        ledger.charge("round 2", EVENT)
    assert verify(path, witness).last.sequence == 2
    assert caplog.text.count("ulimit") == 1, "who has nobody to ask it of must hear of it too"


def test_a_ledger_is_opened_when_it_can_be(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2, witness=tmp_path / "w")
    opened: list[Ledger] = []
    waited_for(lambda: opened.append(Ledger.open(path, witness=tmp_path / "w")))
    assert opened[0].releases == 2
    opened[0].close()


def test_other_faults_are_told_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        when_free(lambda: os.open("/nowhere", os.O_RDONLY))


def test_descriptors_are_counted_and_the_limit_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = descriptors_left()
    assert left is not None
    with Path(os.devnull).open():
        assert descriptors_left() == left - 1
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
        raise_limit(soft)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
        raise_limit(10)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
