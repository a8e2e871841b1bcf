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

import copy
import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tacit.algorithms import find
from tacit.core.contract import Algorithm, Mechanism, Objective
from tacit.core.errors import ConfigError, DataError
from tacit.interop.feature_columns import LARGEST, FeatureColumns
from tacit.interop.objectives import probabilities, resolved
from tacit.interop.solo import SoloAgent
from tacit.privacy.spending import RunPrivacy
from tacit.streams.validate import Task


class Engine(Protocol):
    """The learner behind the interface: an agent alone, or a running peer."""

    def learn(self, x: NDArray[Any], y: float) -> None:
        """Learn from one sample."""

    def output(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the model's output for one sample."""

    @property
    def privacy(self) -> RunPrivacy:
        """Privacy promised and spent."""

    def close(self) -> None:
        """End it."""


class _OnlineLearner(ABC):
    """Common part of both learners."""

    _river: ClassVar[str]
    """River's class of such learners."""
    _supervised, _multiclass = True, False

    def __init__(
        self,
        algorithm: str = "online_push_sum",
        *,
        parameters: Mapping[str, Any] | None = None,
        objective: str | Objective | None = None,
        mechanism: Mechanism | None = None,
        features: Sequence[Hashable] | int = 32,
        seed: int = 0,
    ) -> None:
        self.algorithm, self.parameters, self.objective = algorithm, parameters, objective
        self.mechanism, self.features, self.seed = mechanism, features, seed
        self._columns = FeatureColumns(features)
        self._bias = True
        self._engine: Engine | None = None
        self._introduce()

    @property
    def privacy(self) -> RunPrivacy:
        """Privacy promised and spent; that of a `peer` is in its ledger."""
        return self._running().privacy

    @property
    def peer(self) -> Any:
        """The running `tacit.Peer` of a learner that has joined."""
        found = getattr(self._engine, "peer", None)
        if found is None:
            raise ConfigError("this learner learns alone and has no peer; make it with join('peer.toml', ...)")
        return found

    def close(self) -> None:
        """Stop the peer of a learner that has joined."""
        if self._engine is not None:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def clone(self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return a learner of the same settings that has learnt nothing.

        Args:
          new_params: Settings to replace.
          include_attributes: River's wish to copy the state too, which is refused.
        """
        if include_attributes:
            raise ConfigError("a learner's state belongs to its agent and cannot be cloned; clone the settings")
        return type(self)(**{**self._get_params(), **(new_params or {})})

    def __repr__(self) -> str:
        given = {name: value for name, value in self._get_params().items() if value is not None}
        shown = (f"{name}={getattr(value, 'name', None) or repr(value)}" for name, value in given.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    # -- interface of river -------------------------------------------------------------------------------------------

    def _get_params(self) -> dict[str, Any]:
        names = inspect.signature(type(self).__init__).parameters
        return {name: copy.copy(getattr(self, name)) for name in names if name != "self"}

    @property
    def _tags(self) -> set[str]:
        return set()

    def _more_tags(self) -> set[str]:
        return set()

    def _introduce(self) -> None:
        """Tell river, where it is loaded, that this is one of its learners: it asks by isinstance."""
        base = sys.modules.get("river.base")
        if base is not None:
            getattr(base, self._river).register(type(self))

    # ------------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _task(self) -> tuple[Task, int]:
        """Task, and number of classes."""

    def _objective(self) -> Objective:
        found = getattr(self._engine, "objective", None) or resolved(self.objective, *self._task())
        if found.predict is None:
            raise ConfigError(f"objective {found.name!r} does not say what it predicts; give it `predict`")
        return found

    def _made(self) -> Algorithm:
        settings = dict(self.parameters or {})
        if self.mechanism is not None:
            settings["mechanism"] = self.mechanism
        try:
            return find(self.algorithm).constructor(self._objective(), **settings)
        except TypeError as error:
            raise ConfigError(f"algorithm {self.algorithm!r} with {sorted(settings)}: {error}") from error

    def _running(self) -> Engine:
        if self._engine is None:
            label = np.int32 if self._task()[0] == "multiclass" else np.float32
            made = self._made()
            self._refuse_learnt(made)
            self._engine = SoloAgent(made, self._columns.size + self._bias, label, self.seed)
        return self._engine

    def _refuse_learnt(self, algorithm: Algorithm) -> None:
        """Refuse a method that promises privacy where one sample would decide what the numbers of others mean."""
        if algorithm.privacy.private and self._columns.open:
            raise ConfigError(
                f"features={self.features!r}: names would get their columns as samples bring them, and "
                f"{algorithm.name!r} promises privacy; name them: features=[...]"
            )

    def _row(self, x: Mapping[Any, Any], learn: bool) -> NDArray[np.float64]:
        row = self._columns.row(x, learn)
        return np.append(row, 1.0) if self._bias else row

    def _joined(self, path: str | os.PathLike[str], task: Task) -> None:
        from tacit.interop.joined import JoinedPeer

        self._columns = FeatureColumns(self.features)
        if self._columns.open:
            raise ConfigError(
                f"features={self.features!r}: a peer's columns are those of its job; name them in its order"
            )
        joined = JoinedPeer(path)
        form = joined.peer.settings.job.form
        if (form.features, form.task) != (self._columns.size, task):
            joined.close()
            raise ConfigError(
                f"{path}: the job has {form.features} features and the task {form.task!r}, this learner "
                f"{self._columns.size} and {task!r}; name the job's features in their order, and use the other learner "
                "for another task"
            )
        self._engine, self._bias = joined, False  # the peer adds its own column of ones


class OnlineClassifier(_OnlineLearner):
    """An agent that tells classes apart, sample by sample.

    A feature that a sample lacks counts as 0. With a mechanism, features and classes have to be named, or one sample
    would decide what the numbers of others mean; `privacy` says what was spent.

    Args:
      algorithm: Name out of `tacit algorithms`.
      classes: All classes, two or more; None: two as they come.
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

    _river = "Classifier"

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
        self._known: list[Hashable] = list(classes or ())
        if classes is not None and len(self._known) < 2:
            raise ConfigError(f"classes={classes!r}: expected at least two, or None for two as they come")
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
        return len(self._known) > 2

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Learn from one sample.

        Args:
          x: Feature -> number.
          y: Its class.
        """
        if y not in self._known:
            if self.classes is not None or len(self._known) == 2:
                raise DataError(
                    f"class {y!r} is not among {self._known}; name all when you make the learner: classes=[...]"
                )
            self._known.append(y)
        number = self._known.index(y)
        label = 2 * number - 1 if len(self._known) <= 2 else number
        self._running().learn(self._row(x, learn=True), label)

    def predict_one(self, x: Mapping[Any, Any]) -> Hashable | None:
        """Return the class of a sample; None where no class is known yet.

        Args:
          x: Feature -> number.
        """
        if len(self._known) < 2:
            return self._known[0] if self._known else None
        said = self._running().output(self._row(x, learn=False))
        return self._known[int(said > 0) if said.ndim == 0 else int(said.argmax())]

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Return the probability of each class that is known, for the objectives logistic and softmax.

        Args:
          x: Feature -> number.
        """
        if len(self._known) < 2:
            return dict.fromkeys(self._known, 1.0)
        said = self._running().output(self._row(x, learn=False))
        shares = probabilities(self._objective(), said[None])[0]
        return {name: float(share) for name, share in zip(self._known, shares, strict=True)}

    def _refuse_learnt(self, algorithm: Algorithm) -> None:
        super()._refuse_learnt(algorithm)
        if algorithm.privacy.private and self.classes is None:
            raise ConfigError(
                f"classes=None: they would be numbered as samples bring them, and {algorithm.name!r} promises privacy; "
                "name them: classes=[...]"
            )

    def _task(self) -> tuple[Task, int]:
        return ("multiclass", len(self._known)) if len(self._known) > 2 else ("binary", 2)


class OnlineRegressor(_OnlineLearner):
    """An agent that predicts a number, sample by sample.

    Args:
      algorithm: Name out of `tacit algorithms`.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: least squares.
      mechanism: Noise and its accounting; None: no noise.
      features: Names of the features, or the largest number of them: columns are given out as names come.
      seed: Seed of the choices that the algorithm makes at random.
    """

    _river = "Regressor"

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
        if not abs(y) <= LARGEST:
            raise DataError(f"y is {y!r}; expected a finite 32-bit number: leave the sample out")
        self._running().learn(self._row(x, learn=True), float(y))

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the model's prediction for a sample.

        Args:
          x: Feature -> number.
        """
        return float(self._running().output(self._row(x, learn=False)))

    def _task(self) -> tuple[Task, int]:
        return "regression", 1
