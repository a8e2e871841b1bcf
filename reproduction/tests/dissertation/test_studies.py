"""Studies of the Dissertation: formulas, accounting, the cited code's steps, what is judged, and micro runs."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from reproduction.tests.tables import SEEDS
from tacit import algorithms, objectives
from tacit.core.contract import Noise
from tacit.privacy import gaussian
from tacit.streams import Batch, from_function
from tacit_reproduction.dissertation import budget, constrained, dynamic, lagrangian, mnist, mnist_parts, three_clients
from tacit_reproduction.dissertation.growth import jackknife, sublinear
from tacit_reproduction.study import finished_run

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


@pytest.mark.parametrize(("totals", "outcome"), [
    (power(0.5), "holds"), (power(1.3), "fails"), (-power(1.0), "holds"),
    (np.hstack([power(1.0)[:, :2], 1e-3 * JITTER[:, None]]), "holds"),  # from high to nothing
    (np.hstack([-power(1.0)[:, :2], JITTER[:, None]]), "open"),  # on its way up
    (np.hstack([-power(1.0)[:, :2], power(1.0)[:, 2:]]), "fails"),  # too seldom above 0 for a slope, but above
])  # fmt: skip
def test_growth_is_held_against_the_number_of_rounds(totals: np.ndarray, outcome: str) -> None:
    assert sublinear("c", np.array([100.0, 400.0, 1600.0]), {"good": power(0.2), "this": totals}).outcome == outcome


@pytest.mark.parametrize("noise", ["scaled", "unscaled"])
def test_both_readings_of_the_noise_are_the_text_s(noise: str) -> None:
    made, b = three_clients.mechanism(noise), math.log(50) ** 2 / 0.1
    noisy, (ten, one, bound) = np.array([1.0, -20.0, 3.0, 40.0, 0.0]), map(jnp.asarray, (10.0, 1.0, b))
    assert made.finish is not None
    found = made.finish(jnp.asarray(noisy), Noise("bounded_laplace", ten, one, bound))
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


def images() -> mnist_parts.Images:
    """Digits that are easy to tell: digit k is a bright row k + 4 under noise."""
    rng = np.random.default_rng(0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 10, count, np.int32)
        x = 0.1 * rng.random((count, 28, 28))
        x[np.arange(count), y + 4] += 0.9
        return np.rint(255 * x).reshape(count, 784).astype(np.uint8), y

    return mnist_parts.Images(*draw(600), *draw(61), "rows of light")


def test_links_are_up_after_the_local_steps_and_down_at_the_end() -> None:
    weights = mnist_parts.network(True, 1, 20).matrix().toarray()
    assert np.unique(weights.round(6)).tolist() == [0, 0.2]
    for graph in mnist_parts.network(False, 5, 100).links.values():
        up = [graph.dynamics.links_in(t, graph.senders, graph.receivers).all() for t in range(1, 102)]
        assert np.flatnonzero(up).tolist() == list(range(4, 100, 5))


@pytest.mark.parametrize("local", [1, 3])
def test_steps_of_the_cited_code(local: int) -> None:
    """Against a slow transcription: momentum in each client, begun anew whenever the server has answered."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 10, 4, 2)).astype(np.float32), rng.normal(size=(6, 10, 4)).astype(np.float32)
    stream = from_function(lambda a, b: Batch(x[a:b], y[a:b]), agents=10, rounds=6)
    quiet = gaussian(1e-9, 100.0, perturbs="gradient")
    method = mnist_parts.with_momentum(algorithms.fedavg(objectives.squared(), 0.1, quiet), 0.1, 0.9)
    found = finished_run(method, mnist_parts.network(False, local, 6), stream, rounds=6).models[0]
    w, v = np.zeros((10, 2)), np.zeros((10, 2))
    for t in range(6):
        v = 0.9 * v + np.einsum("ab,abd->ad", np.einsum("abd,ad->ab", x[t], w) - y[t], x[t]) / 4
        w = w - 0.1 * v
        if (t + 1) % local == 0:
            w, v = np.tile(w.mean(axis=0), (10, 1)), 0 * v
    np.testing.assert_allclose(found, w, rtol=1e-4, atol=1e-6)


def test_sampled_noise_is_accounted_as_the_cited_notebook_prints_it() -> None:
    """Its output: rate 5 %, 4,000 steps, noise multiplier 2.6918, eps = 6 at delta = 1e-5; whole orders cost a little."""
    assert 6.0 <= mnist_parts.sampled_epsilon(2.691766953138113, 0.05, 4000, 1e-5) < 6.06
    multiplier = mnist_parts.sampled_multiplier(0.05, 4000, 6.0, 1e-5)
    assert mnist_parts.sampled_epsilon(multiplier, 0.05, 4000, 1e-5) == pytest.approx(6.0, rel=1e-6)


def test_a_record_s_epsilon_by_hand() -> None:
    assert mnist_parts.record_level(0.1, 1_663_370, 4) == pytest.approx((665_348, 34_500), rel=1e-3)


def test_one_release_is_told_as_the_closed_form_has_it() -> None:
    """One coordinate: gradients are means of grey values over 510, a white image moves theirs by 1 / 2 at most."""
    objective = objectives.from_loss(lambda w, batch: w * jnp.mean(batch.x / 510.0), jnp.zeros(()))
    batch = Batch(np.zeros((8, 784), np.float32), np.zeros(8, np.int32))
    found = mnist_parts.told_apart(objective, [batch], 4.0, 0, draws=20_000)[0]
    assert found == pytest.approx(100 * (1 - math.exp(-4.0 * 0.5 / 2) / 2), abs=1.5)
    assert mnist_parts.told_apart(objective, [batch], 1e-3, 0, draws=20_000)[0] == pytest.approx(50, abs=1.5)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "load", images)
    monkeypatch.setattr(mnist, "DESIGNS", {"quick": mnist.Design({"channels": (2, 2), "hidden": 8}, 8, 0.3, 20, 61)})


@pytest.mark.usefixtures("tiny")
def test_a_small_run_learns_and_judges_three_moments() -> None:
    found = mnist.run((mnist.Cell("quick", "proposed", math.inf), 1, 0))
    assert found["mean"] > 25
    assert found["curve"].shape == (1, 5)
    np.testing.assert_array_equal(found["rounds"], [4, 8, 12, 16, 20])


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_a_server_s_clients_hold_one_model_and_noise_of_the_cited_code_is_felt() -> None:
    fedavg = mnist.run((mnist.Cell("quick", "fedavg", math.inf), 1, 0))
    assert fedavg["mixed"] == pytest.approx(fedavg["mean"])
    assert mnist.run((mnist.Cell("quick", "cited 5", 0.1), 1, 0))["mean"] < 25
    assert mnist.run((mnist.Cell("quick", "proposed", 0.5), 1, 0))["told"][0] > 62.3  # e^0.5 / (1 + e^0.5)
