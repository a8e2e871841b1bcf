from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.metrics import Interval
from tacit.privacy import per_edge, statement
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit_reproduction.catalogue import EXPERIMENTS
from tacit_reproduction.diffusion import ijcnn1, regression, regression_claims
from tacit_reproduction.diffusion import ijcnn1 as classification
from tacit_reproduction.diffusion import regression_runs as runs
from tacit_reproduction.diffusion.protocol import Draws, Noise, network
from tacit_reproduction.diffusion.regression_claims import judge
from tacit_reproduction.diffusion.regression_runs import (
    FULL,
    QUICK,
    TEXT_STEP,
    Cell,
    Design,
    Evidence,
    Masked,
    Outcome,
    Theory,
)

SEEDS = 12
JITTER = np.exp(0.01 * np.random.default_rng(0).normal(size=(SEEDS, 1)))
RANDOM, SAMPLING, HOMOMORPHIC = 1e-2, 1e-3, 1e-4
"""Random noise is outweighed nowhere: even at the text's step it costs more than 6 dB."""


def as_claimed(cell: Cell) -> float:
    """Centroid MSD on which every claim holds."""
    own = SAMPLING * cell.step
    return own + {"none": 0.0, "random": RANDOM / cell.step, "homomorphic": HOMOMORPHIC * cell.step}[cell.noise]


def apart(cell: Cell) -> float:
    """Distance of models from the centroid on which every claim holds."""
    return {"none": 0.0, "random": 0.0, "homomorphic": 1e-3}[cell.noise]


def outcome(centroid: float, distance: float = 0.0) -> Outcome:
    values = centroid * JITTER * np.ones(4)
    return Outcome(np.arange(1, 5), values, values + distance)


def evidence(
    level: Callable[[Cell], float] = as_claimed,
    distance: Callable[[Cell], float] = apart,
    design: Design = FULL,
    same: bool = True,
    grid_cost: float = 1.0,
) -> Evidence:
    cells = {cell: outcome(level(cell), distance(cell)) for cell in runs.cells(design)}
    masked = {}
    for method in design.masked:
        plain = outcome(grid_cost * level(Cell(method, "none", TEXT_STEP)))
        masked[method] = Masked(plain, plain, same, 7)
    theory = Theory(*(each * JITTER[:, 0] for each in (SAMPLING, RANDOM, HOMOMORPHIC, 1e-3, 5e-3)))
    promise = RunPrivacy(statement(per_edge(0.1, clip=1.0)), guarantee(Loss(3.0, 4.5), "record"), 1)
    levels = dict.fromkeys((1.0, *design.levels), theory)
    return Evidence(cells, masked, levels, {"random": promise, "homomorphic": promise}, 0.1)


def scaled(where: Callable[[Cell], bool], factor: float) -> list[int]:
    return failing(judge(evidence(lambda cell: as_claimed(cell) * (factor if where(cell) else 1))))


@pytest.mark.parametrize("design", [FULL, QUICK])
def test_all_claims_hold_on_evidence_as_the_text_has_it(design: Design) -> None:
    found = judge(evidence(design=design))
    assert len(found) == 13 + len(design.levels) + 2 * design.whole
    assert failing(found) == []


def test_masks_that_do_not_cancel_and_grids_that_cost_are_reported() -> None:
    assert failing(judge(evidence(same=False))) == [0]
    assert failing(judge(evidence(grid_cost=1.1))) == [1]


@pytest.mark.parametrize("factor", [0.7, 1.25])
def test_homomorphic_noise_that_moves_the_centroid_is_reported_by_step(factor: float) -> None:
    assert scaled(lambda cell: cell == Cell("CTA", "homomorphic", TEXT_STEP), factor) == [2]
    assert scaled(lambda cell: cell == Cell("ATC", "homomorphic", 0.003125, 0.1), factor) == [15]


def test_random_noise_that_costs_little_is_reported_with_where_it_would() -> None:
    claims = judge(evidence(lambda cell: SAMPLING * cell.step * (1.5 if cell.noise == "random" else 1)))
    assert failing(claims) == [4, 5, 7, 9, 10, 11, 13, 14]
    assert "mu = 3.16" in claims[4].figure
    assert "mu = 1.83" in claims[4].figure


def test_whole_intervals_decide() -> None:
    far, close = regression_claims.above(6.0), regression_claims.within(1.0)
    assert far(Interval(6.5, 6.0, 7.0, 9))
    assert not far(Interval(6.5, 5.9, 7.1, 9))
    assert close(Interval(0.5, -0.9, 0.9, 9))
    assert not close(Interval(0.5, 0.4, 1.1, 9))
    assert not close(Interval(-0.5, -1.1, 0.1, 9))
    assert not close(Interval(np.nan, np.nan, np.nan, 9))


def test_random_noise_below_homomorphic_noise_is_reported() -> None:
    assert scaled(lambda cell: cell == Cell("consensus", "random", TEXT_STEP), 0.01) == [4, 6, 9]


def test_whole_gradients_are_judged_on_their_own() -> None:
    assert scaled(lambda cell: cell.whole and cell.noise == "homomorphic", 30.0) == [7, 8]


def test_models_that_are_driven_apart_are_reported_with_where_that_ends() -> None:
    claims = judge(evidence(distance=lambda cell: 1.0 if cell.noise == "homomorphic" else 0.0))
    # At the smallest step random noise has 1e-2 / 0.003125 = 3.2, which is more than 1.
    assert failing(claims) == [9]
    # 1e-2 / mu of the centroid against a difference of 5e-3 - 1e-3 in distance.
    assert "mu = 2.5e+00" in claims[9].figure


def test_a_step_that_does_not_help_homomorphic_noise_is_reported() -> None:
    assert scaled(lambda cell: cell == Cell("ATC", "homomorphic", 0.025), 5.0) == [12]


def test_theory_that_is_off_is_reported() -> None:
    assert scaled(lambda cell: cell.step == 0.003125 and cell.level == 1, 1.4) == [14]


def test_runs_that_leave_all_bounds_support_no_claim() -> None:
    found = scaled(lambda cell: cell.method == "consensus" and cell.step == TEXT_STEP, float("inf"))
    assert found == [1, 2, 4, 6, 9, 11, 12]


# -- runs --------------------------------------------------------------------------------------------------------------


def test_samples_are_drawn_from_an_agent_s_own_with_repetition_and_reads_are_counted() -> None:
    own = [np.array([0, 1]), np.array([2, 3, 4])]
    x = np.arange(5, dtype=np.float32)[:, None]
    stream = Draws(x, np.zeros(5, np.float32), own, 40, 3, "few")
    batch = stream.chunk(0, 40)
    for agent, rows in enumerate(own):
        drawn = batch.x[:, agent, 0].astype(np.int64)
        assert set(drawn) == set(rows)
        assert stream.reads(40)[agent] == np.bincount(drawn).max()
        assert stream.reads(7)[agent] == np.bincount(drawn[:7]).max()
    np.testing.assert_array_equal(stream.chunk(10, 12).x, batch.x[10:12])
    assert not np.array_equal(batch.x, Draws(x, np.zeros(5, np.float32), own, 40, 4, "few").chunk(0, 40).x)


def test_agents_share_a_covariance_and_differ_in_noise() -> None:
    drawn = runs.data(1.0, 0)
    x = drawn.x.astype(np.float64)
    power = np.square(x[..., 0]).mean(axis=1)
    chance = 2 * power.mean() ** 2 / 100  # variance of the mean of 100 squares of normal numbers of one variance
    assert power.var() < 2 * chance
    residual = (drawn.y - x @ drawn.w_star).var(axis=1)
    assert 0.005 < residual.min() < 0.03
    assert 0.07 < residual.max() < 0.15
    louder = runs.data(10.0, 0)
    np.testing.assert_array_equal(louder.x, drawn.x)
    np.testing.assert_allclose((louder.y - x @ drawn.w_star).var(axis=1), 10 * residual, rtol=1e-4)


def test_the_optimum_is_where_the_printed_loss_has_no_slope() -> None:
    drawn = runs.data(1.0, 5)
    best, _ = drawn.optima(runs.RIDGE)
    x, y = drawn.x.astype(np.float64), drawn.y.astype(np.float64)
    slope = 2 * np.mean((x @ best - y)[..., None] * x, axis=(0, 1)) + 2 * 0.01 * best
    np.testing.assert_allclose(slope, 0, atol=1e-7)


def test_theory_agrees_with_recursions_of_the_second_moments() -> None:
    """What is solved for in closed form, summed up round by round and sample by sample instead."""
    theory = runs.predicted((1.0, 1, 2))
    drawn = runs.data(1.0, 2)
    best, _ = drawn.optima(runs.RIDGE)
    mix = np.asarray(network(30, 2).matrix().todense())
    curvature = 2 * np.mean([np.outer(u, u) for u in drawn.x.reshape(-1, 2).astype(float)], axis=0) + 0.02 * np.eye(2)
    distances = {
        "homomorphic": 0.01 * (mix - np.eye(30)) @ (mix - np.eye(30)),
        "random": np.diag(0.01 * (mix**2).sum(1)),
    }
    apart = {}
    off_mean = np.eye(30) - 1 / 30
    for noise, added in distances.items():
        found = np.zeros((30, 30))
        for _ in range(500):
            found = off_mean @ (mix @ found @ mix + added) @ off_mean
        apart[noise] = np.diag(found)
    assert theory.apart_homomorphic[0] == pytest.approx(2 * apart["homomorphic"].mean(), rel=1e-6)
    assert theory.apart_random[0] == pytest.approx(2 * apart["random"].mean(), rel=1e-6)
    assert np.mean(apart["homomorphic"]) > np.mean(apart["random"])

    step = 1e-3
    keep = np.eye(2) - step * curvature
    sampled, spread = np.zeros((2, 2)), np.zeros((2, 2))
    for x, y, distance in zip(drawn.x.astype(float), drawn.y.astype(float), apart["homomorphic"], strict=True):
        gradients = 2 * (x @ best - y)[:, None] * x
        sampled += np.cov(gradients.T, bias=True) / 900
        for u in x:
            off = 2 * np.outer(u, u) + 0.02 * np.eye(2) - curvature
            spread += distance * off @ off.T / 100 / 900
    per_round = {"random": 0.01 * np.square(mix).sum() / 900 * np.eye(2) * step, "sampling": sampled * step}
    per_round["homomorphic"] = spread * step
    for name, added in per_round.items():
        moment = np.zeros((2, 2))
        for _ in range(15_000):
            moment = keep @ moment @ keep + added
        assert getattr(theory, name)[0] == pytest.approx(np.trace(moment), rel=1e-3), name


def test_the_text_s_epsilon_is_that_of_its_formula() -> None:
    said = regression.text_claim(evidence(), "homomorphic")
    worst = evidence().cells[Cell("ATC", "homomorphic", TEXT_STEP)].individual.mean(axis=0).max()
    bound = np.sqrt(30 * worst / (1 - np.sqrt(0.9)))
    assert said.epsilon() == pytest.approx(np.sqrt(2) * 30 / 0.1 * (2 * bound + np.sqrt(30) * 0.1) * 1000)
    assert said.probability == pytest.approx(0.9)
    assert 0 < runs.largest_move(3) < 0.1  # one of 30 agents, whose data follow the same truth


def test_deviations_are_of_the_mean_model_and_of_each_and_kept_noise_is_taken_off() -> None:
    best = runs.data(1.0, 4).optima(runs.RIDGE)[0]
    models = np.broadcast_to(best, (1, 2, 30, 2)).copy()
    models[0, 1, :15, 0] += 0.3
    models[0, 1, 15:, 0] -= 0.1
    run: Any = SimpleNamespace(recorded={"models": models}, seed=4, repeats=1, recorded_rounds=np.array([1, 2]))
    found = runs._outcome(run, Cell("ATC", "random", TEXT_STEP))
    np.testing.assert_allclose(found.centroid, [[0, 0.01]], atol=1e-12)
    np.testing.assert_allclose(found.individual, [[0, 0.05]], atol=1e-12)
    assert found.settled_individual[0] == pytest.approx(0.05)
    noisy = runs._outcome(run, Cell("CTA", "random", TEXT_STEP))
    assert noisy.settled[0] == pytest.approx(0.01 - 0.02 / 30)
    assert noisy.settled_individual[0] == pytest.approx(0.05 - 0.02)
    assert runs._outcome(run, Cell("CTA", "homomorphic", TEXT_STEP)).kept == 0


def test_masked_models_are_those_of_the_grid_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SHORTEST", 150)
    masked = runs.run_masked(("ATC", 2, 0))
    assert masked.same
    assert masked.numbers == 2 * 150 * 30 * 2
    assert masked.local.rounds.tolist() == list(range(1, 151))
    np.testing.assert_array_equal(masked.local.centroid, masked.grid.centroid)
    assert np.all(masked.local.individual >= masked.local.centroid)
    # The first step of all, from zero along the printed loss: its gradient has a factor 2.
    for seed in range(2):
        first = runs._stream(Cell("ATC", "grid", TEXT_STEP), seed).chunk(0, 1)
        stepped = np.mean(2 * TEXT_STEP * first.y[0][:, None] * first.x[0], axis=0)
        expected = np.square(stepped - runs.data(1.0, seed).optima(runs.RIDGE)[0]).sum()
        assert masked.local.centroid[seed, 0] == pytest.approx(expected, rel=1e-4)
    # 0.4 of what sampling adds per step, within a factor 4 of it: 75 rounds of 2 seeds.
    expected = runs.predicted((1.0, 2, 0)).sampling.mean() * TEXT_STEP
    assert expected / 4 < masked.local.settled.mean() < 4 * expected


@pytest.mark.slow
def test_the_page_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence(design=QUICK)
    monkeypatch.setattr(regression, "gather", lambda *_: found)
    findings = regression.investigate(QUICK, 0)
    assert [figure.name for figure in findings.figures] == ["rounds", "rounds-small", "steps"]
    assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)
    assert len(findings.metrics["cells"]) == len(found.cells) + 2
    assert {"diffusion-regression", "diffusion-ijcnn1"} <= EXPERIMENTS.keys()


# -- classification ----------------------------------------------------------------------------------------------------


def errors(**own: float) -> dict[Noise, classification.Outcome]:
    levels = {"none": 16.0, "random": 18.0, "homomorphic": 15.9, "local": 16.0, "grid": 16.0}
    individual = {"none": 16.0, "random": 24.0, "homomorphic": 20.0, "local": 16.0, "grid": 16.0}
    found: dict[Noise, classification.Outcome] = {}
    for noise in ("none", "random", "homomorphic", "local", "grid"):
        level = own.get(noise, levels[noise])
        trace = b"masked" if noise == "local" and "broken" in own else b"plain"
        apart = own.get(f"own_{noise}", individual[noise])
        found[noise] = classification.Outcome(level * JITTER * np.ones(4), apart * JITTER[:, 0], trace)
    return found


def test_classification_claims_hold_on_errors_as_the_text_has_them() -> None:
    found = classification.judge(errors())
    assert [claim.seen_in for claim in found] == 5 * ["rounds"] + ["schemes"]
    assert all(claim.text.startswith("figure 4.5, on Avazu") for claim in found)
    assert len(found) == 6
    assert failing(found) == []


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"broken": 1.0}, [0]),
        ({"local": 16.2}, [1]),
        ({"local": 15.8}, [1]),
        ({"homomorphic": 16.4}, [2]),
        ({"random": 15.95, "homomorphic": 15.0}, [3]),
        ({"random": 16.5, "homomorphic": 16.6}, [2, 4]),
        ({"own_homomorphic": 26.0}, [5]),
    ],
)
def test_classification_that_comes_out_otherwise_is_reported(changed: dict[str, float], missed: list[int]) -> None:
    assert failing(classification.judge(errors(**changed))) == missed


@pytest.fixture(scope="module")
def blobs() -> classification.Samples:
    """Two blobs, of which one is rare."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1200) % 10 == 0, 1, -1).astype(np.float32)
    x = np.concatenate([rng.normal(size=(1200, 3)) + 1.5 * y[:, None], np.ones((1200, 1))], axis=1).astype(np.float32)
    return classification.Samples(x[:800], y[:800], x[800:], y[800:], "two blobs")


def test_rows_are_balanced_and_agents_noisy_by_different_amounts(
    blobs: classification.Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ijcnn1.shared_out(blobs, 200, 1)
    noisy = stream.chunk(0, 200)
    monkeypatch.setattr(ijcnn1, "DATA_NOISE", 0.0)
    clean = ijcnn1.shared_out(blobs, 200, 1).chunk(0, 200)
    assert stream.data_size.sum() == 160  # all 80 positive rows and as many others
    assert {tuple(row) for row in clean.x.reshape(-1, 4)} <= {tuple(row) for row in blobs.x}
    np.testing.assert_array_equal(noisy.x[..., -1], 1)
    np.testing.assert_array_equal(noisy.y, clean.y)
    size = (noisy.x - clean.x)[..., :-1].std(axis=(0, 2))  # of some three rows each
    assert size.min() < 0.05
    assert 0.35 < size.max() < 1


def test_the_error_weighs_both_classes_alike(blobs: classification.Samples) -> None:
    never, always = np.array([0.0, 0, 0, -1]), np.array([0.0, 0, 0, 1])
    good = np.array([1.0, 1, 1, 0])
    found = ijcnn1.balanced_error(np.stack([never, always, np.zeros(4), good]), blobs)
    np.testing.assert_allclose(found[:3], [50, 50, 100])
    assert found[3] < 5


def test_a_tiny_run_learns(blobs: classification.Samples) -> None:
    found = ijcnn1.run_noise((classification.Design(2, 50), "none", 0, blobs))
    assert found.centroid.shape == (2, 50)
    assert found.settled.max() < 10
    assert found.individual.shape == (2,)


def test_missing_data_are_refused_before_anything_is_run(monkeypatch: pytest.MonkeyPatch, nowhere: object) -> None:
    from tacit.core.errors import DataError

    monkeypatch.setattr(ijcnn1, "crew", None)
    ijcnn1.load.cache_clear()
    with pytest.raises(DataError, match=r"ijcnn1\.tr\.bz2"):
        ijcnn1.investigate(ijcnn1.QUICK, 0)
