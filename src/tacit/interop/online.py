"""One agent as an online learner in the manner of river: `learn_one`, `predict_one`, `predict_proba_one`.

    learner = OnlineClassifier("online_push_sum", parameters={"step": 0.3})
    for x, y in samples:                       # x: a dict of features
        guess = learner.predict_one(x)
        learner.learn_one(x, y)

It runs a registered algorithm through the same contract as simulator and peers do, alone. The same application becomes
a member of a federation when the first line says `OnlineClassifier.join("peer.toml", features=[...])`.

It works in river's pipelines and evaluations (`StandardScaler() | learner`), but needs no river.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Algorithm, Mechanism, Objective
from tacit.core.errors import ConfigError, DataError
from tacit.interop.compiled_agent import CompiledAgent
from tacit.interop.feature_columns import LARGEST, finite_label
from tacit.interop.objectives import probabilities, task_of
from tacit.interop.online_learner import OnlineLearner
from tacit.streams.batch import Task


class OnlineClassifier(OnlineLearner):
    """An agent that tells classes apart, sample by sample.

    A feature that a sample lacks counts as 0. Classes that are not named are met as they come: with the third one the
    objective becomes softmax, which begins with the model learnt so far; what else a method remembers (a momentum, say)
    begins anew. With a mechanism, features and classes have to be named, or one sample would decide what the numbers of
    others mean; `privacy` says what was spent.

    Args:
      algorithm: Name out of `tacit algorithms`.
      classes: All classes, two or more; None: as they come.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: logistic, or softmax for more than two classes.
      mechanism: Noise and its accounting; None: no noise.
      features: Names of the features, or the largest number of them: columns are given out as names come.
      seed: Seed of the choices that the algorithm makes at random.

    Example:
      >>> from tacit.interop import OnlineClassifier
      >>> learner = OnlineClassifier(features=["heat"], classes=["cold", "hot"], parameters={"step": 1.0})
      >>> for _ in range(5):
      ...     learner.learn_one({"heat": 2.0}, "hot")
      ...     learner.learn_one({"heat": -2.0}, "cold")
      >>> learner.predict_one({"heat": 1.0})
      'hot'
    """

    _river = "MiniBatchClassifier"

    def __init__(
        self,
        algorithm: str = "online_push_sum",
        *,
        classes: Sequence[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
        objective: str | Objective | None = None,
        mechanism: Mechanism | None = None,
        features: Sequence[Hashable] | int = 32,
        seed: int = 0,
    ) -> None:
        self.classes = classes
        self._known: dict[Hashable, int] = {name: k for k, name in enumerate(classes or ())}
        if classes is not None and not 2 <= len(self._known) == len(classes):
            raise ConfigError(f"classes={classes!r}: expected at least two, each once, or None for those that come")
        super().__init__(
            algorithm, parameters=parameters, objective=objective, mechanism=mechanism, features=features, seed=seed
        )

    @classmethod
    def join(
        cls, path: str | os.PathLike[str], *, features: Sequence[Hashable], classes: Sequence[Hashable] = (False, True)
    ) -> Self:
        """Start the peer of a peer.toml and learn through it; `close` stops it.

        Args:
          path: The peer's TOML file.
          features: Names of the features, in the order of the job.
          classes: Names of the classes, in the order of the job.
        """
        learner = cls(features=features, classes=classes)
        learner._joined(path, learner._task()[0])
        return learner

    @property
    def _multiclass(self) -> bool:  # type: ignore[override]
        return len(self._known) > 2 or (self.classes is None and self._may_grow())

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Learn from one sample.

        Args:
          x: Feature -> number.
          y: Its class.
        """
        number = self._number(y)
        agent = self._running()  # first: a private learner that is refused has learnt no name
        row = self._columns.row(x, learn=True)
        if number is None:
            number = self._meet(y)
            agent = self._running()
        agent.learn(row, self._label(number))

    def predict_one(self, x: Mapping[Any, Any]) -> Hashable | None:
        """Return the class of a sample; None where no class is known yet.

        Args:
          x: Feature -> number.
        """
        if len(self._known) < 2:
            return next(iter(self._known), None)
        said = self._says(x)
        return self._names()[int(said > 0) if said.ndim == 0 else int(said.argmax())]

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Return the probability of each class that is known, for the objectives logistic and softmax.

        Args:
          x: Feature -> number.
        """
        if len(self._known) < 2:
            return dict.fromkeys(self._known, 1.0)
        said = self._says(x)
        shares = probabilities(self._objective(), said[None])[0]
        return dict(zip(self._known, shares.tolist(), strict=True))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from many samples, one after the other as `learn_one` would.

        Args:
          X: A pandas DataFrame, one column per feature.
          y: Class of each row.
        """
        labels = np.asarray(y, object).tolist()
        if len(labels) != len(X):
            raise DataError(f"X has {len(X)} rows and y {len(labels)}; expected one class per row")
        unknown: list[Hashable] = []
        for label in dict.fromkeys(labels):  # before anything is learnt
            if self._number(label, len(unknown)) is None:
                unknown.append(label)
        self._running()
        rows = self._columns.rows(X, learn=True)
        cuts = [0, *(labels.index(label) for label in unknown), len(labels)]
        for label, first, last in zip([None, *unknown], cuts[:-1], cuts[1:], strict=True):
            if label is not None:
                self._meet(label)
            numbers = np.array([self._label(self._known[name]) for name in labels[first:last]])
            self._running().learn_many(rows[first:last], numbers)

    def predict_many(self, X: Any) -> Any:
        """Return the class of each row as a pandas Series; None where no class is known yet.

        Args:
          X: A pandas DataFrame, one column per feature.
        """
        pandas, names = self._frames("predict_many", X), self._names()
        if len(names) < 2 or not len(X):
            return pandas.Series([names[0] if names else None] * len(X), index=X.index, dtype=object)
        said = self._says_of_each(X)
        chosen = said > 0 if said.ndim == 1 else said.argmax(axis=1)
        return pandas.Series([names[k] for k in chosen.astype(int)], index=X.index)

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities as a pandas DataFrame, one column per class that is known.

        Args:
          X: A pandas DataFrame, one column per feature.
        """
        pandas, names = self._frames("predict_proba_many", X), self._names()
        if len(names) < 2 or not len(X):
            return pandas.DataFrame(1.0, index=X.index, columns=names)
        said = self._says_of_each(X)
        return pandas.DataFrame(probabilities(self._objective(), said), index=X.index, columns=names)

    # -- classes -------------------------------------------------------------------------------------------------------

    def _names(self) -> list[Hashable]:
        return list(self._known)

    def _label(self, number: int) -> int:
        return number if self._task()[0] == "multiclass" else 2 * number - 1

    def _may_grow(self) -> bool:
        """Whether there may be more than two classes without their names: there is a model to carry over."""
        return self.objective in (None, "softmax") and (self._agent is None or isinstance(self._agent, CompiledAgent))

    def _number(self, y: Hashable, others: int = 0) -> int | None:
        """Return the number of a class; None where it is new, refused where beside `others` no new one is taken."""
        try:
            found = self._known.get(y)
        except TypeError:
            raise DataError(f"y is {y!r}; expected a class: a word, a number or a truth value") from None
        if found is not None:
            return found
        if y is None or (not isinstance(y, str) and str(y) in ("nan", "NaT", "<NA>")):
            raise DataError(f"y is {y!r}; expected a class: leave the sample out")
        if self.classes is not None or (len(self._known) + others >= 2 and not self._may_grow()):
            raise DataError(
                f"class {y!r} is not among {self._names()}; name all when you make the learner: classes=[...]"
            )
        return None

    def _meet(self, y: Hashable) -> int:
        """Take up a new class; a model for more classes goes on from the one that there is."""
        before, self._known[y] = self._task(), len(self._known)
        if isinstance(self._agent, CompiledAgent) and self._task() != before:
            try:
                self._agent = self._for_more_classes(self._agent)
            except BaseException:
                del self._known[y]  # a model of the classes before goes with their names
                raise
        return self._known[y]

    def _for_more_classes(self, agent: CompiledAgent) -> CompiledAgent:
        """Return an agent for all classes that are known, with what one for fewer has learnt."""
        model = np.asarray(agent.model)
        if model.ndim == 1:  # of two classes by the sign of <x, w>: the same odds by the difference of two numbers
            model = np.stack([-model / 2, model / 2])
        more = np.zeros((len(self._known) - len(model), model.shape[1]), model.dtype)
        wider = self._new_agent(np.concatenate([model, more]))
        assert isinstance(wider, CompiledAgent)  # the same settings
        wider.go_on_from(agent.round)
        return wider

    def _refuse_learnt(self, algorithm: Algorithm) -> None:
        super()._refuse_learnt(algorithm)
        if algorithm.privacy.private and self.classes is None:
            raise ConfigError(
                f"classes=None: they would be numbered as samples bring them, and {algorithm.name!r} promises privacy; "
                "name them: classes=[...]"
            )

    def _task(self) -> tuple[Task, int]:
        count = max(2, len(self._known))
        return task_of(self.objective, count), count


class OnlineRegressor(OnlineLearner):
    """An agent that predicts a number, sample by sample.

    Args:
      algorithm: Name out of `tacit algorithms`.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: least squares.
      mechanism: Noise and its accounting; None: no noise.
      features: Names of the features, or the largest number of them: columns are given out as names come.
      seed: Seed of the choices that the algorithm makes at random.

    Example:
      >>> from tacit.interop import OnlineRegressor
      >>> learner = OnlineRegressor(features=["hours"], parameters={"step": 0.2})
      >>> for hours in [0.0, 1.0, 2.0] * 40:
      ...     learner.learn_one({"hours": hours}, 3.0 * hours + 1.0)
      >>> round(learner.predict_one({"hours": 1.5}), 2)
      5.5
    """

    _river = "MiniBatchRegressor"

    @classmethod
    def join(cls, path: str | os.PathLike[str], *, features: Sequence[Hashable]) -> Self:
        """Start the peer of a peer.toml and learn through it; `close` stops it.

        Args:
          path: The peer's TOML file.
          features: Names of the features, in the order of the job.
        """
        learner = cls(features=features)
        learner._joined(path, "regression")
        return learner

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Learn from one sample.

        Args:
          x: Feature -> number.
          y: The number to predict, finite.
        """
        label = finite_label(y)
        self._running().learn(self._columns.row(x, learn=True), label)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the model's prediction for a sample.

        Args:
          x: Feature -> number.
        """
        return float(self._says(x))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from many samples, one after the other as `learn_one` would.

        Args:
          X: A pandas DataFrame, one column per feature.
          y: Number of each row, finite.
        """
        labels: NDArray[np.float64] = np.asarray(y, np.float64)
        if labels.shape != (len(X),):
            raise DataError(f"X has {len(X)} rows and y the shape {labels.shape}; expected one number per row")
        if not np.all(np.abs(labels) <= LARGEST):
            row = int(np.argmin(np.abs(labels) <= LARGEST))
            raise DataError(f"y is {labels[row]} in row {row} (counted from 0); expected finite 32-bit numbers")
        self._running().learn_many(self._columns.rows(X, learn=True), labels)

    def predict_many(self, X: Any) -> Any:
        """Return the prediction for each row as a pandas Series.

        Args:
          X: A pandas DataFrame, one column per feature.
        """
        pandas = self._frames("predict_many", X)
        return pandas.Series(self._says_of_each(X) if len(X) else [], index=X.index, dtype=float)

    def _task(self) -> tuple[Task, int]:
        return "regression", 1
