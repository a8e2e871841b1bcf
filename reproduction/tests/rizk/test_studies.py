"""Studies of Rizk (2023): data, draws, optima, noise against moments, and micro runs."""

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit.streams import linear_regression
from tacit_reproduction.rizk import diffusion_ijcnn1, gfl_classification, ijcnn1
from tacit_reproduction.rizk import diffusion_regression as regression
from tacit_reproduction.rizk import fedavg_private as private
from tacit_reproduction.rizk import gfl_regression as gfl
from tacit_reproduction.rizk import importance_ijcnn1 as on_ijcnn1
from tacit_reproduction.rizk import importance_regression as weighted
from tacit_reproduction.rizk.diffusion import Draws, deviations, network, piecewise, stretches
from tacit_reproduction.rizk.ijcnn1 import Samples, balanced_error, load
from tacit_reproduction.table import Floats, Results


def blobs() -> Samples:
    """Two blobs, of which one is rare."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1500) % 10 == 0, 1, -1).astype(np.float32)
    x = np.concatenate([rng.normal(size=(1500, 3)) + 1.5 * y[:, None], np.ones((1500, 1))], axis=1).astype(np.float32)
    return Samples(x[:1000], y[:1000], x[1000:], y[1000:], "two blobs")


def test_samples_are_an_agents_own_with_repetition_and_reads_are_counted() -> None:
    own, x = [np.array([0, 1]), np.array([2, 3, 4])], np.arange(5, dtype=np.float32)[:, None]
    for batch in (1, 3):
        stream = Draws(x, np.zeros(5, np.float32), own, 40, 3, "few", batch)
        chunk = stream.chunk(0, 40)
        assert chunk.x.shape == (40, 2, 1) if batch == 1 else (40, 2, 3, 1)
        assert stream.batch_spec().x.shape == chunk.x.shape[2:]
        for agent, rows in enumerate(own):
            drawn = chunk.x[:, agent].ravel().astype(np.int64)
            assert set(drawn) == set(rows)
            assert stream.reads(40)[agent] == np.bincount(drawn).max()
        np.testing.assert_array_equal(stream.chunk(10, 12).x, chunk.x[10:12])


def test_networks_are_what_they_are_called() -> None:
    kinds = ("small world", "ring", "random tree")
    links = {kind: np.asarray(network(30, 4, kind).matrix().todense()) for kind in kinds}
    for matrix in links.values():
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
        np.testing.assert_allclose(matrix, matrix.T)
        assert np.linalg.matrix_power(matrix, 30).min() > 0  # connected
    assert [int((matrix > 0).sum() - 30) // 2 for matrix in links.values()] == [90, 30, 29]
    assert not np.array_equal(links["random tree"], network(30, 5, "random tree").matrix().todense())


def test_agents_share_a_covariance_and_the_optimum_has_no_slope() -> None:
    drawn = regression.data("0.2 to 0.5", 0)
    x = drawn.x.astype(np.float64)
    power = np.square(x[..., 0]).mean(axis=1)
    assert power.var() < 4 * power.mean() ** 2 / 100  # 2 is chance: 100 squares of normal numbers of one variance
    small = regression.data("0.005 to 0.02", 0).x.astype(np.float64).reshape(-1, 2)
    assert 0.004 < np.linalg.eigvalsh(small.T @ small / len(small)).min() < 0.021
    best, _ = drawn.optima(regression.RIDGE)
    slope = 2 * np.mean((x @ best - drawn.y)[..., None] * x, axis=(0, 1)) + 2 * 0.01 * best
    np.testing.assert_allclose(slope, 0, atol=1e-7)


def test_a_micro_run_steps_along_the_printed_loss_and_masks_leave_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "ROUNDS", 20)
    monkeypatch.setattr(regression, "EVERY", 1)
    local, grid = (regression.run((regression.Task("ATC", noise), 2, 3))[0].measures for noise in ("local", "grid"))
    np.testing.assert_array_equal(local["digest"], grid["digest"])
    for seed in (0, 1):  # from zero; the gradient of (4.62) has a factor 2, and the network's mean keeps the mean
        drawn = regression.data("0.2 to 0.5", 3 + seed)
        own = np.split(np.arange(3000), 30)
        batch = Draws(drawn.x.reshape(-1, 2), drawn.y.ravel(), own, 20, 3 + seed, "regression").chunk(0, 1)
        stepped = np.mean(2 * regression.STEP * batch.y[0][:, None] * batch.x[0], axis=0)
        expected = np.square(stepped - drawn.optima(regression.RIDGE)[0]).sum()
        assert local["centroid"][seed, 0] == pytest.approx(expected, rel=1e-3)


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Samples:
    found = blobs()
    for module in (diffusion_ijcnn1, gfl_classification):
        monkeypatch.setattr(module, "load", lambda: found)
    return found


def test_rows_are_balanced_and_agents_noisy_by_different_amounts(samples: Samples, monkeypatch) -> None:
    noisy = diffusion_ijcnn1.shared_out(samples, 200, 1)
    monkeypatch.setattr(ijcnn1, "DATA_NOISE", 0.0)
    clean = diffusion_ijcnn1.shared_out(samples, 200, 1).chunk(0, 200)
    assert noisy.data_size.sum() == 200  # all 100 positive rows and as many others
    assert {tuple(each) for each in clean.x.reshape(-1, 4)} <= {tuple(each) for each in samples.x}
    added = noisy.chunk(0, 200).x - clean.x
    assert not added[..., -1].any()
    size = added[..., :-1].std(axis=(0, 2))  # of four rows each
    assert (size.min() < 0.05, 0.35 < size.max() < 1) == (True, True)


def test_the_error_weighs_both_classes_alike(samples: Samples) -> None:
    never, always = np.array([0.0, 0, 0, -1]), np.array([0.0, 0, 0, 1])
    models = np.stack([never, always, np.zeros(4), np.array([1.0, 1, 1, 0])])
    found = balanced_error(np.tile(models, (60, 1)).reshape(60, 4, 4), samples)
    np.testing.assert_allclose(found[:, :3], np.tile([50.0, 50.0, 100.0], (60, 1)))
    assert found[0, 3] < 5


def test_a_micro_run_learns(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gfl_classification, "SIZES", (2, 4))
    monkeypatch.setattr(gfl_classification, "BATCH_SIZES", (1, 2))
    found = gfl_classification.run((gfl_classification.Cell("homomorphic", 50), 2, 0))
    assert found["centroid"].shape == (2, 10)
    assert found["settled"].max() < 30


def test_missing_data_are_refused_before_anything_is_run(nowhere: object) -> None:
    load.cache_clear()
    for study in (diffusion_ijcnn1.STUDY, gfl_classification.STUDY):
        with pytest.raises(DataError, match=r"ijcnn1\.tr\.bz2"):
            study.measure(None, True, 0)  # type: ignore[arg-type]


def test_stretches() -> None:
    step = piecewise([0.5, 0.25], [2, 3])
    assert [float(step(t)) for t in (1, 2, 3, 5, 9)] == [0.5, 0.5, 0.25, 0.25, 0.25]  # type: ignore[arg-type]
    parts = stretches(np.array([1, 3, 5]), np.array([[1.0, 2.0, 3.0]]), [3, 3])
    assert [(rounds.tolist(), values.tolist()) for rounds, values in parts] == [([1, 3], [[1.0, 2.0]]), ([2], [[3.0]])]


def test_deviations_are_of_the_mean_model_and_of_each() -> None:
    models = np.broadcast_to([1.0, 2.0], (1, 2, 4, 2)).copy()
    models[0, 1, :2, 0] += 0.3
    models[0, 1, 2:, 0] -= 0.1
    centroid, own = deviations(models, np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(centroid, [[0, 0.01]], atol=1e-12)
    np.testing.assert_allclose(own, [[0, 0.05]], atol=1e-12)


def settled(maps: Floats, mix: Floats, added: Floats) -> tuple[float, float]:
    """Where noise of covariance `added` (servers, servers) per coordinate leads linear rounds z <- mix (maps z) + noise.

    Maps are (servers, d, d). Returns deviations of the centroid and of single models, added up round by round.
    """
    count, dim, _ = maps.shape
    turn = np.einsum("pq,qij->piqj", mix, maps).reshape(count * dim, count * dim)
    noise, moment = np.kron(added, np.eye(dim)), np.zeros((count * dim, count * dim))
    for _ in range(300):
        moment = turn @ moment @ turn.T + noise
    blocks = moment.reshape(count, dim, count, dim)
    return float(np.einsum("piqi->", blocks)) / count**2, float(np.einsum("pipi->", blocks)) / count


def off(measured: Floats, expected: float) -> float:
    """How many standard errors the mean is from what is expected; beyond 5 once in 10,000 with 24 seeds."""
    values = 10 ** (measured / 10)
    return float(abs(values.mean() - expected) / (values.std(ddof=1) / np.sqrt(len(values))))


def curvature(x: Floats, ridge: float) -> Floats:
    return np.asarray(np.einsum("kni,knj->ij", x, x) / (x.shape[0] * x.shape[1]) + ridge * np.eye(2))


@pytest.mark.parametrize("noise", ["models", pytest.param("updates", marks=pytest.mark.covered_by("models"))])
def test_noise_of_the_text_s_size_reaches_the_server(monkeypatch: pytest.MonkeyPatch, noise: str) -> None:
    """All clients with all of their samples in one step: what is left is the noise, in the text's units."""
    changes = {"CLIENTS": 5, "COHORT": 5, "SIZES": (8, 8), "BATCH_SIZES": (8, 8), "LOCAL_STEPS": (1, 1)}
    for name, value in changes.items():
        monkeypatch.setattr(private, name, value)
    drawn = linear_regression(5, 8, 2, 3)
    monkeypatch.setattr(private, "linear_regression", lambda *_: drawn)
    found = Results(private.run((private.Task(noise, (0.2, 0.4), (0.5,)), 24, 0)))
    h = curvature(drawn.x.astype(np.float64), private.RIDGE)
    for step, variance in ((0.2, 0.02), (0.4, 0.02), (0.2, 0.5)):
        reaches = variance / 5 * (1 if noise == "models" else step**2)
        expected, _ = settled((np.eye(2) - 2 * step * h)[None], np.eye(1), np.array([[reaches]]))
        assert off(found.of("settled", step=step, variance=variance), expected) < 5
        assert off(found.of("settled", step=step, variance=variance), 2 * expected) > 5


@pytest.mark.parametrize("noise", ["homomorphic", pytest.param("random", marks=pytest.mark.covered_by("homomorphic"))])
def test_noise_between_servers_is_what_the_text_has_it(monkeypatch: pytest.MonkeyPatch, noise: str) -> None:
    changes = {"SERVERS": 4, "CLIENTS": 2, "COHORT": 2, "SAMPLES": 8, "BATCH_SIZES": (8, 8), "LOCAL_STEPS": (1, 1)}
    for name, value in changes.items():
        monkeypatch.setattr(gfl, name, value)
    drawn = gfl.data("0.2 to 0.5", 3)
    monkeypatch.setattr(gfl, "data", lambda covariance, seed: drawn)
    place = ("0.2 to 0.5", "ring")
    found = Results(gfl.run((gfl.Task(noise, (place,), ((0.7, 0.1), (0.7, 2.0))), 24, 0)))
    x = drawn.x.astype(np.float64).reshape(4, 2, 8, 2)
    maps = np.stack([np.eye(2) - 2 * 0.7 * curvature(own, gfl.RIDGE) for own in x])
    mix = np.asarray(network(4, 0, "ring").matrix().todense())
    one = np.diag(np.square(mix).sum(axis=1)) if noise == "random" else (mix - np.eye(4)) @ (mix - np.eye(4)).T
    centroid, own = settled(maps, mix, 2.0 * one)
    assert off(found.of("settled", variance=2.0), centroid) < 5
    assert off(found.of("individual", variance=2.0), own) < 5
    assert off(found.of("individual", variance=2.0), 2 * own) > 5


def test_wide_data_have_variances_over_the_whole_range_and_noise_is_scaled_alone() -> None:
    wide, loud = (weighted.data_of("wide", by, 400, 60, 3) for by in (1.0, 10.0))
    np.testing.assert_array_equal(wide.x, loud.x)
    x = wide.x.astype(np.float64)
    residual, louder = (data.y - x @ data.w_star for data in (wide, loud))
    np.testing.assert_allclose(louder, 10 * residual, atol=2e-4)
    noise, features = residual.var(axis=1), np.linalg.eigvalsh(np.einsum("kni,knj->kij", x, x) / 60).ravel()
    for found, (low, high) in ((noise, (1e-4, 10.0)), (features, (0.01, 10.0))):
        place = (np.log(found) - np.log(low)) / (np.log(high) - np.log(low))
        assert -0.15 < place.min() < 0.05
        assert 0.95 < place.max() < 1.15
        assert abs(place.mean() - 0.5) < 5 / np.sqrt(12 * len(place) / 2)  # uniform as logarithms
    narrow, few = (weighted.data_of(name, 1.0, 40, 5, 3) for name in ("narrow", "few x 10"))
    np.testing.assert_array_equal(narrow.y, linear_regression(40, 5, 2, 3).y)
    np.testing.assert_array_equal(narrow.y[2:], few.y[2:])
    plain = (narrow.x @ narrow.w_star)[:2]
    np.testing.assert_allclose(few.y[:2] - plain, 10 * (narrow.y[:2] - plain), atol=1e-4)


def test_a_micro_run_learns_and_louder_noise_scales_the_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted, "EXTENTS", {True: (8, 30, 400, 200)})
    found = Results(weighted.run((weighted.Task("optimal", (("narrow", 1.0), ("narrow", 30.0)), True, 3, 2), 3, 4)))
    calm, loud = found.where(loud=1.0), found.where(loud=30.0)
    assert calm.of("rounds").tolist() == list(range(20, 401, 20))
    assert np.all(calm.of("msd")[:, -1] < 0.05)
    np.testing.assert_allclose(loud.of("xi"), 30 * calm.of("xi"), rtol=0.1)
    assert 24 < (loud.of("settled") - calm.of("settled")).mean() < 35  # 20 log10(30) = 29.5
    assert not found.of("diverged", loud=30.0).any()


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Samples:
    found = blobs()
    monkeypatch.setattr(on_ijcnn1, "load", lambda standardised: found)
    for name, value in {"CLIENTS": 6, "COHORT": 3, "SMALLEST": 20, "LARGEST": 60}.items():
        monkeypatch.setattr(on_ijcnn1, name, value)
    return found


def test_clients_have_as_many_rows_of_both_classes_together_and_the_optimum_no_slope(dealt: Samples) -> None:
    star = on_ijcnn1.shared_out(dealt, 1.0, 2)
    there = np.asarray(star.data.weight)
    assert 120 < there.sum() == star.sizes.sum() <= 200  # of 100 positive rows, and as many others
    assert abs(np.asarray(star.data.y).sum()) <= 200 - star.sizes.sum()
    share, x, y = there / star.sizes[:, None] / 6, np.asarray(star.data.x, np.float64), np.asarray(star.data.y)
    slope = 2 * on_ijcnn1.RIDGE * star.best - np.einsum("kn,kn,kni->i", share, y / (1 + np.exp(y * (x @ star.best))), x)
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    unlike = [np.abs(on_ijcnn1.shared_out(dealt, a, 2).data.y.sum(axis=1)).sum() for a in (0.1, 100.0)]
    assert unlike[0] > 2 * unlike[1]


def test_a_micro_run_on_ijcnn1_learns(dealt: Samples) -> None:
    found = Results(on_ijcnn1.run((on_ijcnn1.Task("optimal", 60), 2, 0)))
    assert found.levels("mix") == list(on_ijcnn1.MIXES)
    assert found.of("settled", mix="non-IID").max() < 25
    assert found.of("best", mix="non-IID").max() < 15
