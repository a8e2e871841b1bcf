"""One whole peer, step by step: what it commits, sends again, waits for, forgets and leaves out."""

import dataclasses
import functools
from pathlib import Path

import jax
import numpy as np
import pytest

from tacit import graphs, objectives, privacy, streams
from tacit.algorithms import distributed_online, loss_tolerant_push_sum, online_push_sum, pso_fed
from tacit.core.errors import BudgetExceeded, ContractError, MessageRefused, StoreError
from tacit.peer.machine.claims import FURTHEST_AHEAD, GIVEN_UP_AFTER
from tacit.peer.machine.rounds import HORIZON
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.exchange import Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.privacy.accounting import Budget
from tests.peer.settings import Setting
from tests.simulator import specimens

ROUNDS = 30


def stream(agents):
    return streams.linear_drift(agents, 2, drift=0.0, seed=1)


@functools.cache
def setting(kind):
    """Three peers: a one-sided ring, or everybody with everybody."""
    renormalise = distributed_online(objectives.squared(), missing="renormalise")
    noisy = distributed_online(objectives.squared(), mechanism=privacy.laplace(1.0, 1.0))
    make = {
        "waits": lambda: Setting(
            kind, online_push_sum(objectives.squared()), graphs.directed_ring(3), stream(3), ROUNDS
        ),
        "double": lambda: Setting(
            kind, online_push_sum(objectives.squared()), graphs.directed_ring(3), stream(3), ROUNDS, dtype="float64"
        ),
        "goes on": lambda: Setting(kind, renormalise, graphs.complete(3), stream(3), ROUNDS),
        "one-sided": lambda: Setting(
            kind, loss_tolerant_push_sum(objectives.squared()), graphs.directed_ring(3), stream(3), ROUNDS
        ),
        "booked": lambda: Setting(kind, noisy, graphs.complete(3), stream(3), ROUNDS, booked=True),
        "late": lambda: Setting(
            kind,
            specimens.everything(2),
            graphs.ring(3).with_weights("receiver"),
            specimens.targets(3, ROUNDS),
            ROUNDS,
            longest_delay=9,
        ),
        "phases": lambda: Setting(
            kind, specimens.everything(3), specimens.random_graph(3, 1, 0.9), specimens.targets(3, ROUNDS), ROUNDS
        ),
        "roles": lambda: Setting(
            kind, specimens.federated(cohort=3), specimens.served(3, 1), specimens.targets(3, ROUNDS), ROUNDS
        ),
        "called by chance": lambda: Setting(
            kind, pso_fed(objectives.squared(), 0.1, fraction=0.5, share=1), graphs.star_roles(3), stream(3), ROUNDS
        ),
    }
    return make[kind]()


class Bench:
    """Nodes of a setting, and what passes between them by hand."""

    def __init__(self, kind, folder, budget=None):
        self.setting, self.folder = setting(kind), folder
        self.budget = budget or (Budget(epsilon=100.0) if self.setting.booked else NOTHING_BOOKED)
        self.open = []

    def node(self, name, now=0.0, deadline=1.0):
        """Make a node, or go on with one as after a crash."""
        path = Path(self.folder) / f"{name}.db"
        make = PeerStore.open if path.exists() else PeerStore.create
        store = make(path, self.budget, "job")
        self.open.append(store)
        return Node(self.setting.plans[name], store, deadline, now, self.setting.functions)

    def again(self, node):
        """What becomes of a node that is killed and started again."""
        node.store.close()
        return self.node(node.plan.name)

    def begin(self, node, now=0.0):
        node.begin(self.setting.batch(node.plan.name, node.cursor or 0), now, cursor=(node.cursor or 0) + 1)

    @staticmethod
    def carry(source, target, parcels=None):
        """Deliver what waits; whatever is not wanted is refused."""
        reasons = []
        for parcel in source.waiting(target.plan.name) if parcels is None else parcels:
            message = target.codec.unpack(parcel.phase, parcel.content)
            try:
                target.receive(source.plan.name, parcel.links, parcel.phase, parcel.round, message)
            except MessageRefused as refusal:
                reasons.append(refusal.reason)
        return reasons

    def rounds(self, nodes, last, after_step=lambda nodes, k: None):
        """Let everybody do its rounds; `after_step` may put another node in the place of one."""
        for _ in range(20 * last):
            if all(node.between_rounds and node.round == last for node in nodes):
                return
            for k in range(len(nodes)):
                for other in nodes:
                    if nodes[k].plan.name in other.sends_to:
                        self.carry(other, nodes[k])
                if nodes[k].between_rounds and nodes[k].round < last and nodes[k].ready_to_begin:
                    self.begin(nodes[k])
                elif nodes[k].due(0.0):
                    nodes[k].proceed(0.0)
                after_step(nodes, k)
                for other in nodes:
                    if nodes[k].plan.name in other.sends_to:
                        other.confirmed(nodes[k].plan.name, nodes[k].position)
        raise AssertionError(f"the peers are at {[node.position for node in nodes]}")


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(kind, budget=None):
        made.append(Bench(kind, tmp_path, budget))
        return made[-1]

    yield make
    for each in made:
        for store in each.open:
            store.close()


def rounds_of(parcels):
    return [parcel.round for parcel in parcels]


class TestDurability:
    """After a crash a peer is where its last commit left it."""

    def test_what_was_committed_is_sent_again_byte_by_byte(self, bench):
        table = bench("booked")
        one = table.node("peer-0")
        assert one.position == (1, 0)
        table.begin(one)
        waiting = {name: one.waiting(name) for name in ("peer-1", "peer-2")}
        assert all(rounds_of(parcels) == [1] for parcels in waiting.values())
        again = table.again(one)
        assert again.round == 1
        assert not again.between_rounds
        assert {name: again.waiting(name) for name in waiting} == waiting
        assert again.store.ledger.releases == 1

    def test_what_was_not_committed_never_was(self, bench):
        table = bench("booked")
        one = table.node("peer-0")
        one.store.commit = lambda **what: (_ for _ in ()).throw(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            table.begin(one)
        assert one.waiting("peer-1") == ()
        again = table.again(one)
        assert (again.round, again.store.ledger.releases, again.cursor) == (0, 0, None)
        assert again.waiting("peer-1") == ()

    @pytest.mark.parametrize("kind", ["phases", "roles", "double"])
    def test_a_crash_after_every_step_changes_nothing(self, bench, tmp_path, kind):
        plain = bench(kind)
        calm = [plain.node(name) for name in plain.setting.plans]
        plain.rounds(calm, 3)
        table = Bench(kind, tmp_path / "crashes")
        table.folder.mkdir()

        def crash(nodes, k):
            if nodes[k].position == nodes[k]._next_position():  # a step that sends nothing is committed with the next
                nodes[k] = table.again(nodes[k])

        nodes = [table.node(name) for name in table.setting.plans]
        table.rounds(nodes, 3, crash)
        for one, other in zip(calm, nodes, strict=True):
            assert one.round == other.round == 3
            for a, b in zip(jax.tree.leaves(one.machine.state), jax.tree.leaves(other.machine.state), strict=True):
                np.testing.assert_array_equal(a, b)
            other.store.close()

    def test_views_are_made_in_the_precision_of_the_job_after_a_crash_too(self, bench):
        table = bench("double")
        one = table.node("peer-0")
        table.begin(one)
        one.store.close()
        asked = []

        def views(t):
            asked.append((t, jax.config.jax_enable_x64))
            return one.plan.views(t)

        store = PeerStore.open(Path(table.folder) / "peer-0.db", table.budget, "job")
        table.open.append(store)
        Node(dataclasses.replace(one.plan, views=views), store, 1.0, 0.0, table.setting.functions)
        assert asked == [(0, True), (1, True)]

    def test_a_flush_moves_the_position_beyond_the_round(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        table.begin(one)
        one.proceed(0.0)
        assert (one.between_rounds, one.position) == (True, (1, 0))
        one.flush()
        assert one.position == (2, 0)
        again = table.again(one)
        assert (again.between_rounds, again.round, again.position, again.cursor) == (True, 1, (2, 0), 1)

    def test_a_flush_before_the_first_round(self, bench):
        one = bench("phases")
        node = one.node("peer-0")
        node.flush()
        again = one.again(node)
        assert (again.round, again.position, again.between_rounds) == (0, (1, 0), True)
        one.begin(again)
        assert again.round == 1

    def test_a_store_of_another_job_is_refused(self, bench, tmp_path):
        table = bench("phases")
        node = table.node("peer-0")
        table.begin(node)
        node.store.close()
        with pytest.raises(StoreError, match="does not fit this job"):
            Bench("goes on", tmp_path).node("peer-0")

    def test_who_may_spend_no_more_sends_nothing(self, bench):
        table = bench("booked", Budget(epsilon=0.5))
        one = table.node("peer-0")
        with pytest.raises(BudgetExceeded):
            table.begin(one)
        assert (one.round, one.between_rounds, one.waiting("peer-1")) == (0, True, ())
        assert table.again(one).round == 0


class TestWaiting:
    """Methods that wait lose nothing, and do not run away."""

    def test_a_round_waits_for_ever(self, bench):
        table = bench("waits")
        one, before = table.node("peer-1"), table.node("peer-0")
        table.begin(one)
        assert (one.missing(), one.due(1e9), one.due_at()) == ({"peer-0"}, False, None)
        with pytest.raises(ContractError, match="cannot go on without peer-0"):
            one.proceed(1e9)
        with pytest.raises(ContractError, match="cannot begin"):
            table.begin(one)
        table.begin(before)
        assert table.carry(before, one) == []
        assert one.due(0.0)
        one.proceed(0.0)
        assert one.between_rounds

    def test_it_gets_only_so_far_ahead(self, bench):
        table = bench("waits")
        first, second, third = (table.node(f"peer-{k}") for k in range(3))
        for _ in range(FURTHEST_AHEAD):
            assert third.ready_to_begin
            table.begin(third)
            third.machine._received[0, third.round, 1] = third.codec.unpack(0, third.waiting("peer-0")[-1].content)
            third.proceed(0.0)
        assert third.held_back_by == {"peer-0"}
        assert not third.ready_to_begin
        table.begin(first)
        assert table.carry(third, first) == ["early"] * (FURTHEST_AHEAD - 1 - HORIZON)
        first.proceed(0.0)
        third.confirmed("peer-0", first.position)
        assert third.held_back_by, "round 1 is over there, but that is not committed"
        first.flush()
        third.confirmed("peer-0", first.position)
        assert not third.held_back_by
        assert second.round == 0

    def test_messages_that_are_kept_for_late_use_hold_nobody_back(self, bench):
        """With delays of as many rounds as a peer may be ahead, everybody would wait for everybody."""
        table = bench("late")
        nodes = [table.node(name) for name in table.setting.plans]
        table.rounds(nodes, FURTHEST_AHEAD + 4)
        assert [node.round for node in nodes] == [FURTHEST_AHEAD + 4] * 3
        kept = rounds_of(nodes[0].waiting("peer-1"))
        assert min(kept) == nodes[1].position.round - 9, "up to the longest delay it might be wanted again"

    def test_confirmed_is_what_the_position_covers_and_no_more(self, bench):
        table = bench("phases")
        nodes = [table.node(name) for name in table.setting.plans]
        source = next(node for node in nodes if node.sends_to)
        name = min(source.sends_to)
        table.rounds(nodes, 1)
        table.begin(source)
        source.outbox.positions.clear()
        source.outbox.parcels[name] = [p._replace(round=t, phase=k) for p in source.waiting(name)[-1:] for t in (2, 3) for k in (0, 1, 2)]  # fmt: skip
        for position, left in (((2, 0), 6), ((2, 2), 4), ((3, 0), 3), ((3, 1), 2)):
            source.confirmed(name, Position(*position))
            assert len(source.waiting(name)) == left
        with pytest.raises(MessageRefused, match="lost its store"):
            source.confirmed(name, Position(3, 0))
        assert len(source.waiting(name)) == 2


class TestGoingOn:
    """Methods that do not wait go on at a deadline, give up who is silent, and leave rounds out."""

    def test_the_deadline_of_a_phase(self, bench):
        table = bench("goes on")
        one = table.node("peer-0", deadline=2.0)
        table.begin(one, now=10.0)
        assert (one.due(11.9), one.due_at(), one.due(12.0)) == (False, 12.0, True)

    def test_who_is_silent_is_given_up_until_it_is_heard_of(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        for k in range(GIVEN_UP_AFTER):
            table.begin(one, now=float(k))
            one.announced("peer-1", k)
            assert not one.due(k + 0.9)
            one.proceed(k + 1.0)
        table.begin(one)
        assert not one.due(0.5), "one of them was heard of"
        one.proceed(1.0)
        for _ in range(GIVEN_UP_AFTER - 1):
            table.begin(one)
            one.proceed(1.0)
        table.begin(one)
        assert one.due(0.0)
        one.announced("peer-2", 0)
        assert not one.due(0.5)

    def test_who_opens_link_after_link_and_sends_nothing_is_waited_for_once(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        waited = []
        for _ in range(3 * GIVEN_UP_AFTER):
            table.begin(one)
            one.greeted("peer-1", 0)
            waited.append(not one.due(0.5))
            one.proceed(1.0)
        assert waited == [True] * GIVEN_UP_AFTER + [False] * 2 * GIVEN_UP_AFTER
        table.begin(one)
        one.announced("peer-1", one.round)
        assert not one.due(0.5), "a message of it has come"

    def test_who_has_left_a_round_out_is_not_waited_for_in_it(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        table.begin(one)
        for name in ("peer-1", "peer-2"):
            assert not one.due(0.0)
            one.announced(name, one.round)
            assert not one.due(0.0)
            one.announced(name, one.round + 1)
        assert one.due(0.0), "both have sent messages of a later round, and none of this one"
        one.greeted("peer-1", one.round + 1)
        assert not one.due(0.0), "over a new link it may send what it has kept"

    def test_who_is_far_behind_joins_the_others(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        one.announced("peer-1", FURTHEST_AHEAD + 1)
        table.begin(one)
        assert one.round == 1
        one.proceed(0.0)
        one.announced("peer-1", FURTHEST_AHEAD + 3)
        table.begin(one)
        assert one.round == FURTHEST_AHEAD + 3
        assert table.again(one).round == FURTHEST_AHEAD + 3

    def test_no_round_is_left_out_on_the_word_of_a_receiver(self, bench):
        """It waits for this peer at each of its deadlines, and so lets it come after."""
        table = bench("goes on")
        one = table.node("peer-0")
        one.confirmed("peer-1", Position(2, 0))
        table.begin(one)
        assert one.round == 1

    def test_who_is_behind_gets_what_it_can_use(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        one.confirmed("peer-1", Position(1, 0))
        for _ in range(FURTHEST_AHEAD):
            table.begin(one)
            one.proceed(0.0)
        assert rounds_of(one.waiting("peer-1")) == [1, 2, 3]
        assert rounds_of(one.waiting("peer-2")) == list(range(1, FURTHEST_AHEAD + 1))
        one.confirmed("peer-1", Position(4, 0))
        assert rounds_of(one.waiting("peer-1")) == [4, 5, 6]

    def test_who_is_far_behind_gets_one_message_that_says_so(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        one.confirmed("peer-1", Position(1, 0))
        for _ in range(FURTHEST_AHEAD + 5):
            table.begin(one)
            one.proceed(0.0)
        news = one.waiting("peer-1")
        assert rounds_of(news) == [FURTHEST_AHEAD + 5]
        table.begin(one)
        one.proceed(0.0)
        assert one.waiting("peer-1") == news
        one.confirmed("peer-1", Position(1, 0))
        assert rounds_of(one.waiting("peer-1")) == [FURTHEST_AHEAD + 6]

    def test_without_a_deadline_nobody_is_done_without_and_no_round_left_out(self, bench):
        table = bench("goes on")
        one = table.node("peer-0", deadline=None)
        one.confirmed("peer-1", Position(5, 0))
        one.announced("peer-2", 3 * FURTHEST_AHEAD)
        table.begin(one)
        assert (one.round, one.waits, one.due(1e9), one.due_at()) == (1, True, False, None)
        with pytest.raises(ContractError, match="without peer-1, peer-2"):
            one.proceed(1e9)
        assert one.position_interval == FURTHEST_AHEAD
        assert table.node("peer-1").position_interval == HORIZON

    def test_nobody_waits_for_a_message_that_is_not_for_it(self, bench):
        """Neither a client that is not called nor the server that it has nothing to tell, long before a deadline."""
        table = bench("called by chance")
        server, clients = table.node("server-0"), [table.node(f"client-{k}") for k in range(3)]
        assert not server.waits
        called = set()
        for t in range(1, 5):
            table.begin(server)
            server.proceed(0.0)  # no client sends in the first phase
            assert server.missing() == {client.plan.name for client in clients}
            for client in clients:
                (parcel,) = server.waiting(client.plan.name)
                called.add(bool(parcel.content))
                table.begin(client)
                assert client.missing() == {"server-0"}
                assert not table.carry(server, client)
                assert client.due(0.0)
                client.proceed(0.0)
                assert bool(client.waiting("server-0")[-1].content) == bool(parcel.content)
                assert not table.carry(client, server, client.waiting("server-0")[-1:])
                client.proceed(0.0)
                server.confirmed(client.plan.name, Position(t + 1, 0))
            assert server.due(0.0)
            server.proceed(0.0)
        assert called == {True, False}

    def test_what_nobody_would_take_is_dropped_here_and_on_the_disk(self, bench):
        table = bench("goes on")
        one = table.node("peer-0")
        for _ in range(FURTHEST_AHEAD + 5):
            table.begin(one)
            one.proceed(0.0)
        kept = list(range(5, FURTHEST_AHEAD + 6))
        assert rounds_of(one.waiting("peer-1")) == kept
        assert rounds_of(table.again(one).waiting("peer-1")) == kept


class TestRefusals:
    """Whoever is not heard, and whatever cannot be."""

    def test_strangers_and_impossible_rounds(self, bench):
        table = bench("waits")
        one, two = table.node("peer-1"), table.node("peer-2")
        table.begin(two)
        message = two.codec.unpack(0, two.waiting("peer-0")[0].content)
        for act, reason in (
            (lambda: one.admit("peer-2"), "sender"),
            (lambda: one.admit("nobody"), "sender"),
            (lambda: one.announced("peer-0", -1), "round"),
            (lambda: one.announced("peer-0", 2**31), "round"),
            (lambda: one.receive("peer-2", "peers", 0, 1, message), "sender"),
            (lambda: one.receive("peer-0", "peers", 1, 1, message), "phase"),
            (lambda: one.receive("peer-0", "others", 0, 1, message), "address"),
        ):
            with pytest.raises(MessageRefused) as caught:
                act()
            assert caught.value.reason == reason
        assert one.lag() == 1, "what was refused for its phase came from a neighbour in round 1"

    def test_a_phase_of_another_role(self, bench):
        table = bench("roles")
        server, client = table.node("server-0"), table.node("client-0")
        table.begin(server)
        message = client.codec.unpack(0, server.waiting("client-0")[0].content)
        with pytest.raises(MessageRefused) as caught:
            server.receive("client-0", "down", 0, 1, message)
        assert caught.value.reason == "address"
