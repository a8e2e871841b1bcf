"""Three clients, budgets and a moving target: formulas, verdicts on made-up tables, micro runs."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from reproduction.tests.tables import SEEDS
from tacit.core.contract import Noise
from tacit_reproduction.dissertation import budget, constrained, dynamic, lagrangian, three_clients
from tacit_reproduction.dissertation.growth import jackknife, sublinear

JITTER = np.random.default_rng(0).normal(size=SEEDS)
EVEN = 1 + 0.01 * JITTER[:, None]


def power(exponent: float) -> np.ndarray:
    return np.array([100.0, 400.0, 1600.0]) ** exponent * EVEN


def test_a_slope_is_that_of_the_mean_and_scatters_as_the_jackknife_has_it() -> None:
    rounds = np.array([100.0, 400.0, 1600.0])
    assert jackknife(rounds, power(0.5)).mean() == pytest.approx(0.5)
    found = jackknife(rounds, np.array([rounds**0.5, rounds**0.5, rounds**1.5]))
    mixed = np.polyfit(np.log(rounds), np.log(rounds**0.5 + rounds**1.5), 1)[0]  # without one of the first two
    assert found.std(ddof=1) / 3**0.5 == pytest.approx(np.sqrt(2 / 3 * (2 / 3)) * (mixed - 0.5))
    assert np.isnan(jackknife(rounds, -power(0.5))).all()


@pytest.mark.parametrize(
    ("totals", "outcome"),
    [
        (power(0.5), "holds"),
        (power(1.3), "fails"),
        (-power(1.0), "holds"),
        (np.hstack([power(1.0)[:, :2], 1e-3 * JITTER[:, None]]), "holds"),  # from high to nothing
        (np.hstack([-power(1.0)[:, :2], JITTER[:, None]]), "open"),  # on its way up
        (np.hstack([-power(1.0)[:, :2], power(1.0)[:, 2:]]), "fails"),  # too seldom above 0 for a slope, but above
    ],
)
def test_growth_is_held_against_the_number_of_rounds(totals: np.ndarray, outcome: str) -> None:
    assert sublinear("c", np.array([100.0, 400.0, 1600.0]), {"good": power(0.2), "this": totals}).outcome == outcome


@pytest.mark.parametrize("noise", ["scaled", "unscaled"])
def test_both_readings_of_the_noise_are_the_text_s(noise: str) -> None:
    made, b = three_clients.mechanism(noise), math.log(50) ** 2 / 0.1
    noisy = np.array([1.0, -20.0, 3.0, 40.0, 0.0])
    assert made.finish is not None
    found = made.finish(
        jnp.asarray(noisy), Noise("bounded_laplace", jnp.asarray(10.0), jnp.asarray(1.0), jnp.asarray(b))
    )
    wanted = (noisy + b) / (2 * b + 1) if noise == "scaled" else noisy
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted), rtol=1e-5)
    assert made.bound == pytest.approx(b * 0.1)


def test_three_clients_run_from_their_starts_on_the_simplex() -> None:
    found = three_clients.run((three_clients.Cell("unscaled", "own"), 2, 3))
    np.testing.assert_array_equal(found["models"][:, 0], np.stack([three_clients.STARTS["own"]] * 2))
    np.testing.assert_allclose(found["models"].sum(axis=-1), 1, rtol=1e-5)
    assert found["booked"][1] > 0
    assert three_clients.apart(found["models"][:, -1]).max() < 0.02
    assert three_clients.apart(np.array([[0.0, 0], [3, 0], [0, 4]])) == pytest.approx(5)


def test_the_text_s_constants_hold_on_the_data() -> None:
    price = budget.stream(0, 100).chunk(0, 100).price
    assert np.array_equal(price, budget.stream(0, 230).chunk(0, 100).price)  # longer horizons begin alike
    assert 0.9 * 1.545 < price.max() <= 1.545
    assert constrained.constants().damping == pytest.approx(2 * 1.545**2)
    draws = np.random.default_rng(0).laplace(0, 2 * 5**0.5 * 0.4, (200_000, 5))
    square = np.mean(np.abs(draws).max(axis=1) ** 2)
    wanted = math.sqrt(math.log(5) / (4 * ((1.545 - 0.5) ** 2 + 1.545**2 + square)))
    assert float(constrained.constants().step(jnp.asarray(4))) == pytest.approx(wanted, rel=0.02)


def test_runs_are_read_at_all_horizons_and_beside_the_best_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "HORIZONS", {True: (100, 200)})
    best = budget.run((budget.Cell(True, "best", window=100), 1, 0), constrained.method, True)["best"]
    data = budget.stream(0, 200).chunk(0, 200)
    windows = np.array([data.price[t : t + 100].sum(axis=0) for t in range(101)]).reshape(-1, 5)
    known = linprog(-data.gain.sum(axis=(0, 1)), windows, np.full(len(windows), 50.0), np.ones((1, 5)), [1.0])
    assert best[0, 1] == pytest.approx(known.fun / 16, rel=1e-4)
    kept = budget.run((budget.Cell(True, epsilon=1.0), 1, 0), constrained.method, True)
    free = budget.run((budget.Cell(True, "free"), 1, 0), constrained.method, True)
    queue = budget.run((budget.Cell(True, knob=8.0), 1, 0), lagrangian.method, False)
    assert kept["booked"] == pytest.approx(200)  # a private dual makes every release depend on every record
    assert queue["loss"].shape == kept["overspent"].shape == (1, 2)
    assert free["overspent"][0, 1] > kept["overspent"][0, 1]


@pytest.mark.parametrize("name", list(dynamic.GEOMETRIES))
def test_the_best_model_of_a_round_is_the_target_itself(name: str) -> None:
    geometry = dynamic.GEOMETRIES[name]
    stream, truth = dynamic.drifting(geometry, 0.1, 40, 5), dynamic.target(geometry, 0.1, 40, 5)
    batch = stream.chunk(0, 40)
    for t in (0, 17, 39):
        x, y = batch.x[t].reshape(-1, 5).astype(np.float64), batch.y[t].reshape(-1)
        np.testing.assert_allclose(np.linalg.lstsq(x, y, rcond=None)[0], truth[t], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(truth - geometry.centre, axis=1), geometry.radius)
    residual = batch.y - np.einsum("tabd,td->tab", batch.x, truth)
    assert residual.std() == pytest.approx(geometry.noise, rel=0.1)
    assert dynamic.loss(stream, truth) == pytest.approx(0.5 * 40 * np.square(residual).mean(), rel=1e-5)
    assert geometry.mirror.within is not None
    assert all(geometry.mirror.within.fault(w.astype(np.float32)) is None for w in truth)


def test_a_run_has_regret_path_and_never_learning_by_speed() -> None:
    found = dynamic.run((dynamic.Cell("simplex, negative entropy", 150, 0.6), 2, 0))
    speeds = np.array(dynamic.SPEEDS)
    np.testing.assert_allclose(found["length"], [149 * 2 * 0.19 * np.sin(speeds / 2)] * 2, atol=1e-9)
    np.testing.assert_allclose(found["idle"], 150 * 0.19**2 / 10, rtol=0.2)  # features have covariance I / 5
    assert found["regret"].mean() > 0
    np.testing.assert_allclose(found["ratio"], found["regret"] / (150**0.5 * (1 + found["length"])))
