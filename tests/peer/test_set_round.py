"""A store that was carried to an absurd round: it is told from others, and put back without loss of any charge."""

from __future__ import annotations

import pytest

from tacit.core.errors import BudgetExceeded, ConfigError, StoreError
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.node import Node
from tacit.peer.node.set_round import set_round
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import LAST_ROUND
from tacit.privacy.accounting import Budget
from tacit.privacy.ledger import inspect
from tests.faults import network_campaign as campaign
from tests.peer.test_node import setting as of_three
from tests.peer.virtual import Network
from tests.peer.weather import CALM

SANE = 3
"""Rounds that were done before a lie."""
POISON = 2**31 - 1
"""The round that the last version committed."""


class Place:
    """A store of one peer of a setting, with its witness."""

    def __init__(self, folder, setting, budget=None, name="peer-0"):
        self.setting, self.name = setting, name
        self.budget = budget or (Budget(epsilon=1000.0) if setting.booked else NOTHING_BOOKED)
        self.path, self.witness = folder / "s.db", folder / "witness.json"

    def opened(self):
        make = PeerStore.open if self.path.exists() else PeerStore.create
        return make(self.path, self.budget, "job", self.witness)

    def node(self, store):
        return Node(self.setting.plans[self.name], store, 1.0, 0.0, self.setting.functions)

    def begin(self, node):
        used = node.cursor or 0
        node.begin(self.setting.batch(self.name, used), 0.0, cursor=used + 1)

    def rounds(self, number, store):
        node = self.node(store)
        for _ in range(number):
            self.begin(node)
            node.proceed(0.0)
        return node

    def poisoned(self, monkeypatch, round_=POISON, over=False):
        """Do sane rounds, and then what the last version did when a receiver named a round."""
        with self.opened() as store, monkeypatch.context() as old:
            node = self.rounds(SANE, store)
            old.setattr(Node, "_catch_up", lambda node: node.machine.skip_to(round_ - 1))
            self.begin(node)
            if over:
                node.proceed(0.0)
                node.flush()
            assert store.ledger.releases in (0, SANE + 1)
        return self

    def put_back(self, next_round=None):
        with self.opened() as store:
            return set_round(self.setting.plans[self.name], store, next_round, self.setting.functions)

    def releases(self):
        return inspect(self.path, lambda replay: [entry.release for entry, _ in replay], self.witness)


@pytest.fixture
def booked(tmp_path):
    return Place(tmp_path, campaign.SETTINGS["totals, booked"]())


@pytest.mark.parametrize("over", [False, True])
def test_a_poisoned_store_is_put_back_and_every_charge_stays(booked, monkeypatch, over):
    booked.poisoned(monkeypatch, over=over)
    with booked.opened() as store:
        before, spent = booked.node(store).machine.state, store.ledger.spent()
        with pytest.raises(StoreError, match="tacit peer set-round"):
            booked.node(store).refuse_exhausted()
    receivers = 2  # of what was said in the absurd round
    assert booked.put_back() == ("peer-0", POISON, SANE + 1, receivers, SANE + 1)
    with booked.opened() as store:
        node = booked.node(store)
        assert (node.round, node.between_rounds, tuple(node.position)) == (SANE, True, (SANE + 1, 0))
        assert all(parcel.round <= SANE for name in node.sends_to for parcel in node.waiting(name))
        assert store.ledger.spent() == spent
        assert float(node.machine.state.held.mass) == float(before.held.mass), "what was learnt stays"
        booked.rounds(2, store)
        assert store.ledger.releases == SANE + 3
    names = booked.releases()
    assert names == [f"peer 0 round {t} phase 0" for t in (1, 2, 3, POISON, 4, 5)]


def test_a_round_that_was_used_is_never_done_again(booked, monkeypatch):
    booked.poisoned(monkeypatch, round_=10_000)
    for used in (1, SANE, 10_000, 9_500):
        with pytest.raises(StoreError, match=f"--round {used}"):
            booked.put_back(used)
    for impossible in (0, -5, LAST_ROUND + 1, 2**63):
        with pytest.raises(ConfigError, match=str(impossible)):
            booked.put_back(impossible)
    assert booked.put_back(10_001).next == 10_001, "forwards too"
    assert booked.put_back(SANE + 7).next == SANE + 7
    with pytest.raises(StoreError, match=f"--round {SANE + 6}"):  # after which it stands now
        booked.put_back(SANE + 6)


def test_who_comes_again_to_rounds_that_were_done_leaves_them_out(booked, monkeypatch):
    monkeypatch.setattr("tacit.peer.node.set_round.LONGEST_LEAP", 2)
    booked.poisoned(monkeypatch, round_=SANE + 4, over=True)
    assert booked.put_back().next == SANE + 1
    with booked.opened() as store:
        assert booked.rounds(5, store).round == SANE + 6
    done = [1, 2, 3, 7, 4, 5, 6, 8, 9]
    assert booked.releases() == [f"peer 0 round {t} phase 0" for t in done]


def test_without_a_ledger_to_tell_the_round_has_to_be_named(tmp_path, monkeypatch):
    place = Place(tmp_path, campaign.SETTINGS["renormalise"]())
    place.poisoned(monkeypatch)
    with pytest.raises(ConfigError, match="--round"):
        place.put_back()
    assert place.put_back(SANE + 1).next == SANE + 1
    with place.opened() as store:
        assert place.rounds(2, store).round == SANE + 2


def test_a_store_that_was_not_carried_off_stays_as_it_is(booked):
    with booked.opened() as store:
        booked.rounds(SANE, store)
    before = booked.path.read_bytes()
    with pytest.raises(ConfigError, match=f"before {SANE}"):
        booked.put_back()
    assert booked.path.read_bytes() == before


def test_methods_that_wait_need_a_new_epoch(tmp_path):
    place = Place(tmp_path, of_three("waits"))
    with pytest.raises(ConfigError, match="new epoch"):
        place.put_back(7)


def test_the_budget_does_not_come_back(tmp_path, monkeypatch):
    setting = campaign.SETTINGS["totals, booked"]()
    place = Place(tmp_path, setting, Budget(epsilon=2.0 * (SANE + 2)))
    # The same records over and over, so that their releases add up.
    place.begin = lambda node: node.begin(setting.batch("peer-0", 0), 0.0, cursor=1, records=[0, 1])
    place.poisoned(monkeypatch)
    place.put_back()
    with place.opened() as store:
        with pytest.raises(BudgetExceeded):
            place.rounds(2, store)
        assert store.ledger.releases == SANE + 2


def test_a_graph_that_was_carried_off_whole_comes_back_together(tmp_path, monkeypatch):
    """By the last version's rule, all of it: every store is put back by itself, and then they find each other."""
    setting = campaign.SETTINGS["totals"]()
    network = Network(setting, 0, tmp_path, CALM)

    def old_rule(node):
        if node.claims.furthest > node.round + 9:
            node.machine.skip_to(node.claims.furthest - 1)

    with monkeypatch.context() as old:
        old.setattr(Node, "_catch_up", old_rule)
        network.run(2.0)
        network.hosts["peer-1"].node.claims.greet("peer-0", LAST_ROUND - 60)
        network.run(4.0)
    network.close()
    assert min(host.round for host in network.hosts.values()) > LAST_ROUND - 60
    for name, host in network.hosts.items():
        with PeerStore.open(host.path, NOTHING_BOOKED, "job") as store:
            set_round(setting.plans[name], store, 30, setting.functions)
    again = Network(setting, 0, tmp_path, CALM)
    try:
        again.run(8.0)  # so many batches are used that the next ones come after 4 seconds
        assert all(30 <= host.round < 1000 for host in again.hosts.values())
        assert again.in_time.keys() == again.latencies.keys()
        campaign.Invariants(again).mass()  # what was under way is in the totals that follow
        heard = [host.node.machine.state.heard_round for host in again.hosts.values()]
        assert all(30 <= int(t) < 1000 for rounds in heard for t in rounds[1:] if t)
    finally:
        again.close()
