"""Federated experiments of Rizk (2023): verdicts on made-up evidence, moments against runs, refusals."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing, verdicts
from reproduction.tests.papers.written import page_of
from tacit.core.errors import DataError
from tacit.privacy import unprotected
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit.privacy.statements import statement
from tacit.streams import linear_regression
from tacit_reproduction.analysis.trajectory import trajectory_claim
from tacit_reproduction.federated import (
    graph,
    graph_claims,
    graph_classification,
    graph_runs,
    private,
    private_claims,
    private_runs,
)
from tacit_reproduction.federated.graph_moments import Clients, deviations, growth, one_round
from tacit_reproduction.federated.private_segments import piecewise, stretches, thinned
from tacit_reproduction.gaps import Gap, all_close, in_decibels, judged, within

SEEDS, POINTS = 8, 10
WOBBLE = 10 ** (np.random.default_rng(5).normal(0, 0.02, (40, SEEDS)) / 10)


def wobbling(level: float, k: int) -> np.ndarray:
    """A sample around a level, different for each k."""
    return level * WOBBLE[k % 40]


# -- fedavg-private ----------------------------------------------------------------------------------------------------


def private_evidence(models=None, updates=None, plain=None, bad=False, spread=1.0) -> private_runs.Evidence:
    """What theory for small steps has: mu for the plain run, 1 / mu and mu for the noise."""
    models = models or (lambda mu, v: 0.05 * v / mu + 0.01 * v * mu)
    updates = updates or (lambda mu, v: 5e-3 * v * mu)
    plain = plain or (lambda mu: 1e-3 * mu)
    cells, theory, k = {}, {}, 0
    for share in private_runs.WORDS:
        for cell in private_runs.cells(private_runs.FULL, share):
            added = {"none": lambda mu, v: 0.0, "models": models, "updates": updates}[share]
            k += 1
            values = np.tile(wobbling(plain(cell.step) + added(cell.step, cell.variance), k)[:, None], (1, POINTS))
            cells[cell] = private_runs.Outcome(
                np.arange(1, POINTS + 1), np.full_like(values, np.inf) if bad else values
            )
    for step in private_runs.FULL.steps:
        own = np.full(SEEDS, plain(step)) * spread
        per = spread * (models(step, 1.0) * private_runs.COHORT)
        theory[step] = private_runs.Theory(own, np.full(SEEDS, per), np.full(SEEDS, 0.9))
    promise = private_runs.Promise(RunPrivacy(statement(unprotected)), wobbling(0.1, 0))
    claim = trajectory_claim(0.1, 100, (1.0, 1.0), 0.1, (0.01, 0.01))
    return private_runs.Evidence(cells, theory, {"updates": promise}, claim)


def test_private_claims_hold_where_the_text_is_right():
    found = private_claims.judge(private_evidence(models=lambda mu, v: v * (0.05 / mu + 0.4 * mu)))
    assert failing(found) == [9, 10]  # nothing diverges, and the made-up moments are of other runs


def test_private_claims_fail_where_it_is_not():
    # Models as cheap as updates, both falling with mu and rising with nothing else.
    wrong = private_evidence(*(2 * [lambda mu, v: 0.5 / (1 + mu)]), plain=lambda mu: 1e-4)
    assert failing(private_claims.judge(wrong)) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_private_moments_are_judged():
    def linear(mu, v):
        return v * mu  # as updates are to be: reaches mu^2 sigma^2 / L times what models have

    right = private_evidence(models=lambda mu, v: v / mu, updates=linear)
    assert verdicts(private_claims.judge(right))[10]
    assert not verdicts(private_claims.judge(private_evidence(updates=linear, spread=2.0)))[10]


def test_private_divergence_is_told():
    assert failing(private_claims.judge(private_evidence(bad=True))) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert "3 of 3 seeds" in in_decibels(np.full(3, np.inf))


def test_equal_noise_is_not_equal_privacy():
    def spent(epsilon):
        found = guarantee(Loss(epsilon, epsilon**2 / 2), "record")
        return private_runs.Promise(RunPrivacy(statement(unprotected), found), wobbling(0.1, 0))

    for updates, holds in ((5.0, False), (1.0, True)):
        evidence = private_evidence()._replace(clipped={"models": spent(1.0), "updates": spent(updates)})
        assert verdicts(private_claims.judge(evidence))[11] is holds


@pytest.mark.slow
def test_private_page():
    found = private.findings(private_evidence(), private_runs.FULL)
    text = page_of(private.PRIVATE, found)
    assert "noise on updates" in text
    assert "epsilon(100) = 2970" in text
    assert [figure.name for figure in found.figures] == ["learning", "steps", "variances"]
    assert all(figure.png[:4] == b"\x89PNG" for figure in found.figures)


# -- gfl-regression ----------------------------------------------------------------------------------------------------


def graph_evidence(centroid=None, individual=None, same=True, grown=0.5, bad=False) -> graph_runs.Evidence:
    centroid = centroid or {
        "none": lambda mu, v: 1e-3 * mu,
        "random": lambda mu, v: 0.02 * v / mu + v * mu / 10,
        "homomorphic": lambda mu, v: 1e-6 * v * mu,
    }
    individual = individual or {"none": lambda v: 0.0, "random": lambda v: 0.5 * v, "homomorphic": lambda v: 0.2 * v}
    cells, k = {}, 0
    for noise in graph_runs.WORDS:
        for cell in graph_runs.cells(graph_runs.FULL, noise):
            k += 1
            plain = centroid["none"](cell.step, 0.0)
            level = plain + (0 if noise == "none" else centroid[noise](cell.step, cell.variance))
            both = [level, level + individual[noise](cell.variance)]
            values = [np.tile(wobbling(one, k)[:, None], (1, POINTS)) for one in both]
            values = [np.full_like(v, np.nan) if bad and cell.step == 5 else v for v in values]
            cells[cell] = graph_runs.Outcome(np.arange(1, POINTS + 1), *values)
    theory = {}
    for step in graph_runs.FULL.steps:
        parts = [
            np.tile([[centroid[n](step, 1.0), centroid[n](step, 1.0) + individual[n](1.0)]], (SEEDS, 1))
            for n in graph_runs.WORDS
        ]
        theory[step] = graph_runs.Theory(*parts, np.full(SEEDS, grown))
    return graph_runs.Evidence(cells, theory, graph_runs.Same(same, 200), 640.0)


def test_graph_claims_hold_where_the_text_is_right():
    assert failing(graph_claims.judge(graph_evidence())) == [7]  # nothing breaks down


def test_graph_claims_fail_where_it_is_not():
    flat = {
        "none": lambda mu, v: 1e-3 / mu,
        "random": lambda mu, v: 1e-3,
        "homomorphic": lambda mu, v: 0.1 * v,
    }
    apart = {"none": lambda v: 0.0, "random": lambda v: 0.1, "homomorphic": lambda v: 0.2}
    found = verdicts(graph_claims.judge(graph_evidence(flat, apart, same=False, grown=1.5)))
    assert sum(found) <= 1, found  # that the made-up theory agrees with the made-up runs, if at all


def test_a_step_that_diverges_is_told():
    claims = graph_claims.judge(graph_evidence(bad=True, grown=1.2))
    assert failing(claims) == [11, 12, 13, 14]
    assert "mu = 5: 1.200" in claims[13].figure


@pytest.mark.slow
def test_graph_page():
    found = graph.findings(graph_evidence(), graph_runs.FULL)
    text = page_of(graph.REGRESSION, found)
    assert "small world" in text
    assert len(found.tables[0].rows) == 6 + 2 * 11
    assert [figure.name for figure in found.figures] == ["learning", "variances", "steps"]


# -- moments against runs ----------------------------------------------------------------------------------------------


def far_off(measured: np.ndarray, expected: np.ndarray) -> float:
    """How many standard errors the mean ratio is from 1; above 6 by chance once in 40,000 with 16 seeds."""
    ratio = measured / expected
    return float(abs(ratio.mean() - 1) / (ratio.std(ddof=1) / np.sqrt(len(ratio))))


def shorter(monkeypatch, runs):
    """Stretches of 60 rounds: deviations shrink by more than a half in each."""
    monkeypatch.setattr(runs, "RECORD_EVERY", 2)
    monkeypatch.setattr(runs.Cell, "rounds", property(lambda cell: 60))


@pytest.mark.slow
def test_noise_on_updates_is_what_the_moments_say(monkeypatch):
    """Steps and variances in the text's unit, though our loss is half of its; a stretch each, in one run."""
    for name, value in (("CLIENTS", 8), ("COHORT", 3), ("BATCH_SIZES", (1, 6)), ("LOCAL_STEPS", (1, 3))):
        monkeypatch.setattr(private_runs, name, value)
    shorter(monkeypatch, private_runs)
    design = private_runs.Design(16, (0.2, 0.4), (0.02, 0.5), ())
    outcomes = private_runs.run_share((design, "updates", 0))
    assert [(cell.step, cell.variance) for cell in outcomes] == [(0.2, 0.02), (0.4, 0.02), (0.2, 0.5)]
    for cell, outcome in outcomes.items():
        theory = private_runs.run_theory((cell.step, 16, 0))
        assert far_off(outcome.settled, theory.settled(cell)) < 6
        # Were noise twice or half as large the difference would be seen.
        noisier = cell._replace(variance=4 * cell.variance)
        assert cell.variance < 0.5 or far_off(outcome.settled, theory.settled(noisier)) > 10
    claim = private_runs.text_claim(outcomes, 0)
    assert claim.probability == pytest.approx(private_runs.CERTAIN)
    assert claim.gap > 0


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["random", "homomorphic"])
def test_noise_between_servers_is_what_the_moments_say(monkeypatch, noise):
    for name, value in (("SERVERS", 4), ("CLIENTS", 5), ("COHORT", 2), ("NEIGHBOURS", 2), ("LOCAL_STEPS", (1, 3))):
        monkeypatch.setattr(graph_runs, name, value)
    shorter(monkeypatch, graph_runs)
    design = graph_runs.Design(24, (0.7, 1.0), (0.1, 2.0))
    for cell, outcome in graph_runs.run_noise((design, noise, 0)).items():
        theory = graph_runs.run_theory((cell.step, 24, 0))
        assert far_off(outcome.settled, theory.settled(cell)) < 6
        assert far_off(outcome.settled_individual, theory.settled(cell, individual=True)) < 6


def test_moments_of_one_step_by_hand():
    """One client, one sample, one step: w <- (1 - 2 mu (u^2 + rho)) w + 2 mu u d, nothing random."""
    data = linear_regression(1, 1, 1, 0)
    u, d = float(data.x[0, 0, 0]), float(data.y[0, 0])
    one = np.ones(1, np.int64)
    server = [one_round(Clients(data, one, one, one), 1, 0.1, 0.5)]
    best = d * u / (u * u + 0.5)
    left = 1 - 0.2 * (u * u + 0.5)
    found = deviations(server, np.eye(1), None, np.array([best]), 3)
    np.testing.assert_allclose(found.centroid, [best**2 * left ** (2 * t) for t in (1, 2, 3)], rtol=1e-12)
    added = deviations(server, np.eye(1), np.eye(1), np.array([best]), 3).centroid
    np.testing.assert_allclose(added, np.cumsum([left ** (2 * t) for t in range(3)]), rtol=1e-12)
    assert growth(server) == pytest.approx(left**2)


def test_moments_of_a_round_by_enumeration():
    """Three clients of three samples, two of them called, all batches: every outcome is listed and counted once."""
    data = linear_regression(3, 3, 1, 1)
    local, batch = np.array([1, 2, 1]), np.array([2, 1, 3])
    step, ridge = 0.3, 0.2
    ways = []
    for k in range(3):
        u, d = data.x[k, :, 0].astype(np.float64), data.y[k].astype(np.float64)
        rate = 2 * step / local[k]
        single = [np.array([[1 - rate * (a * a + ridge), rate * a * b], [0, 1]]) for a, b in zip(u, d, strict=True)]
        one = [np.mean(chosen, axis=0) for chosen in combinations(single, int(batch[k]))]
        ways.append([np.linalg.multi_dot([*path, np.eye(2)]) for path in product(one, repeat=int(local[k]))])
    maps = [(one + other) / 2 for a, b in combinations(range(3), 2) for one, other in product(ways[a], ways[b])]
    counts = [
        1 / (len(ways[a]) * len(ways[b])) for a, b in combinations(range(3), 2) for _ in product(ways[a], ways[b])
    ]
    share = np.array(counts) / 3
    found = one_round(Clients(data, np.full(3, 3), local, batch), 2, step, ridge)
    np.testing.assert_allclose(found.mean, np.einsum("m,mij->ij", share, maps), rtol=1e-12)
    twice = np.einsum("m,mij->ij", share, [np.kron(each, each) for each in maps])
    np.testing.assert_allclose(found.square, twice, rtol=1e-12, atol=1e-15)


def test_stretches():
    step = piecewise([0.5, 0.25], [2, 3])
    assert [float(step(t)) for t in (1, 2, 3, 5, 9)] == [0.5, 0.5, 0.25, 0.25, 0.25]
    parts = stretches(np.array([1, 3, 5]), np.array([[1.0, 2.0, 3.0]]), [3, 3])
    assert [(rounds.tolist(), values.tolist()) for rounds, values in parts] == [([1, 3], [[1.0, 2.0]]), ([2], [[3.0]])]


def test_learning_curves_are_thinned():
    rounds = np.arange(2, 1001, 2)
    kept, values = thinned(rounds, np.tile(rounds, (3, 1)).astype(float))
    assert len(kept) <= 24
    assert kept[0] == 2
    assert kept[-1] == 1000
    np.testing.assert_array_equal(values[0], kept)


def test_gaps_are_judged_by_whole_intervals():
    near, far = np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.3, 2.2])
    assert judged("", [Gap("", near, np.ones(3))], within(2.0)).holds
    failed = judged("", [Gap("a", near, near), Gap("b", far, near)], within(2.0), why="so it is")
    assert not failed.holds
    assert all(words in failed.figure for words in ("Not so: b", "so it is"))
    assert all_close("", [Gap("a", near, near), Gap("b", near, np.ones(3))], 1.0).holds
    assert not all_close("", [Gap("a", near, near), Gap("b", 4 * far, near)], 1.0).holds
    assert not judged("", [Gap("", near, far)], within(2.0)).holds  # far below is not near either
    opposite = all_close("", [Gap("a", far, near), Gap("b", near, far)], 1.0)  # together they are at 0
    assert not opposite.holds
    assert "Not so: a" in opposite.figure


# -- gfl-classification ------------------------------------------------------------------------------------------------


def errors_evidence(none: float, random: float, homomorphic: float, own=(30.0, 35.0)) -> graph_classification.Evidence:
    found = {}
    levels = {"none": (none, none), "random": (random, own[0]), "homomorphic": (homomorphic, own[1])}
    for k, (noise, (level, individual)) in enumerate(levels.items()):
        curve = np.tile(wobbling(level, k)[:, None], (1, POINTS))
        found[noise] = graph_classification.Outcome(curve, wobbling(individual, k + 7))
    return found


def test_classification_claims():
    right = verdicts(graph_classification.judge(errors_evidence(20.0, 30.0, 20.1, own=(35.0, 30.0))))
    assert all(right)
    wrong = graph_classification.judge(errors_evidence(20.0, 19.0, 25.0))
    assert not any(verdicts(wrong))
    assert "drives them apart" in wrong[-1].figure


@pytest.mark.slow
def test_a_small_classification_run(monkeypatch):
    monkeypatch.setattr(graph_classification, "SIZES", (10, 12))
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1500) < 0.4, 1, -1).astype(np.float32)
    x = (rng.normal(size=(1500, 3)) + 1.5 * y[:, None]).astype(np.float32)
    x[:, -1] = 1
    samples = graph_classification.Samples(x[:1300], y[:1300], x[1300:], y[1300:], "two blobs")
    design = graph_classification.Design(seeds=2, rounds=20)
    stream = graph_classification.shared_out(samples, 3)
    assert stream.agents == 50
    assert stream.data_size.min() >= 10
    outcome = graph_classification.run_noise((design, "homomorphic", 0, samples))
    assert outcome.centroid.shape == (2, 4)
    assert outcome.settled.max() < 20  # of blobs that lie 3 deviations apart along both axes
    found = graph_classification.findings(dict.fromkeys(graph_runs.WORDS, outcome), design, samples)
    text = page_of(graph_classification.CLASSIFICATION, found)
    assert "two blobs" in text


def test_errors_count_classes_alike():
    x, y = np.array([[1.0], [1.0], [1.0], [-1.0]], np.float32), np.array([1, 1, 1, -1], np.float32)
    models = np.array([[[1.0], [-1.0]]])
    np.testing.assert_allclose(graph_classification.errors(models, x, y), [[0.0, 100.0]])
    always = np.array([[0.0]])  # says -1 to everything
    np.testing.assert_allclose(graph_classification.errors(always, x, y), [50.0])


def test_without_data_it_says_what_to_do(nowhere):
    graph_classification.load.cache_clear()
    with pytest.raises(DataError, match="set TACIT_DATA"):
        graph_classification.investigate(graph_classification.QUICK, 0, workers=1)
