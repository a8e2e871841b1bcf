"""`pgfl-regression` and `pgfl-discovery`: data, units and noise, the optimum, verdicts on made-up tables, micro runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from reproduction.tests.tables import SEEDS, missed, row, verdicts
from tacit.graphs import is_strongly_connected, is_symmetric
from tacit_reproduction.gauthier import pgfl, pgfl_discovery, pgfl_optimum, pgfl_regression
from tacit_reproduction.gauthier.pgfl import CLIENTS, CLUSTERS, RIDGE, SERVERS, Problem, Setting, world_of
from tacit_reproduction.table import Results, Row

ROUNDS = np.arange(10, 301, 10)
WOBBLE = 1 + 0.001 * np.random.default_rng(3).normal(size=(400, SEEDS))


def test_worlds_are_as_the_text_has_them():
    worlds = {gamma: world_of(Problem(gamma=gamma, clip=5.0), 4) for gamma in pgfl_regression.GAMMAS}
    cluster, coordinate = worlds.values()
    assert (cluster.stream.data_size.min(), cluster.stream.data_size.max()) == pgfl.RECORDS
    np.testing.assert_array_equal(cluster.clusters, coordinate.clusters)
    np.testing.assert_array_equal(cluster.stream.chunk(0, 1).x, coordinate.stream.chunk(0, 1).x)
    models = {gamma: np.unique(world.targets, axis=0) for gamma, world in worlds.items()}
    assert all(len(found) == CLUSTERS for found in models.values())
    ratio = {gamma: found[1:] / found[0] for gamma, found in models.items()}
    np.testing.assert_allclose(np.ptp(ratio["per cluster"], axis=1), 0, atol=1e-12)
    assert (np.ptp(ratio["per coordinate"], axis=1) > 0.2).all()
    for seed in range(3):
        graph = pgfl.server_graph(seed)
        assert (graph.edges, is_symmetric(graph), is_strongly_connected(graph)) == (SERVERS * 3, True, True)


def test_noise_in_the_data_has_the_power_that_was_asked_for():
    noisy, clean = (world_of(Problem(snr=snr), 0).stream.chunk(0, 1) for snr in (10.0, 300.0))
    noise = np.var((noisy.y - clean.y)[0][noisy.weight[0] > 0])
    scale = math.prod(Problem().scales) ** 2  # of responses, for units of penalty and clip
    assert 0.1 * 0.85 < noise / scale < 0.1 * 1.15  # 825 records: three standard errors


def test_totals_are_those_of_the_theorem_and_of_the_text():
    assert pgfl.total(0.001, 0.99, 300) == pytest.approx(0.001 * (0.99**-300 - 1) / (1 / 0.99 - 1))
    assert pgfl.total(0.001, 0.99, 300) == pytest.approx(1.92, abs=0.005)
    assert pgfl.total(0.001, 1 / 0.99, 300) == pytest.approx(0.095, abs=2e-4)


def test_noise_that_is_assumed_has_the_size_of_the_text_and_promises_nothing():
    """Sensitivity 2 C / (rho D), variance sensitivity^2 / (2 phi_n), phi_n = phi_0 zeta^-n."""
    view = SimpleNamespace(data_size=np.float32(5), round=np.float32(31))
    made = pgfl.assumed(2 * 7.0 / 3.0, 0.001, 0.99)
    variance = (2 * 7.0 / (3.0 * 5)) ** 2 / (2 * 0.001 * 0.99**-30)
    assert float(made.scale(view, None)) ** 2 == pytest.approx(variance, rel=1e-5)
    assert made.clip is None
    assert math.isinf(float(made.sensitivity(view, None)))


def test_the_optimum_is_where_the_clusters_gradients_cancel():
    world = world_of(Problem(), seed=2)
    batch = world.stream.chunk(0, 1)
    x, y, there = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y, batch.weight))
    for q, found in enumerate(pgfl_optimum.optima(world)):
        total = np.zeros(x.shape[2])
        for server in range(SERVERS):
            mine = [k for k in range(server * CLIENTS, (server + 1) * CLIENTS) if world.clusters[k] == q]
            own = [(x[k][there[k] > 0], y[k][there[k] > 0]) for k in mine]
            gradients = [a.T @ (a @ found - b) / len(b) + RIDGE * found for a, b in own]
            total += np.mean(gradients, axis=0) if mine else 0
        assert np.linalg.norm(total) < 1e-8 * np.linalg.norm(found)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def level(setting: Setting, problem: Problem) -> tuple[float, float]:
    """NMSD after the first and the last rounds, as the text has them."""
    last = {"PGFL": 0.01, "GFL": 0.03, "ClusterFL": 0.1}[setting.method]
    early = 0.5 - 0.2 * (setting.tau > 0)
    if setting.method == "PGFL":
        tau = setting.tau if setting.fade == 1 else 0.0
        last *= 1 + 4 * tau if problem.spread > 0.15 else 1 + 5 * (tau - 0.4) ** 2
    if setting.called:
        last, early = (0.8 * last, early) if setting.method == "GFL" else (1.3 * last, 1.3 * early)
    if setting.noise != "none":
        last *= 1 + 0.02 * math.log10(100 * problem.clip) + (setting.zeta - 0.95)
    return early, last


def made(rule=level, booked: float = 0.095, apart: float = 1e-9) -> Results:
    """A table of a world in which the text is right, or of another."""
    rows = []
    for setting, problems, *_, rounds in pgfl_regression.tasks(False, 0):
        for problem in problems if rounds == pgfl.ROUNDS else ():
            early, last = rule(setting, problem)
            curve = last + (early - last) * np.exp(-(ROUNDS - 10) / 20)
            values = WOBBLE[len(rows)][:, None] * curve
            measures = {"rounds": ROUNDS, "nmsd": values, "end": values[:, -1], "rho": np.full(SEEDS, booked)}
            rows.append(Row(pgfl.factors(setting, problem), measures))
    for setting, problems, *_ in pgfl_optimum.looks(False, 0):
        averaging = {"averaging": "exact" if setting.exact else "plain"}
        rows += [Row({**averaging, **p._asdict()}, {"distance": np.full(2, apart)}) for p in problems]
    return Results(rows)


@pytest.mark.parametrize(
    ("figures", "expected", "worse"),
    [
        (set(), ["reproduced"] * 3, lambda s, p: False),
        ({"snr", "learning"}, ["refuted", "reproduced", "reproduced"], lambda s, p: s == pgfl_regression.MIXED),
        ({"snr"}, ["depends on an open setting", *["reproduced"] * 2], lambda s, p: s.method == "PGFL" and p.snr == 20),
        ({"similarity"}, ["reproduced", "refuted", "reproduced"], lambda s, p: s.fade < 1),
        (
            {"noise"},
            [*["reproduced"] * 2, "depends on an open setting"],
            lambda s, p: s.noise == "clipped" and s.called,
        ),
        ({"tau"}, ["reproduced"] * 3, lambda s, p: s.called and s.tau == 0.2),
    ],
)
def test_a_claim_fails_where_it_is_wrong(figures, expected, worse):
    def rule(setting: Setting, problem: Problem) -> tuple[float, float]:
        early, last = level(setting, problem)
        return (20 * early, 20 * last) if worse(setting, problem) else (early, last)

    judgement = pgfl_regression.judge(made(rule))
    wrong = {judgement.claims[place].seen_in for place in missed(judgement)}
    assert wrong >= figures
    assert bool(wrong) == bool(figures)
    assert verdicts(judgement) == expected


def test_the_ledger_and_the_optimum_decide_their_claims():
    judgement = pgfl_regression.judge(made(booked=1.92, apart=0.01))
    assert len(missed(judgement)) == 3
    assert "0.095" in judgement.claims[missed(judgement)[0]].claim


@pytest.mark.parametrize(("right", "found", "wrong"), [(80, 0.01, []), (40, 0.06, [0, 1, 2, 3])])
def test_found_clusters_have_to_beat_chance_and_one_model(right, found, wrong):
    rows = []
    for rho, gamma in ((0.0, "small"), (0.0, "large"), (1e4, "large")):
        place = {"records": "2 to 9", "rho": rho, "gamma": gamma}
        rows += [row({**place, "kind": "found clusters"}, 0, right=right)]
        rows[-1].measures["nmsd"] = found * WOBBLE[0]
        rows += [
            row({**place, "kind": "by chance"}, 1, right=40),
            Row({**place, "kind": "one model"}, {"nmsd": 0.05 * WOBBLE[1]}),
        ]
    assert missed(pgfl_discovery.judge(Results(rows))) == wrong


# -- runs --------------------------------------------------------------------------------------------------------------


def test_multipliers_are_averaged_over_the_later_half_of_the_warm_up():
    at = np.arange(10, 60, 10)
    run = SimpleNamespace(recorded_rounds=at, recorded={"dual": at[None, :, None, None] * np.ones((2, 1, 3, 4))})
    np.testing.assert_allclose(pgfl_discovery.duals_after(run, 40), np.full((2, 3, 4), 35.0))


@pytest.mark.slow
def test_units_of_the_data_are_a_penalty_and_a_clip(monkeypatch):
    task = (Setting(tau=0.4, called=True, noise="clipped", phi=1e4), [Problem(penalty=12.0, clip=2.0)], 1, 5, 6)
    (units,) = pgfl.run(task)
    for name, value in {"PENALTY": 12.0, "CLIP": 2.0, "RIDGE": 4 * RIDGE}.items():  # the ridge is in units too
        monkeypatch.setattr(pgfl, name, value)
    (values,) = pgfl.run(task)
    np.testing.assert_allclose(units.measures["nmsd"], values.measures["nmsd"], rtol=2e-4)
    assert 0 < units.measures["rho"][0] <= pgfl.total(1e4, 0.99, 6) * 1.0001


@pytest.mark.slow
def test_nothing_finite_is_booked_where_a_bound_is_only_assumed():
    (row,) = pgfl.run((Setting(called=True, noise="assumed"), [Problem(clip=0.1)], 1, 5, 4))
    assert np.isinf(row.measures["rho"]).all()


@pytest.mark.slow
def test_exact_averaging_comes_to_the_optimum_and_plain_averaging_does_not():
    plain, exact = (pgfl_optimum.arrive((Setting(exact=exact), [Problem()], 1, 0, 600))[0] for exact in (False, True))
    assert exact.measures["distance"].max() < 1e-5
    assert plain.measures["distance"].max() > 1e-3


@pytest.mark.slow
def test_many_records_let_clusters_be_found(monkeypatch):
    monkeypatch.setattr(pgfl_discovery, "ROUNDS", 60)
    rows = pgfl_discovery.run(("10 to 30", (0.5,), 0.0, 1, 0))
    found = {row.factors["kind"]: row.measures for row in rows}
    assert found["found clusters"]["right"].mean() > found["by chance"]["right"].mean() + 20
    assert found["by own records"]["right"].mean() > 80
    assert found["found clusters"]["nmsd"].shape == (1,)
