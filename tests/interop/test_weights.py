"""Estimators: weights of rows and classes, sparse tables, and rows that come later."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import tacit
from tacit.core.contract import Clip
from tacit.core.errors import ConfigError, PrivacyError
from tacit.interop import PeerClassifier, PeerRegressor
from tacit.interop.weights import FitError, WeightedBatch, weighted
from tacit.privacy.clipping import gradient_parts

RNG = np.random.default_rng(4)
X = RNG.normal(size=(48, 2))
SCORE = X[:, 0] - X[:, 1]
Y = np.where(SCORE > 0, "yes", "no")
OWNER = np.arange(48) % 3
NOISE = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
GAUSSIAN = tacit.privacy.gaussian(2.0, clip=1.0)
GIVEN = {"bounds": (-3, 3)}


def models(model, *data, **given):
    return model.fit(*data, owner=OWNER, **given).models_


def test_weights_of_rows() -> None:
    plain = models(PeerClassifier(), X, Y)
    np.testing.assert_array_equal(models(PeerClassifier(), X, Y, sample_weight=np.ones(48)), plain)
    np.testing.assert_array_equal(models(PeerClassifier(), X, Y, sample_weight=1), plain)
    some = np.where(np.arange(48) < 40, 1.0, 0.0)
    cut = PeerClassifier().fit(X[:40], Y[:40], owner=OWNER[:40]).models_
    np.testing.assert_array_equal(models(PeerClassifier(), X, Y, sample_weight=some), cut)
    one = PeerRegressor("local_online", passes=1, standardise=False, parameters={"step": 0.1})
    once = one.fit([[1.0]], [3.0]).models_
    np.testing.assert_allclose(one.fit([[1.0]], [3.0], sample_weight=[2.0]).models_, 2 * once)
    assert one.run_.per_round["loss"][0, 0] == pytest.approx(9.0)  # twice 3^2 / 2


def test_a_clip_bounds_a_record_whatever_its_weight() -> None:
    gradient = gradient_parts(weighted(tacit.objectives.squared()), Clip(1.0)).data
    batch = WeightedBatch(jnp.ones((2, 3)), jnp.asarray([1.0, 1.0]), jnp.ones(2), jnp.asarray([1e6, 0.0]))
    both = gradient(jnp.zeros(3), batch)
    assert float(jnp.linalg.norm(both)) == pytest.approx(0.5, rel=1e-4)  # a mean over two places
    assert float(jnp.linalg.norm(gradient(jnp.zeros(3), jax.tree.map(lambda leaf: leaf[1], batch)))) == 0


def test_with_noise_a_weight_is_the_records_own_business() -> None:
    def handed(weight):
        model = PeerClassifier(mechanism=NOISE, **GIVEN)
        model.fit(X, Y, owner=OWNER, classes=["no", "yes"], sample_weight=weight)
        assert model.privacy_.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)
        batch = model.run_.streams[0].chunk(0, model.n_iter_)
        return np.concatenate([batch.x, *(leaf[..., None] for leaf in batch[1:])], axis=-1)

    before, after = handed(np.ones(48)), handed(np.r_[0.0, np.ones(47)])
    assert before.shape == after.shape  # a row of weight 0 keeps its place
    assert (before != after).any(axis=-1).sum() == 1


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0] * 5, r"\(5,\) for 48"),
        (np.r_[-1.0, np.ones(47)], "-1.0 in row 0"),
        (np.zeros(48), "zero"),
        (np.nan, "nan"),
    ],
)
def test_weights_that_cannot_be(weight, message) -> None:
    for model in (PeerClassifier(), PeerRegressor()):
        with pytest.raises(FitError, match=message):
            model.fit(X, SCORE if isinstance(model, PeerRegressor) else Y, sample_weight=weight)
    net = tacit.objectives.cnn(classes=2, channels=(1, 1), hidden=2, side=4)
    with pytest.raises(ConfigError, match="'cnn'.*weights"):
        weighted(net)


def test_weights_of_classes() -> None:
    rare = np.where(SCORE > 1.5, "yes", "no")
    plain, balanced = (PeerClassifier(class_weight=w).fit(X, rare, owner=OWNER) for w in (None, "balanced"))
    assert (balanced.predict(X) == "yes").sum() > (plain.predict(X) == "yes").sum()
    counts = {name: len(rare) / (2 * (rare == name).sum()) for name in ("no", "yes")}
    named = PeerClassifier(class_weight=counts).fit(X, rare, owner=OWNER)
    np.testing.assert_allclose(named.models_, balanced.models_, rtol=1e-5)
    for wrong, message in [("equal", "'equal'"), ({"maybe": 2.0}, "'maybe'"), ({"yes": -1.0}, "-1.0")]:
        with pytest.raises(ConfigError, match=message):
            PeerClassifier(class_weight=wrong).fit(X, rare)
    private = PeerClassifier(mechanism=NOISE, class_weight="balanced", parameters={"step": 1e-3}, **GIVEN)
    with pytest.raises(PrivacyError, match="class_weight"):
        private.fit(X, rare, classes=["no", "yes"])
    private.set_params(public=["class_weight"]).fit(X, rare, classes=["no", "yes"])
    assert private.privacy_.public == ("how often each class occurs",)


def test_a_sparse_table_is_its_dense_one() -> None:
    sparse = csr_array(np.where(np.abs(X) > 0.5, X, 0))
    model = PeerClassifier().fit(sparse, Y, owner=OWNER)
    np.testing.assert_array_equal(model.models_, PeerClassifier().fit(sparse.toarray(), Y, owner=OWNER).models_)
    np.testing.assert_array_equal(model.predict(sparse), model.predict(sparse.toarray()))
    with tacit.limits.memory(1e-8), pytest.raises(ConfigError, match="48 rows x 2 columns"):
        model.predict(sparse)


def test_rows_that_come_later() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = PeerClassifier(random_state=2)
    model.partial_fit(frame[:20], Y[:20], owner=OWNER[:20], classes=["no", "yes"])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    early, rounds = model.models_.copy(), model.n_iter_
    some = OWNER[20:40] != 1  # bob has no rows this time
    model.partial_fit(frame[20:40][some], Y[20:40][some], owner=OWNER[20:40][some])
    assert model.n_iter_ > rounds
    assert (model.models_ != early).any(axis=1).all()  # who has no rows still hears the others
    assert np.mean(model.predict(frame) == Y) > 0.8
    with pytest.raises(FitError, match="owner 7"):
        model.partial_fit(frame[40:], Y[40:], owner=np.full(8, 7))
    with pytest.raises(FitError, match="'maybe'"):
        model.partial_fit(frame[40:], ["maybe"] * 8, owner=OWNER[40:])
    with pytest.raises(ConfigError, match="first call"):
        model.partial_fit(frame[40:], Y[40:], owner=OWNER[40:], classes=["yes", "no"])


def test_one_pass_more_goes_on_from_the_model() -> None:
    settings = {"standardise": False, "parameters": {"step": 0.1}}  # `passes` are those of `fit`
    parts = PeerRegressor("local_online", **settings).partial_fit(X[:1], SCORE[:1]).partial_fit(X[1:2], SCORE[1:2])
    model = np.zeros(3)
    for row, label in zip(X[:2], SCORE, strict=False):
        x = np.append(row, 1.0)
        model += 0.1 * (label - x @ model) * x
    np.testing.assert_allclose(parts.models_[0], model, rtol=1e-5)
    assert parts.n_iter_ == 2


@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")  # few rows teach less than a constant says
def test_what_later_rows_cost() -> None:
    with pytest.raises(ConfigError, match=r"epsilon=2\.0.*mechanism"):
        PeerRegressor(epsilon=2.0).partial_fit(X, SCORE)
    for noise, total in [(NOISE, 2.0), (GAUSSIAN, None)]:
        model = PeerRegressor(mechanism=noise, **GIVEN).partial_fit(X[:24], SCORE[:24], owner=OWNER[:24])
        once, first = model.privacy_.guarantee, model.run_
        model.partial_fit(X[24:], SCORE[24:], owner=OWNER[24:])
        both = model.privacy_.guarantee
        assert both.rho == pytest.approx(2 * once.rho)
        assert both.epsilon > 1.3 * once.epsilon
        assert total is None or both.epsilon == pytest.approx(total, rel=1e-3)
        assert model.privacy_.reads == 2
        assert first.seed != model.run_.seed  # noise is never drawn twice from one seed
    model.mechanism = NOISE
    with pytest.raises(ConfigError, match="changed"):
        model.partial_fit(X, SCORE, owner=OWNER)
    model.mechanism, model.algorithm = GAUSSIAN, "local_online"
    with pytest.raises(ConfigError, match="changed"):
        model.partial_fit(X, SCORE, owner=OWNER)
    bounded = PeerRegressor(mechanism=tacit.privacy.bounded_laplace(1.0, rounds=50), **GIVEN)
    bounded.partial_fit(X, SCORE, owner=OWNER)
    with pytest.raises(PrivacyError, match="add up"):
        bounded.partial_fit(X, SCORE, owner=OWNER)
