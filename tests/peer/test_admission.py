"""The policy of a door: who makes room for whom, and who never does."""

from __future__ import annotations

import random

import pytest

from tacit.peer.transport.admission import DESCRIPTORS, FEWEST, RESERVED, Admission, DoorLimits, local_limit, source_of

LIMITS = DoorLimits(connections=4, per_address=2, proof_time=10.0)


def test_the_oldest_of_a_full_address_makes_room() -> None:
    door = Admission(LIMITS)
    first, _ = door.arrive("10.0.0.1", 0.0)
    second, _ = door.arrive("10.0.0.1", 1.0)
    third, gone = door.arrive("10.0.0.1", 2.0)
    assert gone == [first]
    door.leave(first)
    assert door.strangers == 2
    assert door.arrive("10.0.0.2", 3.0)[1] == []
    assert door.arrive("10.0.0.1", 4.0)[1] == [second]
    assert third not in door.overdue(11.5)


def test_who_said_nothing_goes_before_who_did() -> None:
    door = Admission(LIMITS)
    spoke, _ = door.arrive("10.0.0.1", 0.0)
    door.spoke(spoke)
    silent, _ = door.arrive("10.0.0.1", 1.0)
    newest, gone = door.arrive("10.0.0.1", 2.0)
    assert gone == [silent]
    door.leave(silent)
    door.spoke(newest)
    assert door.arrive("10.0.0.1", 3.0)[1] == [spoke]  # the newest stays, though it has said nothing yet


def test_a_full_door_takes_from_the_address_that_has_most() -> None:
    door = Admission(DoorLimits(connections=4, per_address=4))
    alone, _ = door.arrive("10.0.0.9", 0.0)
    crowd = [door.arrive("10.0.0.1", float(t))[0] for t in (1, 2, 3)]
    assert door.arrive("10.0.0.2", 4.0)[1] == crowd[:1]
    door.leave(crowd[0])
    assert alone not in door.arrive("10.0.0.3", 5.0)[1]


def test_who_has_proved_itself_is_never_put_out() -> None:
    door = Admission(LIMITS)
    tickets = {}
    for name in "abcdef":
        tickets[name], _ = door.arrive("10.0.0.1", 0.0)
        assert door.prove(tickets[name], name, 0.0) == []
    gone = [ticket for t in range(100) for ticket in door.arrive("10.0.0.1", float(t))[1]]
    assert not set(gone) & set(tickets.values())
    assert not set(door.overdue(1e9)) & set(tickets.values())


def test_a_neighbour_has_one_proven_connection() -> None:
    door = Admission(LIMITS)
    old, _ = door.arrive("10.0.0.1", 0.0)
    door.prove(old, "a", 0.0)
    new, _ = door.arrive("10.0.0.1", 100.0)
    door.prove(new, "a", 100.0)
    assert door.overdue(109.0) == []
    assert door.overdue(110.0) == [old]
    door.leave(new)
    third, _ = door.arrive("10.0.0.1", 111.0)
    assert door.prove(third, "a", 111.0) == []
    assert door.prove(999, "b", 111.0) == []  # one that has ended meanwhile


def test_a_neighbour_that_comes_again_and_again_is_bounded_too() -> None:
    door, open_ = Admission(LIMITS), set()
    for t in range(50):
        ticket, gone = door.arrive("10.0.0.1", float(t) / 100)
        open_ |= {ticket}
        for one in [*gone, *door.prove(ticket, "a", float(t) / 100)]:
            door.leave(one)
            open_ -= {one}
    assert len(open_) <= 1 + LIMITS.per_address


def test_time_is_up_in_the_order_of_arrival() -> None:
    door = Admission(LIMITS)
    assert door.deadline() is None
    first, _ = door.arrive("10.0.0.1", 5.0)
    second, _ = door.arrive("10.0.0.2", 6.0)
    assert door.deadline() == 15.0
    assert door.overdue(14.9) == []
    assert door.overdue(15.0) == [first]
    assert door.oldest() == first
    door.leave(first)
    assert door.deadline() == 16.0
    assert door.overdue(16.0) == [second]


def test_no_sequence_of_arrivals_exceeds_the_limits() -> None:
    rng, door = random.Random(5), Admission(DoorLimits(connections=20, per_address=6))
    sources: dict[int, str] = {}
    proven: set[int] = set()

    def leave(gone: list[int]) -> None:
        for one in gone:
            door.leave(one)
            del sources[one]

    for t in range(3000):
        address = f"10.0.0.{rng.randrange(1, 9)}"
        ticket, gone = door.arrive(address, float(t))
        sources[ticket] = address
        leave(gone)
        if rng.random() < 0.1:
            leave(door.prove(ticket, f"n{rng.randrange(5)}", float(t)))
            proven.add(ticket)
        counts = [sum(source == address for source in sources.values()) for address in set(sources.values())]
        assert len(sources) <= 20 + 5
        assert max(counts) <= 6 + 5
    assert len(proven) > 100


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(address: str, source: str) -> None:
    assert source_of(address) == source


def test_limits_leave_descriptors_for_files_and_neighbours() -> None:
    limits = DoorLimits()
    assert limits.within(None, 3) == limits
    assert limits.within(100_000, 3) == limits
    tight = limits.beside(2).within(128, 2)
    assert tight is not None
    used = DESCRIPTORS * (tight.connections + 2) + local_limit(128)
    assert used + RESERVED <= 128
    assert FEWEST <= tight.connections == tight.per_address
    assert limits.within(RESERVED + 10, 0) is None
    crowd = limits.beside(500)
    assert (crowd.connections, crowd.per_address) == (limits.connections + 500, limits.per_address + 500)
    assert [local_limit(left) for left in (None, 10_000, 128, 5)] == [64, 64, 16, FEWEST]
