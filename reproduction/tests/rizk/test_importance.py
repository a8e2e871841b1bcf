"""Importance sampling (Rizk 2023, ch. 2): data, optimum, verdicts, and micro runs."""

import numpy as np
import pytest

from reproduction.tests.rizk.blobs import blobs
from tacit.streams import linear_regression
from tacit_reproduction.rizk import importance_ijcnn1 as ijcnn1
from tacit_reproduction.rizk import importance_regression as regression
from tacit_reproduction.rizk.ijcnn1 import Samples
from tacit_reproduction.table import Results


def test_wide_data_have_variances_over_the_whole_range_and_noise_is_scaled_alone() -> None:
    wide, loud = (regression.data_of("wide", by, 400, 60, 3) for by in (1.0, 10.0))
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
    narrow, few = (regression.data_of(name, 1.0, 40, 5, 3) for name in ("narrow", "few x 10"))
    np.testing.assert_array_equal(narrow.y, linear_regression(40, 5, 2, 3).y)
    np.testing.assert_array_equal(narrow.y[2:], few.y[2:])
    plain = (narrow.x @ narrow.w_star)[:2]
    np.testing.assert_allclose(few.y[:2] - plain, 10 * (narrow.y[:2] - plain), atol=1e-4)


def test_a_micro_run_learns_and_louder_noise_scales_the_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "EXTENTS", {True: (8, 30, 400, 200)})
    found = Results(regression.run((regression.Task("optimal", (("narrow", 1.0), ("narrow", 30.0)), True, 3, 2), 3, 4)))
    calm, loud = found.where(loud=1.0), found.where(loud=30.0)
    assert calm.of("rounds").tolist() == list(range(20, 401, 20))
    assert np.all(calm.of("msd")[:, -1] < 0.05)
    np.testing.assert_allclose(loud.of("xi"), 30 * calm.of("xi"), rtol=0.1)
    assert 24 < (loud.of("settled") - calm.of("settled")).mean() < 35  # 20 log10(30) = 29.5
    assert not found.of("diverged", loud=30.0).any()


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Samples:
    found = blobs()
    for name, value in (
        ("load", lambda standardised: found),
        ("CLIENTS", 6),
        ("COHORT", 3),
        ("SMALLEST", 20),
        ("LARGEST", 60),
    ):
        monkeypatch.setattr(ijcnn1, name, value)
    return found


def test_clients_have_as_many_rows_of_both_classes_together_and_the_optimum_no_slope(samples: Samples) -> None:
    star = ijcnn1.shared_out(samples, 1.0, 2)
    there = np.asarray(star.data.weight)
    assert 120 < there.sum() == star.sizes.sum() <= 200  # of 100 positive rows, and as many others
    assert abs(np.asarray(star.data.y).sum()) <= 200 - star.sizes.sum()
    share, x, y = there / star.sizes[:, None] / 6, np.asarray(star.data.x, np.float64), np.asarray(star.data.y)
    slope = 2 * ijcnn1.RIDGE * star.best - np.einsum("kn,kn,kni->i", share, y / (1 + np.exp(y * (x @ star.best))), x)
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    unlike = [np.abs(ijcnn1.shared_out(samples, a, 2).data.y.sum(axis=1)).sum() for a in (0.1, 100.0)]
    assert unlike[0] > 2 * unlike[1]


def test_a_micro_run_on_ijcnn1_learns(samples: Samples) -> None:
    found = Results(ijcnn1.run((ijcnn1.Task("optimal", 60), 2, 0)))
    assert found.levels("mix") == list(ijcnn1.MIXES)
    assert found.of("settled", mix="non-IID").max() < 25
    assert found.of("best", mix="non-IID").max() < 15
