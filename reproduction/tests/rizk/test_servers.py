"""Private federated averaging and graphs of servers (Rizk 2023, ch. 2 and 3): runs against moments, and verdicts."""

import numpy as np
import pytest

from tacit.streams import linear_regression
from tacit_reproduction.rizk import fedavg_private as private
from tacit_reproduction.rizk import gfl_regression as gfl
from tacit_reproduction.rizk.diffusion import deviations, network, piecewise, stretches
from tacit_reproduction.table import Floats, Results


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
