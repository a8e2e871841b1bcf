"""An attack on private fits: two tables that differ in one record, and what the method is handed of the others."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, PrivacyError, TacitError
from tacit.interop import OnlineClassifier, OnlineRegressor, PeerClassifier, PeerRegressor
from tacit.interop.owners import FitError

RNG = np.random.default_rng(0)
OWNER = np.repeat(["ann", "bob"], [5, 4])
X = RNG.normal(size=(9, 2))
Y = np.array(["no", *["yes"] * 8])
VICTIM = 0
NOISE = tacit.privacy.laplace(epsilon=1.0, clip=1.0)


@functools.cache
def before(given: bool) -> Any:
    return fitted(X, Y, given)


def fitted(x: Any, y: Any, given: bool) -> Any:
    model = PeerClassifier(epsilon=1.0, passes=1, **({"bounds": [(-3, 3), (-2, 2)]} if given else {}))
    return handed(model, x, y, **({"classes": ["no", "yes"]} if given else {}))


def handed(model: Any, x: Any, y: Any, **given: Any) -> Any:
    """What the fit's method got, round by round, and the shape of its models; or why there was none."""
    try:
        fitted = model.fit(x, y, owner=OWNER, **given)
    except TacitError as refusal:
        return refusal
    batch = fitted.run_.streams[0].chunk(0, fitted.n_iter_)
    rows = np.concatenate([batch.x, batch.y[..., None], batch.weight[..., None]], axis=-1)
    return rows, fitted.models_.shape


@pytest.mark.parametrize(
    ("change", "value"), [("x", [40.0, -3.0]), ("y", "aha"), ("y", "yes")], ids=["far away", "a new class", "the last"]
)
@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")  # nine rows teach less than a constant says
def test_one_record_changes_its_own_row_at_most(change: str, value: Any, given: bool) -> None:
    x, y = X.copy(), Y.copy()
    {"x": x, "y": y}[change][VICTIM] = value
    after = fitted(x, y, given)
    if not given:
        assert isinstance(before(given), PrivacyError)
        assert isinstance(after, TacitError)
        return
    assert not isinstance(before(given), TacitError)
    if isinstance(after, FitError):  # a class that is not among those given
        assert value == "aha"
        return
    assert before(given)[1] == after[1]
    unlike = (before(given)[0] != after[0]).any(axis=-1)
    assert unlike.sum() == 1


@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
def test_what_is_learnt_may_be_declared_and_is_told() -> None:
    for public in ((), ["scaling"]):
        with pytest.raises(PrivacyError, match="classes"):
            PeerClassifier(epsilon=1.0, public=public).fit(X, Y, owner=OWNER)
    charged = PeerClassifier(epsilon=1.0, public=["classes"]).fit(X, Y, owner=OWNER)  # bounds of columns are paid for
    assert charged._scaling.rho > 0
    model = PeerClassifier(epsilon=1.0, public=["classes", "scaling"]).fit(X, Y, owner=OWNER)
    assert len(model.privacy_.public) == 2
    with pytest.raises(PrivacyError, match="scaling"):
        PeerRegressor(mechanism=NOISE).fit(X, X[:, 0], owner=OWNER)
    bounded = PeerRegressor(mechanism=NOISE, bounds=(-3, 3)).fit(X, X[:, 0], owner=OWNER)
    assert bounded.privacy_.public == ()
    assert np.abs(bounded.run_.streams[0].chunk(0, 5).x).max() <= 1


def test_a_member_names_the_columns_of_its_job() -> None:
    with pytest.raises(ConfigError, match="features=2: a peer's columns"):
        OnlineClassifier.join("peer.toml", features=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("bounds", [3.0, (1, 0), (0, np.inf), [(0, 1)], [(0, 1), (0, 1), (0, 1)]])
def test_bounds_that_cannot_be(bounds: Any) -> None:
    with pytest.raises(ConfigError, match="bounds="):
        PeerClassifier(bounds=bounds).fit(X, Y)


def test_classes_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="each once"):
        PeerClassifier().fit(X, Y, classes=["no", "no", "yes"])
    with pytest.raises(FitError, match="row 0 .*'no'.*add it"):
        PeerClassifier().fit(X, Y, classes=["yes", "perhaps"])
    turned = PeerClassifier(passes=1).fit(X, Y, classes=["yes", "no"])
    assert turned.run_.streams[0].chunk(0, 9).y[:, 0].tolist().count(1.0) == 1
    assert set(turned.predict(X)) <= {"yes", "no"}


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        (OnlineClassifier, {"features": 2, "classes": ["no", "yes"]}),
        (OnlineClassifier, {"features": ["a"]}),
        (OnlineRegressor, {"features": 2}),
    ],
)
def test_a_private_learner_is_told_names_beforehand(learner: Any, settings: dict[str, Any]) -> None:
    label = "no" if "classes" in settings else 1.0
    with pytest.raises(ConfigError, match=r"name them: (features|classes)="):
        learner(mechanism=NOISE, **settings).learn_one({"a": 1.0}, label)
    learner(**settings).learn_one({"a": 1.0}, label)
