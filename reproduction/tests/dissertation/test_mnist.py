"""The network without a server: accounting, the cited code's steps, what is judged, verdicts, a micro run."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from tacit import algorithms, objectives
from tacit.privacy import gaussian
from tacit.streams import Batch, from_function
from tacit_reproduction.dissertation import mnist, mnist_parts
from tacit_reproduction.study import finished_run


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
