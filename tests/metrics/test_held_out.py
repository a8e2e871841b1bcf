"""Final models on held-out rows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, DataError
from tacit.metrics import HeldOut, evaluate_models
from tacit.metrics.held_out import constant_of

# Two agents: one looks at the first column, the other at the second. Rows 0 and 1 are agent 0's, row 2 agent 1's.
MODELS = jnp.array([[[1.0, 0.0], [0.0, 3.0]]])
X = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]], np.float32)
Y = np.array([1.0, -1.0, -1.0], np.float32)
OWNER = np.array([0, 0, 1])


def test_whose_model_predicts() -> None:
    held = HeldOut(X, Y, OWNER, ("north", "south"), constant=np.array([0.75, 0.25]))
    found = evaluate_models(tacit.objectives.logistic(), MODELS, [held], "binary")
    assert found.shown == "own"
    accuracy = {whose: float(scores["accuracy"][0]) for whose, scores in found.scores.items()}
    # Own: all three right. Each: agent 0 has rows 0 and 1, agent 1 has row 2. Mean (0.5, 1.5): row 2 alone.
    assert accuracy == pytest.approx({"own": 1.0, "each": (2 / 3 + 1 / 3) / 2, "mean": 1 / 3})
    assert [(each.owner, each.rows, each.scores["accuracy"]) for each in found.by_owner] == [
        ("north", 2, 1.0),
        ("south", 1, 1.0),
    ]
    assert found.constant["accuracy"].tolist() == pytest.approx([2 / 3])
    assert found.constant["ROC AUC"].tolist() == [0.5]
    assert found.constant["log loss"].tolist() == pytest.approx([-(2 * np.log(0.75) + np.log(0.25)) / 3])


def test_rows_of_nobody_are_judged_by_everybody() -> None:
    for owner in (None, np.array([0, -1, 1])):
        found = evaluate_models(tacit.objectives.hinge(), MODELS, [HeldOut(X, Y, owner)], "binary")
        assert (found.shown, "own" in found.scores) == ("each", False)
        assert np.isnan(found.scores["each"]["log loss"]).all()  # a margin is no probability


def test_a_model_that_diverged_is_not_left_out_of_a_mean() -> None:
    models = jnp.concatenate([MODELS, MODELS.at[0, 1].set(jnp.nan)])
    found = evaluate_models(tacit.objectives.logistic(), models, [HeldOut(X, Y, OWNER)], "binary")
    assert np.isnan(found.scores["each"]["accuracy"]).tolist() == [False, True]
    assert [np.isnan(each.scores["accuracy"]) for each in found.by_owner] == [False, True]


def test_numbers_beside_the_mean_of_what_was_learnt() -> None:
    held = HeldOut(X, np.array([1.0, -1.0, 2.0]), constant=constant_of(np.array([0.0, 1.0]), "regression"))
    found = evaluate_models(tacit.objectives.squared(), MODELS[:, :1], [held], "regression")
    assert found.scores["each"]["MAE"].tolist() == pytest.approx([1 / 3])
    assert found.constant["MAE"].tolist() == pytest.approx([(0.5 + 1.5 + 1.5) / 3])


def learnt(labels: np.ndarray, x: np.ndarray, **settings) -> tacit.Run:
    owner = np.arange(len(x)) % 4
    stream = tacit.streams.from_arrays(x, labels, owner, **settings)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
    return tacit.simulate(method, tacit.graphs.complete(4), stream, rounds=stream.rounds or 300)


def test_labels_of_a_coin_are_not_learnt() -> None:
    """Held out, 2,000 tosses are right by half: outside of 0.5 +- 0.056 (five deviations) once in 1.7 million runs."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2040, 40)), rng.integers(2, size=2040)
    run = learnt(y[:40], x[:40], exhausted="cycle")
    assert run.reads().most > 10
    assert run.record().training
    assert run.metrics()["accuracy"]["mean"] > 0.6  # what was read before is remembered
    run.evaluate(x[40:], y[40:], owner=np.arange(2000) % 4)
    assert run.evaluation is not None
    for scores in run.evaluation.scores.values():
        assert abs(scores["accuracy"][0] - 0.5) < 0.056
    assert "held-out accuracy" in run.metrics()
    title = tacit.results.Comparison((run.record(),)).columns()
    assert any("accuracy" in name and "training" in name for name in title)


def test_a_run_that_reads_once_says_so_and_has_a_constant_beside_it() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 2))
    run = learnt(np.sign(x[:, 0]), x)
    assert run.reads() == (1, 1, 0, 40)
    comparison = tacit.results.Comparison((run.record(),))
    assert not any("training" in name for name in comparison.columns())
    (line,) = comparison.further_rows()
    assert line[0] == "a constant"
    assert len(line) == len(comparison.columns())


def test_faults_are_named() -> None:
    x = np.random.default_rng(7).normal(size=(8, 2))
    run = learnt(np.sign(x[:, 0]), x)
    with pytest.raises(DataError, match="agents 0 to 3"):
        run.evaluate(x, np.sign(x[:, 0]), owner=np.full(8, 4))
    with pytest.raises(DataError, match="8 rows"):
        run.evaluate(x, np.sign(x[:, 0]), owner=["north"] * 8)
    own = tacit.objectives.from_loss(lambda params, batch: jnp.sum(params), np.zeros(2))
    with pytest.raises(ConfigError, match="predict"):
        evaluate_models(own, MODELS, [HeldOut(X, Y)], "binary")


def test_rows_and_classes_that_the_models_do_not_have_are_refused() -> None:
    """One column would be taken for all of them, by the rules of arrays."""
    x, y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    stream = tacit.streams.from_arrays(x, y, np.arange(12) % 2, task="multiclass")
    method = tacit.algorithms.online_push_sum(tacit.objectives.softmax(3), step=0.5)
    run = tacit.simulate(method, tacit.graphs.ring(2), stream, rounds=6)
    for columns in (1, 2):
        with pytest.raises(DataError, match=rf"\[{columns}\].*\[3\]"):
            run.evaluate(x[:, :columns], y)
    with pytest.raises(DataError, match="class 3"):
        run.evaluate(x, y + 1)
    beyond = tacit.streams.from_arrays(x, y + 1, np.arange(12) % 2, task="multiclass")
    assert tacit.simulate(method, tacit.graphs.ring(2), beyond, rounds=6).constant() == {}


def test_a_loss_of_the_users_own_need_not_be_hashable() -> None:
    class Distance:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, params, batch):
            return jnp.mean(jnp.square(batch.x @ params - batch.y))

    objective = tacit.objectives.from_loss(Distance(), lambda batch: jnp.zeros(batch.x.shape[-1]))
    stream = tacit.streams.from_arrays(np.ones((6, 2)), np.tile([0, 1], 3), np.arange(6) % 2)
    method = tacit.algorithms.online_push_sum(objective, step=0.1)
    assert tacit.simulate(method, tacit.graphs.ring(2), stream, rounds=3).record().label


def test_who_has_no_rows_left_counts_neither_way() -> None:
    """Agents of three rows and of one: the average is over four predictions, not over six."""
    x, y = np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([1, 1, 1, -1])
    stream = tacit.streams.from_arrays(x, y, [[0, 1, 2], [3]], shuffle_seed=None)
    method = tacit.algorithms.local_online(tacit.objectives.logistic(), step=1e-9)
    run = tacit.simulate(method, tacit.graphs.complete(2), stream, rounds=3, record_every=1)
    assert run.average_loss() == pytest.approx(np.log(2))
    np.testing.assert_allclose(run.running_average("loss"), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(run.per_round["loss"][0], np.log(2) * np.array([1, 0.5, 0.5]), rtol=1e-6)
    np.testing.assert_allclose(run.judged()[0], [1.0, 1.5, 2.0])
    np.testing.assert_allclose(run.record().trace.judged[0], [1.0, 1.5, 2.0])
