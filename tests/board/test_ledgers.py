"""Ledgers of a swarm's members on the board: verified, told one by one, never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.board.ledger_view import stores_of
from tacit.privacy.events import Event
from tacit.privacy.ledger import Budget, Ledger
from tacit.results.live import LiveLog
from tests.privacy.ledgers import edit

from .boards import Client, served

pytest.importorskip("uvicorn")
EVENT = Event("laplace", "laplace", sensitivity=1.0, scale=2.0)


def book(home: Path, rounds: int) -> Path:
    home.mkdir(parents=True)
    with Ledger.create(home / "store.sqlite", Budget(epsilon=10.0)) as ledger:
        for number in range(1, rounds + 1):
            ledger.charge(f"{home.name} round {number} phase 0", EVENT)
    return home / "store.sqlite"


@pytest.fixture
def swarm(tmp_path: Path) -> Path:
    """A booked swarm, and a rehearsal, whose stores hold nothing."""
    for number, (label, booked) in enumerate({"booked": True, "rehearsed": False}.items(), 1):
        with LiveLog(tmp_path, number) as log:
            log.begin(label, "swarm", {"private": True, "booked": booked, "rounds": 9}, {})
            log.end("done", 9)
    for number, name in enumerate(("peer-0", "peer-1", "peer-10"), 1):
        book(tmp_path / "1-booked" / name, number)
    book(tmp_path / "2-rehearsed" / "peer-0", 0)
    return tmp_path


def ledger(board: Client, label: str, query: str = "") -> dict:
    return board.json(f"/api/runs/{board.runs()[label]['id']}/ledger{query}")


def test_each_member_has_its_own_book(swarm: Path) -> None:
    with served(swarm) as board:
        runs = board.runs()
        has = {label: board.json(f"/api/runs/{run['id']}")["has_ledger"] for label, run in runs.items()}
        assert has == {"booked": True, "rehearsed": False}
        first, last = ledger(board, "booked"), ledger(board, "booked", "?member=peer-10")
        assert first["members"] == last["members"] == ["peer-0", "peer-1", "peer-10"]
        assert (first["member"], last["member"]) == ("peer-0", "peer-10")
        assert {first["chain"], last["chain"]} == {"verified"}
        spent = [book["classes"][0]["spent"] for book in (first, last)]
        assert spent == pytest.approx([0.5, 1.5])
        assert [each["round"] for each in last["releases"]] == [1, 2, 3]
        for wrong in ("peer-7", "..", "../2-rehearsed/peer-0", "%2e%2e%2f2-rehearsed%2fpeer-0"):
            assert board.ask(f"/api/runs/{runs['booked']['id']}/ledger?member={wrong}").status == 409


def test_a_book_that_was_changed_is_told_as_broken(swarm: Path) -> None:
    edit(swarm / "1-booked" / "peer-10" / "store.sqlite", "DELETE FROM entry WHERE sequence = 2")
    with served(swarm) as board:
        found = ledger(board, "booked", "?member=peer-10")
        assert (found["chain"], found["classes"]) == ("broken", [])
        assert ledger(board, "booked")["chain"] == "verified"


def test_links_are_not_followed(swarm: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    book(outside / "peer-5", 1)
    (swarm / "1-booked" / "peer-5").symlink_to(outside / "peer-5")
    (swarm / "1-linked").symlink_to(outside)
    (swarm / "1-booked" / "peer-6").mkdir()
    (swarm / "1-booked" / "peer-6" / "store.sqlite").symlink_to(outside / "peer-5" / "store.sqlite")
    (live,) = (swarm / ".tacit-live").glob("01-*")
    assert list(stores_of(live)) == ["peer-0", "peer-1", "peer-10"]
    assert stores_of(None) == {}
