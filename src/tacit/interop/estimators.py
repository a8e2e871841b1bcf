"""Estimators in the manner of scikit-learn, for data of several owners: X, y and a column that says whose row it is.

    model = PeerClassifier(epsilon=2.0).fit(X, y, owner=hospital, classes=["no", "yes"])
    print(model.plan_.words())                # batch, rounds, step and noise that follow from epsilon
    model.predict_proba(X_new)                # by the mean of the owners' models
    model.predict(X_new, owner=whose)         # each row by its owner's model
    print(model.privacy_.words())

`fit` is a simulation on this machine, which sees all rows: it answers what owners would have learnt together, and what
it would have cost them. For owners that do not hand out rows there are peers (docs/deploy.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from tacit.core.errors import ConfigError
from tacit.interop.objectives import probabilities, task_of
from tacit.interop.owners import checked_owners, owners_of
from tacit.interop.peer_estimator import PeerEstimator
from tacit.interop.weights import COUNTED, FitError, checked, of_classes, product
from tacit.streams.learnt import Learnt


def _class_numbers(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    if classes.ndim != 1 or len(np.unique(classes)) < len(classes):
        raise ConfigError(f"classes={classes.tolist()!r}: expected a list of all classes, each once")
    same = y[:, None] == classes
    if not same.any(axis=1).all():
        row = int(np.argmin(same.any(axis=1)))
        raise FitError(
            f"row {row} (counted from 0) is of class {y[row].item()!r}, which is not among classes="
            f"{classes.tolist()!r}; add it"
        )
    return np.asarray(same.argmax(axis=1))


@dataclass(eq=False, repr=False, kw_only=True)
class PeerClassifier(ClassifierMixin, PeerEstimator):  # type: ignore[misc]
    """A classifier that the owners of the rows learn together, each with its own model.

    With noise, facts that are learnt from all rows (scaling, classes) have to be given, or declared by `public`.
    After `fit`: `owners_`, their models in `models_`, what was spent in `privacy_`, the run in `run_`, its regret in
    `regret_`.

    Args:
      algorithm: Name out of `tacit algorithms`.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: logistic, or softmax for more than two classes.
      graph: Links: a graph, its kind, or a table such as ``{"kind": "small_world", "k": 4, "rewire": 0.3}``; None:
        every owner sends to up to four others at random.
      epsilon: Privacy loss of a record in the whole fit at `delta`: noise, batches, passes and step are then planned
        (`tacit.privacy.planning.plan`, here `plan_`) and models averaged; None: no such noise.
      delta: Above 0 and below 1.
      mechanism: Other noise, instead of `epsilon`.
      passes: Times that `fit` reads every row; None: five, ten with `epsilon`, one with a `mechanism`.
      standardise: Whether columns are scaled: by mean and deviation of all rows, which no privacy account covers; with
        `epsilon` by bounds that are found from noisy histograms, for a tenth of a record's budget.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
      label_bounds: (low, high) of y, for a regression with `epsilon`; None: found as those of columns.
      public: Facts that may be learnt from all rows in spite of noise: some of "scaling", "classes",
        "class_weight".
      random_state: Seed of graph, order of rows and random choices.
      class_weight: {class: weight}, 1 for one that is left out, or "balanced", which is learnt from all rows; weights
        multiply the losses of rows, before a clip.

    Example:
      >>> import numpy as np
      >>> from tacit.interop import PeerClassifier
      >>> X, y = np.array([[1.0], [2.0], [-1.0], [-2.0]] * 4), ["hot", "hot", "cold", "cold"] * 4
      >>> model = PeerClassifier().fit(X, y, owner=["north"] * 8 + ["south"] * 8)
      >>> list(map(str, model.predict([[3.0], [-3.0]])))
      ['hot', 'cold']
    """

    class_weight: Mapping[Any, float] | str | None = None
    classes_: NDArray[Any] = field(init=False)
    """All classes, in their order."""

    def fit(self, X: Any, y: Any, owner: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows of several owners, each of which has at least one.

        In each pass every owner reads its own rows once; an owner whose rows are used up only listens.

        Args:
          X: Rows of numbers: an array, a DataFrame or a sparse matrix, which is made dense.
          y: Class of each row.
          owner: Owner of each row: an array, a Series, or the name of a column of X; None: one owner, which is alone.
          classes: All that y may hold, in their order; None: they are learnt from y.
          sample_weight: Weight of each row, 0 or more, by which its loss is multiplied, before a clip; None: 1.
        """
        return self._learn(X, y, owner, classes, sample_weight, True, self.passes)

    def partial_fit(self, X: Any, y: Any, owner: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows in one pass, from the owners' models on.

        The first call settles owners, classes and scaling; a method's other memory begins anew with each call. With a
        `mechanism` costs add up as if a record were in all calls; `epsilon` is planned over one fit, and refused here.

        Args:
          X: Rows of numbers, of the columns of the first call.
          y: Class of each row.
          owner: Owner of each row, one of those of the first call; not every owner needs to have rows.
          classes: All that y may ever hold, in the first call; None: they are learnt from its y.
          sample_weight: Weight of each row, 0 or more; None: 1.
        """
        self._refuse_partial()
        return self._learn(X, y, owner, classes, sample_weight, not hasattr(self, "models_"), 1)

    @property
    def _counted(self) -> tuple[Learnt, ...]:
        return (COUNTED,) if isinstance(self.class_weight, str) else ()

    def _learn(
        self, X: Any, y: Any, owner: Any, classes: Any, sample_weight: Any, first: bool, passes: int | None
    ) -> Self:
        given = owners_of(X, owner)
        X, y = self._rows_of(X, y, given, first)
        check_classification_targets(y)
        learnt: tuple[Learnt, ...] = ()
        if not first:
            if classes is not None and np.asarray(classes).tolist() != self.classes_.tolist():
                raise ConfigError(f"classes={classes!r}: expected those of the first call, {self.classes_.tolist()}")
            number = _class_numbers(y, self.classes_)
        elif classes is None:
            learnt = (Learnt("classes", "the classes that y holds", "them to fit in their order: classes=[...]"),)
            self.classes_, number = np.unique(y, return_inverse=True)
        else:
            self.classes_ = np.asarray(classes)
            number = _class_numbers(y, self.classes_)
        if len(self.classes_) < 2:
            raise FitError(f"y holds {len(self.classes_)} class ({self.classes_[0]!r}); expected at least two")
        owners, count = checked_owners(given, len(X)), len(self.classes_)
        by_class = of_classes(self.class_weight, self.classes_, number)
        weight = product(checked(sample_weight, len(X)), by_class)
        if first:
            self._fit(X, number, owners, task_of(self.objective, count), count, passes, learnt, weight)
        else:
            self._fit_more(X, number, owners, weight)
        return self

    def decision_function(self, X: Any, owner: Any = None) -> NDArray[np.float64]:
        """Return the models' numbers: (rows,) for two classes, above 0 for the second; else (rows, classes).

        Args:
          X: Rows of numbers.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        return self._outputs(X, owner)

    def predict(self, X: Any, owner: Any = None) -> NDArray[Any]:
        """Return the class of each row.

        Args:
          X: Rows of numbers.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        said = self._outputs(X, owner)
        chosen = said > 0 if said.ndim == 1 else said.argmax(axis=1)
        return np.asarray(self.classes_[chosen.astype(int)])

    def predict_proba(self, X: Any, owner: Any = None) -> NDArray[np.float64]:
        """Return probabilities (rows, classes), for the objectives logistic and softmax.

        Args:
          X: Rows of numbers.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        said = self._outputs(X, owner)
        return probabilities(self._objective(), said)

    def score(self, X: Any, y: Any, owner: Any = None, sample_weight: Any = None) -> float:
        """Return the share of right predictions.

        Args:
          X: Rows of numbers.
          y: Class of each row.
          owner: Owner of each row, whose model is used; None: the mean of all models.
          sample_weight: Weight of each row; None: 1.
        """
        return float(np.average(self.predict(X, owner) == np.asarray(y), weights=sample_weight))


class PeerRegressor(RegressorMixin, PeerEstimator):  # type: ignore[misc]
    """A regression that the owners of the rows learn together, each with its own model.

    Args:
      algorithm: Name out of `tacit algorithms`.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: least squares.
      graph: Links, as for `PeerClassifier`.
      epsilon: Privacy loss of a record in the whole fit at `delta`: noise, batches, passes and step are then planned
        (`tacit.privacy.planning.plan`, here `plan_`) and models averaged; None: no such noise.
      delta: Above 0 and below 1.
      mechanism: Other noise, instead of `epsilon`.
      passes: Times that `fit` reads every row; None: five, ten with `epsilon`, one with a `mechanism`.
      standardise: Whether columns are scaled: by mean and deviation of all rows, which no privacy account covers; with
        `epsilon` by bounds that are found from noisy histograms, for a tenth of a record's budget.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
      label_bounds: (low, high) of y, for a regression with `epsilon`; None: found as those of columns.
      public: Facts that may be learnt from all rows in spite of noise: "scaling".
      random_state: Seed of graph, order of rows and random choices.
    """

    def fit(self, X: Any, y: Any, owner: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows of several owners, each of which has at least one.

        Args:
          X: Rows of numbers: an array, a DataFrame or a sparse matrix, which is made dense.
          y: Number of each row.
          owner: Owner of each row: an array, a Series, or the name of a column of X; None: one owner, which is alone.
          sample_weight: Weight of each row, 0 or more, by which its loss is multiplied, before a clip; None: 1.
        """
        return self._learn(X, y, owner, sample_weight, True, self.passes)

    def partial_fit(self, X: Any, y: Any, owner: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows in one pass, from the owners' models on.

        The first call settles owners and scaling; a method's other memory begins anew with each call. With a
        `mechanism` costs add up as if a record were in all calls; `epsilon` is planned over one fit, and refused here.

        Args:
          X: Rows of numbers, of the columns of the first call.
          y: Number of each row.
          owner: Owner of each row, one of those of the first call; not every owner needs to have rows.
          sample_weight: Weight of each row, 0 or more; None: 1.
        """
        self._refuse_partial()
        return self._learn(X, y, owner, sample_weight, not hasattr(self, "models_"), 1)

    def _learn(self, X: Any, y: Any, owner: Any, sample_weight: Any, first: bool, passes: int | None) -> Self:
        given = owners_of(X, owner)
        X, y = self._rows_of(X, y, given, first, y_numeric=True)
        owners, weight = checked_owners(given, len(X)), checked(sample_weight, len(X))
        if first:
            self._fit(X, y, owners, "regression", 1, passes, weight=weight)
        else:
            self._fit_more(X, y, owners, weight)
        return self

    def predict(self, X: Any, owner: Any = None) -> NDArray[np.float64]:
        """Return a number for each row.

        Args:
          X: Rows of numbers.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        centre, width = self._scaling.label if hasattr(self, "_scaling") else (0.0, 1.0)
        return self._outputs(X, owner) * width + centre

    def score(self, X: Any, y: Any, owner: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2.

        Args:
          X: Rows of numbers.
          y: Number of each row.
          owner: Owner of each row, whose model is used; None: the mean of all models.
          sample_weight: Weight of each row; None: 1.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, owner), sample_weight=sample_weight))
