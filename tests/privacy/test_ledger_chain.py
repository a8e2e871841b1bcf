"""The chain: what was changed from outside is noticed."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.core.errors import LedgerError
from tacit.privacy.accounting import Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.entries import (
    Entry,
    Genesis,
    decode_event,
    decode_genesis,
    encode_event,
    encode_genesis,
    sealed,
)
from tests.privacy.ledgers import BUDGET, EVENT, MANY, content, edit, made, verify


def test_the_hash_is_that_of_the_documented_bytes() -> None:
    import hashlib

    known = b"tacit ledger entry 1\n" + bytes(7) + b"\x05" + b"p" * 32
    known += bytes(7) + b"\x03" + "né".encode() + bytes(7) + b"\x02" + b"{}"
    assert sealed(5, "né", "{}", b"p" * 32).hash == hashlib.sha256(known).digest()
    assert sealed(5, "ab", "c", bytes(32)).hash != sealed(5, "a", "bc", bytes(32)).hash


def test_events_and_genesis_read_back_as_they_were() -> None:
    event = Event("bounded", "bounded_laplace", 0.1, 1 / 3, 4, 5.5, "component", "round ü", ("a", "b"))
    assert decode_event(encode_event(event)) == event
    assert decode_event(encode_event(Event("none", None, 0.0, 0.0))).distribution is None
    genesis = Genesis("abc", Budget(epsilon=1.0, delta=1e-6), "job", True)
    assert decode_genesis(encode_genesis(genesis)) == genesis


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v | {"surprise": 1},
        lambda v: {name: value for name, value in v.items() if name != "scale"},
        lambda v: {name: value for name, value in v.items() if name != "bound"},
        lambda v: v | {"distribution": "cauchy"},
        lambda v: v | {"scale": -1.0},
        lambda v: v | {"scale": "10"},
        lambda v: v | {"observers": "*"},
        lambda v: v | {"observers": 3},
        lambda v: [v],
    ],
)
def test_an_unknown_event_is_refused(change: Any) -> None:
    text = json.dumps(change(json.loads(encode_event(EVENT))), sort_keys=True, separators=(",", ":"))
    with pytest.raises(LedgerError, match="of format 2"):
        decode_event(text)
    for text in ("", "{", "[" * 100_000, encode_event(EVENT) + " ", encode_event(EVENT).replace("10.0", "NaN")):
        with pytest.raises(LedgerError, match="of format 2"):
            decode_event(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format":2}', "3"])
def test_a_genesis_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LedgerError, match="entry 0 is not a genesis"):
        decode_genesis(text)
    known = json.loads(encode_genesis(Genesis("abc", BUDGET, "", False)))
    for change in ({"format": 1}, {"more": 1}, {"budget": {"epsilon": -1.0}}):
        with pytest.raises(LedgerError, match="entry 0 is not a genesis"):
            decode_genesis(json.dumps(known | change, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entry SET event = replace(event, '10.0', '99.0') WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET release = 'another' WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET hash = zeroblob(32) WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET previous = zeroblob(32) WHERE sequence = 3", "entry 3 does not follow"),
        ("DELETE FROM entry WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM entry WHERE sequence = 0", "entry 0 is missing"),
        ("DELETE FROM entry", "no genesis"),
        ("UPDATE entry SET sequence = 6 - sequence WHERE sequence IN (3, 4)", ""),
        ("CREATE TABLE another (x)", "triggers are not those"),
        ("DROP TABLE entry", "triggers are not those|no such table"),
        ("PRAGMA application_id = 7", "application id 0x7"),
    ],
)
def test_an_edited_ledger_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    path = made(tmp_path / "l.db", 5)
    if not message:
        statements = [f"UPDATE entry SET sequence = {b} WHERE sequence = {a}" for a, b in ((3, 90), (4, 3), (90, 4))]
        edit(path, *statements)
        message = "entry 3 does not follow"
    elif "DROP" in statement:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
    else:
        edit(path, statement)
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match=message):
            attempt(path)


def test_a_removed_trigger_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER entry_is_not_deleted")
    connection.close()
    with pytest.raises(LedgerError, match="triggers are not those"):
        verify(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET event = '{}' WHERE sequence = 1",
        "DELETE FROM entry WHERE sequence = 2",
        "INSERT INTO entry VALUES (4, 'x', '{}', zeroblob(32), zeroblob(32))",
        "INSERT OR REPLACE INTO entry VALUES (2, 'x', '{}', zeroblob(32), zeroblob(32))",
        "INSERT OR REPLACE INTO entry VALUES (3, 'round 1', '{}', zeroblob(32), zeroblob(32))",
    ],
)
def test_the_table_itself_is_append_only(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(made(tmp_path / "l.db", 2))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def rebuilt(path: Path, texts: list[tuple[str, str]]) -> None:
    """Write a chain whose hashes are right."""
    with Ledger.create(path, MANY) as ledger:
        genesis = ledger.genesis
    entries, previous = [], bytes(32)
    for sequence, (release, text) in enumerate([("genesis", encode_genesis(genesis)), *texts]):
        entries.append(sealed(sequence, release, text, previous))
        previous = entries[-1].hash
    connection = sqlite3.connect(path, isolation_level=None)
    ledger_store.append(connection, entries[1:])
    connection.close()


def test_a_chain_with_right_hashes_and_wrong_content_is_refused(tmp_path: Path) -> None:
    rebuilt(tmp_path / "a.db", [("x", encode_event(EVENT)), ("y", '{"surprise":1}')])
    with pytest.raises(LedgerError, match="entry 2: not an event"):
        Ledger.open(tmp_path / "a.db")
    dataset = Event("laplace", "laplace", 1.0, 1.0, adjacency="dataset")
    rebuilt(tmp_path / "b.db", [("x", encode_event(EVENT)), ("y", encode_event(dataset))])
    with pytest.raises(LedgerError, match="entry 2: adjacency"):
        Ledger.open(tmp_path / "b.db")
    rebuilt(tmp_path / "c.db", [("x", encode_event(EVENT))])
    assert verify(tmp_path / "c.db").account.spent().epsilon == 0.1


def test_a_chain_that_does_not_begin_with_a_genesis_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 0)
    connection = sqlite3.connect(path)
    genesis = Entry(*connection.execute("SELECT * FROM entry").fetchone())
    connection.close()
    renamed = sealed(0, "round 0", genesis.event, genesis.previous)
    edit(path, f"UPDATE entry SET release = 'round 0', hash = x'{renamed.hash.hex()}'")
    with pytest.raises(LedgerError, match="entry 0 is 'round 0', expected 'genesis'"):
        Ledger.open(path)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("original") / "l.db", 60)


@settings(
    derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=3))
def test_a_changed_byte_is_noticed_or_changes_nothing(
    tmp_path: Path, original: Path, changes: list[tuple[int, int]]
) -> None:
    """Bytes that SQLite does not use may change; whatever can be read must be what was written, or is refused."""
    whole, entries = original.read_bytes(), content(original)
    changed = bytearray(whole)
    for position, flipped in changes:
        changed[position % len(whole)] ^= flipped
    path = tmp_path / "changed.db"
    path.unlink(missing_ok=True)  # some file systems sync a file that is written over
    path.write_bytes(changed)
    try:
        found = content(path)
    except LedgerError:
        return
    assert found == entries


def test_damage_in_the_index_which_finds_repeated_names_is_noticed(tmp_path: Path, original: Path) -> None:
    whole = original.read_bytes()
    positions = [
        at for at in range(len(whole)) if whole.startswith(b"round 31", at) and whole[at + 8 : at + 10] != b'{"'
    ]
    assert len(positions) == 1
    changed = bytearray(whole)
    changed[positions[0] + 7] ^= 1
    (tmp_path / "l.db").write_bytes(changed)
    with pytest.raises(LedgerError, match="damaged"):
        verify(tmp_path / "l.db")


@pytest.mark.parametrize("word", ["entry_is_not_deleted", "STRICT", "UNIQUE", "BEFORE INSERT"])
def test_damage_in_the_schema_is_damage(tmp_path: Path, original: Path, word: str) -> None:
    """SQLite quotes what it cannot read, and Python cannot decode the quotation."""
    (tmp_path / "l.db").write_bytes(original.read_bytes().replace(word.encode(), b"\xf5" + word.encode()[1:], 1))
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match="cannot be (used|opened)"):
            attempt(tmp_path / "l.db")


def test_every_byte_of_an_entry_is_covered(tmp_path: Path, original: Path) -> None:
    whole, entries = original.read_bytes(), content(original)
    entry = entries[30]
    row = entry.release.encode() + entry.event.encode() + entry.previous + entry.hash
    start = whole.index(row)
    for position in range(start, start + len(row), 3):
        changed = bytearray(whole)
        changed[position] ^= 1
        (tmp_path / "l.db").unlink(missing_ok=True)
        (tmp_path / "l.db").write_bytes(changed)
        with pytest.raises(LedgerError):
            verify(tmp_path / "l.db")


@pytest.mark.parametrize("number", [Decimal(1), Fraction(1, 2), np.float32(1)])
def test_an_event_of_other_numbers_is_refused_by_the_ledger(number):
    with pytest.raises(LedgerError, match="cannot be booked .* plain Python numbers"):
        encode_event(Event("laplace", "laplace", sensitivity=number, scale=2.0))
