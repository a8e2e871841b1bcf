"""Personalised learning (Gauthier 2023, ch. 5 and 6): data, units and noise, optima, measures by hand, micro runs."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit import objectives
from tacit.core.errors import DataError
from tacit.graphs import is_strongly_connected, is_symmetric
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses
from tacit_reproduction.gauthier import npfl, npfl_data, pgfl, pgfl_discovery, pgfl_image_data, pgfl_images
from tacit_reproduction.gauthier import pgfl_optimum as optimum
from tacit_reproduction.gauthier import pgfl_regression as regression
from tacit_reproduction.gauthier.npfl_data import CONNECTED, DRAWN, World, parts, world
from tacit_reproduction.gauthier.pgfl import CLIENTS, CLUSTERS, RIDGE, SERVERS, Problem, Setting, world_of
from tacit_reproduction.gauthier.pgfl_image_data import Group, accuracies, clients
from tacit_reproduction.gauthier.pgfl_images import Cell


def test_worlds_are_as_the_text_has_them():
    worlds = {gamma: world_of(Problem(gamma=gamma, clip=5.0), 4) for gamma in regression.GAMMAS}
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
    for q, found in enumerate(optimum.optima(world)):
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
    plain, exact = (optimum.arrive((Setting(exact=exact), [Problem()], 1, 0, 600))[0] for exact in (False, True))
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


SMALL = Group((TwoClasses((0,), (1,)), TwoClasses((0,), (2,)), TwoClasses((3,), (1,))), 3, (2, 3), 2)


def pictures(columns: int = 12) -> Dataset:
    """Images of classes that are easy to tell apart: each has a bright place of its own."""
    rng, y = np.random.default_rng(3), np.tile(np.arange(columns), 80).astype(np.int32)
    x = rng.uniform(0, 0.3, (len(y), columns)) + np.eye(columns)[y]
    parts = {"train": slice(0, len(y) // 2), "test": slice(len(y) // 2, len(y))}
    names = tuple(map(str, range(columns)))
    return Dataset("pictures", x.astype(np.float32), y, names, "made up", True, parts, "multiclass")


def of_norm_one(classes: tuple[int, ...]) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgfl_image_data, "loaded", lambda source: pictures())
        return pgfl_image_data.images.__wrapped__("", classes)


def test_images_have_one_norm_and_keep_their_parts():
    data = of_norm_one(SMALL.classes)
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), 1, rtol=1e-6)
    assert set(data.y) == {0, 1, 2, 3}
    assert data.parts == {"train": slice(0, 160), "test": slice(160, 320)}


def test_clusters_are_equal_and_sizes_in_range():
    for seed in range(3):
        clusters, sizes = clients(pgfl_image_data.GROUPS["triplets"], seed)
        assert np.bincount(clusters).tolist() == [50, 50, 50]
        assert (sizes.min(), sizes.max(), len(sizes)) == (6, 12, 150)
        assert clients(SMALL._replace(sizes=(2, 400)), seed)[1].max() == 400, "batches of all seeds have one shape"


def test_models_are_judged_on_their_own_clusters_test():
    """A model that finds class 1 is right on {0} / {1} and {3} / {1}, and says no to all of {0} / {2}."""
    knows = np.zeros(12, np.float32)
    knows[[0, 1, 2, 3]] = -1, 1, -1, -1
    models = np.broadcast_to(knows, (1, 2, 6, 12)).copy()
    models[0, 1, 4] *= -1  # one of two clients of cluster 2, later
    found = accuracies(models, [np.array([0, 0, 1, 1, 2, 2])], SMALL, of_norm_one(SMALL.classes))
    np.testing.assert_allclose(found, [[250 / 3, 200 / 3]])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(pgfl_image_data.GROUPS, "small", SMALL)
    monkeypatch.setattr(pgfl_images, "images", lambda source, classes: of_norm_one(classes))
    for name, value in {"ROUNDS": 6, "EVERY": 3}.items():
        monkeypatch.setattr(pgfl_images, name, value)
    return monkeypatch


@pytest.mark.slow
def test_norms_stand_for_penalties(small):
    """Images of norm 1 learn what images of norm 0.25 do with a sixteenth of the penalties."""
    one = pgfl_images.run((("", Cell("small"), (1.0, 4.0)), 2, 7))[0]
    small.setattr(pgfl_images, "PENALTY", 1 / 16)
    small.setattr(objectives, "logistic", lambda l2, made=objectives.logistic: made(l2=l2 / 16))
    (same,) = pgfl_images.run((("", Cell("small"), (0.25,)), 2, 7))
    np.testing.assert_allclose(same.measures["accuracy"], one.measures["accuracy"], atol=0.7)
    assert one.measures["accuracy"].shape == (2, 2)
    assert one.measures["end"].min() > 60


@pytest.mark.parametrize("network", [CONNECTED, DRAWN])
def test_a_world_is_as_the_text_has_it(network: str) -> None:
    found = world(network, 3)
    labels = np.asarray(found.graph.clusters)
    assert np.bincount(labels).tolist() == [10, 10, 10]
    assert 4.5 < len(found.graph.senders) / 30 < 7.5  # 87 links expected, standard deviation 8
    assert (found.sizes.min() >= 5, found.sizes.max()) == (True, 35)
    ratio = found.truth / found.truth[0]
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(60))
    assert len(np.unique(ratio[:, 0].round(9))) == 3
    batch = found.stream.chunk(0, 1)
    np.testing.assert_array_equal(batch.weight[0].sum(axis=1), found.sizes)
    assert not np.array_equal(batch.validation.x, batch.x)
    noise = np.square(batch.y[0] - np.einsum("kni,ki->kn", batch.x[0], found.truth)).sum(axis=1) / found.sizes
    assert noise.max() < 3
    assert noise.max() > 4 * noise.min()
    own = [k for k in range(30) if np.any(labels[found.graph.senders[found.graph.receivers == k]] == labels[k])]
    assert np.flatnonzero(found.accompanied).tolist() == own
    assert parts(found.graph, np.zeros(30, np.int64)) == 1
    assert (parts(found.graph, labels) == 3) == (network == CONNECTED)


def test_networks_share_data_and_one_that_is_not_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(world(CONNECTED, 3).stream.chunk(0, 1).x, world(DRAWN, 3).stream.chunk(0, 1).x)
    monkeypatch.setattr(npfl_data, "MOST_DRAWS", 0)
    with pytest.raises(DataError, match="seed 999"):
        world(DRAWN, 999)


def test_measures_are_those_of_a_loop() -> None:
    rng, at = np.random.default_rng(1), np.arange(5, 205, 5)
    models, tau = rng.normal(size=(1, 40, 30, 4)), rng.uniform(0, 0.02, (1, 40, 30))
    sizes, truth = rng.permutation(30) + 5, rng.normal(size=(30, 4))
    someone: Any = None
    alone = sizes != sizes.max()  # who has the most has no neighbour of its own cluster
    found = npfl.measures(models, tau, at, [World(someone, someone, truth, sizes, alone)])
    nmsd = [np.mean([np.sum((w - v) ** 2) / np.sum(v**2) for w, v in zip(of, truth, strict=True)]) for of in models[0]]
    np.testing.assert_allclose(found["nmsd"][0], 10 * np.log10(nmsd))
    assert found["settled"][0] == pytest.approx(10 * np.log10(np.mean(nmsd[-4:])))
    assert found["early"][0] == pytest.approx(np.mean(10 * np.log10(nmsd[:10])))
    order, end = np.argsort(sizes), tau[0, -4:].mean(axis=0)
    assert found["poor near"][0] == pytest.approx(tau[0, 19, order[:10]].mean())
    assert found["poor end"][0] == pytest.approx(end[order[:10]].mean())
    assert found["rich at 0"][0] == pytest.approx(100 * np.mean(end[order[-10:]] < 0.01))
    np.testing.assert_array_equal(found["tau, few"][0], tau[0, :, order[0]])
    np.testing.assert_array_equal(found["tau, many"][0], tau[0, :, order[-2]])
