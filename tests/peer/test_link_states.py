"""States of a peer's links: open, late, dead, refused and quarantined, from what the peer knows of its neighbours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tacit.peer.observing import link_states as module
from tacit.peer.observing.figures import STATES
from tacit.peer.observing.link_states import LATE_TIME, link_states
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import LinkEventLog
from tacit.peer.operations.logs import Log


class Service:
    """A peer in round 10 that hears, and sends to, "a"; its links are up, and nothing is outstanding."""

    def __init__(self):
        self.events = LinkEventLog(Counters(), Log())
        self.links = SimpleNamespace(
            listener=SimpleNamespace(connected={"a"}), dialers={"a": SimpleNamespace(connected=True)}
        )
        self.node = SimpleNamespace(
            position=(10, 0),
            round=10,
            hears={"a"},
            claims=SimpleNamespace(said={"a": 10}),
            position_interval=4,
            held_back_by=set(),
            machine=SimpleNamespace(state=object()),
            missing=set,
            unconfirmed=lambda name: 0,
        )

    def down(self):
        self.links.listener.connected.clear()
        self.links.dialers["a"].connected = False


def states(service):
    return {row["direction"]: (row["state"], row["lag"]) for row in link_states(service)}


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def test_links_that_are_up_and_keep_pace_are_open():
    assert states(Service()) == {"in": ("open", 0), "out": ("open", 0)}


def test_a_neighbour_rounds_behind_is_late():
    service = Service()
    service.node.claims.said["a"] = 9
    assert states(service)["in"] == ("open", 1)
    service.node.claims.said["a"] = 8
    assert states(service) == {"in": ("late", 2), "out": ("open", 0)}


def test_a_neighbour_that_confirms_too_little_is_late():
    service = Service()
    service.node.unconfirmed = lambda name: 4
    assert states(service)["out"] == ("open", 4)
    service.node.unconfirmed = lambda name: 5
    assert states(service) == {"in": ("open", 0), "out": ("late", 5)}


@pytest.mark.parametrize("waits", ["missing", "held_back_by"])
def test_a_neighbour_that_is_waited_for_is_late_after_a_while(clock, waits):
    service = Service()
    if waits == "missing":
        service.node.missing = lambda: {"a"}
    else:
        service.node.held_back_by = {"a"}
    assert {state for state, _ in states(service).values()} == {"open"}
    clock.seconds += LATE_TIME
    assert {state for state, _ in states(service).values()} == {"late"}
    service.node.position = (11, 0)  # it has gone on
    assert {state for state, _ in states(service).values()} == {"open"}


def test_a_link_that_is_down_is_dead_whatever_it_lags():
    service = Service()
    service.node.claims.said["a"] = 1
    service.down()
    assert states(service) == {"in": ("dead", 9), "out": ("dead", 0)}
    service.events.lost("a", "unreachable", "")
    assert states(service)["out"][0] == "dead"


@pytest.mark.parametrize("reason", ["untrusted", "turned away"])
def test_a_link_out_that_is_turned_away_is_refused_until_it_is_up(reason):
    service = Service()
    service.down()
    service.events.lost("a", reason, "")
    assert (states(service)["in"][0], states(service)["out"][0]) == ("dead", "refused")
    service.links.dialers["a"].connected = True
    assert states(service)["out"][0] == "open"
    service.events.linked("a", "out", True)
    service.events.linked("a", "out", False)
    service.links.dialers["a"].connected = False
    assert states(service)["out"][0] == "dead", "the reason of an earlier time counts no more"


def test_a_link_in_whose_identity_is_refused_is_refused():
    service = Service()
    service.down()
    service.events.refused("late", "a", "a single message")
    assert states(service)["in"][0] == "dead"
    service.events.refused("revoked", "a", "")
    assert states(service) == {"in": ("refused", 0), "out": ("dead", 0)}


def test_a_neighbour_in_quarantine_has_both_of_its_links_so(monkeypatch):
    service = Service()
    held = {"a": {"quarantined_until": None}}
    monkeypatch.setattr(module, "standing_of", lambda node: held)
    assert states(service)["in"][0] == "open"
    held["a"]["quarantined_until"] = 12
    assert {state for state, _ in states(service).values()} == {"quarantined"}
    service.down()
    assert {state for state, _ in states(service).values()} == {"quarantined"}


def test_no_state_is_without_a_test_of_the_map():
    assert set(STATES) == {"open", "late", "dead", "refused", "quarantined"}
