"""Online learners: samples that wait, many at once, classes that come later, copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.core.errors import ConfigError, DataError, TacitWarning
from tacit.interop import OnlineClassifier, OnlineRegressor
from tacit.interop.compiled_agent import QUEUE, CompiledAgent
from tacit.interop.solo import SoloAgent

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2 * QUEUE + 9, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
ROWS = FRAME.to_dict("records")
NUMBERS = X @ [1.0, -2.0, 0.5]
KINDS = np.where(NUMBERS > 1, "high", np.where(NUMBERS < -1, "low", "middle"))
NOISE = tacit.privacy.laplace(epsilon=0.5, clip=1.0)


@pytest.mark.parametrize("name", ["online_push_sum", "fedavg", "pso_fed"])
def test_it_computes_what_a_peers_machine_does(name: str) -> None:
    method = tacit.algorithms.find(name)
    algorithm = method.constructor(tacit.objectives.logistic(), **(method.example_settings or {}))
    compiled, machine = (kind(algorithm, 3, np.float32, seed=3) for kind in (CompiledAgent, SoloAgent))
    for x, y in zip(X[:6], np.sign(NUMBERS), strict=False):
        compiled.learn(x, y)
        machine.learn(x, y)
        assert compiled.output(X[0]) == machine.output(X[0])
    assert compiled.round == machine.round == 6
    assert not compiled.privacy.private


def test_waiting_cannot_be_seen() -> None:
    asked, silent, at_once = (OnlineRegressor(features=["a", "b", "c"], parameters={"step": 0.05}) for _ in range(3))
    for x, y in zip(ROWS, NUMBERS.tolist(), strict=True):
        asked.predict_one(x)
        asked.learn_one(x, y)
        silent.learn_one(x, y)
    at_once.learn_many(FRAME, pd.Series(NUMBERS))
    said = asked.predict_one(ROWS[0])
    assert silent.predict_one(ROWS[0]) == said == at_once.predict_one(ROWS[0])
    many = asked.predict_many(FRAME)
    np.testing.assert_allclose(many, [asked.predict_one(x) for x in ROWS], rtol=1e-5, atol=1e-6)
    assert many.index.equals(FRAME.index)
    assert asked.predict_many(FRAME[:0]).empty
    assert said == pytest.approx(NUMBERS[0], abs=0.1)


def test_an_interrupted_step_loses_and_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = (OnlineRegressor(features=["a", "b", "c"], parameters={"step": 0.05}) for _ in range(2))
    whole.learn_many(FRAME, NUMBERS)
    advance, broken = CompiledAgent._advance, []

    def interrupted(agent: CompiledAgent) -> object:
        if not broken:
            broken.append(agent)
            raise KeyboardInterrupt
        return advance(agent)

    monkeypatch.setattr(CompiledAgent, "_advance", interrupted)
    for x, y in zip(ROWS, NUMBERS.tolist(), strict=True):
        try:
            cut.learn_one(x, y)
        except KeyboardInterrupt:
            cut.learn_one(x, y)
    assert broken
    assert cut._agent.round == len(ROWS)
    assert cut.predict_one(ROWS[0]) == whole.predict_one(ROWS[0])


def test_a_class_that_could_not_be_taken_up_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = OnlineClassifier(features=["a"])
    for y in ("no", "yes"):
        learner.learn_one({"a": 1.0}, y)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OnlineClassifier, "_new_agent", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.learn_one({"a": 1.0}, "perhaps")
    assert list(learner.predict_proba_one({"a": 1.0})) == ["no", "yes"]
    learner.learn_one({"a": 1.0}, "perhaps")
    assert list(learner.predict_proba_one({"a": 1.0})) == ["no", "yes", "perhaps"]


def test_nothing_private_waits() -> None:
    learner = OnlineClassifier(features=["a"], classes=["no", "yes"], mechanism=NOISE, parameters={"step": 1e-3})
    learner.learn_one({"a": 1.0}, "yes")
    assert isinstance(learner._agent, SoloAgent)
    assert learner._agent._books.last is not None  # booked before anything could be asked
    assert learner._agent.round == 1
    learner.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), ["no", "yes"])
    assert learner._agent.round == 3
    assert learner.privacy.guarantee.epsilon == pytest.approx(0.5, rel=1e-3)
    assert set(learner.predict_many(pd.DataFrame({"a": [1.0, 2.0]}))) <= {"no", "yes"}
    with pytest.raises(ConfigError, match="cannot be copied"):
        pickle.dumps(learner)
    with pytest.raises(DataError, match="'perhaps'"):
        learner.learn_one({"a": 1.0}, "perhaps")


def test_a_class_that_comes_later_begins_with_what_was_learnt() -> None:
    learner = OnlineClassifier(features=["a", "b", "c"], parameters={"step": 0.3})
    assert learner._agent is None  # made when it is needed
    early = KINDS != "middle"
    learner.learn_many(FRAME[early], KINDS[early])
    before = learner.predict_proba_one(ROWS[0])
    rounds = learner._agent.round
    learner._meet("middle")
    after = learner.predict_proba_one(ROWS[0])
    assert list(after) == [*before, "middle"]
    odds = [shares["high"] / shares["low"] for shares in (before, after)]
    assert odds[0] == pytest.approx(odds[1], rel=1e-4)
    assert learner._agent.round == rounds == early.sum()
    for _ in range(3):
        learner.learn_many(FRAME, KINDS)
    learner.learn_one(ROWS[0], "fourth")
    assert len(learner.predict_proba_one(ROWS[0])) == 4
    assert np.mean(learner.predict_many(FRAME).to_numpy() == KINDS) > 0.75
    shares = learner.predict_proba_many(FRAME[:2])
    assert list(shares.columns) == list(learner._known)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_one_by_one_or_at_once_classes_come_in_the_same_order() -> None:
    one, many = (OnlineClassifier(features=4, parameters={"step": 0.2}) for _ in range(2))
    for x, y in zip(ROWS[:20], KINDS.tolist(), strict=False):
        one.learn_one(x, y)
    many.learn_many(FRAME[:20], KINDS[:20])
    assert one.predict_proba_one(ROWS[5]) == pytest.approx(many.predict_proba_one(ROWS[5]))


@pytest.mark.parametrize("settings", [{"classes": ["high", "low"]}, {"objective": "logistic"}, {"objective": "hinge"}])
def test_a_class_without_room_is_refused_before_anything_is_learnt(settings) -> None:
    learner = OnlineClassifier(features=["a", "b", "c"], **settings)
    with pytest.raises(DataError, match="class 'middle' .*classes="):
        learner.learn_many(FRAME, [*["high", "low"] * (len(FRAME) // 2), "middle"])
    assert learner._agent is None
    assert len(learner._known) == len(settings.get("classes", []))


@pytest.mark.parametrize("y", [None, float("nan"), pd.NA, pd.NaT, ["a list"]])
def test_labels_that_are_none(y) -> None:
    with pytest.raises(DataError, match="expected a class"):
        OnlineClassifier().learn_one({"a": 1.0}, y)
    with pytest.raises(DataError, match="y is"):
        OnlineRegressor().learn_one({"a": 1.0}, y)


def test_numbers_that_no_float_holds() -> None:
    learner = OnlineRegressor()
    for x, y in [({"a": 10**400}, 1.0), ({"a": 1.0}, -(10**400))]:
        with pytest.raises(DataError, match=r"1,329 bits.*finite"):
            learner.learn_one(x, y)
    assert learner._columns.column == {}
    with pytest.raises(DataError, match="list"):
        learner.predict_many([{"a": 1.0}])


def test_two_classes_by_softmax() -> None:
    learner = OnlineClassifier(objective="softmax", features=["a", "b", "c"], parameters={"step": 0.3})
    learner.learn_many(FRAME, NUMBERS > 0)
    assert np.mean(learner.predict_many(FRAME) == (NUMBERS > 0)) > 0.9
    with pytest.raises(ConfigError, match="hinge.* 3"):
        OnlineClassifier(objective="hinge", classes=[1, 2, 3]).predict_one({"a": 1.0})


def test_a_copy_keeps_its_classes_to_itself() -> None:
    learner = OnlineClassifier(features=2)
    for y in ("no", "yes"):
        learner.learn_one({"a": 1.0}, y)
    copy.copy(learner).learn_one({"b": 1.0}, "perhaps")
    assert list(learner.predict_proba_one({"a": 1.0})) == ["no", "yes"]
    assert list(learner._columns.column) == ["a"]


def test_copies_go_on_alike() -> None:
    learner = OnlineClassifier(features=["a", "b", "c"], classes=[False, True])
    for x, y in zip(ROWS[:5], (NUMBERS > 0).tolist(), strict=False):
        learner.learn_one(x, y)
    others = [pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), learner.clone(include_attributes=True)]
    for other in others:
        other.learn_one(ROWS[7], True)
    learner.learn_one(ROWS[7], True)
    assert {model.predict_proba_one(ROWS[1])[True] for model in (learner, *others)} == {
        learner.predict_proba_one(ROWS[1])[True]
    }
    assert learner.clone().predict_proba_one(ROWS[1])[True] == 0.5
    with pytest.raises(ConfigError, match="new_params"):
        learner.clone({"seed": 1}, include_attributes=True)


def test_columns_of_a_frame() -> None:
    learner = OnlineRegressor(features=3, parameters={"step": 0.1})
    mixed = pd.DataFrame(
        {"b": [1.0, np.nan], "a": [True, False], "n": pd.array([3, None], "Int64"), "empty": [None] * 2}
    )
    learner.learn_many(mixed, [1.0, 2.0])
    assert list(learner._columns.column) == ["a", "b", "n"]
    one = learner.predict_one({"a": True, "b": 1.0, "n": 3})
    assert learner.predict_many(mixed.assign(z="word"))[0] == pytest.approx(one, rel=1e-6)  # z is not known
    for bad, message in [
        (mixed.assign(a="word"), "feature 'a' is 'word'"),
        (mixed.assign(a=[1.0, np.inf]), "feature 'a' is .*inf.* row 1"),
        (mixed.assign(z=[1.0, 2.0]), "feature 'z' .* 3 .*features=6"),
        (pd.concat([mixed, mixed[["a"]]], axis=1), "twice"),
    ]:
        with pytest.raises(DataError, match=message):
            learner.learn_many(bad, [1.0, 2.0])
    assert list(learner._columns.column) == ["a", "b", "n"]
    for y, message in [([1.0], "2 rows"), ([1.0, np.nan], "nan in row 1")]:
        with pytest.raises(DataError, match=message):
            learner.learn_many(mixed, y)
    with pytest.raises(DataError, match="list"):
        learner.learn_many([[1.0]], [1.0])


def test_a_model_that_is_lost_is_said_once() -> None:
    learner = OnlineRegressor(features=["a"], parameters={"step": 1e3})
    learner.learn_many(pd.DataFrame({"a": np.full(40, 9.0)}), np.ones(40))
    with pytest.warns(TacitWarning, match="step"):
        assert not np.isfinite(learner.predict_one({"a": 1.0}))
    assert not np.isfinite(learner.predict_many(pd.DataFrame({"a": [1.0]}))).any()  # and no second warning


def test_a_program_is_compiled_once() -> None:
    import jax
    import jax.numpy as jnp

    from tacit.runtime import programs

    def program(number: float, called: bool = False, second: bool = False, constant: float = 1.0):
        many = jnp.full(100, constant)

        def work(x, y):
            if called:
                jax.debug.callback(lambda value: None, x)
            return (y if second else x) * number * many[0]

        return programs.compiled(work, jnp.zeros(3), jnp.zeros(3))

    same = program(2.0)
    assert program(2.0) is same
    others = [program(3.0), program(2.0, second=True), program(2.0, called=True), program(2.0, constant=5.0)]
    assert len({id(found) for found in (same, *others)}) == 5
    x, y = jnp.ones(3), jnp.full(3, 7.0)
    assert [float(found(x, y)[0]) for found in (same, *others)] == [2.0, 3.0, 14.0, 2.0, 10.0]
    assert program(2.0, called=True) is not others[2]
    assert len(programs._kept) <= programs.MOST
