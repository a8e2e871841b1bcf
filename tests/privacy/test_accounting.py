from __future__ import annotations

import dataclasses
import functools
import gc
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError, PrivacyError
from tacit.privacy.accounting import TOLERANCE, Account, Budget, composed, guarantee
from tacit.privacy.conversions import gaussian_delta, gaussian_epsilon, loose, rho_within, tight
from tacit.privacy.events import EVERYONE, Event, Loss, fresh, fresh_number

fixed = settings(derandomize=True, deadline=None, max_examples=150)
rhos = st.floats(-12, 12).map(lambda power: 10.0**power)
deltas = st.floats(-30, -0.05).map(lambda power: 10.0**power)
epsilons = st.floats(-6, 6).map(lambda power: 10.0**power)


def laplace(epsilon: float, **more: Any) -> Event:
    return Event("m", "laplace", epsilon, 1.0, **more)


def gaussian(ratio: float, **more: Any) -> Event:
    return Event("m", "gaussian", ratio, 1.0, **more)


events = st.builds(
    Event,
    st.just("m"),
    st.sampled_from(["laplace", "gaussian"]),
    st.floats(0, 2),
    st.floats(0.5, 9),
    records=st.sampled_from(["", "a", "b", "rows 1-2", "rows 2", "none"]),
    observers=st.sampled_from([(EVERYONE,), ("p",), ("q",), ("p", "q"), ("q", EVERYONE), ("p", "p")]),
)


# Conversions.


def test_the_worked_example() -> None:
    rho = 1000 / (2 * 20.0**2)
    assert loose(rho, 1e-5) == pytest.approx(8.837, abs=5e-4)
    assert tight(rho, 1e-5) == pytest.approx(8.078, abs=5e-4)
    assert gaussian_epsilon(math.sqrt(2 * rho), 1e-5) == pytest.approx(7.511, abs=5e-4)


@fixed
@given(rhos, deltas)
def test_exact_is_below_tight_and_tight_below_loose(rho: float, delta: float) -> None:
    assert gaussian_epsilon(math.sqrt(2 * rho), delta) <= tight(rho, delta) <= loose(rho, delta)


@fixed
@given(rhos, deltas, st.floats(-8, 8).map(lambda power: 10.0**power))
def test_no_order_does_better_than_the_tight_rule(rho: float, delta: float, u: float) -> None:
    alpha = mpmath.mpf(1) + mpmath.mpf(u)
    with mpmath.workdps(50):
        at_order = rho * alpha + mpmath.log((alpha - 1) / alpha) - (mpmath.log(delta) + mpmath.log(alpha)) / (alpha - 1)
    assert tight(rho, delta) <= max(0.0, float(at_order)) * (1 + 1e-9) + 1e-12


@fixed
@given(rhos, deltas)
def test_the_tight_rule_is_the_bound_at_some_order(rho: float, delta: float) -> None:
    """In 50 digits: the minimum over all orders, found by the root of the derivative."""
    with mpmath.workdps(50):
        log_delta = mpmath.log(delta)
        low, high = mpmath.mpf(-60), mpmath.mpf(100)  # of ln u
        for _ in range(120):
            u = mpmath.exp((low + high) / 2)
            if rho * u * u + log_delta + mpmath.log1p(u) < 0:
                low = mpmath.log(u)
            else:
                high = mpmath.log(u)
        least = rho * (1 + u) - mpmath.log1p(1 / u) - (log_delta + mpmath.log1p(u)) / u
    assert tight(rho, delta) == pytest.approx(max(0.0, float(least)), rel=1e-9, abs=1e-12)


def test_conversions_at_the_ends() -> None:
    for rule in (loose, tight):
        assert rule(0.0, 1e-5) == 0
        assert rule(0.0, 0.0) == 0
        assert rule(1.0, 0.0) == math.inf
        assert rule(math.inf, 1e-5) == math.inf
    assert loose(2.0, 1.0) == 2
    assert tight(2.0, 1.0) == 0
    assert tight(math.ulp(0.0), 1e-300) >= 0
    assert tight(1e300, 1e-5) >= 1e300


@fixed
@given(epsilons, deltas)
def test_the_inverse_keeps_the_target_and_wastes_nothing(epsilon: float, delta: float) -> None:
    rho = rho_within(epsilon, delta)
    assert tight(rho, delta) <= epsilon
    assert tight(rho * (1 + 1e-9), delta) > epsilon * (1 - 1e-12)
    assert rho > 0


def test_the_inverse_at_the_ends() -> None:
    assert rho_within(1.0, 0.0) == 0
    assert rho_within(math.inf, 1e-5) == math.inf
    assert rho_within(1.0, 1.0) == math.inf


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.4, 1.0, 1.5, 4.0])
def test_the_gaussian_curve_in_fifty_digits(mu: float, share: float) -> None:
    epsilon = share * (mu * mu / 2 + mu)
    with mpmath.workdps(50):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
    assert gaussian_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-9)


@fixed
@given(st.floats(-3, 3).map(lambda power: 10.0**power), deltas)
def test_the_gaussian_epsilon_inverts_the_curve(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    if epsilon:
        assert gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta


def test_the_gaussian_curve_at_the_ends() -> None:
    assert gaussian_delta(0.0, 0.0) == 0
    assert gaussian_delta(math.inf, 1.0) == 1
    assert gaussian_delta(1.0, math.inf) == 0
    assert gaussian_delta(1e-300, 1e300) == 0
    assert gaussian_epsilon(0.0, 0.0) == 0
    assert gaussian_epsilon(1.0, 0.0) == math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: loose(-1.0, 0.1),
        lambda: tight(math.nan, 0.1),
        lambda: tight(1.0, -0.1),
        lambda: tight(1.0, 1.1),
        lambda: rho_within(0.0, 0.1),
        lambda: rho_within(1.0, 2.0),
        lambda: gaussian_delta(-1.0, 1.0),
        lambda: gaussian_delta(1.0, -1.0),
        lambda: gaussian_epsilon(1.0, -1.0),
    ],
)
def test_conversions_refuse_what_is_no_loss(call: Callable[[], float]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        call()


# Sums.


def _by_definition(every: Sequence[Event], observer: str) -> list[Fraction | float]:
    """Return, field by field, the largest over labels of what is seen of it and of all records."""
    seen = [e for e in every if observer == EVERYONE or {observer, EVERYONE} & set(e.observers)]
    if every and every[0].adjacency == "dataset":
        seen = [dataclasses.replace(e, records="") for e in seen]

    def total(label: str, field: int) -> Fraction | float:
        values = [e.loss[field] for e in seen if {"", label} & set(e.labels)]
        return math.inf if math.inf in values else sum(map(Fraction, values), Fraction(0))

    labels = {"", *(label for e in seen for label in e.labels)}
    return [max(total(label, field) for label in labels) for field in range(3)]


def booked(every: Sequence[Event]) -> Account:
    return functools.reduce(Account.charged, every, Account())


def _is_exact(found: Loss, every: Sequence[Event], observer: str) -> bool:
    """Whether it is the definition's sum, rounded up."""
    pairs = zip(found, _by_definition(every, observer), strict=True)
    return all(exact <= value <= float(exact) * (1 + 1e-14) for value, exact in pairs)


@fixed
@given(st.lists(events, max_size=12), st.sampled_from([EVERYONE, "p", "q", "nobody"]), st.booleans())
def test_an_account_says_what_the_definition_says(every: list[Event], observer: str, whole: bool) -> None:
    if whole:
        every = [dataclasses.replace(event, adjacency="dataset") for event in every]
    assert _is_exact(booked(every).spent(observer), every, observer)


def test_labels_in_parallel_same_label_in_sequence_all_records_on_top() -> None:
    every = [laplace(1.0, records="a"), laplace(2.0, records="a"), laplace(2.5, records="b"), laplace(0.5)]
    assert booked(every).spent().epsilon == 3.5
    assert composed(every).epsilon == 6
    assert composed([]) == Account().spent() == Loss()


def test_every_record_of_a_batch_is_charged_by_itself() -> None:
    every = [laplace(1.0, records="rows 1-3"), laplace(2.0, records="rows 3 5"), laplace(9.0, records="none")]
    account = booked(every)
    assert account.spent().epsilon == account.spent("p").epsilon == 3.0  # of row 3
    assert account.charged(laplace(3.5, records="rows 2")).spent().epsilon == 4.5


def test_under_adjacency_dataset_labels_play_no_part() -> None:
    every = [laplace(1.0, records="a", adjacency="dataset"), laplace(2.0, records="b", adjacency="dataset")]
    assert booked(every).spent().epsilon == 3


def test_an_observer_knows_what_it_sees_and_all_together_know_everything() -> None:
    every = [laplace(1.0, observers=("p",)), laplace(2.0, observers=("q",)), laplace(4.0)]
    assert [booked(every).spent(who).epsilon for who in ("p", "q", "nobody", EVERYONE)] == [5, 6, 4, 7]


def test_adjacencies_do_not_mix() -> None:
    every = [laplace(1.0), laplace(1.0, adjacency="component")]
    for call in (composed, booked):
        with pytest.raises(PrivacyError, match="'record'.*do not add|'component'.*do not add"):
            call(every)


@fixed
@given(st.lists(events, min_size=1, max_size=8), st.data())
def test_an_account_never_changes(every: list[Event], data: st.DataObject) -> None:
    """A tree of accounts, each charged from any earlier one, read in any order."""
    made: list[tuple[Account, list[Event]]] = [(Account(), [])]
    for event in every:
        account, history = data.draw(st.sampled_from(made))
        made.append((account.charged(event), [*history, event]))
    for account, history in data.draw(st.permutations(made)):
        for who in (EVERYONE, "p", "q"):
            assert _is_exact(account.spent(who), history, who)


def test_an_account_keeps_no_events() -> None:
    account = Account()
    for number in range(2000):
        account = account.charged(laplace(0.1, records=str(number % 3)))
    assert len(account._sums.items()) == 6  # three labels, for everyone and for all together
    gc.collect()
    assert sum(type(thing).__name__ == "Versions" for thing in gc.get_objects()) < 50  # older versions are gone


@fixed
@given(st.lists(st.tuples(events, st.integers(0, 2)), max_size=12), st.sampled_from([EVERYONE, "p", "q", "nobody"]))
def test_fresh_labels_cost_what_any_others_would(every: list[tuple[Event, int]], observer: str) -> None:
    """Events of fresh records, one number after the other, with others between them."""
    number, made = 0, []
    for event, step in every:
        number += step
        made.append(event if step == 2 else dataclasses.replace(event, records=fresh(number)))
    assert _is_exact(booked(made).spent(observer), made, observer)


def test_an_account_forgets_fresh_labels_and_takes_none_back() -> None:
    account = Account()
    for number in range(2000):
        account = account.charged(laplace(0.5 if number == 7 else 0.1, records=fresh(number)))
        account = account.charged(laplace(0.1, records=fresh(number)))
    assert len(account._sums.items()) == 2  # the newest, for everyone and for all together
    assert account.spent().epsilon == account.spent("p").epsilon == pytest.approx(0.6)
    with pytest.raises(PrivacyError, match="'fresh 7' after 'fresh 1999'"):
        account.charged(laplace(0.1, records=fresh(7)))
    assert fresh_number("fresh 12") == 12
    assert [fresh_number(label) for label in ("", "fresh", "fresh x", "fresh 1 ", "round 1")] == [None] * 5


def test_a_hundred_thousand_events_add_up() -> None:
    every = [laplace(0.01, records=str(number)) for number in range(50_000)] + [laplace(1e-5)] * 50_000
    assert booked(every).spent().epsilon == pytest.approx(0.51)


def test_sums_that_overflow_are_infinite() -> None:
    assert composed([laplace(1.7e308)] * 2).epsilon == math.inf
    assert composed([Event("m", None, 1.0, 0.0), laplace(1.0)]) == Loss(math.inf, math.inf)


# Budgets.


@fixed
@given(st.floats(1e-6, 1e6), st.integers(1, 3000))
def test_n_equal_charges_reach_a_budget_and_no_more(total: float, n: int) -> None:
    account, part = Account(), total / n
    for _ in range(n):
        account = account.charged(laplace(part))
    assert Budget(epsilon=total).refusal(account.spent()) is None
    assert Budget(epsilon=total).refusal(account.charged(laplace(part * 1e-4)).spent()) is not None


def test_a_pure_budget_counts_epsilon_only() -> None:
    budget = Budget(epsilon=1.0)
    assert budget.refusal(Loss(1.0, 99.0)) is None
    assert budget.refusal(Loss(1.0 + TOLERANCE / 2)) is None
    assert budget.refusal(Loss(1.0 + 2 * TOLERANCE)) is not None
    assert budget.refusal(Loss(math.inf, 0.001)) is not None
    assert budget.refusal(Loss(0.1, 0.1, 1e-9)) is not None
    assert budget.left(Loss(0.25, 3.0)) == Loss(0.75, math.inf, 0.0)
    assert "epsilon would be 2" in str(budget.refusal(Loss(2.0)))


def test_a_zcdp_budget_counts_rho_only() -> None:
    budget = Budget(rho=0.5)
    assert budget.refusal(Loss(math.inf, 0.5)) is None
    assert budget.refusal(Loss(0.1, 0.51)) is not None
    assert budget.refusal(Loss(0.1, 0.1, 1e-9)) is not None
    assert budget.left(Loss(math.inf, 0.2)) == Loss(math.inf, 0.3, 0.0)
    assert "rho would be 0.6" in str(budget.refusal(Loss(math.inf, 0.6)))


def test_a_budget_with_delta_takes_either_sum() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5)
    most = rho_within(1.0, 1e-5)
    assert budget.refusal(Loss(math.inf, most)) is None
    assert budget.refusal(Loss(math.inf, most * 1.001)) is not None
    assert budget.refusal(Loss(1.0, 0.5)) is None
    assert budget.refusal(Loss(1.001, 0.5)) is not None
    assert budget.left(Loss(math.inf, most / 2)) == Loss(0.0, most / 2, 0.0)
    assert "delta = 1e-05" in str(budget.refusal(Loss(2.0, 0.5)))


def test_bounded_noise_is_paid_from_the_reserve() -> None:
    loss = Loss(0.5, 0.125, 2e-6)
    assert Budget(epsilon=1.0, delta=1e-5).refusal(loss) is not None
    assert "reserve" in str(Budget(epsilon=1.0, delta=1e-5).refusal(loss))
    budget = Budget(epsilon=1.0, delta=1e-5, reserve=2e-6)
    assert budget.refusal(loss) is None
    assert budget.limit.rho == rho_within(1.0, 8e-6)
    assert budget.left(loss).delta == 0
    only_pure = Budget(epsilon=1.0, delta=1e-5, reserve=1e-5)
    assert only_pure.limit == Loss(1.0, 0.0, 1e-5)
    assert only_pure.refusal(Loss(math.inf, 1e-9)) is not None


def test_nothing_undefined_is_admitted() -> None:
    assert Budget(epsilon=1.0).refusal(Loss(math.nan, 0.0)) is not None
    assert Budget(epsilon=1.0).refusal(Loss(0.0, 0.0, math.nan)) is not None
    assert Budget(rho=1.0).refusal(Loss(0.0, math.nan)) is not None


@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"delta": 1e-5},
        {"epsilon": 1.0, "rho": 1.0},
        {"rho": 1.0, "delta": 1e-5},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"rho": 0.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "reserve": 1e-6},
        {"epsilon": 1.0, "delta": 1e-6, "reserve": 1e-5},
        {"epsilon": 1.0, "delta": 1e-6, "reserve": -1e-7},
    ],
)
def test_a_budget_that_is_none_is_refused(settings_: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Budget(**settings_)


# Guarantees.


def test_a_pure_guarantee_in_words() -> None:
    words = guarantee(Loss(1.0, 0.5), "record").words()
    assert all(part in words for part in ("epsilon = 1 per record", "pure", "replaced", "Laplace mechanism"))


def test_a_gaussian_guarantee_in_words() -> None:
    promise = guarantee(Loss(math.inf, 1.25), "dataset", delta=1e-5, uses=1000)
    assert promise.epsilon == tight(1.25, 1e-5)
    assert promise.private
    for part in (
        "8.078 per agent",
        "delta = 1e-05",
        "rho = 1.25",
        "all records of one agent",
        "used in 1,000 releases",
    ):
        assert part in promise.words()


def test_a_bounded_guarantee_carries_its_delta() -> None:
    promise = guarantee(Loss(1.0, 0.5, 1e-3), "component")
    assert (promise.epsilon, promise.delta, promise.rho) == (1.0, 1e-3, math.inf)
    assert "rho" not in promise.words()
    assert "bounded Laplace" in promise.words()
    assert "per component of a record's gradient" in promise.words()
    mixed = guarantee(Loss(math.inf, 0.5, 1e-3), "record", delta=1e-5)
    assert mixed.delta == pytest.approx(1.01e-3)
    assert mixed.epsilon == tight(0.5, 1e-5)
    assert mixed.rho == math.inf
    assert "rho" not in mixed.words()


@pytest.mark.parametrize("loss", [Loss(math.inf, math.inf), Loss(1.0, 0.5, 1.0), Loss(math.inf, 1.0, 0.999999)])
def test_no_guarantee_in_words(loss: Loss) -> None:
    promise = guarantee(loss, "record", delta=1e-5)
    assert not promise.private
    assert promise.words().startswith("not private")


def test_a_loss_of_nothing_in_words() -> None:
    assert "nothing that depends" in guarantee(Loss(), "record").words()


def test_a_guarantee_needs_a_delta_and_uses() -> None:
    with pytest.raises(ConfigError, match="delta = 0"):
        guarantee(Loss(1.0), "record", delta=0.0)
    with pytest.raises(ConfigError, match="uses = 0"):
        guarantee(Loss(1.0), "record", uses=0)


def test_accounts_are_readable_in_one_line() -> None:
    """Also where nothing is promised."""
    assert repr(Budget(epsilon=2.0, delta=1e-5)) == "Budget(epsilon=2.0, delta=1e-05)"
    assert repr(guarantee(Loss(0.5, 0.125), "dataset")) == "Guarantee(epsilon = 0.5, pure, per agent)"
    as_it_is = Event("unprotected", None, 1.0, 0.0)
    assert repr(as_it_is) == "Event(unprotected, sensitivity 1, scale 0, all records: no finite loss)"
    assert repr(booked([as_it_is])) == "Account(no finite loss)"
    assert repr(guarantee(as_it_is.loss, "record")) == "Guarantee(not private, per record)"
