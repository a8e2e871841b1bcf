"""Neighbours that lie about their round: nobody is ended, frozen, or carried further than the stated bound."""

from __future__ import annotations

import contextlib

import pytest

from tacit.core.errors import MessageRefused, StoreError
from tacit.peer.machine.claims import FURTHEST_AHEAD, LONGEST_LEAP, REST, Claims
from tacit.peer.node.exchange import Position
from tacit.peer.transport.codec import LAST_ROUND
from tests.faults import network_campaign as campaign
from tests.peer.test_node import Bench
from tests.peer.virtual import Network
from tests.peer.weather import CALM, DEADLINE

FAR = (2**31 - 1, 2**31 - 2, 2**30, 5000)
"""Rounds that a liar may name."""
IMPOSSIBLE = (-(2**63), -1, 2**31 - 1, 2**31, 2**63)


@pytest.fixture
def bench(tmp_path):
    table = Bench("one-sided", tmp_path)
    yield table
    for store in table.open:
        store.close()


def told(act):
    """Do what a lie leads to; whether it is refused is not the question here."""
    with contextlib.suppress(MessageRefused):
        act()


def rounds_done(table, node, number):
    """Let a node do so many rounds by itself, and return where it is."""
    for k in range(number):
        table.begin(node, now=float(k))
        node.proceed(k + 100.0)
    return node.round


class TestOneNode:
    """peer-0 sends to peer-1 and hears peer-2."""

    @pytest.mark.parametrize("far", [*FAR, 10, 11])
    def test_a_mere_receiver_moves_nobody(self, bench, far):
        one = bench.node("peer-0")
        assert ("peer-1" in one.sends_to, "peer-1" in one.hears) == (True, False)
        told(lambda: one.confirmed("peer-1", Position(far, 0)))
        assert rounds_done(bench, one, 3) == 3

    def test_a_position_that_nobody_can_have_is_refused_and_leaves_no_trace(self, bench):
        one = bench.node("peer-0")
        rounds_done(bench, one, 2)
        for far in (2 + 1 + FURTHEST_AHEAD + 1, LAST_ROUND + 1):
            with pytest.raises(MessageRefused) as caught:
                one.confirmed("peer-1", Position(far, 0))
            assert caught.value.reason == "position"
            assert [parcel.round for parcel in one.waiting("peer-1")] == [1, 2]
        one.confirmed("peer-1", Position(2, 0))
        assert [parcel.round for parcel in one.waiting("peer-1")] == [2]
        one.greeted("peer-2", 500)  # whom it hears is as far: then it may be
        one.confirmed("peer-1", Position(500, 0))
        assert one.waiting("peer-1") == ()

    def test_one_that_is_heard_carries_it_no_further_than_the_bound(self, bench):
        one, done = bench.node("peer-0"), 40
        one.greeted("peer-2", LAST_ROUND)
        assert one.doubted() == {"peer-2": LAST_ROUND}
        bench.begin(one)
        assert one.round == 1 + LONGEST_LEAP
        one.proceed(0.0)
        assert one.round + done <= rounds_done(bench, one, done) <= one.round + done + LONGEST_LEAP * (done // REST)

    def test_nobody_waits_for_one_that_is_so_far(self, bench):
        one = bench.node("peer-0")
        bench.begin(one)
        one.greeted("peer-2", 1 + FURTHEST_AHEAD)
        assert not one.due(0.5), "it keeps what this round needs"
        one.greeted("peer-2", LAST_ROUND)
        assert one.due(0.0)

    @pytest.mark.parametrize("said", IMPOSSIBLE)
    def test_impossible_rounds_are_refused_and_leave_no_trace(self, bench, said):
        one, other = bench.node("peer-0"), bench.node("peer-2")
        bench.begin(other)
        (parcel,) = other.waiting("peer-0")
        message = one.codec.unpack(0, parcel.content)
        for act in (
            lambda: one.greeted("peer-2", said),
            lambda: one.announced("peer-2", said),
            lambda: one.receive("peer-2", parcel.links, 0, said, message),
        ):
            with pytest.raises(MessageRefused) as caught:
                act()
            assert caught.value.reason == "round"
        assert (one.lag(), one.claims.said, one.doubted()) == (0, {}, {})

    def test_what_a_stranger_says_is_refused(self, bench):
        one = bench.node("peer-0")
        for act in (one.greeted, one.announced):
            with pytest.raises(MessageRefused) as caught:
                act("peer-1", 5000)
            assert caught.value.reason == "sender"
        assert rounds_done(bench, one, 2) == 2

    def test_a_new_link_takes_back_what_was_said(self, bench):
        one = bench.node("peer-0")
        one.greeted("peer-2", 10**6)
        one.announced("peer-2", 7)
        assert one.lag() == 10**6
        one.greeted("peer-2", 3)
        assert (one.lag(), one.doubted()) == (3, {})
        assert rounds_done(bench, one, 2) == 2

    def test_at_the_last_number_it_stops_cleanly_and_names_the_remedy(self, bench):
        one = bench.node("peer-0")
        one.machine.skip_to(LAST_ROUND - 2)
        assert rounds_done(bench, one, 2) == LAST_ROUND
        one.flush()
        assert one.codec.position(Position(LAST_ROUND + 1, 0)) == one.position, "others understand it"
        for node in (one, bench.again(one)):
            with pytest.raises(StoreError, match="tacit peer set-round"):
                bench.begin(node)
            assert (node.round, node.between_rounds) == (LAST_ROUND, True)

    @pytest.mark.parametrize("away", [100, 10_000])
    def test_after_a_long_absence_one_neighbour_brings_it_back(self, bench, away):
        one = bench.node("peer-0")
        own = 0
        while away + own > one.round + FURTHEST_AHEAD:  # the neighbour goes on meanwhile
            one.greeted("peer-2", away + own)
            rounds_done(bench, one, 1)
            own += 1
            assert own <= 1 + REST * 1.1 * away / LONGEST_LEAP
        assert one.doubted() == {}


class TestClaims:
    """Whose word counts for how much."""

    @pytest.mark.parametrize(
        ("said", "agreed"),
        [
            ([500], 1),
            ([500, 20], 20),
            ([20, 500], 20),
            ([500, 20, 500], 500),
            ([500, 20, 500, 30], 30),
            ([500, 500, 20, 500, 30], 500),
            ([500, 500, 1, 2, 3], 1),
        ],
    )
    def test_more_than_half_are_followed_at_once(self, said, agreed):
        claims = Claims()
        claims._rest = REST
        for k, round_ in enumerate(said):
            claims.greet(f"peer-{k}", round_)
        assert claims.next_round(0) == agreed

    def test_a_majority_is_followed_at_once_and_one_alone_by_a_leap(self):
        claims = Claims()
        for name, said in (("a", LAST_ROUND), ("b", 10_000), ("c", 9_990)):
            claims.greet(name, said)
        assert claims.next_round(5) == 10_000 + LONGEST_LEAP
        assert claims.next_round(10_000 + LONGEST_LEAP) == 10_000 + LONGEST_LEAP + 1, "then there is a rest"

    def test_a_small_lag_is_made_up_for_round_by_round(self):
        claims = Claims()
        claims.greet("a", 6 + FURTHEST_AHEAD)
        assert claims.next_round(5) == 6
        claims.raise_to("a", 7 + FURTHEST_AHEAD)
        assert claims.next_round(5) == 7 + FURTHEST_AHEAD

    def test_between_two_leaps_there_are_rounds_without(self):
        claims, rounds = Claims(), [0]
        claims.greet("a", LAST_ROUND)
        for _ in range(100):
            rounds.append(claims.next_round(rounds[-1]))
        leaps = [k for k in range(100) if rounds[k + 1] > rounds[k] + 1]
        assert leaps == list(range(0, 100, REST))
        assert rounds[-1] == 100 + len(leaps) * LONGEST_LEAP

    def test_who_is_always_a_little_ahead_makes_no_more_leaps(self):
        claims, rounds = Claims(), [0]
        for _ in range(100):
            claims.greet("a", rounds[-1] + 2 + FURTHEST_AHEAD)
            rounds.append(claims.next_round(rounds[-1]))
        assert [k for k in range(100) if rounds[k + 1] > rounds[k] + 1] == list(range(0, 100, REST))

    def test_nobody_is_followed_beyond_the_last_round(self):
        claims = Claims()
        for name in "ab":
            claims.greet(name, LAST_ROUND)
        assert claims.next_round(0) == LAST_ROUND
        assert claims.next_round(LAST_ROUND - 1) == LAST_ROUND

    def test_doubted_is_who_is_further_than_a_leap_beyond_all_others(self):
        claims = Claims()
        claims.greet("a", 6 + LONGEST_LEAP)
        assert claims.doubted(5) == {}
        claims.raise_to("a", 7 + LONGEST_LEAP)
        assert claims.doubted(5) == {"a": 7 + LONGEST_LEAP}
        claims.greet("b", 100)
        assert claims.doubted(5) == {}


@pytest.mark.parametrize("side", ["receiver", "sender"])
def test_one_liar_ends_nobody_across_the_graph(tmp_path, side):
    network = Network(campaign.SETTINGS["totals"](), 0, tmp_path, CALM)
    invariants = campaign.Invariants(network)
    try:
        network.run(2.0, invariants.after_event)
        before = {name: len(host.began) for name, host in network.hosts.items()}
        for far in FAR:
            if side == "receiver":
                told(lambda far=far: network.hosts["peer-1"].node.confirmed("peer-2", Position(far, 0)))
            else:
                told(lambda far=far: network.hosts["peer-1"].node.greeted("peer-0", far))
            network.run(network.now + DEADLINE, invariants.after_event)
        assert all(len(host.began) > before[name] + 10 for name, host in network.hosts.items())
    finally:
        network.close()
