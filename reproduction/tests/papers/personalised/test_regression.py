"""`pgfl-regression`: verdicts on made-up evidence, its data and units, and the optimum that runs are compared with."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from reproduction.tests.papers.written import page_of
from tacit.graphs import is_strongly_connected, is_symmetric
from tacit.privacy import unprotected
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit.privacy.statements import statement
from tacit_reproduction import charts
from tacit_reproduction.experiment import Figure
from tacit_reproduction.personalised import regression, regression_runs
from tacit_reproduction.personalised.means import Pair, alike, compared, higher, in_words, mean_decibels
from tacit_reproduction.personalised.regression_claims import PUBLISHED, Sweeps, best, called, first_for, judge
from tacit_reproduction.personalised.regression_optimum import Arrival, Look, arrive, optima
from tacit_reproduction.personalised.regression_runs import (
    CLIENTS,
    CLUSTERS,
    RECORDS,
    RIDGE,
    SERVERS,
    Noise,
    Outcome,
    Problem,
    Setting,
    Task,
    server_graph,
    world_of,
)

SEEDS = 8
ROUNDS = np.arange(10, 301, 10)
WOBBLE = 1 + 0.001 * np.random.default_rng(3).normal(size=(200, SEEDS))


def level(setting: Setting, problem: Problem) -> tuple[float, float]:
    """NMSD after the first and the last rounds, as the text has them."""
    last = {"PGFL": 0.01, "GFL": 0.03, "ClusterFL": 0.1}[setting.method]
    wide = problem.spread > 0.15
    if setting.method == "PGFL":
        tau = setting.tau if setting.fade == 1 else 0.0
        last *= 1 + 4 * tau if wide else 1 + 5 * (tau - 0.4) ** 2
    early = 0.5 - 0.2 * (setting.tau > 0)
    if setting.method == "GFL":
        last *= 0.8 if setting.scheduled else 1
    elif setting.scheduled:
        last, early = 1.3 * last, 1.3 * early
    if setting.noise is not None:
        last *= 1 + 0.01 * (10 - np.log10(setting.noise.first)) * (1 + 20 * (setting.noise.decay - 0.97))
    return early, last * 10 ** (-(problem.snr - 20) / 20) * problem.penalty / 3


def made(rule=level, design: regression.Design = regression.FULL, booked: float = 0.095):
    """Evidence of a world in which the text is right, or of another."""
    found, k = {}, 0
    for task in regression.tasks_of(design, 0):
        for problem in task.problems:
            early, last = rule(task.setting, problem)
            k += 1
            curve = last + (early - last) * np.exp(-(ROUNDS - 10) / 20)
            privacy = RunPrivacy(statement(unprotected), None)
            if task.setting.noise is not None:
                mechanism = task.setting.noise.mechanism()
                privacy = RunPrivacy(statement(mechanism), guarantee(Loss(np.inf, booked), "record"))
            values = WOBBLE[k % 200][:, None] * curve
            own = np.repeat(values[:, -1:], CLUSTERS, axis=1)
            found[task.setting, problem] = Outcome(ROUNDS, values, own, 2 * values[:, -1], privacy)
    return found


def arrived(apart: float) -> list[Arrival]:
    return [
        Arrival(look.exact, problem, np.full(2, d), np.full(2, d))
        for look in regression.looks_of(regression.FULL, 0)
        for problem in look.problems
        for d in [apart if not look.exact and problem.servers == "random" else 1e-9]
    ]


def test_every_claim_holds_where_the_text_is_right():
    assert failing(judge(made(), regression.FULL.sweeps, arrived(1e-9))) == []


@pytest.mark.parametrize(
    ("missed", "worse"),
    [
        ([0, 2], lambda s, p: s.method == "PGFL" and s.tau == 0.4 and not s.scheduled),
        ([0, 2], lambda s, p: s.method == "PGFL" and s.tau == 0 and not s.scheduled),
        ([1, 4, 6], lambda s, p: s.method == "PGFL" and s.scheduled and s.tau < 0.8 and s.noise is None),
        ([0, 2], lambda s, p: s.method == "PGFL" and not s.scheduled),
        ([3], lambda s, p: s.method == "GFL" and s.scheduled),
        ([4, 9], lambda s, p: s.noise == PUBLISHED),
        ([4, 5, 9], lambda s, p: s.noise == PUBLISHED and s.tau == 0.4),
        ([0, 1, 5, 6], lambda s, p: 0 < s.tau < 0.8 and s.fade == 1 and p.spread < 0.5),
        ([7, 8], lambda s, p: s.tau == 0 and p.spread == 0.5),
        ([8], lambda s, p: s.fade < 1),
        ([9], lambda s, p: s.noise is not None and s.noise.first == 1e9),
        ([10], lambda s, p: s.noise is not None and s.noise.decay == 0.97),
    ],
)
def test_a_claim_fails_where_it_is_wrong(missed, worse):
    def rule(setting: Setting, problem: Problem) -> tuple[float, float]:
        early, last = level(setting, problem)
        return (early, 20 * last) if worse(setting, problem) else (early, last)

    assert failing(judge(made(rule), regression.FULL.sweeps, arrived(1e-9))) == missed


def test_the_ledger_and_the_optimum_decide_their_claims():
    claims = judge(made(booked=1.92), regression.FULL.sweeps, arrived(0.01))
    assert failing(claims) == [11, 12]
    assert "1.9197" in claims[11].figure
    assert "0.0951" in claims[11].figure


def test_a_report_is_written_of_all_of_it(monkeypatch):
    # Drawn, but not rendered, which takes most of the time.
    monkeypatch.setattr(charts, "finished", lambda canvas, *words: Figure(*words, b"", "<svg ></svg>"))
    found = regression.findings(made(), arrived(0.01), regression.FULL)
    text = page_of(regression.REGRESSION, found)
    assert text.count("<svg") == len(found.figures)
    assert "worst client" in text


def test_the_quick_form_has_fewer_claims_and_figures():
    quick, full = regression.QUICK, regression.FULL
    few, many = (judge(made(design=design), design.sweeps, arrived(1e-9)) for design in (quick, full))
    assert {claim.claim for claim in many} > {claim.claim.replace("best of 2", "best of 4") for claim in few}


def test_totals_are_those_of_the_theorem_and_of_the_text():
    assert PUBLISHED.total(300) == pytest.approx(1.9197, abs=1e-4)
    assert PUBLISHED.printed_total(300) == pytest.approx(0.095, abs=2e-4)
    assert Noise(first_for(0.095)).total(300) == pytest.approx(0.095)
    assert Noise(0.5, 1.0).mechanism().noise is not None


def test_the_best_clip_and_penalty_are_taken_after_the_rounds_that_are_asked_for():
    problems = [Problem(clip=1.0), Problem(clip=10.0)]
    early = np.where(ROUNDS < 200, 1.0, 3.0) * np.ones((SEEDS, 1))
    late = np.where(ROUNDS < 200, 2.0, 1.0) * np.ones((SEEDS, 1))
    privacy = RunPrivacy(statement(unprotected), None)
    rows = [Outcome(ROUNDS, values, values[:, :3], values[:, 0], privacy) for values in (early, late)]
    evidence = {(Setting(), problem): row for problem, row in zip(problems, rows, strict=True)}
    sweeps = Sweeps((), (), problems, (), (), (), (), 1)
    assert best(evidence, Setting(), sweeps)[0] == problems[1]
    assert best(evidence, Setting(), sweeps, after=100)[0] == problems[0]


# -- means -------------------------------------------------------------------------------------------------------------


def test_means_are_compared_and_not_decibels():
    # In dB the first is lower for three seeds of four; its mean is higher.
    lucky, steady = np.array([0.5, 0.5, 0.5, 4.0]), np.full(4, 1.0)
    assert mean_decibels(lucky) > mean_decibels(steady)
    assert Pair("", 10 * steady, 5 * steady).excess.mean == pytest.approx(1.0)
    assert compared("", [Pair("", 2 * WOBBLE[0], WOBBLE[1])], higher).holds
    assert not compared("", [Pair("", WOBBLE[0], 2 * WOBBLE[1])], higher, "because").holds
    assert in_words(steady).startswith("0.00 [")


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.2, True), (0.85, True), (1.3, False), (0.75, False)])
def test_alike_is_within_a_decibel_either_way(factor, holds):
    assert compared("", [Pair("", factor * np.ones(3), np.ones(3))], alike(1.0)).holds is holds


# -- data and runs -----------------------------------------------------------------------------------------------------


def test_worlds_are_as_the_text_has_them():
    world = world_of(Problem(), seed=4)
    sizes = world.stream.data_size
    assert (sizes.min(), sizes.max()) == RECORDS
    assert len(sizes) == SERVERS * CLIENTS
    models = np.unique(world.targets, axis=0)
    assert len(models) == CLUSTERS
    ratio = models / models[0]
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape))
    for seed in range(3):
        graph = server_graph(seed)
        assert graph.edges == SERVERS * 3
        assert is_symmetric(graph)
        assert is_strongly_connected(graph)


def test_noise_in_the_data_has_the_power_that_was_asked_for():
    batch = world_of(Problem(snr=10.0), seed=0).stream.chunk(0, 1)
    clean = world_of(Problem(snr=300.0), seed=0).stream.chunk(0, 1)
    there = batch.weight[0] > 0
    noise = np.var((batch.y - clean.y)[0][there])
    assert 0.1 * 0.85 < noise < 0.1 * 1.15  # 825 records: three standard errors


def few_rounds(patch: pytest.MonkeyPatch, **values: float) -> Outcome:
    """Six private rounds with a penalty of 12 and a clip of 2, with other values of the module's numbers."""
    for name, value in {"ROUNDS": 6, "EVERY": 3, **values}.items():
        patch.setattr(regression_runs, name, value)
    setting = called(Setting("PGFL", 0.4), Noise(1e4))
    (outcome,) = regression_runs.run(Task(setting, (Problem(penalty=12.0, clip=2.0),), 1, 5)).values()
    return outcome


@pytest.mark.slow
def test_a_run_reports_clusters_clients_and_what_was_spent(monkeypatch):
    outcome = few_rounds(monkeypatch)
    assert outcome.clusters.shape == (1, CLUSTERS)
    assert outcome.worst[0] > outcome.clusters.max() > outcome.last[0] > 0
    calls = itertools.combinations(range(6), outcome.privacy.reads or 0)  # of the client that paid most
    spent = outcome.privacy.summary()["rho"]
    assert any(spent == pytest.approx(sum(1e4 * 0.99**-n for n in rounds), rel=1e-5) for rounds in calls)
    np.testing.assert_array_equal(outcome.rounds, [3, 6])
    assert outcome.after(3)[0] == outcome.deviation[0, 0]


@pytest.mark.slow
def test_units_of_the_data_are_a_penalty_and_a_clip(monkeypatch):
    by_units = few_rounds(monkeypatch)
    # The ridge is in units of the features too.
    by_value = few_rounds(monkeypatch, PENALTY=12.0, CLIP=2.0, RIDGE=4 * RIDGE)
    np.testing.assert_allclose(by_units.deviation, by_value.deviation, rtol=2e-4)
    np.testing.assert_allclose(by_units.worst, by_value.worst, rtol=2e-4)


def test_the_optimum_is_where_the_clusters_gradients_cancel():
    world = world_of(Problem(), seed=2)
    batch = world.stream.chunk(0, 1)
    x, y, there = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y, batch.weight))
    degree = 1 + world.topology.links["servers"].in_degree
    for heard in (False, True):
        found = optima(world, heard)
        for q in range(CLUSTERS):
            total = np.zeros(x.shape[2])
            for server in range(SERVERS):
                mine = [k for k in range(server * CLIENTS, (server + 1) * CLIENTS) if world.clusters[k] == q]
                gradients = []
                for k in mine:
                    own = there[k] > 0
                    gradients.append(x[k, own].T @ (x[k, own] @ found[q] - y[k, own]) / own.sum() + RIDGE * found[q])
                if mine:
                    total += (degree[server] if heard else 1) * np.mean(gradients, axis=0)
            assert np.linalg.norm(total) < 1e-10


@pytest.mark.slow
def test_exact_averaging_comes_to_the_optimum_and_plain_averaging_does_not():
    (plain,) = arrive(Look(False, (Problem(),), 1, 0, 600))
    (exact,) = arrive(Look(True, (Problem(),), 1, 0, 600))
    assert exact.distance.max() < 1e-5
    assert plain.distance.max() > 1e-3
