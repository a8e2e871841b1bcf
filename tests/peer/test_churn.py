"""Members that come and go: what is held and under way stays the same, whoever leaves, joins and is killed."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from tacit import graphs, objectives, streams
from tacit.algorithms import loss_tolerant_push_sum, online_push_sum
from tacit.algorithms.push_sum.online_push_sum import AMPLE_MASS
from tacit.peer.membership.book import SETTLING, InLink, LinkBook, OutLink
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.node.outbox import Outbox
from tests.peer.churn import ChurnNetwork
from tests.peer.settings import Setting
from tests.peer.weather import CALM, Weather

AGENTS = 6


def _setting(method) -> Setting:
    plain = streams.linear_drift(AGENTS, 3, drift=0.0, seed=1, batch=2).chunk(0, 20)
    batches = plain._replace(weight=np.ones(plain.y.shape, np.float32))
    stream = streams.from_function(lambda a, b: jax.tree.map(lambda leaf: leaf[a:b], batches), agents=AGENTS, rounds=20)
    graph = graphs.random_digraph(AGENTS, 2, seed=3)
    return Setting(method.__name__, method(objectives.squared()), graph, stream, 20, dtype="float64")


class Watched(ChurnNetwork):
    """Notes with how much each peer that has joined begins to learn."""

    def __init__(self, *given, **more):
        self.unlearnt: set[str] = set()
        self.began_with: list[float] = []
        super().__init__(*given, **more)

    def _come_back(self, name):
        self.unlearnt.add(name)
        super()._come_back(name)

    def _note_loss(self, host, used):
        super()._note_loss(host, used)
        if host.name in self.unlearnt:
            self.unlearnt.remove(host.name)
            state = host.node.machine.state
            self.began_with.append(float(getattr(state, "held", state).mass))


@pytest.mark.parametrize("method", [online_push_sum, loss_tolerant_push_sum])
@pytest.mark.parametrize("stormy", [False, True])
def test_mass_is_conserved_while_members_come_and_go(method, stormy, tmp_path):
    storm = Weather(until=6.0, latency=0.005, breaks=0.3, crashes=0.3, crashes_at_commit=0.01, partings=0.0)
    weather = storm if stormy else CALM.__class__(6.0, 0.005, 0, 0, 0, 0, 0, 0, 0, 0)
    network = Watched(_setting(method), 1, tmp_path, weather, pause=0.3)
    try:
        network.run(120.0)
        assert network.finished
        assert network.left >= 2
        assert network.joined == network.left
        if not stormy:
            data = weather.until / weather.data_gap
            assert min(host.node.round for host in network.hosts.values()) >= data, "deadlines were waited out"
        held = (lambda state: state) if method is online_push_sum else (lambda state: state.held)
        assert network.mass(held) == pytest.approx(AGENTS, abs=1e-9)
        assert len(network.began_with) >= 2
        assert min(network.began_with) >= AMPLE_MASS, "noise in a model grows as the mass under it falls"
    finally:
        network.close()


def _own_weight(book: LinkBook, t: int, lean: bool = False) -> float:
    book.next_is(t, lean)
    weights = np.asarray(book.view(t, np.dtype("float64")).out.weight)
    assert weights.sum() == 1
    return float(weights[0])


@pytest.mark.parametrize("waits", [False, True])
def test_who_is_not_fed_keeps_what_it_has_and_who_holds_little_where_links_to_it_change(waits):
    with jax.enable_x64(True):
        book = LinkBook.first("peers", 0, waits, {"b": OutLink(1, "", first=1)}, {"c": InLink(2, 1)}, [])
        assert _own_weight(book, 1) == _own_weight(book, 2, lean=True) == 0.5, "no link has changed"
        book.close_in("c", 5)
        assert book.ending == (frozenset() if waits else {"c"})
        assert _own_weight(book, 3) == 0.5
        assert _own_weight(book, 4, lean=True) == 1
        assert _own_weight(book, 5) == 1, "the last round of a link pushes nothing"
        first = book.hear("d", 3, 5, 5)
        book.assign()
        assert _own_weight(book, first) == 0.5
        assert _own_weight(book, first + SETTLING, lean=True) == 1
        assert _own_weight(book, first + SETTLING + 1, lean=True) == 0.5, "it may hold little for good"
        book.new = True
        assert _own_weight(book, first + SETTLING + 2, lean=True) == 1, "a newcomer has yet to get its share"
        assert _own_weight(book, first + SETTLING + 3) == 0.5
        assert _own_weight(book, first + SETTLING + 4, lean=True) == 0.5, "it is new no more"
        book.leaving = True
        assert _own_weight(book, first + SETTLING + 5, lean=True) == 0


def test_nothing_is_pushed_to_who_confirms_nothing_but_by_a_leaver():
    """Or all that the others hold would in time be under way to one that is dead."""
    both = {"b": OutLink(1, "", first=1), "d": OutLink(2, "", first=1)}
    with jax.enable_x64(True):
        book = LinkBook.first("peers", 0, False, both, {"c": InLink(3, 1)}, [])
        for silent, weights in ((["d"], [0.5, 0.5, 0]), (["b", "d"], [1, 0, 0]), ([], [1 / 3, 1 / 3, 1 / 3])):
            book.next_is(book.begun + 1, silent=silent)
            book = LinkBook.read(json.loads(json.dumps(book.facts())))  # a restart within the round
            view = book.view(book.begun, np.dtype("float64"))
            np.testing.assert_allclose(np.asarray(view.out.weight)[:3], weights, atol=1e-15)
            assert np.asarray(view.out.live)[:3].all(), "messages still go to it, so that it can come back"
        book.leaving = True
        book.next_is(book.begun + 1, silent=["d"])
        assert book.silent == []


def test_silence_is_eight_rounds_without_a_confirmation():
    outbox = Outbox(["a", "b"], waits=False, longest_delay=0)
    for t in range(1, 9):
        outbox.committed([Parcel("peers", 0, t, name, b"") for name in "ab"])
        outbox.confirm("b", Position(t, 0))
        assert outbox.silent(t) == []
    assert outbox.silent(9) == ["a"]
    outbox.confirm("a", Position(9, 0))
    assert outbox.silent(9) == []
