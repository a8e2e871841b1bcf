from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.contract import Adjacency, Mechanism, PrivacyStatement, unprotected
from tacit.errors import PrivacyError
from tacit.privacy import Event, bounded_laplace, decaying_gaussian, gaussian, laplace, statement
from tacit.privacy.conversions import tight
from tacit.privacy.spending import RunPrivacy, composition_in_words, spent_in_run

LAPLACE = laplace(epsilon=1.0, clip=1.0)
GAUSSIAN = gaussian(noise_multiplier=2.0, clip=1.0)


class Spec(NamedTuple):
    mechanism: Mechanism
    coordinates: int = 3
    from_data: bool = True


def costs(*phases: Any, rounds: int = 1) -> np.ndarray:
    """(rounds, phases, 2): ratios as given, one or one per round; no bounds."""
    ratios = np.stack([np.broadcast_to(np.asarray(phase, np.float32), rounds) for phase in phases], axis=1)
    return np.stack([ratios, np.full_like(ratios, -np.inf)], axis=-1)


def spent(mechanism: Mechanism, ratios: Any, rounds: int, reads: int = 1, composition: Any = "parallel") -> Any:
    return spent_in_run(
        statement(mechanism, composition=composition), [Spec(mechanism)], costs(ratios, rounds=rounds), reads
    )


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_fresh_stream_costs_a_record_one_release() -> None:
    found = spent(LAPLACE, 1.0, rounds=50)
    assert (found.epsilon, found.delta, found.rho) == (1.0, 0.0, 0.5)
    assert found.theorem == "Laplace mechanism, each record is released once"
    assert (found.unit, found.adjacency) == ("record", "record")


def test_a_record_that_is_read_three_times_costs_three_releases() -> None:
    found = spent(LAPLACE, 1.0, rounds=50, reads=3)
    assert (found.epsilon, found.rho) == (3.0, 1.5)
    assert "3 releases in sequence" in found.theorem


def test_the_dearest_rounds_are_charged() -> None:
    ratios = np.array([0.25, 2.0, 0.5, 1.0])
    assert spent(LAPLACE, ratios, rounds=4, reads=1).epsilon == 2.0
    assert spent(LAPLACE, ratios, rounds=4, reads=2).epsilon == 3.0
    assert spent(LAPLACE, ratios, rounds=4, reads=3).epsilon == 3.5
    assert spent(LAPLACE, ratios, rounds=4, reads=2).rho == 2.0 + 0.5


def test_in_sequence_every_round_is_charged() -> None:
    assert spent(LAPLACE, 0.5, rounds=50, composition="sequential").epsilon == 25.0
    ratios = np.array([0.25, 2.0, 0.5])
    assert spent(LAPLACE, ratios, rounds=3, composition="sequential").epsilon == 2.75


def test_under_dataset_adjacency_every_round_is_charged_whatever_the_statement_says() -> None:
    mechanism = gaussian(noise_multiplier=2.0, clip=1.0, adjacency="dataset")
    found = spent(mechanism, 0.5, rounds=40)
    assert found.rho == 40 * 0.125
    assert found.epsilon == tight(5.0, 1e-5)
    assert found.delta == 1e-5
    assert found.unit == "agent"
    assert "40 releases in sequence" in found.theorem


def test_decaying_noise_costs_the_geometric_sum() -> None:
    mechanism = decaying_gaussian(noise_multiplier=4.0, decay=0.5, clip=1.0, adjacency="dataset")
    ratios = 0.25 * 2.0 ** (np.arange(4) / 2)  # squares double each round
    found = spent(mechanism, ratios, rounds=4)
    assert found.rho == pytest.approx((1 + 2 + 4 + 8) / 32, rel=1e-6)
    once = spent(decaying_gaussian(4.0, 0.5, 1.0), ratios, rounds=4)
    assert once.rho == pytest.approx(8 / 32, rel=1e-6)  # the last round, whose noise is least


def test_phases_of_a_round_add_up_and_what_has_no_data_is_free() -> None:
    said = statement(LAPLACE)
    both = [Spec(LAPLACE), Spec(LAPLACE)]
    assert spent_in_run(said, both, costs(1.0, 0.5, rounds=9), 1).epsilon == 1.5
    assert "2 releases" in spent_in_run(said, both, costs(1.0, 0.5, rounds=9), 1).theorem
    free = [Spec(LAPLACE), Spec(unprotected, from_data=False)]
    assert spent_in_run(said, free, costs(1.0, 0.0, rounds=9), 1).epsilon == 1.0
    one = [Spec(LAPLACE, from_data=False), Spec(LAPLACE)]
    assert spent_in_run(said, one, costs(7.0, 0.5, rounds=9), 1).epsilon == 0.5


def test_the_dearest_round_is_that_of_the_largest_sum_over_phases() -> None:
    table = costs([1.0, 0.0, 0.6], [0.0, 1.0, 0.6], rounds=3)
    assert spent_in_run(statement(LAPLACE), [Spec(LAPLACE)] * 2, table, 1).epsilon == pytest.approx(1.2)


def test_laplace_and_gaussian_phases_add_up_as_concentrated_losses() -> None:
    found = spent_in_run(statement(LAPLACE), [Spec(LAPLACE), Spec(GAUSSIAN)], costs(1.0, 0.5, rounds=5), 2)
    assert found.rho == 2 * (0.5 + 0.125)
    assert (found.epsilon, found.delta) == (tight(1.25, 1e-5), 1e-5)


def test_delta_is_that_which_was_asked_for() -> None:
    table = costs(0.5, rounds=2)
    found = spent_in_run(statement(GAUSSIAN), [Spec(GAUSSIAN)], table, 1, delta=1e-8)
    assert (found.epsilon, found.delta) == (tight(0.125, 1e-8), 1e-8)


def test_bounded_noise_has_the_delta_of_its_events() -> None:
    mechanism = bounded_laplace(epsilon=1.0, rounds=100)
    table = np.array([[[1.0, -20.0]], [[0.5, -30.0]]])
    found = spent_in_run(statement(mechanism), [Spec(mechanism)], table, 2)
    events = [Event("", "bounded_laplace", ratio, 1.0, 3, bound) for ratio, bound in ((1.0, 20.0), (0.5, 30.0))]
    assert found.delta == sum(event.loss.delta for event in events) > 0
    assert found.epsilon == 1.5


def test_a_record_twice_in_one_batch_moves_the_mean_twice_as_far() -> None:
    """Read 8 times in 4 rounds: epsilon doubles, rho is four times as large."""
    found = spent(LAPLACE, 1.0, rounds=4, reads=8)
    assert (found.epsilon, found.rho) == (8.0, 4 * 2.0)
    assert spent(LAPLACE, 1.0, rounds=4, reads=5).epsilon == 8.0  # in some round twice: which one is not known
    assert spent(LAPLACE, 1.0, rounds=4, reads=4).epsilon == 4.0
    whole = laplace(1.0, 1.0, adjacency="dataset")  # its sensitivity is that of all records already
    assert spent(whole, 1.0, rounds=4, reads=8).epsilon == 4.0


def test_many_rounds_cost_little_time_and_lose_nothing() -> None:
    ratios = np.tile([1.0, 0.5], 50_000)
    assert spent(LAPLACE, ratios, rounds=100_000, composition="sequential").epsilon == 75_000.0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 8, width=32), min_size=1, max_size=12), st.integers(1, 12))
def test_it_is_the_sum_over_the_worst_choice_of_rounds(ratios: list[float], reads: int) -> None:
    reads = min(reads, len(ratios))
    found = spent(LAPLACE, np.array(ratios), rounds=len(ratios), reads=reads)
    assert found.epsilon == pytest.approx(sum(sorted(ratios)[-reads:]))
    assert found.rho == pytest.approx(sum(sorted(r * r / 2 for r in ratios)[-reads:]))


# -- not private -------------------------------------------------------------------------------------------------------


def test_a_method_without_a_promise_has_no_figure() -> None:
    assert spent_in_run(PrivacyStatement.none(), [Spec(unprotected)], costs(0.0), 1) is None


def test_one_open_phase_makes_the_run_not_private_and_is_named() -> None:
    found = spent_in_run(statement(LAPLACE), [Spec(LAPLACE), Spec(unprotected)], costs(1.0, 0.0, rounds=3), 1)
    assert not found.private
    assert math.isinf(found.epsilon)
    run = RunPrivacy(statement(LAPLACE, "much"), found, 1)
    assert run.words().startswith("Not private: nothing is promised per record (phase 1 releases values as they were")
    assert "noise on the" not in run.words()
    summary = run.summary()
    assert (summary["private"], summary["epsilon"], summary["delta"], summary["rho"]) == (False, None, None, None)


@pytest.mark.parametrize("ratio", [math.inf, math.nan])
def test_a_round_without_noise_is_named(ratio: float) -> None:
    found = spent(GAUSSIAN, np.array([0.5, ratio, 0.5]), rounds=3)
    assert not found.private
    assert found.theorem == "no noise was added in round 2"


def test_a_run_of_which_nothing_depends_on_data_costs_nothing() -> None:
    found = spent_in_run(statement(LAPLACE), [Spec(LAPLACE, from_data=False)], costs(1.0, rounds=3), 1)
    assert (found.epsilon, found.delta) == (0.0, 0.0)
    assert found.private


def test_adjacencies_are_not_mixed() -> None:
    specs = [Spec(LAPLACE), Spec(laplace(1.0, 1.0, adjacency="dataset"))]
    with pytest.raises(PrivacyError, match="adjacency 'dataset' and 'record' in one run"):
        spent_in_run(statement(LAPLACE), specs, costs(1.0, 1.0), 1)


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
    assert found.words().startswith("Not private: values leave as they were computed. The source: eps-differential")
