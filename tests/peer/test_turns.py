"""Work for strangers: nobody waits before there is a crowd, and then all together keep to their share of the time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tacit.peer.transport import turns
from tacit.peer.transport.turns import AHEAD, SHARE, Turns

STEP = 0.001
"""Seconds of the processor that a piece of work takes."""


class Clock:
    """A thread that does nothing but work for strangers, and waits in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.worked = 0.0
        time = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.worked)
        monkeypatch.setattr(turns, "time", time)
        monkeypatch.setattr(turns.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self) -> None:
        self.now += STEP
        self.worked += STEP


def done_by(clock: Clock, crowd: bool, pieces: int) -> list[int]:
    """Have pieces of work done that come at once; returns the order."""
    order: list[int] = []

    async def piece(number: int, given: Turns) -> None:
        async with given.next():
            clock.work()
            order.append(number)

    async def all_of_them() -> None:
        given = Turns(lambda: crowd)
        await asyncio.gather(*(piece(number, given) for number in range(pieces)))

    asyncio.run(all_of_them())
    return order


def test_a_crowd_keeps_to_its_share_and_is_served_in_the_order_in_which_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, pieces = Clock(monkeypatch), 500
    assert done_by(clock, True, pieces) == list(range(pieces))
    assert clock.worked == pytest.approx(pieces * STEP)
    assert (clock.worked - AHEAD - STEP) / clock.now <= SHARE


def test_nobody_waits_where_there_is_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pieces = Clock(monkeypatch), 500
    done_by(clock, False, pieces)
    assert clock.now == pytest.approx(pieces * STEP)


def test_a_crowd_that_has_just_come_is_served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.now = 1e6
    pieces = int(AHEAD / STEP) - 1
    done_by(clock, True, pieces)
    assert clock.now == pytest.approx(1e6 + pieces * STEP)
