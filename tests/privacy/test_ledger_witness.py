"""The witness: an old copy of a ledger is noticed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tacit.core.errors import LedgerError
from tacit.privacy.ledger import Ledger, renew_witness
from tacit.privacy.ledger import witness as witness_module
from tacit.privacy.ledger.witness import Mark, read_mark, write_mark
from tests.privacy.ledgers import BUDGET, EVENT, content, listing, made, verify


def copied(path: Path, target: Path) -> None:
    target.mkdir()
    for suffix in ("", "-wal", "-shm"):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", target)


def restored(copy: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    for file in copy.iterdir():
        shutil.copy(file, path.parent)


@pytest.mark.parametrize("while_open", [False, True])
def test_an_old_copy_is_detected(tmp_path: Path, while_open: bool) -> None:
    path, witness = tmp_path / "d" / "l.db", tmp_path / "witness"
    path.parent.mkdir()
    with Ledger.create(path, BUDGET, witness) as ledger:
        for number in range(3):
            ledger.charge(f"round {number}", EVENT)
        if while_open:
            copied(path, tmp_path / "old")
            assert (tmp_path / "old" / "l.db-wal").stat().st_size > 0
    if not while_open:
        copied(path, tmp_path / "old")
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 3", EVENT)
    restored(tmp_path / "old", path)
    for attempt in (lambda: Ledger.open(path, witness=witness), lambda: verify(path, witness)):
        with pytest.raises(LedgerError, match="entry 3.*entry 4.*rolled back"):
            attempt()
    assert verify(path).last.sequence == 3  # by itself it is a valid ledger: only the witness knows


def test_an_old_copy_that_went_on_by_itself_is_detected(tmp_path: Path) -> None:
    path, witness = tmp_path / "d" / "l.db", tmp_path / "witness"
    path.parent.mkdir()
    made(path, 3, witness=witness)
    copied(path, tmp_path / "old")
    old_witness = witness.read_bytes()
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 4", EVENT)
    new_witness = witness.read_bytes()
    restored(tmp_path / "old", path)
    witness.write_bytes(old_witness)
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("another round 4", EVENT)
        ledger.charge("round 5", EVENT)
    witness.write_bytes(new_witness)
    with pytest.raises(LedgerError, match="entry 4 .*witness"):
        Ledger.open(path, witness=witness)


def test_another_ledger_in_its_place_is_detected(tmp_path: Path) -> None:
    made(tmp_path / "a.db", 2, witness=tmp_path / "a.witness")
    made(tmp_path / "b.db", 2, witness=tmp_path / "b.witness")
    with pytest.raises(LedgerError, match="witness is that of"):
        Ledger.open(tmp_path / "a.db", witness=tmp_path / "b.witness")


def test_a_ledger_ahead_of_its_witness_is_fine(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 2, witness=tmp_path / "w"), tmp_path / "w"
    entry = content(path)[0]
    write_mark(witness, Mark(verify(path).genesis.ledger, 1, entry.hash))
    with Ledger.open(path, witness=witness) as ledger:
        assert read_mark(witness) == Mark(ledger.genesis.ledger, 2, content(path)[-1].hash)
        receipt = ledger.charge("round 3", EVENT)
    assert read_mark(witness) == Mark(ledger.genesis.ledger, 3, receipt.hash)


def test_a_lost_witness_is_made_anew_only_on_request(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 2, witness=tmp_path / "w"), tmp_path / "w"
    with pytest.raises(LedgerError, match="exists: only a lost one"):
        renew_witness(path, witness)
    known = witness.read_bytes()
    witness.unlink()
    with pytest.raises(LedgerError, match="is missing.*2 charges.*renew_witness"):
        Ledger.open(path, witness=witness)
    with pytest.raises(LedgerError, match="does not exist"):
        verify(path, witness)
    assert not witness.exists()
    assert renew_witness(path, witness).sequence == 2
    assert witness.read_bytes() == known
    Ledger.open(path, witness=witness).close()


def test_a_copy_of_the_beginning_does_not_open_with_a_new_witness(tmp_path: Path) -> None:
    path, witness = tmp_path / "d" / "l.db", tmp_path / "witness"
    path.parent.mkdir()
    made(path, 0, witness=witness)
    copied(path, tmp_path / "beginning")
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 1", EVENT)
    restored(tmp_path / "beginning", path)
    with pytest.raises(LedgerError, match="another witness is missing"):
        Ledger.open(path, witness=tmp_path / "another witness")
    assert not (tmp_path / "another witness").exists()
    with pytest.raises(LedgerError, match="witness has seen entry 1"):
        Ledger.open(path, witness=witness.rename(tmp_path / "moved"))


def test_a_ledger_that_began_without_a_witness_gets_one_only_on_request(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 0), tmp_path / "w"
    with pytest.raises(LedgerError, match="is missing"):
        Ledger.open(path, witness=witness)
    renew_witness(path, witness)
    Ledger.open(path, witness=witness).close()


def test_a_crash_between_making_the_witness_and_its_ledger_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "w"

    def crash(*_: object) -> None:
        assert read_mark(witness) is not None
        raise RuntimeError("the power fails")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", crash)
        with pytest.raises(RuntimeError):
            Ledger.create(path, BUDGET, witness)
    assert not path.exists()
    with Ledger.create(path, BUDGET, witness) as ledger:  # nothing was released by who has seen nothing
        ledger.charge("round 1", EVENT)
    mark = read_mark(witness)
    assert mark is not None
    assert mark.sequence == 1


def test_making_a_ledger_leaves_the_witness_of_another_alone(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 0, witness=tmp_path / "w"), tmp_path / "w"
    known = witness.read_bytes()
    with pytest.raises(LedgerError, match="exists"):  # the ledger: its witness has seen nothing
        Ledger.create(path, BUDGET, witness)
    assert witness.read_bytes() == known
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 1", EVENT)
    known = witness.read_bytes()
    with pytest.raises(LedgerError, match="has seen 1 release"):
        Ledger.create(tmp_path / "m.db", BUDGET, witness)
    assert witness.read_bytes() == known
    assert not (tmp_path / "m.db").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "3",
        "[]",
        "{",
        '{"ledger": "a", "sequence": -1, "hash": "00"}',
        '{"ledger": 1, "sequence": 1, "hash": ""}',
        '{"ledger": "a", "sequence": true, "hash": ""}',
        '{"ledger": "a", "sequence": 1, "hash": "", "x": 1}',
        "é",
    ],
)
def test_what_is_not_a_witness_is_refused(tmp_path: Path, text: str) -> None:
    path, witness = made(tmp_path / "l.db", 1, witness=tmp_path / "w"), tmp_path / "w"
    witness.write_text(text, encoding="utf-8")
    with pytest.raises(LedgerError, match="not a witness|cannot be read"):
        Ledger.open(path, witness=witness)
    assert witness.read_text(encoding="utf-8") == text


def test_a_mark_is_synced_and_then_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mark, synced = tmp_path / "w", Mark("a", 1, b"x"), []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr(witness_module, "sync", lambda directory: synced.append((directory, read_mark(path))))
    write_mark(path, mark)
    assert synced == [path.stat().st_size, (tmp_path, mark)]


def test_a_witness_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_mark(tmp_path / "w", Mark("a", 1, b""))
    assert listing(tmp_path) == ["w"]
