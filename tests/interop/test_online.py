"""Online learners of one agent."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, DataError
from tacit.interop import OnlineClassifier, OnlineRegressor
from tests.deploy.peers import alone

RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(30, 2)).astype(np.float32)
TARGET = (ROWS[:, 0] - 2 * ROWS[:, 1] + 0.5).astype(np.float32)
SAMPLES = [{"a": float(a), "b": float(b)} for a, b in ROWS]


@pytest.fixture(scope="module")
def regressor() -> OnlineRegressor:
    learner = OnlineRegressor("adapt_then_combine", parameters={"step": 0.2}, features=["a", "b"])
    for x, y in zip(SAMPLES, TARGET.tolist(), strict=True):
        learner.learn_one(x, y)
    return learner


def test_it_goes_the_way_of_the_simulator(regressor: OnlineRegressor) -> None:
    algorithm = tacit.algorithms.adapt_then_combine(tacit.objectives.squared(), step=0.2)
    x = np.concatenate([ROWS, np.ones((30, 1), np.float32)], axis=1)
    stream = tacit.streams.from_arrays(x, TARGET, [np.arange(30)], shuffle_seed=None, task="regression")
    run = tacit.simulate(algorithm, tacit.graphs.Graph.from_edges(1, [], []), stream, rounds=30)
    model = run.models[0, 0]
    assert regressor.predict_one({"a": 1.0, "b": 3.0}) == pytest.approx(float(model @ [1, 3, 1]), rel=1e-4)
    assert regressor.predict_one({}) == pytest.approx(float(model[2]), rel=1e-4)
    assert abs(regressor.predict_one({"a": 1.0}) - 1.5) < 0.1


def test_what_is_missing_is_zero_and_what_is_unknown_left_aside(regressor: OnlineRegressor) -> None:
    without = regressor.predict_one({"a": 1.0})
    for x in ({"a": 1.0, "b": None}, {"a": True, "b": math.nan}, {"a": np.float32(1), "c": 9.0}):
        assert regressor.predict_one(x) == without
    with pytest.raises(DataError, match="feature 'a' is 'red'"):
        regressor.predict_one({"a": "red"})
    with pytest.raises(DataError, match="feature 'a' is inf.*32-bit"):
        regressor.predict_one({"a": math.inf})
    with pytest.raises(DataError, match="y is nan"):
        regressor.learn_one({"a": 1.0}, math.nan)
    assert not regressor.privacy.private


def test_classes_and_features_come_as_they_are_seen() -> None:
    learner = OnlineClassifier(features=2, parameters={"step": 1e-3})
    assert learner.predict_one({"a": 1.0}) is None
    assert learner.predict_proba_one({"a": 1.0}) == {}
    learner.learn_one({"a": 1.0}, "spam")
    assert learner.predict_one({"a": 1.0}) == "spam"
    learner.learn_one({"b": 1.0}, "ham")
    shares = learner.predict_proba_one({"a": 1.0, "b": 2.0})
    assert list(shares) == ["spam", "ham"]
    assert sum(shares.values()) == pytest.approx(1)
    assert learner.predict_one({"a": 1.0, "b": 2.0}) == max(shares, key=shares.__getitem__)
    with pytest.raises(DataError, match="feature 'c' .* 2 .*features=4"):
        learner.learn_one({"c": 1.0}, "ham")
    assert sorted(learner._columns.column) == ["a", "b"]


def test_noise_is_accounted() -> None:
    noise = tacit.privacy.laplace(epsilon=0.5, clip=1.0)
    learner = OnlineClassifier(features=["a", "b"], classes=["spam", "ham"], mechanism=noise, parameters={"step": 1e-3})
    learner.learn_one({"a": 1.0}, "spam")
    learner.learn_one({"b": 1.0}, "ham")
    spent = learner.privacy.guarantee
    assert spent.epsilon == pytest.approx(0.5, rel=1e-3)  # every sample is a record of its own
    assert spent.private
    assert "mechanism=laplace" in repr(learner)


def test_more_classes_may_be_named() -> None:
    learner = OnlineClassifier("fedavg", classes=["low", "middle", "high"], features=["a"], parameters={"step": 0.5})
    for k in range(12):
        learner.learn_one({"a": float(k % 3 - 1)}, ("low", "middle", "high")[k % 3])
    assert [learner.predict_one({"a": a}) for a in (-2.0, 2.0)] == ["low", "high"]
    assert learner.predict_proba_one({"a": 2.0}).keys() == {"low", "middle", "high"}
    fresh = learner.clone({"seed": 4})
    assert (fresh.seed, fresh.classes, fresh.algorithm) == (4, ["low", "middle", "high"], "fedavg")
    assert fresh.predict_proba_one({"a": 2.0})["low"] == pytest.approx(1 / 3)


@pytest.mark.covered_by("contract/test_accounts.py")
def test_a_method_that_charges_every_record_with_every_round_says_so() -> None:
    noise = tacit.privacy.laplace(epsilon=0.5, clip=1.0)
    limit = tacit.algorithms.find("constrained_mirror_descent").example_settings
    assert limit
    learner = OnlineClassifier(
        "constrained_mirror_descent", parameters=limit, mechanism=noise, features=["a"], classes=[0, 1]
    )
    for k in range(4):
        learner.learn_one({"a": 1.0}, k % 2)
    assert learner.privacy.guarantee.epsilon == pytest.approx(4 * 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ["one"]}, "expected at least two"),
        ({"classes": ["one", "one", "two"]}, "each once"),
        ({"features": ["a", "a"]}, "expected names, each once"),
        ({"features": 0}, "expected names, each once, or how many"),
    ],
)
def test_settings_that_cannot_be(settings, message) -> None:
    with pytest.raises(ConfigError, match=message):
        OnlineClassifier(**settings)
    with pytest.raises(ConfigError, match=r"algorithm 'local_online' with \['pace'\]"):
        OnlineClassifier("local_online", classes=[0, 1], parameters={"pace": 1}).predict_one({"a": 1})
    with pytest.raises(ConfigError, match="learns alone"):
        _ = OnlineClassifier().peer


@pytest.mark.timeout(600)
def test_one_line_makes_it_a_peer(tmp_path) -> None:
    with OnlineClassifier.join(alone(tmp_path), features=["a", "b"], classes=["no", "yes"]) as learner:
        learner.learn_one({"a": 1.0, "b": -1.0}, "yes")
        assert learner.peer.status()["name"] == "hospital-a"
        assert learner.predict_one({"a": 1.0}) in ("no", "yes")
        assert sum(learner.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1)
    learner.close()  # again: it has been stopped
    with pytest.raises(ConfigError, match="2 features .*'binary', .* 1 and 'regression'"):
        OnlineRegressor.join(tmp_path / "hospital-a" / "peer.toml", features=["a"])


def test_river_takes_it_for_one_of_its_own() -> None:
    from river import evaluate, metrics, preprocessing

    samples = [(x, bool(y > 0)) for x, y in zip(SAMPLES, TARGET, strict=True)]
    model = preprocessing.StandardScaler() | OnlineClassifier(parameters={"step": 0.3})
    assert evaluate.progressive_val_score(samples, model.clone(), metrics.Accuracy()).get() > 0.6


QUICK = {"check_pickling_supports_roundtrip", "check_clone_is_independent", "check_no_state_aliasing_with_input"}
"""Of a classifier; all others compile a program for every class that comes."""


@pytest.mark.parametrize(
    ("learner", "quick"),
    [
        # Numbers of river's data go up to 7e5: a longer step would diverge.
        pytest.param(
            OnlineRegressor(parameters={"step": 1e-14}),
            False,
            id="regressor",
            marks=pytest.mark.covered_by("some of the checks, of the classifier"),
        ),
        pytest.param(OnlineClassifier(parameters={"step": 0.01}), True, id="classifier, some"),
        pytest.param(OnlineClassifier(parameters={"step": 0.01}), False, id="classifier", marks=pytest.mark.slow),
    ],
)
def test_rivers_own_checks(learner, quick) -> None:
    from river import checks

    learner = learner.clone()  # made before river was loaded: this one is known to it
    done = 0
    for check in checks.yield_checks(learner):
        if not quick or check.__name__ in QUICK:
            check(learner.clone())
            done += 1
    assert done >= (5 if quick else 25)
