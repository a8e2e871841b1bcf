"""PAO-Fed studies: the network and data against what is said of them, matched steps, verdicts, micro runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tacit.algorithms.asynchronous._stability import largest_curvature
from tacit_reproduction.datasets import calcofi as bottles
from tacit_reproduction.gauthier import (
    asynchronous,
    pao_theory,
)
from tacit_reproduction.gauthier.asynchronous import SGD, Cell


def test_steps_are_matched_by_how_methods_start_on_seeds_of_their_own() -> None:
    asked = []

    def team(what: str, do: Any, tasks: Sequence[Any]) -> list[Any]:
        asked.extend((task[1:], task[0].rounds) for task in tasks)
        return [{"mse": np.full((2, 3), task[0].step if task[0].method == SGD else 0.2)} for task in tasks]

    wanted = [Cell(SGD), Cell(SGD, "ideal")]
    found = asynchronous._matched(team, wanted, 500)
    assert found == [cell._replace(step=0.2) for cell in wanted]
    assert set(asked) == {((asynchronous.MATCHING_SEEDS, 500), 200)}


def test_groups_of_clients_are_crossed_and_late_as_said() -> None:
    cell = Cell("U1", clients=16, rounds=40)
    stream = asynchronous.stream("synthetic", 16, 40, 0)
    rates = stream.arrivals.mean(axis=0)
    np.testing.assert_allclose(rates, np.tile([0.25, 0.5, 0.75, 1.0], 4), atol=0.03)
    chances = asynchronous.ENVIRONMENTS["harsh"].channel.delay
    assert chances is not None
    assert chances.step == 10
    assert chances.probabilities()[:3] == pytest.approx([0.6, 0.4 * 0.6, 0.4**2 * 0.6])
    found = asynchronous.run((cell, 2, 0))
    assert found["mse"].shape == (2, 40)
    np.testing.assert_allclose(found["steady"], 10 * np.log10(found["mse"][:, -4:].mean(axis=1)))
    assert found["early"] == pytest.approx(10 * np.log10(found["mse"][:, 3]))
    batches = stream.chunk(0, 40)
    near = 0.95 / largest_curvature(asynchronous.objective("synthetic"), batches).max()
    assert 0.5 < near < 2  # lambda_max is about 1, as in the text


def test_dealt_bottles_are_the_same_at_the_same_times_in_other_hands() -> None:
    by_place = asynchronous.stream("by place", 8, 100, 0)
    dealt = asynchronous.stream("dealt", 8, 100, 0)
    first, second = (each.chunk(0, 100) for each in (by_place, dealt))
    np.testing.assert_array_equal(first.weight, second.weight)
    held = first.weight > 0
    np.testing.assert_array_equal(np.sort(first.y[held]), np.sort(second.y[held]))
    assert not np.array_equal(first.y[held], second.y[held])
    np.testing.assert_array_equal(by_place.test(50).y, dealt.test(50).y)
    assert bottles.GROUPS == (500, 1000, 1500, 2000)


def test_worlds_have_the_spectrum_that_is_said_and_steps_are_ratios_of_the_bound() -> None:
    tried = {(s.name, s.ratio): s for s in pao_theory.cells(quick=False) if s.ratio}
    assert tried[pao_theory.ALONE, 0.5].step == pytest.approx(0.5)
    assert tried[pao_theory.ROUGH, 2.4].step == pytest.approx(0.3)  # lambda is 8
    usual = pao_theory.world(pao_theory.STEADY[3])
    np.testing.assert_allclose(np.linalg.eigvalsh(usual.correlations[0]), np.linspace(0.2, 1.0, 6))
    assert np.linalg.norm(usual.truth) == pytest.approx(1)


@pytest.mark.slow
def test_least_mean_squares_diverge_at_half_the_bound_and_settle_where_it_is_predicted() -> None:
    tried = {s.ratio: s for s in pao_theory.cells(quick=True) if s.name == pao_theory.ALONE}
    assert pao_theory.run((tried[0.5], 4, 0))["diverged"].tolist() == [1, 1, 1, 1]
    assert pao_theory.run((tried[0.02], 4, 0))["diverged"].tolist() == [0, 0, 0, 0]
    plain = next(s for s in pao_theory.cells(quick=True) if s.name == "C1, m = 6, no delays")
    found = pao_theory.run((plain, 10, 0))
    assert abs(10 * np.log10(found["kept"].mean())) < 1
