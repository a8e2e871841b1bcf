"""Diffusion and the classification studies of Rizk (2023): data, draws, verdicts, and micro runs."""

import numpy as np
import pytest

from reproduction.tests.rizk.blobs import blobs
from tacit.core.errors import DataError
from tacit_reproduction.rizk import diffusion_ijcnn1, gfl_classification, ijcnn1
from tacit_reproduction.rizk import diffusion_regression as regression
from tacit_reproduction.rizk.diffusion import Draws, network
from tacit_reproduction.rizk.ijcnn1 import Samples, balanced_error, load


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
    links = {
        kind: np.asarray(network(30, 4, kind).matrix().todense()) for kind in ("small world", "ring", "random tree")
    }
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


def test_rows_are_balanced_and_agents_noisy_by_different_amounts(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
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
