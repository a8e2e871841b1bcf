"""One agent's round machine: what it takes in, what it refuses, whom it waits for."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import runtime
from tacit.contract import Links, Message, Phase, View, per_slot, push, share, unprotected
from tacit.errors import ContractError, MessageRefused
from tacit.peer import AgentFunctions, Envelope, RoundMachine
from tests.simulate import specimens

ME, NEIGHBOURS, STRANGER = 3, (1, 4, 6), 5
W = np.array([0.4, 0.1, 0.2, 0.3], np.float32)
QUICK = settings(max_examples=60, deadline=None, derandomize=True)


class Seen(NamedTuple):
    """Everything that came in, in a form that depends on neither order nor place."""

    x: jax.Array
    """Numbers mixed in by weight, phase by phase."""
    ages: jax.Array
    tickets: jax.Array


def links(agents=(ME, *NEIGHBOURS), live=(True, True, True, True), weight=W):
    return Links(jnp.array(agents, jnp.int32), jnp.array(live), jnp.array(weight, jnp.float32))


def view(t, into=None, out=None, agent=ME):
    return View(jnp.int32(agent), jnp.int32(t), jnp.array(True), jnp.int32(0), out or links(), into or links())


def absorb(key, state, inbox, view):
    seen = jnp.where(inbox.arrived, inbox.age + 1, 0)
    return Seen(
        state.x + inbox.mix().private,
        state.ages + jnp.sum(seen, dtype=jnp.int32),
        state.tickets * 3 + inbox.sum().public,
    )


def send(key, state, batch, view):
    return state, state.x


def two_phases():
    """x is shared with a ticket, twice on the same links."""
    return specimens.algorithm(
        [
            Phase("peers", send, unprotected, absorb, lambda s, released, v: (s, share(released, public=v.round)))
            for _ in range(2)
        ],
        lambda key, params, views: Seen(jnp.ones(2), jnp.int32(0), jnp.int32(0)),
        lambda state: state.x,
    )


def functions_of(algorithm, views):
    specs = runtime.settle(algorithm, jnp.zeros(2), jnp.zeros(2), views)
    return AgentFunctions(algorithm, specs)


FUNCTIONS = functions_of(two_phases(), {"peer": {"peers": view(0)}})


def machine(longest_delay=0, functions=FUNCTIONS):
    return RoundMachine(functions, "peer", ME, jax.random.key(0), jnp.zeros(2), {"peers": view(0)}, longest_delay)


def begin(one, **changes):
    return one.begin(jnp.zeros(2), {"peers": view(one.round + 1, **changes)})


def envelope(sender=1, phase=0, t=1, value=1.0, ticket=5, **others):
    message = Message(np.full(2, value, np.float32), np.asarray(ticket, np.int32))
    return Envelope(**{"links": "peers", "phase": phase, "round": t, "sender": sender, "receiver": ME, "message": message, **others})  # fmt: skip


def numbers(one):
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(one.state)]


def refuse(one, reason, what):
    before = numbers(one), one.waiting_for(), one.round
    with pytest.raises(MessageRefused, match=f"refused \\({reason}\\)") as caught:
        one.receive(what)
    assert caught.value.reason == reason
    assert (numbers(one), one.waiting_for(), one.round) == before


class TestRefusals:
    """Each with its reason, and without a trace."""

    @pytest.mark.parametrize(
        ("reason", "change"),
        [
            ("phase", {"phase": -1}),
            ("phase", {"phase": 2}),
            ("address", {"links": "others"}),
            ("address", {"receiver": 1}),
            ("sender", {"sender": STRANGER}),
            ("sender", {"sender": ME}),
            ("sender", {"sender": -1}),
            ("stale", {"t": 1}),
            ("stale", {"t": 0}),
            ("stale", {"t": -3}),
            ("content", {"message": Message(np.zeros(3, np.float32), np.int32(1))}),
            ("content", {"message": Message(np.zeros((), np.float32), np.int32(1))}),
            ("content", {"message": Message(np.zeros(2, np.float64), np.int32(1))}),
            ("content", {"message": Message(np.zeros(2, np.float32), np.float32(1))}),
            ("content", {"message": Message(np.zeros(2, np.float32), ())}),
            ("content", {"message": Message((np.zeros(2, np.float32),), np.int32(1))}),
            ("content", {"message": Message([0.0, 0.0], np.int32(1))}),
            ("content", {"message": np.zeros(2, np.float32)}),
        ],
    )
    def test_in_the_second_round(self, reason, change):
        one, untouched = machine(), machine()
        for each in (one, untouched):
            begin(each)
            each.proceed()
            each.proceed()
            begin(each)
        refuse(one, reason, envelope(**{"t": 2, **change}))
        for each in (one, untouched):
            each.receive(envelope(t=2))
            each.proceed()
            each.proceed()
        assert numbers(one) == numbers(untouched)

    def test_a_repetition_even_with_other_content(self):
        one = machine()
        begin(one)
        one.receive(envelope(value=1.0))
        refuse(one, "repeated", envelope(value=1.0))
        refuse(one, "repeated", envelope(value=9.0))
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1 + 0.4 + 0.1)

    def test_a_phase_that_is_over(self):
        one = machine()
        begin(one)
        one.receive(envelope(phase=1))
        one.proceed()
        refuse(one, "stale", envelope(phase=0, sender=4))
        refuse(one, "repeated", envelope(phase=1))
        one.receive(envelope(phase=1, sender=4))
        one.proceed()
        refuse(one, "stale", envelope(phase=1, sender=6))

    def test_before_the_first_round_only_what_may_still_be_used(self):
        one = machine(longest_delay=3)
        for t in (0, -1, -2, -3):
            refuse(one, "stale", envelope(t=t))
        one.receive(envelope(t=1))

    def test_a_role_to_which_the_phase_does_not_lead(self):
        views = {"up": view(0)}
        algorithm = federated()
        one = RoundMachine(
            functions_of(algorithm, FEDERATED_VIEWS), "client", ME, jax.random.key(0), jnp.zeros(2), views
        )
        refuse(one, "address", envelope(links="up", phase=1))


class TestTiming:
    """Early and late messages."""

    def test_one_of_a_later_round_waits_for_it(self):
        one = machine()
        begin(one)
        one.receive(envelope(t=2, value=7.0))
        refuse(one, "repeated", envelope(t=2))
        assert one.waiting_for() == set(NEIGHBOURS)
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4)
        one.proceed()
        before = np.asarray(one.state.x)
        begin(one)
        assert one.waiting_for() == {4, 6}
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4 * before + 0.1 * 7.0, rtol=1e-6)

    def test_one_of_a_later_phase_waits_for_it(self):
        one = machine()
        begin(one)
        one.receive(envelope(phase=1, value=2.0))
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4)
        assert one.waiting_for() == {4, 6}
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4 * 1.4 + 0.2, rtol=1e-6)

    @pytest.mark.parametrize("delay", [0, 1, 2])
    def test_late_ones_count_up_to_the_longest_delay(self, delay):
        one = machine(longest_delay=2)
        for _ in range(delay):
            begin(one)
            one.proceed()
            one.proceed()
        begin(one)
        before = one.state
        one.receive(envelope(t=1, value=2.0, ticket=100))
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4 * np.asarray(before.x) + 0.1 * 2.0, rtol=1e-6)
        assert int(one.state.ages - before.ages) == 1 + (delay + 1)  # its own, and the late one
        assert int(one.state.tickets) == 3 * int(before.tickets) + (delay + 1) + 100

    def test_one_round_more_is_stale_once_its_phase_is_over(self):
        one = machine(longest_delay=1)
        begin(one)
        one.proceed()
        one.proceed()
        begin(one)
        one.receive(envelope(t=1, sender=4))
        one.proceed()
        refuse(one, "stale", envelope(t=1))
        one.receive(envelope(t=1, phase=1))
        one.receive(envelope(t=2, phase=0))

    def test_two_of_one_sender_may_arrive_together(self):
        one = machine(longest_delay=1)
        begin(one)
        one.proceed()
        one.proceed()
        begin(one)
        before = one.state
        one.receive(envelope(t=2, value=1.0))
        one.receive(envelope(t=1, value=10.0))
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1.4 * np.asarray(before.x) + 0.1 * 11.0, rtol=1e-6)
        assert int(one.state.ages - before.ages) == 1 + 1 + 2

    def test_rounds_and_phases_go_in_order(self):
        one = machine()
        with pytest.raises(ContractError, match="begin the next one"):
            one.proceed()
        begin(one)
        with pytest.raises(ContractError, match="proceed first"):
            begin(one)
        assert not one.between_rounds
        one.proceed()
        one.proceed()
        assert one.between_rounds
        assert one.waiting_for() == set()


events = st.lists(
    st.tuples(st.sampled_from((*NEIGHBOURS, STRANGER)), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)),
    max_size=14,
)


@QUICK
@forall(st.permutations(range(6)), events)
def test_order_and_repetition_change_nothing(order, noise):
    """All messages of a round in any order, mixed with repeated, foreign, stale and early ones."""
    wanted = [
        envelope(sender, phase, 1, value=sender + phase, ticket=sender) for sender in NEIGHBOURS for phase in (0, 1)
    ]
    plain, other = machine(), machine()
    begin(plain)
    begin(other)
    for each in wanted:
        plain.receive(each)
    for k, index in enumerate(order):
        other.receive(wanted[index])
        for sender, phase, t, when in noise:
            if when == k % 3 and not (t == 1 and wanted_later(sender, phase, order[k + 1 :])):
                try:
                    other.receive(envelope(sender, phase, t, value=np.nan, ticket=99))
                except MessageRefused:
                    continue
                assert t > 1, "only messages of later rounds are kept"
    for each in (plain, other):
        assert each.waiting_for() == set()
        each.proceed()
        assert each.waiting_for() == set()
        each.proceed()
    assert numbers(plain) == numbers(other)
    assert numbers(plain)[1] == 2 * 4


def wanted_later(sender, phase, indices):
    """Whether a message is still to come: a forged one in its place would be taken for it."""
    return any((NEIGHBOURS[i // 2], i % 2) == (sender, phase) for i in indices)


class TestWaiting:
    """Whom the current phase still lacks."""

    def test_only_live_links_are_waited_for(self):
        one = machine()
        begin(one, into=links(live=(True, True, False, True)))
        assert one.waiting_for() == {1, 6}
        one.receive(envelope(sender=6))
        assert one.waiting_for() == {1}

    def test_what_did_not_come_does_not_count(self):
        one = machine()
        begin(one)
        one.receive(envelope(sender=6, value=3.0))
        one.proceed()
        np.testing.assert_allclose(one.state.x, 1 + 0.4 + 0.3 * 3.0, rtol=1e-6)

    def test_padding_is_never_waited_for_or_sent_to(self):
        padded = links((ME, 1, -1, -1), (True, True, False, False), (0.5, 0.5, 0, 0))
        one = machine()
        sent = begin(one, into=padded, out=padded)
        assert one.waiting_for() == {1}
        assert [e.receiver for e in sent] == [1]
        refuse(one, "sender", envelope(sender=-1))


def federated():
    """Servers ask two clients; who was asked answers; then the servers tell those who answered."""

    def ask(state, released, view):
        return state, share(released, public=view.round, to=jnp.array([1, 3]))

    def client(key, params, views):
        return Seen(jnp.ones(2), jnp.int32(0), jnp.int32(0))

    def plain(state, released, view):
        return state, share(released, public=view.round)

    return specimens.algorithm(
        [
            Phase("down", send, unprotected, absorb, ask, "server", "client"),
            Phase("up", send, unprotected, absorb, plain, "client", "server", answers="down"),
            Phase("told", send, unprotected, absorb, plain, "server", "client", answers="up"),
            Phase("gossip", send, unprotected, absorb, plain, "client", "client", answers="down"),
        ],
        {"client": client, "server": client},
        lambda state: state.x,
        learner="client",
        predictor="client",
    )


NOBODY = links((-1,), (False,), (0.0,))
OTHERS = links((-1, *NEIGHBOURS), (False, True, True, True))
SENDS, HEARS = view(0, out=OTHERS, into=NOBODY), view(0, out=NOBODY, into=OTHERS)
FEDERATED_VIEWS = {
    "server": {"down": SENDS, "up": HEARS, "told": SENDS},
    "client": {"down": HEARS, "up": SENDS, "told": HEARS, "gossip": view(0)},
}


@pytest.fixture(scope="module")
def functions():
    return functions_of(federated(), FEDERATED_VIEWS)


class TestAnswers:
    """A cohort works and is waited for, and nobody else."""

    @staticmethod
    def begin(functions, role):
        one = RoundMachine(functions, role, ME, jax.random.key(0), jnp.zeros(2), FEDERATED_VIEWS[role])
        now = {name: v._replace(round=jnp.int32(1)) for name, v in FEDERATED_VIEWS[role].items()}
        return one, one.begin(jnp.zeros(2) if role == "client" else (), now)

    def test_a_server_waits_for_those_whom_it_asked(self, functions):
        server, sent = self.begin(functions, "server")
        assert {e.receiver for e in sent} == {1, 6}
        assert server.waiting_for() == set()
        assert server.proceed() == []
        assert server.waiting_for() == {1, 6}
        server.receive(envelope(sender=6, phase=1, links="up"))
        assert server.waiting_for() == {1}
        server.receive(envelope(sender=1, phase=1, links="up"))
        assert {e.receiver for e in server.proceed()} == {1, 4, 6}

    def test_a_server_that_nobody_answered_says_nothing(self, functions):
        server, _ = self.begin(functions, "server")
        server.proceed()
        before = numbers(server)
        assert server.proceed() == []
        assert numbers(server)[0] == before[0]

    def test_a_client_that_was_not_asked_keeps_its_state_and_is_silent(self, functions):
        client, sent = self.begin(functions, "client")
        assert sent == []
        assert client.waiting_for() == {1, 4, 6}
        before = numbers(client)
        assert client.proceed() == []
        assert numbers(client)[0] == before[0]
        assert client.waiting_for() == set()
        client.proceed()
        assert client.waiting_for() == set(), "it sent nothing up, so nobody will tell it anything"
        assert client.proceed() == []
        assert client.waiting_for() == {1, 4, 6}, "whom a server asked is not for a client to know"

    def test_a_client_that_was_asked_answers_and_waits_to_be_told(self, functions):
        client, _ = self.begin(functions, "client")
        client.receive(envelope(sender=4, links="down"))
        answers = client.proceed()
        assert {(e.links, e.phase, e.receiver) for e in answers} == {("up", 1, r) for r in (1, 4, 6)}
        client.proceed()
        assert client.waiting_for() == {1, 4, 6}
        assert {e.receiver for e in client.proceed()} == set(NEIGHBOURS)


class TestEnvelopes:
    """What leaves: one message for each live link, as it lies on the wire."""

    @staticmethod
    def sent(delivery):
        def emit(state, released, view):
            if delivery is per_slot:
                return state, per_slot(jnp.arange(4.0)[:, None] * released, public=view.out.agent)
            return state, delivery(released, public=state.x[0])

        algorithm = two_phases()
        phase = algorithm.phases[0]._replace(emit=emit, absorb=lambda k, s, i, v: s)
        algorithm = algorithm._replace(phases=(phase,))
        one = machine(functions=functions_of(algorithm, {"peer": {"peers": view(0)}}))
        envelopes = begin(one, out=links(live=(True, True, False, True)))
        assert [(e.links, e.phase, e.round, e.sender, e.receiver) for e in envelopes] == [
            ("peers", 0, 1, ME, 1),
            ("peers", 0, 1, ME, 6),
        ]
        for each in envelopes:
            assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(each.message))
        return [e.message for e in envelopes]

    def test_share(self):
        for message in self.sent(share):
            np.testing.assert_array_equal(message.private, [1, 1])

    def test_push(self):
        first, last = self.sent(push)
        np.testing.assert_allclose(first.private, [0.1, 0.1])
        np.testing.assert_allclose(last.private, [0.3, 0.3])
        np.testing.assert_allclose(last.public, 0.3)

    def test_per_slot(self):
        first, last = self.sent(per_slot)
        np.testing.assert_array_equal(first.private, [1, 1])
        np.testing.assert_array_equal(last.private, [3, 3])
        assert (int(first.public), int(last.public)) == (1, 6)
