from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.graphs import is_strongly_connected
from tacit.privacy import laplace, statement
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit.results.run import Run
from tacit_reproduction.finished import finished_run
from tacit_reproduction.mirror import budget, constrained, lagrangian, spending
from tacit_reproduction.mirror.budget import AGENTS, PROBLEMS, SEASON, Problem
from tacit_reproduction.mirror.spending import (
    EPSILON,
    FULL,
    RELEASED_EPSILON,
    UNCONSTRAINED,
    Benchmark,
    Cell,
    Evidence,
    Outcome,
    compare,
    noise,
    noise_scale,
    outcome_of,
    refusal,
)

SEEDS = 12
SPREAD = np.random.default_rng(0).normal(size=(SEEDS, 1))


# -- the problems ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=list(PROBLEMS))
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]


def test_longer_horizons_begin_with_the_same_rounds(problem: Problem) -> None:
    short, long = problem.draw(3, 150), problem.draw(3, 230)
    assert all(np.array_equal(a, b[:150]) for a, b in zip(short, long, strict=True))
    assert not np.array_equal(short.price, problem.draw(4, 150).price)
    assert not np.array_equal(long.price[:100], long.price[100:200]), "seasons differ"


def test_agents_meet_the_dear_season_at_different_times(problem: Problem) -> None:
    price = problem.draw(0, SEASON).price[:, :, -1]
    assert len(set(np.argmax(price, axis=0) // 10)) >= 8
    usual = price.mean()
    assert price.mean(axis=1) == pytest.approx(np.full(SEASON, usual), rel=0.05)  # someone's winter is another's summer
    assert price.max() > 1.4 * usual


def test_bounds_hold_on_the_data(problem: Problem) -> None:
    data = problem.draw(0, SEASON)
    corners = np.concatenate([np.eye(5), -np.eye(5), np.full((1, 5), 1.0)])
    points = jax.vmap(problem.euclidean.from_dual)(jnp.asarray(9 * corners, jnp.float32))
    order = np.inf if problem.name == "market" else 2

    @jax.jit
    def found(points: Any, data: Any) -> Any:
        def of_one(x: Any, record: Any) -> Any:
            slopes = (jax.grad(problem.budget.value)(x, record), jax.grad(problem.objective.loss)(x, record))
            return problem.budget.value(x, record), jnp.stack([jnp.linalg.norm(slope, order) for slope in slopes])

        return jax.vmap(jax.vmap(jax.vmap(of_one, (None, 0)), (None, 0)), (0, None))(points, data)

    values, slopes = found(points, data)
    assert np.abs(values).max() <= problem.bounds.value * (1 + 1e-5)
    assert slopes.max() <= problem.bounds.slope * (1 + 1e-5)
    # The bounds are not idle either: the dearest corner nearly reaches both.
    assert values.max() > 0.9 * problem.bounds.value
    assert slopes.max() > 0.9 * problem.bounds.slope


def test_noise_counts_in_the_step() -> None:
    """Mean squares of 200,000 draws: each is off by more than 3 % about once in 10^9 (their relative error is 0.5 %)."""
    draws = np.random.default_rng(0).laplace(0, 1.7, (200_000, budget.COORDINATES))
    for name, order in (("market", np.inf), ("classifier", 2)):
        found = np.mean(np.linalg.norm(draws, order, axis=1) ** 2)
        assert PROBLEMS[name].bounds.noise(1.7) == pytest.approx(found, rel=0.03)
    step, damping = constrained.constants(PROBLEMS["market"])
    b, value, slope, square = PROBLEMS["market"].bounds
    noisy = value**2 + slope**2 + square(noise_scale(PROBLEMS["market"], 1.0))
    assert float(step(jnp.asarray(4))) == pytest.approx(np.sqrt(b / (4 * noisy)), rel=1e-6)
    assert damping == pytest.approx(2 * slope**2)


def test_noise_scale_is_that_of_the_mechanism(problem: Problem) -> None:
    found = noise(problem, Cell(problem.name, constrained.METHOD, 0.5))
    assert found.clip is not None
    assert found.clip.bound == problem.clip
    assert noise_scale(problem, 0.5) == pytest.approx(2 * np.sqrt(5) * problem.clip / 0.5)
    wide = noise(problem, Cell(problem.name, constrained.METHOD, 0.5, "released"))
    assert wide.clip is not None
    assert wide.clip.bound == problem.wide_clip
    assert noise(problem, Cell(problem.name, constrained.METHOD)).distribution is None


def test_network_is_one_sided_and_connected() -> None:
    graph = budget.network(0)
    links = {(int(s), int(r)) for s, r in zip(graph.senders, graph.receivers, strict=True)}
    assert any((r, s) not in links for s, r in links)
    assert graph.agents == AGENTS
    assert is_strongly_connected(graph)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> tuple[Evidence, list[Run]]:
    """The market without noise, with and without its budget, one run each that is read at two horizons."""
    runs: list[Run] = []
    at = (SEASON, 3 * SEASON)
    plan = {Cell("market", m): (at, True) for m in (UNCONSTRAINED, constrained.METHOD)}

    def watched(*args: Any, **options: Any) -> Run:
        runs.append(finished_run(*args, **options))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spending, "finished_run", watched)
        evidence = compare(PROBLEMS["market"], range(2), at, (1, SEASON), plan, constrained.method)
    return evidence, runs


@pytest.mark.covered_by("the claims on outcomes, above")
def test_outcomes_are_those_of_the_runs(small: tuple[Evidence, list[Run]]) -> None:
    evidence, (free, kept) = small
    cell = Cell("market", constrained.METHOD)
    assert evidence.outcomes[cell].spent == pytest.approx(kept.violation()["budget"][:, [99, 299]])
    known = kept.regret(1, SEASON)  # solved for in one go with another prefix above
    assert evidence.regret(cell, SEASON)[:, 1] == pytest.approx(known.total[:, 0], abs=1e-2)
    assert evidence.average_regret(cell, SEASON, 300) == pytest.approx(known.per_agent_round[:, 0], abs=1e-6)
    assert evidence.average_regret(cell, SEASON, 100) == pytest.approx(evidence.regret(cell, SEASON)[:, 0] / 1600)
    assert evidence.average_spent(cell, 300) == pytest.approx(kept.per_round["budget"].mean(axis=1), rel=1e-4)
    spent = np.asarray(free.per_round["budget"], np.float64)
    assert evidence.outcomes[Cell("market", UNCONSTRAINED)].spent[:, 0] == pytest.approx(16 * spent[:, :100].sum(1))


def test_several_runs_are_each_read_at_their_end() -> None:
    def run(rounds: int, epsilon: float) -> Any:
        rows = np.arange(2 * rounds, dtype=np.float64).reshape(2, rounds)
        return SimpleNamespace(per_round={"loss": rows, "budget": -rows}, privacy=promised(epsilon))

    short, long = run(3, 1.0), run(5, 2.0)
    found = outcome_of([short, long], (3, 5))
    assert np.array_equal(found.loss, 16 * np.array([[0 + 1 + 2, 10], [3 + 4 + 5, 35]]))
    assert np.array_equal(found.spent, -found.loss)
    assert found.privacy is long.privacy
    assert np.array_equal(outcome_of([long], (2, 5)).loss, 16 * np.array([[1, 10], [11, 35]]))


def test_each_horizon_of_the_lagrangian_method_has_its_own_v(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    monkeypatch.setattr(spending, "_run", lambda problem, algorithm, streams, rounds: asked[rounds])
    monkeypatch.setattr(spending, "outcome_of", lambda runs, horizons: (runs, horizons))
    monkeypatch.setattr(spending, "_benchmark", lambda *args: None)
    monkeypatch.setattr(
        lagrangian.algorithms,
        "lagrangian_descent",
        lambda f, c, rounds, bold, *rest: asked.update({rounds: (bold, rest)}),
    )
    cell = lagrangian.main("market")
    found = compare(PROBLEMS["market"], [0], (100, 400), (SEASON,), {cell: ((100, 400), False)}, lagrangian.method)
    assert {rounds: bold for rounds, (bold, _) in asked.items()} == {100: 80.0, 400: 160.0}
    assert all(rest[1] == PROBLEMS["market"].euclidean for _, rest in asked.values())
    assert found.outcomes[cell] == ([asked[100], asked[400]], (100, 400))


def test_a_longer_window_allows_more_and_no_constraint_spends_more(small: tuple[Evidence, list[Run]]) -> None:
    evidence, _ = small
    assert np.all(evidence.best["market", SEASON].loss < evidence.best["market", 1].loss - 10)
    assert evidence.best["market", SEASON].gap < 1e-6
    free, kept = (evidence.average_spent(Cell("market", m), 300) for m in (UNCONSTRAINED, constrained.METHOD))
    assert np.all(free > 0.05)
    assert np.all(free > kept)


def test_an_unpayable_budget_is_refused_with_its_window() -> None:
    claim = refusal(0)
    assert claim.holds
    assert "'spending and fee'" in claim.figure
    assert "100 rounds" in claim.figure


@pytest.mark.parametrize(("more", "word"), [(-1.0, "nothing was refused"), (1.0, "it is refused")])
def test_refusing_too_little_or_too_much_fails(monkeypatch: pytest.MonkeyPatch, more: float, word: str) -> None:
    unpayable = budget.UNPAYABLE._replace(value=lambda x, offer: budget.UNPAYABLE.value(x, offer) + more)
    monkeypatch.setattr(spending, "UNPAYABLE", unpayable)
    claim = refusal(0)
    assert not claim.holds
    assert word in claim.figure


def test_cells_of_the_constrained_method_differ_in_noise_damping_and_dual(monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(objective: Any, limit: Any, step: Any, *rest: Any) -> Any:
        return (*rest, float(step(jnp.asarray(1))))

    monkeypatch.setattr(constrained.algorithms, "constrained_mirror_descent", captured)
    problem = PROBLEMS["classifier"]
    plain, damped, released = (
        constrained.method(problem, cell, 10)
        for cell in (
            Cell("classifier", constrained.METHOD),
            Cell("classifier", constrained.METHOD, knob=4.0),
            Cell("classifier", constrained.METHOD, 1.0, "released"),
        )
    )
    step, damping = constrained.constants(problem)
    assert plain[0] == damping
    assert damped == (4 * damping, *plain[1:])
    assert plain[2:] == (problem.mirror, "private", float(step(jnp.asarray(1))))
    assert (released[1].clip.bound, released[3]) == (problem.wide_clip, "released")


# -- claims ------------------------------------------------------------------------------------------------------------


def promised(epsilon: float | None) -> RunPrivacy:
    if epsilon is None:
        return RunPrivacy(statement(laplace(1.0, 1.0)), None)
    return RunPrivacy(statement(laplace(epsilon, 1.0)), guarantee(Loss(epsilon, epsilon**2 / 2), "record"), 1)


DESIGN = FULL._replace(horizons=(1000, 5000, 20_000), seeds=SEEDS)
Level = Callable[[Cell], float]


def texts_regret(cell: Cell) -> float:
    """At the longest horizon, per agent and round: what the claims say."""
    if cell.method == UNCONSTRAINED:
        return -0.1
    if cell.dual == "released":
        return 0.005 if cell.epsilon == RELEASED_EPSILON else 0.05
    return {None: 0.01}.get(cell.epsilon, 0.02 / (cell.epsilon or 1) ** 0.5) / cell.knob**0.1


def texts_spending(cell: Cell) -> float:
    return 0.3 if cell.method == UNCONSTRAINED else 0.01 * cell.knob**0.5


def evidence(
    cells: Callable[[str], list[Cell]],
    regret: Level = texts_regret,
    spending: Level = texts_spending,
    rate: float = 0.5,
    unconstrained_rate: float = 1.0,
    charged: Callable[[Cell], float | None] | None = None,
) -> Evidence:
    """Make up evidence in which averages are these at the longest horizon, and totals grow at these rates."""
    rounds = np.array(DESIGN.horizons, np.float64)
    best = {
        (name, k): Benchmark(np.zeros((SEEDS, 3)) - 3.2 * k * rounds / 1e4, 1e-8, 1e-8)
        for name in PROBLEMS
        for k in DESIGN.windows
    }

    def totals(level: float, exponent: float) -> np.ndarray:
        return AGENTS * level * rounds[-1] * (rounds / rounds[-1]) ** exponent * (1 + 0.01 * SPREAD)

    def total_epsilon(cell: Cell) -> float | None:
        if cell.epsilon is None:
            return None
        return cell.epsilon if cell.dual == "released" else cell.epsilon * DESIGN.longest

    outcomes = {}
    for cell in (cell for name in PROBLEMS for cell in cells(name)):
        grows = unconstrained_rate if cell.method == UNCONSTRAINED else rate
        loss = totals(regret(cell), grows) + best[cell.problem, SEASON].loss
        outcomes[cell] = Outcome(
            DESIGN.horizons, loss, totals(spending(cell), grows), promised((charged or total_epsilon)(cell))
        )
    return Evidence(DESIGN.horizons, outcomes, best)


EXPERIMENTS = {
    "constrained": (constrained.judge, lambda name: constrained.cells(name, DESIGN)),
    "lagrangian": (lagrangian.judge, lambda name: list(lagrangian.plan(name, DESIGN))),
}


FREE = {"constrained": 6, "lagrangian": 4}
"""Position of the claim on mirror descent without the constraint."""
NOISE = {"constrained": 7, "lagrangian": 8}
"""Position of the claim that regret rises as eps falls; accounts and releases come last."""


class Judged(NamedTuple):
    """One experiment, and the positions of its claims that fail on changed evidence."""

    name: str
    on: Callable[..., list[int]]


@pytest.fixture(params=list(EXPERIMENTS))
def judged(request: pytest.FixtureRequest) -> Judged:
    judge, cells = EXPERIMENTS[request.param]
    return Judged(request.param, lambda **changes: failing(judge(DESIGN, evidence(cells, **changes))))


@pytest.mark.parametrize(("name", "bound"), [("constrained", "(3.5)"), ("lagrangian", "(4.17)")])
def test_claims_stand_beside_the_text_s_bound(name: str, bound: str) -> None:
    judge, cells = EXPERIMENTS[name]
    claims = judge(DESIGN, evidence(cells))
    assert bound in claims[NOISE[name]].text
    assert claims[NOISE[name]].seen_in == "noise"
    free = claims[FREE[name]]
    assert (free.text, free.seen_in) == ("", "overspending")


def test_all_claims_hold_on_evidence_that_says_so(judged: Judged) -> None:
    assert judged.on() == []


def test_linear_growth_fails_where_it_should(judged: Judged) -> None:
    assert judged.on(rate=1.0) == list(range(FREE[judged.name]))


def test_a_budget_that_is_kept_without_being_asked_for_fails(judged: Judged) -> None:
    assert judged.on(unconstrained_rate=0.5) == [FREE[judged.name]]


def test_noise_that_costs_nothing_fails(judged: Judged) -> None:
    def flat(cell: Cell) -> float:
        plain = cell.dual == "private" and cell.epsilon is not None and cell.epsilon > 0.01
        return texts_regret(cell._replace(epsilon=EPSILON)) if plain else texts_regret(cell)

    assert judged.on(regret=flat) == [NOISE[judged.name]]


def test_a_knob_without_effect_fails(judged: Judged) -> None:
    assert len(judged.on(regret=lambda cell: texts_regret(cell._replace(knob=1.0)))) == 1
    assert len(judged.on(spending=lambda cell: texts_spending(cell._replace(knob=1.0)))) == 1


def test_accounts_that_are_off_fail(judged: Judged) -> None:
    assert judged.on(charged=lambda cell: cell.epsilon) == [{"constrained": 10, "lagrangian": 9}[judged.name]]


def test_a_release_that_does_not_pay_fails(judged: Judged) -> None:
    found = judged.on(regret=lambda cell: 0.5 if cell.dual == "released" else texts_regret(cell))
    assert found == [{"constrained": 11, "lagrangian": 10}[judged.name]]


def test_windows_that_allow_nothing_more_fail() -> None:
    judge, cells = EXPERIMENTS["lagrangian"]
    made = evidence(cells)
    flat = made._replace(best={(name, k): made.best[name, SEASON] for name, k in made.best})
    assert failing(judge(DESIGN, flat)) == [7]


def test_sweeps_stay_within_the_theorems_range_of_v() -> None:
    for design in (FULL, lagrangian.QUICK):
        at = lagrangian.sweep_horizon(design)
        assert at in design.horizons
        for factor in lagrangian.BOLDNESS:
            assert SEASON < factor * at**0.5 < at
        for horizon in design.horizons:
            assert SEASON < lagrangian.MAIN * horizon**0.5 < horizon
            assert horizon % SEASON == 0
