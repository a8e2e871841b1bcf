"""One agent's round machine: what it takes in, what it refuses, whom it waits for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit.core.contract import Message
from tacit.core.errors import ContractError, MessageRefused
from tacit.peer import RoundMachine
from tacit.privacy.charges import Held
from tests.peer.machines import (
    FEDERATED_VIEWS,
    ME,
    NEIGHBOURS,
    STRANGER,
    begin,
    envelope,
    federated,
    functions_of,
    links,
    machine,
    numbers,
    refuse,
    view,
)

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


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

    def test_a_stale_message_is_told_which_phase_or_round_had_ended(self):
        """Not "sent in round 1, now it is round 1"."""

        def told(one, **change):
            with pytest.raises(MessageRefused) as caught:
                one.receive(envelope(**change))
            assert caught.value.reason == "stale"
            return caught.value.detail

        one = machine()
        begin(one)
        one.proceed()
        detail = told(one, phase=0)
        assert "sent in round 1, phase 0" in detail
        assert "it is round 1, phase 1" in detail
        one.proceed()
        detail = told(one, phase=1)
        assert "sent in round 1, phase 1" in detail
        assert "round 1 is over" in detail
        assert "from 1" in told(one, t=0)

    def test_content_of_another_form_is_described_in_words(self):
        one = machine()
        begin(one)
        with pytest.raises(MessageRefused) as caught:
            one.receive(envelope(message=Message(np.zeros((3, 4), np.float64), np.int32(1))))
        assert "float64 3 x 4 and int32" in caught.value.detail
        assert "float32 2 and int32" in caught.value.detail
        assert "(" not in caught.value.detail

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


def test_a_machine_knows_which_records_its_batch_holds():
    one, other = machine(), machine()
    views = {"peers": view(1)}
    one.begin(jnp.zeros(2), views, records=[4, -1, 4])
    assert one.snapshot().held == Held("rows 4", copies=2)
    other.restore(one.snapshot(), views)
    assert other.snapshot().held == Held("rows 4", copies=2)
    fresh = machine()
    begin(fresh)
    assert fresh.snapshot().held == Held("fresh 1")
