"""Private federated averaging and graphs of servers (Rizk 2023, ch. 2 and 3): runs against moments, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from reproduction.tests.tables import failing, row, verdicts
from tacit.streams import linear_regression
from tacit_reproduction.rizk import fedavg_private as private
from tacit_reproduction.rizk import gfl_regression as gfl
from tacit_reproduction.rizk.diffusion import network
from tacit_reproduction.rizk.settings import deviations, piecewise, stretches
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


def private_table(change: Any = None, spent: float = 5.0) -> Results:
    """What theory for small steps has: mu for the plain run, v / mu and v mu for the noise."""
    rows = []
    for task in private.tasks(False):
        for step, variance, _ in task.settings():
            added = {"none": 0.0, "models": variance * (0.05 / step + 0.4 * step), "updates": 5e-3 * variance * step}
            there = change(task.noise, variance, step, added[task.noise]) if change else added[task.noise]
            level = 10 * np.log10(1e-3 * step + there)
            place = {"noise": task.noise, "step": step, "variance": variance, "clip": task.clip or 0.0}
            made = row(place, 0, "msd", settled=float(level))
            if task.clip:
                made.measures["epsilon"] = np.array([spent if task.noise == "updates" else 1.0])  # type: ignore[index]
            rows.append(made)
    return Results(rows)


REFUTED = {"Runs diverge at some"}
UNEQUAL = {"At one sigma_g noise"}


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (None, set()),
        (
            lambda n, v, mu, a: 1e-3 * v * mu if n == "models" else 2 * a,
            {"Noise on models harms", "With noise on models"},
        ),
        (
            lambda n, v, mu, a: a * 1e-2 / mu**3 if n == "updates" else a,
            {"With noise on updates", "At small mu noise"},
        ),
        (lambda n, v, mu, a: a * v if n == "models" else a, {"What noise adds is"}),
    ],
)
def test_verdicts_on_private_averaging(change: Any, missed: set[str]) -> None:
    judgement = private.judge(private_table(change))
    found = failing(judgement)
    assert missed <= found - REFUTED - UNEQUAL
    assert found >= REFUTED | UNEQUAL
    if not missed:
        assert found == REFUTED | UNEQUAL
        assert verdicts(judgement) == ["reproduced", "refuted"]
    assert not failing(private.judge(private_table(change, spent=1.0))) & UNEQUAL


def test_runs_that_diverge_are_told() -> None:
    table = private_table()
    table.rows[-3].measures["msd"][0, 2] = np.inf
    assert not failing(private.judge(table)) & REFUTED


def gfl_table(near: float = 0.3, own: float = -1.0, crossed: Mapping[str, float] | None = None) -> Results:
    """Random noise costs v / mu, homomorphic noise v mu, and `near` dB at the text's setting."""
    rows = []
    for task in gfl.tasks(False):
        for step, variance in task.settings:
            for covariance, net in task.places:
                random, homomorphic = variance * (0.02 / step + 0.1 * step), 1e-6 * variance * step
                added = {"none": 0.0, "random": random, "homomorphic": homomorphic}
                level = float(10 * np.log10(1e-3 * step + added[task.noise]))
                if len(task.places) > 1 and task.noise == "homomorphic":
                    level += (crossed or {}).get(net, near)
                single = {"none": -40.0, "random": -10.0, "homomorphic": -10.0 + own}[task.noise]
                kind = "places" if len(task.places) > 1 else "settings"
                place = {"kind": kind, "noise": task.noise, "step": step, "variance": variance}
                place |= {"covariance": covariance, "network": net}
                single += float(10 * np.log10(variance))
                rows.append(row(place, 0, "centroid", settled=level, individual=single))
    return Results(rows)


@pytest.mark.parametrize(
    ("changed", "missed", "expected"),
    [
        ({}, set(), ["reproduced", "reproduced"]),
        ({"near": 2.0}, {"Centroid MSD under graph-homomorphic"}, ["refuted", "reproduced"]),
        ({"own": 1.0}, {"Mean individual MSD is"}, ["reproduced", "refuted"]),
        ({"crossed": {"ring": 3.0}}, set(), ["depends on an open setting", "reproduced"]),
    ],
)
def test_verdicts_on_graphs_of_servers(changed: Any, missed: set[str], expected: list[str]) -> None:
    judgement = gfl.judge(gfl_table(**changed))
    assert failing(judgement) == missed | {"Under random noise it"}
    assert verdicts(judgement) == expected
