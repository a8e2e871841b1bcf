from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.privacy import laplace, statement, unprotected
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit_reproduction.mirror import dynamic, dynamic_runs
from tacit_reproduction.mirror.dynamic_claims import judge, refusal
from tacit_reproduction.mirror.dynamic_runs import (
    FULL,
    GEOMETRIES,
    MOST_AWAY,
    PRIVATE,
    QUICK,
    SPEEDS,
    Cell,
    Design,
    Evidence,
    Ground,
    Outcome,
    Refusal,
    drifting,
    refused,
    run_ground,
    target,
)

SEEDS = 12
JITTER = np.random.default_rng(0).normal(size=SEEDS)
SAID_NO = Refusal(20, 31, 70, "peers are cut off", 41, True)


def privacy(epsilon: float | None) -> RunPrivacy:
    if epsilon is None:
        return RunPrivacy(statement(unprotected))
    return RunPrivacy(statement(laplace(epsilon, 1.0)), guarantee(Loss(epsilon, epsilon**2 / 2), "record"), 1)


def path(cell: Cell) -> np.ndarray:
    return GEOMETRIES[cell.geometry].radius * cell.rounds * np.array(SPEEDS)


def as_bounded(cell: Cell) -> np.ndarray:
    """Regret by speed of the order of the bound, a little more for who stays away and for noise."""
    noise = 0.0 if cell.epsilon is None else 0.3 / cell.epsilon
    return np.asarray(0.1 * cell.rounds**0.5 * (1 + 0.1 * path(cell) ** 0.9) * (1 + cell.away) * (1 + noise))


def evidence(
    level: Callable[[Cell], np.ndarray] = as_bounded, design: Design = FULL, alone: float = 1e3, idle: float = 1e4
) -> Evidence:
    cells, grounds = {}, {}
    for name in GEOMETRIES:
        for rounds in design.horizons:
            for cell in dynamic_runs.cells(design, name, rounds):
                regret = level(cell)[:, None] * (1 + 0.001 * JITTER)
                cells[cell] = Outcome(regret, privacy(cell.epsilon))
            flat = np.ones((len(SPEEDS), SEEDS))
            last = name == "ball" and rounds == max(design.horizons)
            length = path(Cell(name, rounds))[:, None] * flat
            grounds[name, rounds] = Ground(length, idle * flat, 1e-8, 1e-6, alone * flat if last else None)
    return Evidence(cells, grounds, SAID_NO)


@pytest.mark.parametrize("design", [FULL, QUICK])
def test_all_claims_hold_on_evidence_of_the_bound_s_order(design: Design) -> None:
    found = judge(evidence(design=design))
    assert len(found) == 2 * 11 + 3
    assert failing(found) == []


def changed(where: Callable[[Cell], bool], factor: float | np.ndarray) -> list[int]:
    return failing(judge(evidence(lambda cell: as_bounded(cell) * (factor if where(cell) else 1))))


def test_regret_that_does_not_rise_with_the_path_is_reported() -> None:
    dip = np.where(np.array(SPEEDS) == 0.03, 0.1, 1.0)
    found = changed(lambda cell: cell.geometry == "ball" and cell == Cell("ball", 2000), dip)
    assert found == [0, 2, 5]


def test_regret_above_the_bound_s_order_is_reported_by_speed_and_by_horizon() -> None:
    fast = 1 + 0.02 * path(Cell("ball", 2000)) ** 1.5
    found = changed(lambda cell: cell.geometry == "ball" and not cell.away and cell.epsilon is None, fast)
    assert found[:2] == [1, 2]
    late = changed(lambda cell: cell.geometry == "simplex" and cell.rounds == 2000, 3.0)
    assert late == [14, 16]


def test_clients_that_stay_away_at_too_high_a_price_are_reported() -> None:
    most = [cell for cell in dynamic_runs.cells(FULL, "ball", 2000) if cell.away == MOST_AWAY and cell.epsilon is None]
    assert changed(lambda cell: cell in most, 5.0) == [5]
    assert changed(lambda cell: cell in most, 0.7) == [4]


def test_regret_no_better_than_alone_or_than_never_learning_is_reported() -> None:
    assert failing(judge(evidence(alone=50.0))) == [8, 9]
    claims = judge(evidence(idle=5.0))
    assert {6, 7, 11, 12, 19, 20, 22, 23} <= set(failing(claims))
    assert "63 rounds" in claims[7].figure


def test_more_noise_that_costs_less_is_reported() -> None:
    strict = Cell("simplex", 2000, 0.0, 1.0)
    assert changed(lambda cell: cell == strict, 0.5) == [21]


def test_a_run_that_is_not_refused_is_reported() -> None:
    assert refusal(SAID_NO).holds
    assert "“peers are cut off”" in refusal(SAID_NO).figure
    assert not refusal(SAID_NO._replace(message=None)).holds
    assert not refusal(SAID_NO._replace(longer_runs=False)).holds


@pytest.mark.slow
def test_the_page_shows_everything() -> None:
    found = evidence(design=QUICK)
    names = [figure.name for figure in dynamic._figures(found)]
    assert names == ["path-length", "order", "privacy"]
    assert {claim.seen_in for claim in judge(found)} == {*names, ""}
    for name in GEOMETRIES:
        table = dynamic._table(found, name)
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(dynamic._metrics(found)["cells"]) == len(found.cells)
    assert any("linear in T" in paragraph for paragraph in dynamic._method(QUICK, found))


# -- data and runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_the_best_model_of_a_round_is_the_target_itself(name: dynamic_runs.GeometryName) -> None:
    geometry = GEOMETRIES[name]
    batch = drifting(geometry, 0.1, 40, 5).chunk(0, 40)
    truth = target(geometry, 0.1, 40, 5)
    for t in (0, 17, 39):
        x, y = batch.x[t].reshape(-1, 5).astype(np.float64), batch.y[t].reshape(-1)
        np.testing.assert_allclose(np.linalg.lstsq(x, y, rcond=None)[0], truth[t], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(truth - geometry.centre, axis=1), geometry.radius)
    residual = batch.y - np.einsum("tabd,td->tab", batch.x, truth)
    assert residual.std() == pytest.approx(geometry.noise, rel=0.1)  # (1 - 5/64)^(1/2) of it, within 2 %: not silenced
    assert geometry.mirror.within is not None
    assert all(geometry.mirror.within.fault(w.astype(np.float32)) is None for w in truth)


def test_speeds_of_a_seed_share_features_and_noise() -> None:
    slow, fast = (drifting(GEOMETRIES["ball"], speed, 10, 2).chunk(0, 10) for speed in (0.0, 0.1))
    np.testing.assert_array_equal(slow.x, fast.x)
    np.testing.assert_allclose(slow.y[0], fast.y[0], atol=1e-6)
    assert np.abs(slow.y[9] - fast.y[9]).max() > 0.1


def test_clients_that_stay_away_longer_than_the_window_are_refused_before_round_1() -> None:
    found = refused(window=5, first=8, last=17, rounds=30)
    assert found.message is not None
    assert "every 5 rounds in a row" in found.message
    assert "rounds 8 to 12 leave no path" in found.message
    assert found.longer == 11
    assert found.longer_runs


@pytest.mark.slow
def test_a_ground_has_regret_path_and_never_learning_by_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Cell("simplex", 30, MOST_AWAY, PRIVATE)
    monkeypatch.setattr(dynamic_runs, "cells", lambda *_: [Cell("simplex", 30), away])
    found, ground = run_ground((Design((30,), 2, (0.0, MOST_AWAY), (PRIVATE,)), "simplex", 30, 0))
    assert found[away].regret.shape == ground.idle.shape == (len(SPEEDS), 2)
    np.testing.assert_allclose(
        ground.path_length, 29 * 2 * 0.19 * np.sin(np.array(SPEEDS) / 2)[:, None] * [1, 1], atol=0.01
    )
    assert ground.off_target < 0.1
    assert ground.certified < 1e-6
    assert ground.alone is None
    # The start is as far from the target as the circle's radius, and features have covariance I / 5.
    np.testing.assert_allclose(ground.idle, 30 * 0.19**2 / 10, rtol=0.3)
    assert found[away].regret.mean() > found[Cell("simplex", 30)].regret.mean() > 0
    assert found[away].privacy.summary()["epsilon"] == pytest.approx(PRIVATE)
