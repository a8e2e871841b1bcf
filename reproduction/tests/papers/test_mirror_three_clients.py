from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.graphs import perron
from tacit.privacy import bounded_laplace, laplace, statement, unprotected
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit_reproduction.mirror import three_clients_claims as claims
from tacit_reproduction.mirror import three_clients_pages as pages
from tacit_reproduction.mirror import three_clients_runs as runs
from tacit_reproduction.mirror.slopes import slope_of_mean
from tacit_reproduction.mirror.three_clients_runs import Cell, Evidence, Limit, LimitCell, Outcome

SEEDS = 12
DESIGN = runs.Design((50, 5000), SEEDS, 7, 1000)
JITTER = np.random.default_rng(0).normal(size=SEEDS)
AT = np.array([0, 10, 20, 30, 40, 50])


def privacy(noise: runs.NoiseName) -> RunPrivacy:
    """What a run with this noise would have spent at eps = 0.1."""
    if noise == "none":
        return RunPrivacy(statement(unprotected))
    spent = Loss(0.1, 0.005, 1e-6 if noise == "bounded" else 0.0)
    made = bounded_laplace(0.1, 50) if noise == "bounded" else laplace(0.1, 1.0)
    return RunPrivacy(statement(made), guarantee(spent, made.adjacency), 1)


def outcome(cell: Cell, apart: float, moved: float, exponent: float) -> Outcome:
    """Models that shrink towards one vector: what is left at the end of the differences between clients and starts."""
    ends = runs.UNIFORM if cell.start == "uniform" else runs.OWN_STARTS
    centre = runs.UNIFORM[0] + (0 if cell.start == "uniform" else moved) * (ends.mean(axis=0) - runs.UNIFORM[0])
    left = np.linspace(1, 0, len(AT))[None, :, None, None]
    off = np.broadcast_to(apart * (runs.OWN_STARTS - runs.OWN_STARTS.mean(axis=0)), (SEEDS, len(AT), 3, 5))
    models = left * ends + (1 - left) * (centre + off * (1 + 0.01 * JITTER[:, None, None, None]))
    rounds = np.rint(np.geomspace(max(1, cell.rounds / 100), cell.rounds, 7)).astype(np.int64)
    regret = 0.1 * rounds ** float(exponent) * (1 + 0.01 * JITTER[:, None])
    return Outcome(AT, models, rounds, regret, 1e-8, np.tile(runs.UNIFORM[0], (SEEDS, 1)), privacy(cell.noise))


def evidence(
    apart: Callable[[Cell], float] = lambda cell: 1e-4,
    moved: Callable[[Cell], float] = lambda cell: 1e-4,
    exponent: Callable[[Cell], float] = lambda cell: -0.6,
    to_true: Callable[[LimitCell], float] = lambda cell: 0.1 if cell.data == "apart" and not cell.unbiased else 0.01,
) -> Evidence:
    cells = {
        cell: outcome(cell, apart(cell), moved(cell), exponent(cell))
        for rounds in DESIGN.horizons
        for cell in runs.cells(DESIGN, rounds)
    }
    limits = {}
    kinds: list[LimitCell] = [LimitCell(data, "none", form) for data in ("text", "apart") for form in (False, True)]
    for cell in [*kinds, LimitCell("apart", "bounded", False), LimitCell("apart", "laplace", False)]:
        near = to_true(cell) * (1 + 0.001 * JITTER)
        private = cell.noise != "none"
        limits[cell] = Limit(
            0.05 * near if private else near, 0.11 - near, 0.1 + 0 * JITTER, 0.3 + 0 * JITTER, privacy(cell.noise)
        )
    return Evidence(cells, limits, {50: privacy("bounded"), 5000: privacy("bounded")})


ONLY_PRIVACY = [30]
"""Position of the claim that the noise of Alg. 3 is pure."""


def test_on_evidence_as_the_text_has_it_only_pure_privacy_fails() -> None:
    assert failing(claims.judge(evidence())) == ONLY_PRIVACY


def test_clients_that_stay_apart_and_starts_that_are_remembered_are_two_things() -> None:
    text = Cell(50, "bounded", "own", "text")
    found = failing(claims.judge(evidence(apart=lambda cell: 0.02 if cell == text else 1e-4)))
    assert found == [1, 10, *ONLY_PRIVACY]
    judged = claims.judge(evidence(moved=lambda cell: 0.5 if cell == text else 1e-4))
    assert failing(judged) == [10, *ONLY_PRIVACY]
    assert "0.19" in judged[10].figure


def test_a_slope_is_of_the_mean_and_its_interval_covers_the_truth() -> None:
    rounds = np.array([10, 20, 50, 100])
    values = rounds**-0.5 * (1 + 0.1 * np.random.default_rng(1).normal(size=(30, 4)))
    found = slope_of_mean(rounds, values)
    assert found.low < -0.5 < found.high
    assert found.high - found.low < 0.1
    values[3, 2] = -0.01  # one seed beats every fixed vector there; the mean does not
    assert np.isfinite(slope_of_mean(rounds, values).mean)
    assert np.isnan(slope_of_mean(rounds, values - 1).mean)


def test_regret_that_falls_too_slowly_is_reported_with_what_a_remembered_start_costs() -> None:
    slow = Cell(5000, "bounded", "own", "text")
    judged = claims.judge(evidence(exponent=lambda cell: -0.05 if cell == slow else -0.6))
    assert failing(judged) == [21, *ONLY_PRIVACY]
    assert "t^(-0.05)" in judged[21].figure


def test_forms_that_end_in_the_wrong_place_are_reported() -> None:
    found = failing(claims.judge(evidence(to_true=lambda cell: 0.1 if cell.unbiased else 0.01)))
    assert found == [24, 25, 26, 27, *ONLY_PRIVACY]


def test_noise_that_lets_nobody_learn_is_reported() -> None:
    judged = claims.judge(evidence(to_true=lambda cell: 20.0 if cell.noise != "none" else 0.01))
    assert [judged[position].holds for position in (28, 29)] == [False, False]
    assert judged[28].figure != judged[29].figure


def test_distances_between_clients_and_between_starts() -> None:
    models = np.zeros((1, 1, 3, 5))
    models[0, 0, 1, 0], models[0, 0, 2, 1] = 3, 4
    assert claims.spread(models) == pytest.approx(5)
    one = outcome(Cell(50, "none", "own", "text"), 0.0, 0.0, -1.0)
    assert claims.between(one, one._replace(models=one.models + 0.1)) == pytest.approx(0.1 * 5**0.5)


def test_pages_show_every_cell() -> None:
    found = evidence()
    tables = pages.tables(found)
    assert [len(table.rows) for table in tables] == [len(found.cells), len(found.limits)]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert len(pages.metrics(found)["cells"]) == len(found.cells)
    assert any("uniform vector" in paragraph for paragraph in pages.method(DESIGN, found))


@pytest.mark.slow
def test_figures_are_drawn() -> None:
    found = evidence()
    names = [figure.name for figure in pages.figures(found)]
    assert {claim.seen_in for claim in claims.judge(found)} <= {*names, ""}
    assert names == ["components-none", "components-bounded", "components-laplace", "starts", "regret", "limits"]


# -- data and runs -----------------------------------------------------------------------------------------------------


def test_features_have_length_one_and_become_alike() -> None:
    batch = runs.text_stream(2000, 3).chunk(0, 2000)
    np.testing.assert_allclose(np.linalg.norm(batch.x, axis=-1), 1, rtol=1e-6)
    assert set(np.unique(batch.y)) == {-1, 1}
    assert np.abs(batch.x[-100:] - 5**-0.5).max() < 0.01 < np.abs(batch.x[:10] - 5**-0.5).max()
    early = batch.x[:1].sum(axis=-1)
    assert early[batch.y[:1] > 0].mean() > early[batch.y[:1] < 0].mean()


def test_the_network_is_the_text_s_with_either_normalisation() -> None:
    assert np.asarray(perron(runs.network()).left) == pytest.approx(runs.WEIGHTS.T @ perron(runs.network()).left)
    np.testing.assert_allclose(runs.WEIGHTS.sum(axis=1), 1)
    np.testing.assert_allclose(runs.OWN_STARTS.sum(axis=1), 1)
    unbiased = runs.network(unbiased=True)
    assert unbiased.agents == 3
    assert unbiased.edges == runs.network().edges


def test_matched_steps_begin_at_one() -> None:
    steps = [float(runs.STEPS["matched"](jnp.float32(t))) for t in (1, 101, 10_000)]
    assert steps == pytest.approx([1, 0.5, 100 / 10_099])


@pytest.fixture(scope="module")
def limits() -> dict[LimitCell, Limit]:
    return runs.run_limits((runs.Design((50,), 3, 3, 3000), "apart", 0))


@pytest.mark.slow
def test_rows_lead_to_the_weighted_optimum_and_push_sum_to_the_true_one(limits: dict[LimitCell, Limit]) -> None:
    biased, unbiased = (limits[LimitCell("apart", "none", form)] for form in (False, True))
    assert np.all(biased.apart > 0.1)
    assert np.all(biased.to_weighted < 0.5 * biased.to_true)
    assert np.all(unbiased.to_true < 0.5 * unbiased.to_weighted)


@pytest.mark.slow
def test_bounded_noise_leaves_the_clients_where_they_began(limits: dict[LimitCell, Limit]) -> None:
    stuck = limits[LimitCell("apart", "bounded", False)]
    np.testing.assert_allclose(stuck.to_true, stuck.begun, rtol=0.05)


@pytest.mark.slow
def test_a_horizon_runs_with_its_starts_and_books_the_noise_for_records(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Cell(20, "bounded", "own", "text")
    monkeypatch.setattr(runs, "cells", lambda design, rounds: [own])
    found, booked = runs.run_horizon((runs.Design((20,), 2, 3, 20), 20, 0))
    assert found[own].models.shape == (2, 21, 3, 5)
    np.testing.assert_array_equal(found[own].models[0, 0], runs.OWN_STARTS)
    np.testing.assert_allclose(found[own].models.sum(axis=-1), 1, rtol=1e-5)
    assert claims.spread(found[own].models)[:, -1].max() < 0.02
    assert found[own].regret.shape == (2, 3)
    assert found[own].certified < 1e-6
    whole, part = booked.summary(), found[own].privacy.summary()
    assert (part["epsilon"], whole["epsilon"]) == pytest.approx((0.1, 0.5))
    assert whole["delta"] >= part["delta"] > 0
