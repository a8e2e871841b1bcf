"""What a release costs and whom it is charged to, case by case."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from tacit.core.contract import Mechanism, unprotected
from tacit.privacy import bounded_laplace, decaying_gaussian, gaussian, laplace, laplace_of_size, statement
from tacit.privacy.charges import Held, charges_all, event_of
from tacit.privacy.events import NO_RECORDS, Event, Loss

SIZED = laplace_of_size(noise_std=1.0, clip=1.0)


class Spec(NamedTuple):
    mechanism: Mechanism
    coordinates: int = 3
    from_data: bool = True
    in_sequence: bool = False


@pytest.mark.parametrize(
    ("numbers", "held"),
    [
        (None, ("fresh 7", 1)),
        ([0], ("rows 0", 1)),
        ([2, 1], ("rows 1-2", 1)),
        ([4, 0, -1, 4, 5, 4], ("rows 0 4-5", 3)),
        ([0, -1, -1], ("rows 0", 1)),
        ([-1, -1], (NO_RECORDS, 1)),
        ([], (NO_RECORDS, 1)),
    ],
)
def test_a_batch_holds_its_records_and_says_how_often_one_comes(numbers: Any, held: tuple[str, int]) -> None:
    assert Held.of(numbers, 7) == held


@pytest.mark.parametrize(
    ("composition", "adjacency", "every"),
    [
        ("parallel", "record", False),
        ("parallel", "component", False),
        ("parallel", "dataset", True),
        ("sequential", "record", True),
        ("none", "record", True),
    ],
)
def test_in_parallel_is_charged_only_what_says_so(composition: str, adjacency: Any, every: bool) -> None:
    said = statement(laplace(1.0, 1.0))._replace(composition=composition)
    assert charges_all(said, adjacency) == every


@pytest.mark.parametrize("mechanism", [laplace(1.0, 1.0), SIZED, gaussian(1.0, 1.0)], ids=lambda m: m.name)
@pytest.mark.parametrize(("sensitivity", "scale"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf)])
def test_numbers_that_are_none_promise_nothing(mechanism: Mechanism, sensitivity: float, scale: float) -> None:
    event = event_of(Spec(mechanism), 1, sensitivity, scale, Held("rows 1"))
    assert event.loss[:2] == (math.inf, math.inf)


def test_what_leaves_as_it_is_costs_everything() -> None:
    assert event_of(Spec(unprotected), 1, 0.0, 0.0, Held("rows 1")).loss == Loss(math.inf, math.inf)


def test_what_no_record_can_move_costs_nothing() -> None:
    assert event_of(Spec(laplace(1.0, 1.0)), 1, 0.0, 0.0, Held("rows 1", 3)).loss == Loss()


def test_a_release_is_charged_to_its_own_records_or_to_all() -> None:
    held = Held("rows 1-2", 2)
    own = event_of(Spec(SIZED), 1, 1.0, 2.0, held)
    assert (own.records, own.ratio) == ("rows 1-2", 1.0)
    every = event_of(Spec(SIZED, in_sequence=True), 1, 1.0, 2.0, held)
    assert (every.records, every.ratio) == ("", 1.0)


def test_a_record_that_is_there_twice_moves_a_mean_twice_as_far() -> None:
    twice = Held("rows 1", 2)
    calibrated = event_of(Spec(laplace(0.3, 1.0)), 1, 0.6, 2.0, twice)
    assert (calibrated.sensitivity, calibrated.scale, calibrated.loss.epsilon) == (1.2, 2.0, 0.6)
    assert event_of(Spec(SIZED), 1, 0.6, 2.0, twice).loss.epsilon == 0.6
    whole = laplace(0.3, 1.0, adjacency="dataset")  # its sensitivity is that of all records already
    assert event_of(Spec(whole, in_sequence=True), 1, 0.6, 2.0, twice).loss.epsilon == 0.3


def test_noise_that_decays_costs_what_its_round_says() -> None:
    spec = Spec(decaying_gaussian(4.0, 0.25, 1.0))
    costs = [event_of(spec, t, 0.25 * 2.0 ** (t - 1), 1.0, Held("rows 1")).ratio for t in (1, 2, 3)]
    assert costs == pytest.approx([0.25, 0.5, 1.0], rel=1e-15)


def test_an_event_carries_what_was_declared() -> None:
    mechanism = bounded_laplace(epsilon=1.0, rounds=100, adjacency="record")
    assert event_of(Spec(mechanism, 5), 2, 2.0, 2.0, Held("rows 1")) == Event(
        "bounded_laplace", "bounded_laplace", 2.0, 2.0, 5, math.log(100) ** 2, "record", "rows 1", calibration=1.0
    )
    nothing = event_of(Spec(SIZED._replace(adjacency="component"), 0), 2, 2.0, 2.0, Held(NO_RECORDS))
    assert (nothing.coordinates, nothing.adjacency, nothing.labels) == (1, "component", ())
