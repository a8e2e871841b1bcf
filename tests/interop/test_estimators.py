"""Estimators for data of several owners."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from tacit.core.errors import ConfigError, PrivacyError, TacitWarning
from tacit.interop import PeerClassifier, PeerRegressor
from tacit.interop.owners import FitError, in_passes
from tacit.interop.scaling import as_it_is

SIZES = (40, 15, 5)
OWNER = np.repeat(["ann", "bob", "cem"], SIZES)
RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, (60, 2))
SCORE = X[:, 0] - X[:, 1]
Y = np.where(SCORE > 0, "yes", "no")


class Frame:
    """As much of a DataFrame as a table with an owner column needs."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)
        self.shape = (60, len(columns))

    def __getitem__(self, name):
        return self._columns[name]

    def __len__(self):
        return 60

    def drop(self, columns):
        return Frame({name: values for name, values in self._columns.items() if name != columns})

    def __array__(self, dtype=None, copy=None):
        return np.stack(list(self._columns.values()), axis=1).astype(dtype or object)


@pytest.fixture(scope="module")
def private() -> PeerClassifier:
    return PeerClassifier(epsilon=50.0, passes=2, public=["classes", "scaling"]).fit(X, Y, owner=OWNER)


@pytest.fixture(scope="module")
def several() -> PeerClassifier:
    kinds = np.digitize(SCORE, [-1, 1])
    return PeerClassifier("fedavg", graph="star", passes=6).fit(X, kinds, owner=OWNER)


def test_a_private_fit_costs_what_was_allowed_and_learns(private: PeerClassifier) -> None:
    assert private.privacy_.guarantee.epsilon == pytest.approx(50.0)
    assert (private.privacy_.reads, private.run_.rounds, private.n_iter_) == (2, 2 * 40, 80)
    assert private.score(X, Y) > 0.85
    assert "which no privacy account covers" in private.run_.stream
    assert private.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(private.predict_proba(X).sum(axis=1), 1)
    assert ((private.predict_proba(X)[:, 1] > 0.5) == (private.predict(X) == "yes")).all()


def test_each_owner_has_a_model_of_its_own(private: PeerClassifier) -> None:
    assert private.owners_.tolist() == ["ann", "bob", "cem"]
    assert private.models_.shape == (3, 3)
    standard = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    standard /= np.linalg.norm(standard, axis=1, keepdims=True)  # private fits learn from rows of norm 1
    own = private.models_[[0] * 40 + [1] * 15 + [2] * 5]
    np.testing.assert_allclose(
        private.decision_function(X, owner=OWNER), (standard * own).sum(axis=1), rtol=1e-4, atol=1e-4
    )
    together = private.models_.mean(axis=0)
    np.testing.assert_allclose(private.decision_function(X), standard @ together, rtol=1e-4, atol=1e-4)
    with pytest.raises(FitError, match="owner 'dan'"):
        private.predict(X[:1], owner=["dan"])


def test_it_predicts_alike_after_a_pickle_and_a_clone_is_new(private: PeerClassifier) -> None:
    again = pickle.loads(pickle.dumps(private))
    np.testing.assert_array_equal(again.predict_proba(X), private.predict_proba(X))
    assert again.privacy_.words() == private.privacy_.words()
    fresh = clone(private)
    assert fresh.get_params() == private.get_params()
    assert not hasattr(fresh, "models_")


def test_three_classes_through_a_server(several: PeerClassifier) -> None:
    assert several.score(X, np.digitize(SCORE, [-1, 1])) > 0.7
    assert several.predict_proba(X).shape == (60, 3)
    assert not several.privacy_.private


def test_everybody_reads_its_rows_once_in_each_pass() -> None:
    agent = np.repeat([0, 1, 2], SIZES)
    marked = np.arange(60, dtype=np.float32)[:, None]
    stream = in_passes(marked, np.zeros(60), agent, "binary", seed=1)
    assert (stream.period, stream.reads(120).tolist()) == (40, [3, 3, 3])
    batch = stream.chunk(30, 90)  # from within one pass to within the one after the next
    one_pass = stream.chunk(40, 80)
    for k, size in enumerate(SIZES):
        there = one_pass.weight[:, k] > 0
        assert sorted(one_pass.x[there, k, 0]) == marked[agent == k, 0].tolist()
        assert there.sum() == size
        numbers = stream.records(k, 40, 80)[:, 0]
        np.testing.assert_array_equal(numbers, stream.records(k, 0, 40)[:, 0])
        assert len(np.unique(numbers[there])) == size
    np.testing.assert_array_equal(batch.x[10:50], one_pass.x)
    np.testing.assert_array_equal(batch.x[:10], one_pass.x[30:])
    np.testing.assert_array_equal(batch.weight[50:], one_pass.weight[:10])


def test_a_regression_in_a_pipeline_by_cross_validation() -> None:
    model = make_pipeline(
        StandardScaler(), PeerRegressor("local_online", standardise=False, passes=3, parameters={"step": 0.2})
    )
    scores = cross_val_score(model, X, SCORE, cv=2, params={"peerregressor__owner": np.arange(60) % 3})
    assert scores.min() > 0.8


def test_the_owner_may_be_a_column() -> None:
    frame = Frame({"a": X[:, 0], "who": OWNER, "b": X[:, 1]})
    with pytest.raises(FitError, match="no column 'whose', only a, who, b"):
        PeerClassifier().fit(frame, Y, owner="whose")
    with pytest.raises(FitError, match="no column 'who'.*DataFrame"):
        PeerClassifier().fit(X, Y, owner="who")
    found = tacit.interop.owners.owners_of(frame, "who")
    assert found.column == "who"
    assert tacit.interop.owners.without_owners(frame, found).columns == ["a", "b"]


@pytest.mark.parametrize(
    ("settings", "owner", "message"),
    [
        ({}, OWNER[:5], r"owners of shape \(5,\) for 60 rows"),
        ({}, [None] + [1.0] * 59, r"row 0 \(counted from 0\) has no owner"),
        ({"algorithm": "gossip"}, None, "unknown algorithm 'gossip'"),
        ({"parameters": {"pace": 1}}, None, r"algorithm 'online_push_sum' with \['pace'\]: .*unexpected keyword"),
        (
            {"epsilon": 1.0, "mechanism": tacit.privacy.laplace(1.0, 1.0), "public": ["classes"]},
            None,
            "expected one of them; leave one out",
        ),
        ({"objective": "sqaured"}, None, "objective='sqaured': expected one of logistic"),
        ({"graph": "rnig"}, None, "PeerClassifier: graph kind = 'rnig': unknown kind; did you mean 'ring'"),
        ({"passes": 0}, None, "passes = 0: expected a whole number of at least 1"),
    ],
)
def test_refusals(settings, owner, message) -> None:
    with pytest.raises((ConfigError, FitError), match=message):
        PeerClassifier(**settings).fit(X, Y, owner=owner)


def test_objectives_without_probabilities_say_so() -> None:
    model = PeerClassifier(objective="hinge")
    model.classes_, model.task_, model.outputs_, model.owners_ = np.array([0, 1]), "binary", 2, np.array([0])
    model.models_, model.n_features_in_ = jax.numpy.ones((1, 3)), 2
    model._scaling = as_it_is(2)
    assert model.predict(X[:1]).tolist() == [1]
    with pytest.raises(ConfigError, match="'hinge' gives no probabilities"):
        model.predict_proba(X[:1])


@pytest.mark.covered_by("the budget of other methods")
@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")  # so much noise on sixty rows diverges
def test_epsilon_is_kept_where_every_round_is_charged_to_every_record() -> None:
    limit = tacit.algorithms.find("constrained_mirror_descent").example_settings
    assert limit
    model = PeerClassifier("constrained_mirror_descent", parameters=limit, epsilon=3.0, passes=2, graph="complete")
    model.set_params(bounds=(-5, 11))
    assert model.fit(X, Y, owner=OWNER, classes=["no", "yes"]).privacy_.guarantee.epsilon == pytest.approx(3.0)


@pytest.mark.covered_by("metrics/, of regret")
def test_the_regret_is_that_of_the_run(private: PeerClassifier) -> None:
    assert private.regret_ is private.run_.regret()
    assert private.regret_.per_agent_round[0, -1] > 0


_WHY = "rows are read one after the other in random order: a weight of 2 is one longer step, two rows are two steps"
NOT_ALIKE = {f"check_sample_weight_equivalence_on_{kind}_data": _WHY for kind in ("dense", "sparse")}
QUICK = {
    "check_no_attributes_set_in_init",
    "check_fit2d_1feature",
    "check_all_zero_sample_weights_error",
    "check_sample_weights_shape",
    "check_estimator_sparse_matrix",
    "check_estimators_partial_fit_n_features",
    "check_n_features_in_after_fitting",
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [PeerClassifier(), PeerRegressor()], ids=["classifier", "regressor"])
def test_scikit_learn_takes_it_for_one_of_its_own(estimator) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    outcomes = check_estimator(estimator, on_skip=None, expected_failed_checks=NOT_ALIKE)
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 55
    assert {o["check_name"] for o in outcomes if o["status"] == "xfail"} == set(NOT_ALIKE)


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(PeerClassifier(passes=1), id="classifier"),
        pytest.param(PeerRegressor(passes=1), id="regressor", marks=pytest.mark.covered_by("the classifier")),
    ],
)
def test_some_of_scikit_learns_own_checks(estimator) -> None:
    from sklearn.utils.estimator_checks import estimator_checks_generator

    done = 0
    for instance, check in estimator_checks_generator(estimator):
        if check.func.__name__ in QUICK:
            check(instance)
            done += 1
    assert done == len(QUICK)


def test_a_fit_that_is_worse_than_a_constant_says_so() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = np.where(rng.random(400) < 0.95, "yes", "no")  # nothing to learn but the majority
    model = PeerClassifier(epsilon=0.01, bounds=(-3, 3))
    with pytest.warns(TacitWarning, match="constant"):
        model.fit(x, y, owner=np.arange(400) % 2, classes=["no", "yes"])
    assert set(model.run_.references) == {"constant"}


def test_epsilon_alone_is_enough() -> None:
    """No bounds, no step, no noise: all of it is planned, and the scaling is charged."""
    rng = np.random.default_rng(1)
    x = np.column_stack([20 + rng.normal(size=6000), 1e3 * rng.random(6000), rng.normal(size=6000)])
    y = np.where(x[:, 0] - 20 + 2 * x[:, 2] + 0.2 * rng.normal(size=6000) > 0, "yes", "no")
    with pytest.raises(PrivacyError, match="classes"):  # of which a record might be the only one
        PeerClassifier(epsilon=2.0).fit(x, y, owner=np.arange(6000) % 4)
    model = PeerClassifier(epsilon=2.0).fit(x, y, owner=np.arange(6000) % 4, classes=["no", "yes"])
    assert model.plan_ is not None
    assert model.privacy_.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert model.privacy_.guarantee.delta == 1e-6
    assert model.privacy_.reads == model.plan_.passes
    assert model.score(x, y) > 0.85


def test_a_private_regression_scales_its_labels_and_pays_for_it() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6000, 2))
    y = 500 + 40 * x[:, 0] - 20 * x[:, 1] + rng.normal(size=6000)
    model = PeerRegressor(epsilon=2.0, bounds=(-4, 4)).fit(x, y, owner=np.arange(6000) % 4)
    assert model.privacy_.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert model.score(x, y) > 0.5
    known = PeerRegressor(epsilon=2.0, bounds=(-4, 4), label_bounds=(300, 700)).fit(x, y, owner=np.arange(6000) % 4)
    assert known._scaling.rho == 0
    assert known.score(x, y) > 0.7
