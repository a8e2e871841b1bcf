"""`pgfl-regression` and `pgfl-discovery`: data, units and noise, the optimum, verdicts on made-up tables, micro runs."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.graphs import is_strongly_connected, is_symmetric
from tacit_reproduction.gauthier import pgfl, pgfl_discovery, pgfl_optimum, pgfl_regression
from tacit_reproduction.gauthier.pgfl import CLIENTS, CLUSTERS, RIDGE, SERVERS, Problem, Setting, world_of


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
