"""Studies of the OPS paper and of Li et al.: runs by the equations, samples, and what is chosen on other seeds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import ConfigError
from tacit_reproduction.li import accuracies, minibatch
from tacit_reproduction.li.accuracies import Documents, Representation
from tacit_reproduction.li.dola import Samples, dealt, learner, measured, network, simulated, streams_of, unit_ball
from tacit_reproduction.ops import runs
from tacit_reproduction.ops.push_sum import OCCUPANCY_FULL, OCCUPANCY_QUICK, SUSY_FULL, SUSY_QUICK
from tacit_reproduction.ops.runs import FRACTIONS, Network, Task, deal_out, losses, run, stream


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Documents:
    """Two blobs, as if they were documents."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.5, 1, -1).astype(np.float32)
    found = Documents((rng.normal(size=(120, 80)) + 0.5 * y[:, None]).astype(np.float32), y, 90, "two blobs")
    for module in (accuracies, minibatch):
        monkeypatch.setattr(module, "load", lambda columns: found)
    return found


def judged_by_hand(samples: Any, l2: float) -> tuple[np.ndarray, np.ndarray]:
    """DOLA of one node without noise: plain hinge at each round's model."""
    w, losses = np.zeros(10), []
    for t, (x, y) in enumerate(samples, start=1):
        losses.append(max(0.0, 1 - y * (x @ w)))
        w = w - (l2 * w - y * x * (y * (x @ w) < 1)) / (l2 * t)
        w = w * min(1.0, l2**-0.5 / np.linalg.norm(w))
    return np.array(losses), w


@pytest.mark.parametrize("judged", ["mixture", "own"])
def test_a_node_learns_as_the_equations_say_and_is_judged_by_the_plain_hinge(judged: str) -> None:
    streams = streams_of(lambda seed: dealt(unit_ball(24, seed), 1, 1, seed, "ball"), 1, 5)
    found = simulated(learner(0.5, 0.0, judged), network(1, "pairs"), streams)
    batch = streams[5].chunk(0, 24)
    rows = zip(np.asarray(batch.x, np.float64).reshape(24, 10), np.asarray(batch.y).ravel(), strict=True)
    losses, last = judged_by_hand(rows, 0.5)
    np.testing.assert_allclose(found.per_round["hinge"][0], losses, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.ravel(found.models), last, rtol=1e-4, atol=1e-6)
    regret = measured(found)
    best = losses.mean() - regret["final"][0]
    assert best == pytest.approx(1 - regret["idle"][0], rel=1e-6)
    x, y = np.asarray(batch.x, np.float64).reshape(24, 10), np.asarray(batch.y).ravel()
    tried = np.random.default_rng(0).normal(size=(4000, 10))
    tried *= 2**0.5 / np.linalg.norm(tried, axis=1, keepdims=True)
    assert best <= np.maximum(0, 1 - y * (tried @ x.T)).mean(axis=1).min() + 1e-6


def test_judged_before_noise_models_keep_to_the_ball_and_nothing_is_promised() -> None:
    streams = streams_of(lambda seed: dealt(unit_ball(40, seed), 4, 1, seed, "ball"), 2, 0)
    runs = {at: simulated(learner(1.0, 0.1, at), network(4, "all"), streams) for at in ("own", "mixture")}
    longest = {at: np.linalg.norm(run.models, axis=-1).max() for at, run in runs.items()}
    assert longest["own"] <= 1 + 1e-5 < longest["mixture"]
    assert not runs["own"].privacy.private
    guarantee = runs["mixture"].privacy.guarantee
    assert guarantee is not None
    assert guarantee.epsilon == pytest.approx(0.1, rel=1e-6)


def test_points_lie_in_the_ball_and_every_one_is_dealt_once() -> None:
    samples = unit_ball(400, 3)
    lengths = np.linalg.norm(samples.x.astype(np.float64), axis=1)
    assert lengths.max() <= 1
    assert 0.85 < lengths.mean() < 0.97  # d / (d + 1) = 0.909; a standard error is 0.004
    found = dealt(Samples(samples.x[:24], samples.y[:24]), 4, 3, 7, "x")
    assert (found.agents, found.rounds, found.reads(2).max()) == (4, 2, 1)


def test_rows_are_scaled_and_cut(made_up: Documents) -> None:
    full, few = made_up.represented(Representation(10)), made_up.represented(Representation(10, 3))
    np.testing.assert_allclose(np.linalg.norm(full, axis=1), 1, atol=1e-5)
    assert np.all((few != 0).sum(axis=1) == 3)
    assert np.all(np.abs(few.astype(np.float64)).sum(axis=1) <= 1)
    assert Representation(14, 3).clip == 1
    assert Representation(50).clip == pytest.approx((100 / np.pi) ** 0.5)
    assert accuracies.ROUNDED_DOWN < 1


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_exchanges_average_exactly(nodes: int) -> None:
    graph, product = accuracies.exchanges(nodes).with_weights("metropolis"), np.eye(nodes)
    for t in range(1, nodes.bit_length()):
        product = graph.matrix(t).toarray() @ product
    np.testing.assert_allclose(product, 1 / nodes)
    with pytest.raises(ConfigError, match="nodes = 6"):
        accuracies.exchanges(6)


@pytest.mark.usefixtures("made_up")
def test_one_release_costs_its_epsilon_once_and_without_noise_is_the_mean_gradient(made_up: Documents) -> None:
    training, test = made_up.split(Representation(6))
    found = accuracies.released(accuracies.Cell("release", 1.0, 0.5, 4, 6), training, 2, 5)
    assert found.privacy.guarantee.epsilon == pytest.approx(0.5, rel=1e-6)
    assert found.privacy.reads == 1
    exact = accuracies.released(accuracies.Cell("release", 1.0, 0.0, 2, 6), training, 1, 5)
    mean = (training.x * training.y[:, None]).mean(axis=0)
    np.testing.assert_allclose(np.asarray(exact.models)[0], [mean, mean], rtol=1e-4, atol=1e-6)
    alone = accuracies.run((accuracies.Cell("alone", 0.1, 0.0, 4, 6), 2, 5))
    assert set(alone) == {"network", "own"}
    np.testing.assert_array_equal(alone["network"], alone["own"])  # one node
    assert np.all(accuracies.accuracy(np.broadcast_to(mean, (1, 2, 6)), test) > 60)


@pytest.mark.covered_by("runs by the equations")
def test_a_small_run_has_a_row_for_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EXAMPLES", (80, 80)), ("EPSILONS", (1.0,)), ("SETTINGS", minibatch.SETTINGS[:1])):
        monkeypatch.setattr(minibatch, name, value)
    (found,) = minibatch.run((minibatch.Task(minibatch.BALL, 5, minibatch.SETTINGS[0].l2, True), 2, 0))
    assert (found.factors["epsilon"], found.factors["judged"], found.measures["final"].shape) == (1.0, "own", (2,))


def test_variance_ratio_has_the_interval_of_the_f_distribution() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 21)) * np.array([[3.0], [1.0]])
    found = minibatch.variance_ratio(a, b)
    assert found.mean == pytest.approx(a.var(ddof=1) / b.var(ddof=1))
    # F(20, 20) has its 97.5 % quantile at 2.4645 (tables), and 1 / 2.4645 at 2.5 %.
    assert found.mean / found.low == pytest.approx(2.4645, abs=1e-3)
    assert found.high / found.mean == pytest.approx(2.4645, abs=1e-3)


ROUNDS = 12


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blobs instead of the data."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, 1, -1).astype(np.float32)
    data = SimpleNamespace(x=(rng.normal(size=(60, 3)) + 0.8 * y[:, None]).astype(np.float32), y=y, description="two")
    monkeypatch.setattr(runs, "load", lambda name: data)
    monkeypatch.setattr("tacit_reproduction.ops.push_sum.load", lambda name: data)
    deal_out.cache_clear()


TINY = OCCUPANCY_QUICK._replace(
    main=Network(5, 2), sizes=(4, 5), dense=(Network(5, 1), Network(5, 2)), seeds=2, tuning_seeds=1, ratio=4.0
)
TASK = Task(TINY._replace(starts={"OPS": 0.5}), "OPS", TINY.main, 3)


@pytest.mark.usefixtures("blobs")
def test_every_sample_is_dealt_once_and_methods_meet_the_same_ones() -> None:
    for fraction in FRACTIONS:
        held = np.bincount(deal_out("any", 5, fraction, 0), minlength=5)
        assert held.sum() == 60
        assert held.min() > 0
    assert np.ptp(np.bincount(deal_out("any", 5, 1.0, 0))) <= 1
    again = [stream(TASK._replace(method=method), 0.5, 3).chunk(0, ROUNDS).x for method in ("OPS", "COL")]
    np.testing.assert_array_equal(*again)
    assert np.all(again[0][..., -1] == 1)


@pytest.mark.usefixtures("blobs")
def test_push_sum_is_that_of_its_equations() -> None:
    found = losses(TASK, 1.0, 0.5, 3, 1)[0]
    graph = runs.random_digraph(5, 2, seed=10).with_weights("sender")
    weights, batch = graph.matrix(1).toarray(), stream(TASK, 1.0, 3).chunk(0, ROUNDS)
    x, y = np.asarray(batch.x, np.float64).reshape(ROUNDS, 5, 4), np.asarray(batch.y, np.float64).reshape(ROUNDS, 5)
    value, mass = np.zeros((5, 4)), np.ones(5)
    for t in range(ROUNDS):
        model = value / mass[:, None]
        margin = y[t] * (x[t] * model).sum(axis=1)
        loss = np.log1p(np.exp(-margin)) + 5e-5 * (model**2).sum(axis=1)
        assert found[t] == pytest.approx(loss.mean(), rel=1e-4)
        gradient = -(y[t] / (1 + np.exp(margin)))[:, None] * x[t] + 1e-4 * model
        value, mass = weights @ (value - 0.5 * gradient), weights @ mass


@pytest.mark.usefixtures("blobs")
def test_a_run_ends_at_its_average_and_chooses_its_step_on_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def counted(task: Task, fraction: float, step: float, first: int, seeds: int) -> Any:
        asked.append((first, seeds))
        return np.full((seeds, ROUNDS), 0.3 + np.log2(step) ** 2)

    monkeypatch.setattr(runs, "losses", counted)
    found = run(TASK)
    assert set(asked) == {(503, 1), (3, 2)}
    np.testing.assert_allclose(found[0.5]["average"], found[0.5]["running"][:, -1])
    assert set(found[1.0]["step"]) == {0.5}  # of 0.5, 2 and 0.125 the nearest to 1
    for design in (OCCUPANCY_FULL, OCCUPANCY_QUICK, SUSY_FULL, SUSY_QUICK):
        assert max(design.seeds, design.tuning_seeds) < runs.TUNING_OFFSET
