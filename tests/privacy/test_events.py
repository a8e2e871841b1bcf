from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError
from tacit.privacy.events import EVERYONE, NO_RECORDS, Event, Loss, Total, labels_in, rows

fixed = settings(derandomize=True, deadline=None, max_examples=200)
amounts = st.floats(0, 1e6, allow_subnormal=True)
losses = st.builds(Loss, amounts, amounts, amounts)


def bounded(sensitivity: float, scale: float, bound: float, coordinates: int = 1) -> Event:
    return Event("m", "bounded_laplace", sensitivity, scale, coordinates, bound / scale if scale else bound)


def test_laplace_costs_its_ratio_and_half_its_square() -> None:
    assert Event("m", "laplace", 3.0, 2.0).loss == Loss(1.5, 1.125, 0.0)
    assert Event("m", "laplace", 3.0, 2.0, coordinates=7).loss == Loss(1.5, 1.125, 0.0)


def test_gaussian_costs_rho_and_has_no_pure_epsilon() -> None:
    assert Event("m", "gaussian", 3.0, 2.0).loss == Loss(math.inf, 1.125, 0.0)


def test_as_it_is_costs_everything() -> None:
    assert Event("m", None, 0.0, 0.0).loss == Loss(math.inf, math.inf, 0.0)


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
def test_without_noise_it_costs_everything_and_without_sensitivity_nothing(distribution: Any) -> None:
    assert Event("m", distribution, 1.0, 0.0).loss[:2] == (math.inf, math.inf)
    assert Event("m", distribution, 0.0, 0.0).loss == Loss()
    assert Event("m", distribution, 0.0, 1.0).loss == Loss()


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
@pytest.mark.parametrize(("sensitivity", "scale"), [(1e-200, 1.0), (1e-300, 1e300)])
def test_what_is_tiny_is_not_booked_as_free(distribution: Any, sensitivity: float, scale: float) -> None:
    loss = Event("m", distribution, sensitivity, scale).loss
    assert loss.epsilon > 0
    assert loss.rho > 0


def test_what_is_huge_is_infinite_instead_of_an_error() -> None:
    assert Event("m", "gaussian", 1e200, 1.0).loss == Loss(math.inf, math.inf)
    assert Event("m", "laplace", 1e200, 1.0).loss == Loss(1e200, math.inf)
    assert bounded(1.0, 1e-3, 2.0).loss == Loss(1000.0, 500000.0, math.ulp(0.0))


def test_a_bound_no_wider_than_the_change_protects_nothing() -> None:
    assert bounded(2.0, 1.0, 2.0).loss.delta == 1
    assert bounded(1.0, 0.0, 2.0).loss.delta == 1
    assert bounded(1.0, 1.0, 1.0001, coordinates=50).loss.delta == 1
    assert bounded(0.0, 1.0, 1.0).loss == Loss()
    assert bounded(1.0, 1.0, math.inf).loss.delta <= math.ulp(0.0)


def _cells(shift: float, scale: float, bound: float, edges: np.ndarray) -> np.ndarray:
    """Return the probabilities of the cells and, last, of the atom, for bounded noise around `shift`."""

    def below(x: np.ndarray) -> np.ndarray:
        x = np.clip(x - shift, -bound, bound) / scale
        return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)

    return np.append(np.diff(below(edges)), math.exp(-bound / scale if scale else bound))


def _delta(shifts: tuple[float, ...], scale: float, bound: float, epsilon: float, cells: int = 800) -> float:
    """Return sum over outcomes of (P - e^epsilon Q)+; atoms of P and Q coincide only where there is no shift."""
    p, q = np.ones(1), np.ones(1)
    for shift in shifts:
        edges = np.unique(np.concatenate([np.linspace(-bound, bound + shift, cells), [bound, shift - bound, 0, shift]]))
        one, other = _cells(0.0, scale, bound, edges), _cells(shift, scale, bound, edges)
        if shift:
            one, other = np.append(one, 0.0), np.append(other, 0.0)
            other[-2:] = other[-2:][::-1]
        p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel()
    return float(np.sum(np.maximum(p - math.exp(epsilon) * (1 + 1e-12) * q, 0)))


@pytest.mark.parametrize(
    ("sensitivity", "scale", "bound"), [(1, 1, 3), (1, 2, 5), (0.3, 0.1, 1), (1, 1, 1.5), (1, 10, 4)]
)
def test_the_delta_of_bounded_noise_is_the_exact_one(sensitivity: float, scale: float, bound: float) -> None:
    loss = bounded(sensitivity, scale, bound).loss
    assert loss.delta == pytest.approx(_delta((sensitivity,), scale, bound, loss.epsilon), rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(("scale", "bound"), [(1.0, 3.0), (0.5, 4.0), (2.0, 5.0)])
def test_the_delta_of_two_coordinates_covers_every_split_and_is_close(share: float, scale: float, bound: float) -> None:
    loss = bounded(1.0, scale, bound, coordinates=2).loss
    exact = _delta((1 - share, share), scale, bound, loss.epsilon)
    assert exact <= loss.delta
    if share == 0.1:  # nearly all of the change in one coordinate, and both atoms apart: the worst case
        assert exact >= 0.7 * loss.delta


@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize(("scale", "bound"), [(1.0, 3.0), (0.5, 4.0), (2.0, 5.0)])
def test_the_delta_of_one_component_that_moves_is_exact_however_many_do_not(
    coordinates: int, scale: float, bound: float
) -> None:
    """All coordinates together, summed over the cells of a grid; those that do not move have their atoms in common."""
    loss = Event("m", "bounded_laplace", 1.0, scale, coordinates, bound / scale, "component").loss
    still = (0.0,) * (coordinates - 1)
    cells = {1: 800, 2: 800, 3: 80}[coordinates]
    assert _delta((1.0, *still), scale, bound, loss.epsilon, cells) == pytest.approx(loss.delta, rel=1e-6)
    assert _delta((0.4, *still), scale, bound, loss.epsilon, cells) <= loss.delta  # a smaller change is no worse


def test_the_delta_of_the_texts_own_setting() -> None:
    """Dissertation, sec. 2.4: five components, T = 50, epsilon = 0.1."""
    event = Event("m", "bounded_laplace", 1.0, 10.0, 5, math.log(50) ** 2, "component")
    assert event.loss.delta == pytest.approx(2.38e-7, rel=2e-3)


def test_bounded_noise_drawn_as_declared_shows_its_delta() -> None:
    """Outcomes which the neighbour cannot give; 5 standard errors: a false alarm in 1.7 million at most."""
    scale, bound, trials = 1.0, 3.0, 1_000_000
    loss = bounded(1.0, scale, bound).loss
    noise = np.random.default_rng(5).laplace(scale=scale, size=trials)
    atom = np.abs(noise) > bound
    impossible = atom | (noise < 1.0 - bound)
    error = 5 * math.sqrt(loss.delta / trials)
    assert abs(impossible.mean() - loss.delta) < error


@fixed
@given(losses, losses)
def test_a_sum_is_never_below_the_exact_one_and_within_two_units(one: Loss, other: Loss) -> None:
    for a, b, total in zip(one, other, one.plus(other), strict=True):
        assert Fraction(a) + Fraction(b) <= Fraction(total)
        assert total <= math.nextafter(a + b, math.inf)


@fixed
@given(losses, losses)
def test_the_worst_covers_both_field_by_field(one: Loss, other: Loss) -> None:
    assert one.worst(other) == tuple(max(pair) for pair in zip(one, other, strict=True))


def test_zcdp_holds_of_unbounded_noise_alone() -> None:
    assert Loss(1.0, 0.5).zcdp == 0.5
    assert Loss(1.0, 0.5, 1e-300).zcdp == math.inf


def test_infinite_losses_add() -> None:
    assert Loss(math.inf, 1.0).plus(Loss(math.inf, 2.0)) == Loss(math.inf, 3.0)


def test_what_overflows_is_infinite() -> None:
    assert Loss(1.7e308).plus(Loss(1.7e308)).epsilon == math.inf


def test_what_is_no_number_is_not_free() -> None:
    assert Total.of(Loss(math.nan, 1.0)).loss == Loss(math.inf, 1.0)
    assert Loss(0.5, 0.5).plus(Loss(0.0, math.nan, math.nan)) == Loss(0.5, math.inf, math.inf)


@fixed
@given(losses, losses, losses, st.integers(1, 50))
def test_totals_are_exact_in_whatever_order(one: Loss, two: Loss, three: Loss, count: int) -> None:
    a, b, c = map(Total.of, (one, two, three))
    assert a.plus(b).plus(c) == c.plus(a).plus(b)
    assert a.times(count).plus(a) == a.times(count + 1)
    assert [Fraction(n) / 2**1074 for n in a.plus(b)] == [
        Fraction(x) + Fraction(y) for x, y in zip(one, two, strict=True)
    ]
    assert a.worst(b).loss == one.worst(two)
    assert a.loss == one  # what is a float is not rounded


def test_totals_keep_what_is_infinite() -> None:
    open_, shut = Total.of(Loss(math.inf, 1.0)), Total.of(Loss(2.0, 3.0))
    for one, other in ((open_, shut), (shut, open_)):
        assert one.plus(other).loss == Loss(math.inf, 4.0)
        assert one.worst(other).loss == Loss(math.inf, 3.0)
    assert open_.times(2).loss == Loss(math.inf, 2.0)


@fixed
@given(st.lists(st.integers(0, 20), max_size=12))
def test_numbered_records_are_told_in_spans_and_taken_apart_again(numbers: list[int]) -> None:
    assert labels_in(rows(numbers)) == tuple(f"row {number}" for number in sorted(set(numbers)))


def test_labels_of_records() -> None:
    assert rows([7, 3, 4, 3]) == "rows 3-4 7"
    assert rows([]) == NO_RECORDS
    assert labels_in(NO_RECORDS) == ()
    for label in ("", "fresh 3", "rows", "rows x", "rows 1 ", "row 1"):
        assert labels_in(label) == (label,)
    assert Event("m", "laplace", 1.0, 1.0, records="rows 1-2").labels == ("row 1", "row 2")
    assert Event("m", "laplace", 1.0, 1.0, records="rows 1-2", adjacency="dataset").labels == ("",)


def test_calibrated_noise_costs_what_it_was_calibrated_to() -> None:
    assert Event("m", "laplace", 3 * 0.1, 1.0, calibration=0.3).loss.epsilon == 0.3 != 3 * 0.1
    assert Event("m", "laplace", 0.0, 0.0, calibration=0.3).loss == Loss()  # no record can move it


def test_an_event_is_seen_by_everyone_unless_it_says_who() -> None:
    assert Event("m", "laplace", 1.0, 1.0).observers == (EVERYONE,)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Event("m", "cauchy", 1.0, 1.0), "'cauchy'"),  # type: ignore[arg-type]
        (lambda: Event("m", "laplace", 1.0, 1.0, adjacency="user"), "'user'"),  # type: ignore[arg-type]
        (lambda: Event("m", "laplace", -1.0, 1.0), "sensitivity = -1.0"),
        (lambda: Event("m", "laplace", math.nan, 1.0), "sensitivity = nan"),
        (lambda: Event("m", "laplace", math.inf, 1.0), "sensitivity = inf"),
        (lambda: Event("m", "laplace", 1.0, -1.0), "scale = -1.0"),
        (lambda: Event("m", "laplace", 1.0, math.inf), "scale = inf"),
        (lambda: Event("m", "laplace", 1.0, 1.0, coordinates=0), "coordinates = 0"),
        (lambda: Event("m", "laplace", 1.0, 1.0, bound=1.0), "bound 1.0"),
        (lambda: Event("m", "bounded_laplace", 1.0, 1.0), "bound None"),
        (lambda: bounded(1.0, 1.0, 0.0), "bound 0.0"),
        (lambda: bounded(1.0, 1.0, math.nan), "bound nan"),
        (lambda: Event("m", "laplace", 1.0, 1.0, observers=()), "observers"),
        (lambda: Event("m", "laplace", 1.0, 1.0, calibration=0.999), "calibration 0.999"),
        (lambda: Event("m", "laplace", 1.0, 0.0, calibration=1.0), "calibration 1.0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: Callable[[], Event], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        make()
