"""Notices of liars, kills and unlucky orders of events: a node with links that change keeps what it holds, and goes on."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tacit import graphs, objectives, streams
from tacit.algorithms import loss_tolerant_push_sum, online_push_sum
from tacit.core.errors import BudgetExceeded, ConfigError, MessageRefused
from tacit.peer.membership.book import InLink, OutLink
from tacit.peer.membership.notices import Kind, Notice
from tacit.peer.membership.terms import OpenLinks
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.node import Node
from tacit.peer.node.snapshot import encode
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import LAST_ROUND
from tests.peer.settings import Setting

PEERS = 4
METHODS = [online_push_sum, loss_tolerant_push_sum]
both = pytest.mark.parametrize("method", METHODS)


@functools.cache
def _setting(method) -> Setting:
    plain = streams.linear_drift(PEERS, 3, drift=0.0, seed=1, batch=2).chunk(0, 20)
    rows = plain._replace(weight=np.ones(plain.y.shape, np.float32))
    stream = streams.from_function(lambda a, b: jax.tree.map(lambda x: x[a:b], rows), agents=PEERS, rounds=20)
    graph = graphs.directed_ring(PEERS)
    return Setting(method.__name__, method(objectives.squared()), graph, stream, 20, dtype="float64")


@pytest.fixture
def make(tmp_path):
    stores = []

    def node(method, agent=0, out=(), into=(), joins=False, expects=lambda name: True) -> Node:
        terms = OpenLinks(
            "peers",
            {f"peer-{k}": OutLink(k, "host:1", first=1) for k in out},
            {f"peer-{k}": InLink(k, 1) for k in into},
            joins,
            lambda name, _: int(name.removeprefix("peer-")),
            expects,
        )
        plan = dataclasses.replace(_setting(method).plans[f"peer-{agent}"], open_links=terms)
        stores.append(PeerStore.create(tmp_path / f"{len(stores)}.db", NOTHING_BOOKED, "job"))
        return Node(plan, stores[-1], 1.0, 0.0, _setting(method).functions)

    yield node
    for store in stores:
        store.close()


def _say(node, name, kind, at_round=0):
    node.members.heard(name, Notice(kind, at_round).packed())


def _begin(node):
    empty = jax.tree.map(np.zeros_like, node.plan.batch)
    node.begin(empty, 0.0, cursor=node.cursor, records=(-1,) * np.size(empty.weight))


def _mass(node) -> float:
    state = node.machine.state
    return float(getattr(state, "held", state).mass)


def _leave(node, rounds=20) -> int:
    """Let a leaver go on, with receivers that confirm at once; returns the rounds that it took."""
    for taken in range(rounds):
        if node.members.book.gone or not node.members.book.leaving:
            return taken
        if node.ready(0.0):
            _begin(node)
            node.proceed(9.0)
        for name in list(node.sends_to):
            for payload in node.members.to_receiver(name):
                _say(node, name, Kind.CLOSED, Notice.read(payload).round)
    return rounds


@both
def test_a_leaver_whose_only_link_begins_later_takes_nothing_along(make, method):
    node = make(method)
    node.members.add("peer-1", "host:1")
    node.members.reached("peer-1")
    _say(node, "peer-1", Kind.OPENED, 6)
    node.members.leave()
    assert _leave(node) < 20
    assert node.members.book.gone
    assert _mass(node) == 0


@both
def test_a_leaver_whose_last_receiver_is_revoked_stays(make, method):
    node = make(method, out=[1])
    node.members.leave()
    node.members.expel("peer-1")
    assert not node.members.book.gone
    assert not node.members.book.leaving
    assert _mass(node) == 1


@both
def test_a_receiver_that_names_a_round_far_away_gets_no_link(make, method):
    node = make(method, out=[1])
    node.members.add("peer-2", "host:2")
    node.members.reached("peer-2")
    _say(node, "peer-2", Kind.OPENED, LAST_ROUND)
    node.members.leave()
    assert _leave(node) < 20
    assert node.members.book.gone


@both
def test_a_link_that_was_never_used_is_closed_within_a_round(make, method):
    node = make(method, out=[1], into=[3])
    _begin(node)
    _say(node, "peer-3", Kind.CLOSE, 0)
    assert node.due(0.0)
    node.proceed(0.0)
    assert node.hears == frozenset()


def test_a_joiner_is_not_carried_to_the_last_round(make):
    node = make(online_push_sum, joins=True)
    _say(node, "peer-2", Kind.OPEN, LAST_ROUND)
    assert node.round == 0
    assert Notice.read(node.members.answers["peer-2"][0]).kind is Kind.REFUSED


def test_a_joiner_whose_only_sender_goes_waits_for_another(make):
    node = make(online_push_sum, joins=True)
    _say(node, "peer-2", Kind.OPEN, 5)
    _say(node, "peer-2", Kind.CLOSE, 0)
    assert not node.ready(0.0)
    _say(node, "peer-3", Kind.OPEN, 9)
    assert node.ready(0.0)


def test_a_joiner_that_others_wait_for_leaves_no_round_out(make):
    node = make(online_push_sum, out=(1,), joins=True)
    _say(node, "peer-2", Kind.OPEN, 4)
    node.members.reached("peer-1")
    _say(node, "peer-1", Kind.OPENED, node.round + 4)
    _say(node, "peer-2", Kind.CLOSE, 0)  # before anything has come from it
    _say(node, "peer-3", Kind.OPEN, 20)
    promised, told = node.members.book.out["peer-1"].first, []
    while node.round < promised and node.ready_to_begin:
        _begin(node)
        told += [parcel.round for parcel in node.waiting("peer-1")]
        node.proceed(0.0)
    assert told == [promised]


@both
def test_a_leaver_that_dies_after_its_last_link_has_left_all_the_same(make, method):
    node = make(method, out=(1,), into=(2,))
    node.members.leave()
    book = node.members.book
    book.into.clear()
    book.out.clear()
    book.handed_on = book.begun = node.round
    snapshot, own = encode(node.machine.snapshot(), None, book.facts())
    node.store.commit(snapshot=snapshot, own=own)
    again = Node(node.plan, node.store, 1.0, 0.0, _setting(method).functions)
    assert again.members.book.gone


def test_rounds_of_peers_without_a_link_do_not_count(make):
    node = make(loss_tolerant_push_sum, out=[1], into=[3])
    for name in ("peer-1", "peer-2"):
        node.announced(name, LAST_ROUND - 5)
        node.greeted(name, LAST_ROUND - 5)
        with pytest.raises(MessageRefused, match="sender"):
            node.receive(name, "peers", 0, LAST_ROUND - 5, None)
    assert node.claims.furthest == 0


def test_a_link_that_its_sender_has_forgotten_begins_anew(make):
    sender = make(loss_tolerant_push_sum, out=[1])
    receiver = make(loss_tolerant_push_sum, agent=1, into=[0])

    def step():
        _begin(sender)
        _begin(receiver)
        for parcel in sender.outbox.parcels.get("peer-1", [])[-1:]:
            message = receiver.codec.unpack(parcel.phase, parcel.content)
            receiver.receive("peer-0", parcel.links, parcel.phase, parcel.round, message)
        sender.proceed(9.0)
        receiver.proceed(9.0)

    step()
    step()
    sender.members.expel("peer-1")
    before = _mass(receiver)
    sender.members.add("peer-1", "host:1")
    sender.members.reached("peer-1")
    (asked,) = sender.members.to_receiver("peer-1")
    receiver.members.heard("peer-0", asked)
    (answer,) = receiver.members.answers.pop("peer-0")
    sender.members.heard("peer-1", answer)
    receiver.members.heard("peer-0", asked)  # said again: nothing more happens
    step()
    step()
    assert _mass(receiver) >= before


def test_whoever_sends_over_a_link_that_is_gone_is_told_to_close_it(make):
    node = make(online_push_sum, out=[1], into=[0], agent=2, expects=lambda name: name == "peer-3")
    assert [Notice.read(said).kind for said in node.members.to_sender("peer-0")] == [Kind.LEAVE]
    _say(node, "peer-0", Kind.CLOSE, 0)
    node.admit("peer-0")  # it may have missed the answer
    node.members.answers.clear()
    _say(node, "peer-0", Kind.CLOSE, 0)
    assert Notice.read(node.members.answers["peer-0"][0]).kind is Kind.CLOSED
    node.members.strangers.add("peer-0")
    assert [Notice.read(said).kind for said in node.members.to_sender("peer-0")] == [Kind.LEAVE]


@both
def test_a_round_that_cannot_begin_leaves_the_book_as_it_was(make, method, monkeypatch):
    node = make(method, out=[1])
    node.members.leave()
    before = node.members.book.facts()

    def refuse(index):
        raise BudgetExceeded("nothing is left")

    with monkeypatch.context() as patch:
        patch.setattr(node.machine, "_enter", refuse)
        with pytest.raises(BudgetExceeded):
            _begin(node)
    assert node.members.book.facts() == before
    assert _leave(node) < 20
    assert _mass(node) == 0


def test_links_of_absurd_rounds_come_back_with_the_round(make):
    node = make(loss_tolerant_push_sum, out=[1], into=[3])
    node.machine.skip_to(10**6)
    _begin(node)
    node.restart_at(50)
    assert all(link.first <= 50 for link in (*node.members.book.out.values(), *node.members.book.into.values()))


def test_a_peer_sends_to_no_link_of_its_own(make):
    node = make(online_push_sum, out=[1])
    with pytest.raises(ConfigError, match="itself"):
        node.members.add("peer-0", "host:1")


def test_bytes_that_are_no_notice_are_refused(make):
    node = make(online_push_sum, out=[1], into=[3])
    for payload in (b"", b"\x01", b"\x09" + bytes(8), b"\x01" + b"\xff" * 8):
        with pytest.raises(MessageRefused):
            node.members.heard("peer-3", payload)
