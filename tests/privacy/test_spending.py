from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.core.contract import Adjacency, Mechanism, PrivacyStatement, unprotected
from tacit.core.errors import PrivacyError
from tacit.privacy import Event, bounded_laplace, decaying_gaussian, gaussian, laplace, laplace_of_size, statement
from tacit.privacy.accounting import Account, guarantee
from tacit.privacy.charges import Held, charges_all, event_of
from tacit.privacy.conversions import tight
from tacit.privacy.events import Total
from tacit.privacy.spending import Reading, RunPrivacy, composition_in_words, spent_in_run

LAPLACE = laplace(epsilon=1.0, clip=1.0)
GAUSSIAN = gaussian(noise_multiplier=2.0, clip=1.0)
SIZED = laplace_of_size(noise_std=1.0, clip=1.0)
SIZED_GAUSSIAN = GAUSSIAN._replace(ratio=None, scale=lambda view, sensitivity: 1.0)
FRESH = (Reading(None),)
"""Sized noise costs what the table says, calibrated noise what it declares."""


class Spec(NamedTuple):
    mechanism: Mechanism
    coordinates: int = 3
    from_data: bool = True
    in_sequence: bool = False


def ratios(*phases: Any, rounds: int = 1) -> np.ndarray:
    """(rounds, phases): ratios as given, one or one per round."""
    return np.stack([np.broadcast_to(np.asarray(phase, np.float64), rounds) for phase in phases], axis=1)


def spent(mechanism: Mechanism, costs: Any, rounds: int, records: Any = None, composition: Any = "parallel") -> Any:
    said = statement(mechanism, composition=composition)
    spec = Spec(mechanism, in_sequence=charges_all(said, mechanism.adjacency))
    return spent_in_run(said, [spec], ratios(costs, rounds=rounds), [Reading(records)]).guarantee


def cycle(rows: int, rounds: int, batch: int = 1) -> np.ndarray:
    return (np.arange(rounds)[:, None] * batch + np.arange(batch)) % rows


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_fresh_stream_costs_a_record_one_release() -> None:
    found = spent(LAPLACE, 1.0, rounds=50)
    assert (found.epsilon, found.delta, found.rho) == (1.0, 0.0, 0.5)
    assert "Laplace mechanism" in found.theorem
    assert (found.unit, found.adjacency) == ("record", "record")


def test_a_record_that_is_read_three_times_costs_three_releases() -> None:
    found = spent(LAPLACE, 1.0, rounds=50, records=cycle(17, 50))
    assert (found.epsilon, found.rho) == (3.0, 1.5)
    assert "3 releases in sequence" in found.theorem


def test_the_rounds_in_which_a_record_is_read_are_charged() -> None:
    costs = np.array([0.25, 2.0, 0.5, 1.0])
    assert spent(SIZED, costs, rounds=4).epsilon == 2.0
    assert spent(SIZED, costs, rounds=4, records=cycle(2, 4)).epsilon == 3.0  # rounds 2 and 4
    assert spent(SIZED, costs, rounds=4, records=cycle(3, 4)).epsilon == 2.0  # round 2 alone, or 1 and 4
    assert spent(SIZED, costs, rounds=4, records=cycle(1, 4)).epsilon == 3.75
    assert spent(SIZED, costs, rounds=4, records=cycle(2, 4)).rho == 2.0 + 0.5


def test_in_sequence_every_round_is_charged() -> None:
    assert spent(SIZED, 0.5, rounds=50, composition="sequential").epsilon == 25.0
    assert spent(SIZED, [0.25, 2.0, 0.5], rounds=3, composition="sequential").epsilon == 2.75


def test_under_dataset_adjacency_every_round_is_charged_whatever_the_statement_says() -> None:
    mechanism = gaussian(noise_multiplier=2.0, clip=1.0, adjacency="dataset")
    found = spent(mechanism, 0.5, rounds=40)
    assert found.rho == 40 * 0.125
    assert found.epsilon == tight(5.0, 1e-5)
    assert found.delta == 1e-5
    assert found.unit == "agent"
    assert "40 releases in sequence" in found.theorem


def test_calibrated_noise_costs_what_it_declares_whatever_was_rounded_on_the_way() -> None:
    assert spent(laplace(0.3, 1.0), np.float32(0.3), rounds=5).epsilon == 0.3
    assert spent(laplace(0.3, 1.0), 0.0, rounds=5).epsilon == 0.0  # a step of size 0


def test_decaying_noise_costs_the_geometric_sum() -> None:
    mechanism = decaying_gaussian(noise_multiplier=4.0, decay=0.5, clip=1.0, adjacency="dataset")
    costs = 0.25 * 2.0 ** (np.arange(4) / 2)  # squares double each round
    found = spent(mechanism, costs, rounds=4)
    assert found.rho == pytest.approx((1 + 2 + 4 + 8) / 32, rel=1e-12)
    once = spent(decaying_gaussian(4.0, 0.5, 1.0), costs, rounds=4)
    assert once.rho == pytest.approx(8 / 32, rel=1e-12)  # the last round, whose noise is least
    twice = spent(decaying_gaussian(4.0, 0.5, 1.0), costs, rounds=4, records=cycle(2, 4))
    assert twice.rho == pytest.approx((2 + 8) / 32, rel=1e-12)


def test_phases_of_a_round_add_up_and_what_has_no_data_is_free() -> None:
    said = statement(SIZED)
    both = spent_in_run(said, [Spec(SIZED), Spec(SIZED)], ratios(1.0, 0.5, rounds=9), FRESH).guarantee
    assert both is not None
    assert both.epsilon == 1.5
    assert "2 releases" in both.theorem
    free = spent_in_run(
        said, [Spec(SIZED), Spec(unprotected, from_data=False)], ratios(1.0, 0.0, rounds=9), FRESH
    ).guarantee
    assert free is not None
    assert free.epsilon == 1.0
    one = spent_in_run(said, [Spec(SIZED, from_data=False), Spec(SIZED)], ratios(7.0, 0.5, rounds=9), FRESH).guarantee
    assert one is not None
    assert one.epsilon == 0.5


def test_the_dearest_round_is_that_of_the_largest_sum_over_phases() -> None:
    table = ratios([1.0, 0.0, 0.6], [0.0, 1.0, 0.6], rounds=3)
    found = spent_in_run(statement(SIZED), [Spec(SIZED)] * 2, table, FRESH).guarantee
    assert found is not None
    assert found.epsilon == pytest.approx(1.2)


def test_laplace_and_gaussian_phases_add_up_as_concentrated_losses() -> None:
    twice = [Reading(cycle(3, 5))]
    specs = [Spec(SIZED), Spec(SIZED_GAUSSIAN)]
    found = spent_in_run(statement(LAPLACE), specs, ratios(1.0, 0.5, rounds=5), twice).guarantee
    assert found is not None
    assert found.rho == 2 * (0.5 + 0.125)
    assert (found.epsilon, found.delta) == (tight(1.25, 1e-5), 1e-5)


def test_delta_is_that_which_was_asked_for() -> None:
    table = ratios(0.5, rounds=2)
    found = spent_in_run(statement(GAUSSIAN), [Spec(GAUSSIAN)], table, FRESH, delta=1e-8).guarantee
    assert found is not None
    assert (found.epsilon, found.delta) == (tight(0.125, 1e-8), 1e-8)


def test_bounded_noise_has_the_delta_of_its_events() -> None:
    mechanism = bounded_laplace(epsilon=1.0, rounds=100)
    found = spent_in_run(
        statement(mechanism), [Spec(mechanism)], ratios(1.0, rounds=2), [Reading(cycle(1, 2))]
    ).guarantee
    event = Event("", "bounded_laplace", 1.0, 1.0, 3, math.log(100) ** 2, "component")
    assert found is not None
    assert found.delta == 2 * event.loss.delta > 0
    assert found.epsilon == 2.0


def test_a_record_twice_in_one_batch_moves_the_mean_twice_as_far() -> None:
    """Read 8 times in 4 rounds: epsilon doubles, rho is four times as large."""
    found = spent(LAPLACE, 1.0, rounds=4, records=cycle(1, 4, batch=2))
    assert (found.epsilon, found.rho) == (8.0, 4 * 2.0)
    assert spent(LAPLACE, 1.0, rounds=4, records=cycle(3, 4, batch=5)).epsilon == 8.0
    assert spent(LAPLACE, 1.0, rounds=4, records=cycle(2, 4, batch=2)).epsilon == 4.0
    whole = laplace(1.0, 1.0, adjacency="dataset")  # its sensitivity is that of all records already
    assert spent(whole, 1.0, rounds=4, records=cycle(1, 4, batch=2)).epsilon == 4.0


def test_a_batch_without_records_costs_nobody_anything() -> None:
    costs = np.array([0.5, 0.5, 9.0])
    assert spent(SIZED, costs, rounds=3, records=np.array([[0], [1], [-1]])).epsilon == 0.5


def test_who_did_not_take_part_is_not_charged() -> None:
    part = np.array([[True], [False], [True], [True]])
    spec = [Spec(SIZED)]
    found = spent_in_run(statement(SIZED), spec, ratios([1.0, 8.0, 2.0, 4.0], rounds=4), [Reading(cycle(2, 4), part)])
    assert found.guarantee is not None
    assert found.guarantee.epsilon == 4.0  # rounds 1 and 3 cost 3 together, round 4 costs 4
    assert found.reads == 2


def test_nobody_is_passed_over_for_whom_noise_is_not_pure() -> None:
    """One agent's delta is largest, another's rho, and the last one's epsilon is infinite: nobody speaks for all."""
    bounded = bounded_laplace(0.5, 10, adjacency="record")
    specs = [Spec(bounded), Spec(SIZED), Spec(SIZED_GAUSSIAN)]
    readings = [Reading(cycle(1, 1), part[None]) for part in np.eye(3, dtype=bool)]
    for order in (readings, readings[::-1]):
        found = spent_in_run(statement(LAPLACE), specs, ratios(0.5, 2.0, 0.25), order).guarantee
        assert found is not None
        alone = event_of(specs[0], 1, 0.5, 1.0, Held("")).loss.delta
        assert (found.rho, found.delta) == (math.inf, alone + 1e-5)
        assert found.epsilon == tight(2.0, 1e-5)


def test_rounds_differ_by_how_often_a_record_is_in_their_batch() -> None:
    records = np.array([[0, 1, -1, -1], [2, 2, 3, -1], [1, 1, 1, 4]])
    found = spent_in_run(statement(SIZED), [Spec(SIZED)], ratios(1.0, rounds=3), [Reading(records)])
    assert found.guarantee is not None
    assert (found.guarantee.epsilon, found.reads) == (4.0, 4)  # of record 1: once, and three times in one batch
    part = np.array([[True], [True], [False]])
    found = spent_in_run(statement(SIZED), [Spec(SIZED)], ratios(1.0, rounds=3), [Reading(records, part)])
    assert found.guarantee is not None
    assert (found.guarantee.epsilon, found.reads) == (2.0, 2)


def test_the_dearest_agent_counts() -> None:
    readings = [Reading(cycle(3, 6)), Reading(cycle(2, 6)), Reading(cycle(6, 6))]
    for order in (readings, readings[::-1]):
        found = spent_in_run(statement(SIZED), [Spec(SIZED)], ratios(0.5, rounds=6), order)
        assert found.guarantee is not None
        assert (found.guarantee.epsilon, found.reads) == (1.5, 3)


def test_many_rounds_cost_little_time_and_lose_nothing() -> None:
    costs = np.tile([1.0, 0.5], 50_000)
    assert spent(SIZED, costs, rounds=100_000, composition="sequential").epsilon == 75_000.0


MECHANISMS = (SIZED, SIZED_GAUSSIAN, LAPLACE, decaying_gaussian(3.0, 0.9, 1.0), bounded_laplace(0.7, 10))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.data(), st.booleans(), st.sampled_from(MECHANISMS), st.sampled_from(MECHANISMS))
def test_it_is_what_the_dearest_ledger_says(data: Any, in_sequence: bool, one: Mechanism, other: Mechanism) -> None:
    """Agents that read and take part as they like: the largest of their accounts, to the bit."""
    rounds, agents = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    one, other = (m._replace(adjacency="record") for m in (one, other))
    table = ratios(
        *(data.draw(st.lists(st.sampled_from([0.0, 0.3, 1 / 3, 2.0]), min_size=rounds, max_size=rounds)) for _ in "ab"),
        rounds=rounds,
    )
    specs = [Spec(one, in_sequence=in_sequence), Spec(other, in_sequence=in_sequence)]
    readings, worst = [], Total()
    for _ in range(agents):
        numbers = data.draw(
            st.lists(st.lists(st.integers(-1, 3), min_size=2, max_size=2), min_size=rounds, max_size=rounds)
        )
        records = data.draw(st.sampled_from([None, np.array(numbers)]))
        part = np.array(data.draw(st.lists(st.booleans(), min_size=2 * rounds, max_size=2 * rounds))).reshape(rounds, 2)
        readings.append(Reading(records, part))
        account = Account()
        for t in range(rounds):
            held = Held.of(None if records is None else records[t].tolist(), t + 1)
            for k, spec in enumerate(specs):
                if part[t, k] and table[t, k] > 0:
                    cost = spec.mechanism.ratio_in(t + 1) or float(table[t, k])
                    account = account.charged(event_of(spec, t + 1, 0.5 * cost, 0.5, held))
        worst = worst.worst(Total.of(account.spent()))
    found = spent_in_run(statement(LAPLACE), specs, table, readings)
    assert found.guarantee is not None
    expected = guarantee(worst.loss, "record")
    assert (found.guarantee.epsilon, found.guarantee.rho, found.guarantee.delta) == (
        expected.epsilon,
        expected.rho,
        expected.delta,
    )


# -- not private -------------------------------------------------------------------------------------------------------


def test_a_method_without_a_promise_has_no_figure() -> None:
    assert spent_in_run(PrivacyStatement.none(), [Spec(unprotected)], ratios(0.0), FRESH) == (None, 1)


def test_one_open_phase_makes_the_run_not_private_and_is_named() -> None:
    specs = [Spec(LAPLACE), Spec(unprotected)]
    found = spent_in_run(statement(LAPLACE), specs, ratios(1.0, 0.0, rounds=3), FRESH).guarantee
    assert found is not None
    assert not found.private
    assert math.isinf(found.epsilon)
    run = RunPrivacy(statement(LAPLACE, "much"), found, 1)
    assert re.match("Not private: .*phase 1 ", run.words())
    assert "noise on the" not in run.words()
    summary = run.summary()
    assert (summary["private"], summary["epsilon"], summary["delta"], summary["rho"]) == (False, None, None, None)


@pytest.mark.parametrize("ratio", [math.inf, math.nan])
def test_a_round_without_noise_is_named(ratio: float) -> None:
    found = spent(GAUSSIAN, np.array([0.5, ratio, 0.5]), rounds=3)
    assert not found.private
    assert "round 2" in found.theorem


def test_a_run_of_which_nothing_depends_on_data_costs_nothing() -> None:
    specs = [Spec(LAPLACE, from_data=False)]
    found = spent_in_run(statement(LAPLACE), specs, ratios(1.0, rounds=3), FRESH).guarantee
    assert found is not None
    assert (found.epsilon, found.delta) == (0.0, 0.0)
    assert found.private


def test_adjacencies_are_not_mixed() -> None:
    specs = [Spec(LAPLACE), Spec(laplace(1.0, 1.0, adjacency="dataset"))]
    with pytest.raises(PrivacyError, match="'dataset' and 'record' in one"):
        spent_in_run(statement(LAPLACE), specs, ratios(1.0, 1.0), FRESH)


@pytest.mark.parametrize(
    ("composition", "adjacency", "words"),
    [
        ("parallel", "record", "parallel: each release is charged to the records of its round alone"),
        ("parallel", "component", "parallel: each release is charged to the records of its round alone"),
        ("parallel", "dataset", "sequential: every release is charged to every record"),
        ("sequential", "record", "sequential: every release is charged to every record"),
    ],
)
def test_composition_is_said_as_it_is_counted(composition: Any, adjacency: Adjacency, words: str) -> None:
    assert composition_in_words(statement(LAPLACE, composition=composition), adjacency) == words


# -- in runs -----------------------------------------------------------------------------------------------------------


def run(mechanism: Mechanism, rounds: int = 50, **stream: Any) -> RunPrivacy:
    algorithm = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=mechanism)
    data = tacit.streams.logistic_drift(agents=3, dim=2, **stream)
    return tacit.simulate(algorithm, tacit.graphs.ring(3), data, rounds=rounds, progress=False).privacy


def test_runs_are_charged_for_what_their_stream_reads() -> None:
    fresh = run(LAPLACE)
    assert (fresh.private, fresh.reads) == (True, 1)
    assert fresh.guarantee is not None
    assert (fresh.guarantee.epsilon, fresh.guarantee.delta) == (pytest.approx(1.0, rel=1e-6), 0.0)
    assert fresh.words().startswith("Epsilon = 1 per record (pure;")
    cycled = run(LAPLACE, repeat_every=20)
    assert cycled.reads == 3
    assert cycled.guarantee is not None
    assert cycled.guarantee.epsilon == pytest.approx(3.0, rel=1e-6)


def test_a_decaying_run_is_charged_its_last_rounds() -> None:
    """m = 4, decay 0.9, 20 rounds: rho of round t is 0.9^-(t-1) / 32, and a record is read in one round at most."""
    found = run(decaying_gaussian(4.0, 0.9, 1.0), rounds=20).guarantee
    assert found is not None
    assert found.rho == pytest.approx(0.9**-19 / 32, rel=1e-5)


def test_an_open_run_says_so() -> None:
    found = run(unprotected, rounds=3)
    assert not found.private
    assert found.guarantee is None
    assert re.match(r"Not private: .*\. The source says: eps-differential", found.words())
