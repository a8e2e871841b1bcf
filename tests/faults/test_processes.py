"""A small campaign on real processes; `python -m tests.faults.process_campaign` is the large one."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from tacit.peer.node.store import PeerStore
from tests.faults.evidence import Evidence
from tests.faults.process_campaign import Campaign
from tests.faults.processes import Federation, PeerFailedError
from tests.privacy.ledgers import EVENT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="signals and stores are looked at as Linux has them"),
    pytest.mark.timeout(300),
]
OTHER = pytest.mark.covered_by("online_push_sum")
PAIR = {"a": ["b"], "b": ["a"]}
TO_TWO = {"a": ["b", "c"], "b": ["a"], "c": ["a"]}


@pytest.mark.parametrize(
    ("method", "noise"),
    [
        ("online_push_sum", "laplace"),
        pytest.param("loss_tolerant_push_sum", "laplace", marks=OTHER),
        pytest.param("online_push_sum", "correlated", marks=pytest.mark.covered_by("test_virtual_network.py")),
    ],
)
def test_peers_that_are_killed_go_on_and_nothing_is_released_twice_or_unbooked(
    tmp_path: Path, method: str, noise: str
) -> None:
    with Federation(tmp_path / "peers", PAIR, method, noise=noise, rows=200, interval=0.05) as federation:
        campaign = Campaign(federation, random.Random(1))
        federation.start()
        for name in PAIR:
            campaign.kill(name)
            campaign.come_back(name)
        campaign.look()
        report = campaign.end()
    assert report.violations == []
    assert report.kills == 2
    assert report.figures is not None
    assert min(report.rounds.values()) > 2
    seen, booked = report.figures.releases, report.figures.booked
    assert 4 < seen <= report.figures.observations
    if campaign.waits:  # every round reaches the neighbour; those still under way at the end are in the outbox
        assert booked - 4 <= seen <= booked
    else:  # what was released while the neighbour was away is booked, and seen by nobody
        assert seen <= booked


class Written:
    """Peers that never ran, with logs and a ledger as somebody has written them."""

    def __init__(self, directory: Path, graph: dict[str, list[str]] = PAIR, method: str = "online_push_sum") -> None:
        self.federation = Federation(directory, graph, method, rows=1)
        for member in self.federation.members.values():
            (member.directory / "log.jsonl").write_text("")
        self.evidence = Evidence(self.federation)

    def booked(self, *rounds: int) -> None:
        settings = self.federation.members["a"].settings()
        settings.store.parent.mkdir()
        with PeerStore.create(settings.store, settings.budget, settings.job.hash, settings.witness) as store:
            store.commit(charges=[(f"peer 0 round {t} phase 0", EVENT) for t in rounds])

    def logged(self, name: str, event: str, **fields: object) -> None:
        with (self.federation.members[name].directory / "log.jsonl").open("a") as log:
            log.write(json.dumps({"time": "2024-01-01T00:00:00Z", "level": "debug", **fields, "event": event}) + "\n")

    def heard(self, round_: int, digest: str, receiver: str = "b") -> None:
        self.logged(receiver, "message", neighbour="a", links="peers", phase=0, round=round_, digest=digest)

    def violations(self) -> list[str]:
        self.evidence.after_kill("a")
        return self.evidence.violations


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "peers")


def test_the_evidence_accepts_what_was_booked_once_and_sent_again(written: Written) -> None:
    written.booked(1, 2)
    written.heard(1, "x")
    written.heard(1, "x")
    written.heard(2, "y")
    assert written.violations() == []


def test_the_evidence_finds_a_release_in_two_forms(written: Written) -> None:
    written.booked(1)
    written.heard(1, "x")
    written.heard(1, "y")
    assert "in 2 forms" in written.violations()[0]


@pytest.mark.parametrize(("method", "found"), [("online_push_sum", 1), ("loss_tolerant_push_sum", 0)])
def test_two_receivers_get_the_same_bytes_but_of_running_totals(tmp_path: Path, method: str, found: int) -> None:
    """Of totals one receiver's may stay behind: nothing is pushed to a peer that was long silent."""
    written = Written(tmp_path / "peers", TO_TWO, method)
    written.booked(1)
    written.heard(1, "x")
    written.heard(1, "y", "c")
    assert len(written.violations()) == found
    written.heard(1, "z")
    assert len(written.violations()) > found


def test_the_evidence_finds_a_release_that_is_not_booked(written: Written) -> None:
    written.booked(1)
    written.heard(2, "x")
    assert "has not booked" in written.violations()[0]


def test_the_evidence_finds_a_round_that_goes_back(written: Written) -> None:
    written.booked(1)
    for round_ in (3, 3, 2):
        written.logged("a", "phase over", round=round_, missing=[], over=True)
    assert written.violations() == ["a finished 2 after 3"]


def test_an_error_in_a_log_is_a_failure(written: Written) -> None:
    written.logged("b", "rounds ended with a fault", level="error")
    with pytest.raises(PeerFailedError, match="rounds ended with a fault"):
        written.violations()
