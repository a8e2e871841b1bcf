"""What each agent read and when it took part, as the privacy account of a run is given it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.privacy import laplace_of_size, statement
from tacit.privacy.spending import Reading, spent_in_run
from tacit.simulator.layout import RoleLayout
from tacit.simulator.readings import readings_of
from tacit.streams import Stream, from_arrays, from_function, linear_drift
from tests.privacy.test_spending import Spec

ORDER = np.array([2, 0, 1])
"""Internal position -> agent."""


def learners(order: Any = ORDER, agents: int = 3) -> RoleLayout:
    order = np.asarray(order)
    return RoleLayout(agents, order, np.argsort(order), (slice(0, order.size),), np.zeros(order.size, int), None)


def owners(*sizes: int, batch: int = 1) -> Stream:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return from_arrays(np.zeros((owner.size, 1)), np.ones(owner.size), owner, batch=batch, exhausted="cycle")


def told(records: Any) -> Stream:
    """A stream of two agents that tells by itself which records it reads."""
    numbers = [np.asarray(own) for own in records]
    return from_function(lambda a, b: np.zeros((b - a, 2, 1)), agents=2, records=lambda k, a, b: numbers[k][a:b])


def epsilon(readings: list[Reading], ratios: np.ndarray) -> float:
    sized = laplace_of_size(noise_std=1.0, clip=1.0)
    found = spent_in_run(statement(sized), [Spec(sized)] * ratios.shape[1], ratios, readings).guarantee
    assert found is not None
    return found.epsilon


def test_where_all_take_part_every_kind_of_reader_counts_once() -> None:
    found = readings_of([owners(4, 2, 4), owners(1, 1, 1)], learners(), [], [], np.ones((4, 1)))
    numbers = [reading.records[:, 0].tolist() for reading in found if reading.records is not None]
    assert sorted(numbers) == [[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 2, 3]]
    assert all(reading.took_part is None for reading in found)


BY_POSITION = np.array([[True, True, False], [False, True, False], [False, True, True]])
CALLED = np.array([[0, 1], [1, 3], [2, 1]])  # position 3: one fewer was called


@pytest.mark.parametrize("part", [BY_POSITION, CALLED], ids=["by position", "those called"])
def test_who_took_part_is_known_agent_by_agent(part: np.ndarray) -> None:
    """Agents 2, 0 and 1 stand at positions 0, 1 and 2, and have 4, 2 and 3 rows."""
    ratios = np.ones((3, 2))
    found = readings_of([owners(2, 3, 4)], learners(), [1], [part], ratios)
    by_size = {int(reading.records.max()): reading.took_part for reading in found if reading.records is not None}
    wanted = {1: [True, True, True], 2: [False, False, True]}
    for last, rounds in wanted.items():
        assert by_size[last][:, 1].tolist() == rounds
        assert by_size[last][:, 0].all()  # a phase in which everybody takes part
    # Three rounds are too few for a third and a fourth row to come again: these agents read alike so far.
    assert {tuple(r.took_part[:, 1]) for r in found if r.records.max() == 2} == {
        (True, False, False),
        (False, False, True),
    }


def test_agents_that_read_other_records_are_not_taken_for_one() -> None:
    """All take part alike; that of one row pays for every round."""
    part = np.ones((4, 3), bool)
    found = readings_of([owners(4, 1, 2)], learners(), [0], [part], np.ones((4, 1)))
    assert epsilon(found, np.ones((4, 1))) == 4.0


def test_repeats_with_streams_of_their_own_keep_their_own_agents() -> None:
    """Two repeats of two agents; of the second one alone a record comes again, to an agent that is never called."""
    part = np.array([[True, True, True, False]] * 2)  # by position: agents 0 and 1 of either repeat
    layout = learners([0, 1, 2, 3], agents=2)
    ratios = np.ones((2, 1))
    assert epsilon(readings_of([owners(2, 2), owners(2, 1)], layout, [0], [part], ratios), ratios) == 1.0
    assert epsilon(readings_of([owners(2, 1), owners(2, 2)], layout, [0], [part], ratios), ratios) == 2.0
    once, again = told([[[0], [1]], [[0], [1]]]), told([[[0], [0]], [[0], [1]]])
    for streams in ([once, again], [again, once]):  # agent 0 of either repeat took part alike
        assert epsilon(readings_of(streams, layout, [0], [part], ratios), ratios) == 2.0


def test_of_records_that_never_come_again_every_round_counts_in_which_anybody_took_part() -> None:
    ratios = np.array([[1.0], [4.0], [2.0]])
    part = np.array([[True, True, False], [False, False, False], [False, False, True]])
    assert epsilon(readings_of([linear_drift(3, 2)], learners(), [0], [part], ratios), ratios) == 2.0


@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (4.0, 1.0, 1.0)], ids=["alike", "unlike"])
def test_of_agents_with_one_record_each_the_dearest_counts(costs: Any) -> None:
    """Where rounds cost the same it is who took part most often, elsewhere it need not be."""
    ratios = np.array(costs)[:, None]
    part = np.array([[True, False, False], [False, True, False], [False, True, False]])
    found = readings_of([owners(1, 1, 1)], learners(), [0], [part], ratios)
    assert epsilon(found, ratios) == max(costs[0], 2.0)


def test_of_phases_that_cost_unlike_the_dearest_counts() -> None:
    """One agent is in the cheap phase twice, another in the dear one once: the one that took part less pays more."""
    ratios = np.tile([0.25, 8.0], (2, 1))
    cheap, dear = np.array([[True, False], [True, False]]), np.array([[False, True], [False, False]])
    found = readings_of([owners(1, 1)], learners([0, 1], 2), [0, 1], [cheap, dear], ratios)
    assert epsilon(found, ratios) == 8.0


def test_of_agents_with_more_than_one_record_the_dearest_counts() -> None:
    """One reads four records once each, the other its only one twice."""
    ratios = np.ones((4, 1))
    part = np.array([[True, True], [True, False], [True, False], [True, True]])
    assert epsilon(readings_of([owners(4, 1)], learners([0, 1], 2), [0], [part], ratios), ratios) == 2.0


def test_of_agents_whose_record_is_more_than_once_in_a_batch_the_dearest_counts() -> None:
    ratios = np.ones((3, 1))
    stream = told([np.zeros((3, 1), int), np.zeros((3, 4), int)])
    part = np.array([[True, True], [True, True], [True, False]])
    assert epsilon(readings_of([stream], learners([0, 1], 2), [0], [part], ratios), ratios) == 8.0
