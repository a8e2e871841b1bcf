"""Private ADMM and PAO-Fed (Gauthier 2023, ch. 3 and 4): optima, noise, networks and data, matched steps, micro runs."""

from collections.abc import Sequence
from typing import Any

import cvxpy
import numpy as np
import pytest

from tacit import graphs, simulate
from tacit.algorithms.asynchronous._stability import largest_curvature
from tacit.core.errors import ConfigError
from tacit.privacy.conversions import tight
from tacit.privacy.planning import total_rho
from tacit.privacy.spending import DELTA
from tacit_reproduction.before_noise import before_noise
from tacit_reproduction.datasets import calcofi as bottles
from tacit_reproduction.gauthier import asynchronous, pao_theory, zcdp_tuning
from tacit_reproduction.gauthier import nonsmooth as ns
from tacit_reproduction.gauthier.asynchronous import SGD
from tacit_reproduction.gauthier.nonsmooth import AGENTS, HALF, MATCHED, OURS, PROBLEMS, ROUNDS, VANISHING

SEED = 3
CELL = ns.Cell("ridge", OURS, 3.0, 0.8, 1.6)


def as_printed(name: str, w: cvxpy.Variable) -> cvxpy.Expression:
    """The text's objective: losses over D_k = 50, and the K shares of R / K add up to R."""
    drawn = ns.data(SEED)
    x, y = drawn.x.astype(float).reshape(-1, 8), drawn.y.astype(float).reshape(-1)
    if name == "lad":
        return cvxpy.norm1(x @ w - y) / 50
    regulariser = cvxpy.sum_squares(w)
    if name == "elastic-net":
        regulariser += 0.001 * np.abs(x.T @ y).max() * cvxpy.norm1(w)
    return cvxpy.sum_squares(x @ w - y) / 50 + regulariser


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_is_that_of_cvxpy_for_the_printed_objective(name: Any) -> None:
    w = cvxpy.Variable(8)
    problem = cvxpy.Problem(cvxpy.Minimize(as_printed(name, w)))
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    drawn = ns.data(SEED)
    best = ns.optimum(PROBLEMS[name], drawn)
    assert np.linalg.norm(best - w.value) <= 1e-6 * np.linalg.norm(best)
    around = best + 0.01 * np.random.default_rng(0).normal(size=(20, 8))
    assert np.all(ns.excess(PROBLEMS[name], drawn, around, best) > 0)


def test_the_clip_is_a_quantile_and_networks_are_connected() -> None:
    drawn = ns.data(7)
    x, y = drawn.x.reshape(-1, 8).astype(float), drawn.y.reshape(-1).astype(float)
    norms = np.abs(x @ ns.optimum(PROBLEMS["ridge"], drawn) - y) * np.linalg.norm(x, axis=1)
    assert np.mean(norms <= ns.clip_for(PROBLEMS["ridge"], range(7, 8))) == pytest.approx(0.95, abs=1e-3)
    for seed in range(3):
        graph = ns.connected(50, 3, seed)
        assert len(graph.senders) == 150
        assert graphs.is_symmetric(graph)
        assert graphs.is_strongly_connected(graph)
    with pytest.raises(ConfigError, match="links"):
        ns.connected(50, 1.5, 0)


def simulated(method: Any, rounds: int) -> Any:
    return simulate(
        method, ns.connected(AGENTS, 3, 0), ns.data(0).stream(), rounds=rounds, dtype="float64",
        record={"models": lambda models: models}, record_every=1, progress=False,
    )  # fmt: skip


def test_errors_are_of_what_the_printed_step_gives_before_its_noise() -> None:
    """(3.8) in NumPy, from what was released: the noise itself is that of the method."""
    clip, rounds, step, rho = 0.9, 4, 0.8, 1.6
    method = ns.algorithm(CELL, clip)
    (phase,) = method.phases
    exact = before_noise(method, lambda key, state, value, batch, view: method.model(phase.emit(state, value, view)[0]))
    released, before = (simulated(made, rounds).recorded["models"][0] for made in (method, exact))
    drawn, graph = ns.data(0), ns.connected(AGENTS, 3, 0)
    x, y = drawn.x.astype(np.float64), drawn.y.astype(np.float64)
    links = np.zeros((AGENTS, AGENTS))
    links[graph.receivers, graph.senders] = 1
    degree, gamma, u = links.sum(axis=1)[:, None], np.zeros((AGENTS, 8)), np.zeros((AGENTS, 8))
    for n in range(rounds):
        gradients = (np.einsum("kni,ki->kn", x, u) - y)[..., None] * x
        clipped = gradients * np.minimum(1, clip / np.linalg.norm(gradients, axis=-1, keepdims=True))
        slope = clipped.mean(axis=1) + u / AGENTS
        near = np.sqrt(n + 1) / step
        expected = (near * u + rho * (degree * u + links @ u) - slope - gamma) / (near + 2 * rho * degree)
        np.testing.assert_allclose(before[n], expected, rtol=1e-6, atol=1e-9)
        u = released[n]
        gamma += rho * (degree * u - links @ u)
    noise = released - before
    reach = 2 * clip / 50 / (1 / step + 2 * rho * degree)
    first = np.sqrt(total_rho(0.5, ROUNDS, 0.99) / CELL.total)
    assert np.std(noise[0] / reach) == pytest.approx(first, rel=0.15)


@pytest.mark.parametrize("method", [OURS, "DP-NFL"])
def test_all_rounds_spend_the_total(method: str) -> None:
    """By sums of zCDP, and by sums of the classic rule's epsilons and deltas."""
    noise = ns.mechanism(CELL._replace(method=method), 0.9)
    ratios = np.array([noise.ratio_in(n) for n in range(1, ROUNDS + 1)])  # sensitivity over noise
    if method == OURS:
        assert np.sum(ratios**2) / 2 == pytest.approx(CELL.total, rel=1e-5)
    else:
        epsilons = ratios * np.sqrt(2 * np.log(1.25 / (DELTA / ROUNDS)))
        assert epsilons.sum() == pytest.approx(tight(CELL.total, DELTA), rel=1e-5)


def test_settings_are_chosen_on_other_seeds_and_total_by_total(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()

    def valley(method: Any, problem: Any, seeds: tuple[int, int], rounds: int, every: int) -> dict[str, Any]:
        cell = method
        asked.add((seeds, rounds))
        depth = np.log2(cell.step * cell.total / 2.4) ** 2 + np.log2(cell.penalty / 1.6 if cell.penalty else 1) ** 2
        early = np.exp(-cell.step)
        return {"error": np.array([[early, np.exp(depth)]])[:, : 1 if rounds == 20 else 2]}

    monkeypatch.setattr(zcdp_tuning.ns, "algorithm", lambda cell, clip: cell)
    monkeypatch.setattr(zcdp_tuning.ns, "outcome", valley)
    cells = zcdp_tuning.tuned(lambda what, do, tasks: [do(task) for task in tasks], "lad", (3.0, 6.0), 1.0, 500)
    assert asked == {((500, 4), 200), ((500, 4), 20)}
    chosen = {(cell.method, cell.total): (cell.step, cell.penalty) for cell in cells}
    assert chosen[OURS, 3.0] == (0.8, 1.6)
    assert chosen[OURS, 6.0] == (0.4, 1.6)
    assert chosen[MATCHED, 3.0][0] == pytest.approx(0.8)
    assert chosen[HALF, 3.0][0] == pytest.approx(0.4)
    assert set(chosen) == {(m, t) for m in (OURS, MATCHED, HALF, VANISHING, "DP-NFL") for t in (3.0, 6.0)}


def test_steps_are_matched_by_how_methods_start_on_seeds_of_their_own() -> None:
    asked = []

    def team(what: str, do: Any, tasks: Sequence[Any]) -> list[Any]:
        asked.extend((task[1:], task[0].rounds) for task in tasks)
        return [{"mse": np.full((2, 3), task[0].step if task[0].method == SGD else 0.2)} for task in tasks]

    wanted = [asynchronous.Cell(SGD), asynchronous.Cell(SGD, "ideal")]
    found = asynchronous._matched(team, wanted, 500)
    assert found == [cell._replace(step=0.2) for cell in wanted]
    assert set(asked) == {((asynchronous.MATCHING_SEEDS, 500), 200)}


def test_groups_of_clients_are_crossed_and_late_as_said() -> None:
    cell = asynchronous.Cell("U1", clients=16, rounds=40)
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
