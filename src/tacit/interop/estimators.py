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

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tacit.core.errors import ConfigError, TacitWarning
from tacit.interop.objectives import probabilities
from tacit.interop.owners import FitError, checked_owners, owners_of, without_owners
from tacit.interop.peer_estimator import PeerEstimator
from tacit.streams.learnt import Learnt
from tacit.streams.validate import Task


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
      passes: Times that every row is read; None: five, ten with `epsilon`, one with a `mechanism`.
      standardise: Whether columns are scaled: by mean and deviation of all rows, which no privacy account covers; with
        `epsilon` by bounds that are found from noisy histograms, for a tenth of a record's budget.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
      label_bounds: (low, high) of y, for a regression with `epsilon`; None: found as those of columns.
      public: Facts that may be learnt from all rows in spite of noise: some of "scaling", "classes".
      random_state: Seed of graph, order of rows and random choices.

    Example:
      >>> import numpy as np
      >>> from tacit.interop import PeerClassifier
      >>> X, y = np.array([[1.0], [2.0], [-1.0], [-2.0]] * 4), ["hot", "hot", "cold", "cold"] * 4
      >>> model = PeerClassifier().fit(X, y, owner=["north"] * 8 + ["south"] * 8)
      >>> list(map(str, model.predict([[3.0], [-3.0]])))
      ['hot', 'cold']
    """

    def fit(self, X: Any, y: Any, owner: Any = None, classes: Any = None) -> Self:
        """Learn from rows of several owners, each of which has at least one.

        In each pass every owner reads its own rows once; an owner whose rows are used up only listens.

        Args:
          X: Rows of numbers: an array or a DataFrame.
          y: Class of each row.
          owner: Owner of each row: an array, a Series, or the name of a column of X; None: one owner, which is alone.
          classes: All that y may hold, in their order; None: they are learnt from y.
        """
        given = owners_of(X, owner)
        X, y = validate_data(self, without_owners(X, given), y, dtype=np.float64)
        check_classification_targets(y)
        learnt: tuple[Learnt, ...] = ()
        if classes is None:
            learnt = (Learnt("classes", "the classes that y holds", "them to fit in their order: classes=[...]"),)
            if self.epsilon is not None and "classes" not in self.public:
                warnings.warn(
                    "the classes were taken from y, and count as public: say fit(..., classes=[...]) if they are not",
                    TacitWarning,
                    stacklevel=2,
                )
                learnt = (learnt[0]._replace(public=True),)
            self.classes_, number = np.unique(y, return_inverse=True)
        else:
            self.classes_ = np.asarray(classes)
            number = _class_numbers(y, self.classes_)
        if len(self.classes_) < 2:
            raise FitError(f"y holds {len(self.classes_)} class ({self.classes_[0]!r}); expected at least two")
        task: Task = "binary" if len(self.classes_) == 2 else "multiclass"
        self._fit(X, number, checked_owners(given, len(X)), task, len(self.classes_), learnt)
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

    def score(self, X: Any, y: Any, owner: Any = None) -> float:
        """Return the share of right predictions.

        Args:
          X: Rows of numbers.
          y: Class of each row.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        return float(np.mean(self.predict(X, owner) == np.asarray(y)))


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
      passes: Times that every row is read; None: five, ten with `epsilon`, one with a `mechanism`.
      standardise: Whether columns are scaled: by mean and deviation of all rows, which no privacy account covers; with
        `epsilon` by bounds that are found from noisy histograms, for a tenth of a record's budget.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
      label_bounds: (low, high) of y, for a regression with `epsilon`; None: found as those of columns.
      public: Facts that may be learnt from all rows in spite of noise: "scaling".
      random_state: Seed of graph, order of rows and random choices.
    """

    def fit(self, X: Any, y: Any, owner: Any = None) -> Self:
        """Learn from rows of several owners, each of which has at least one.

        Args:
          X: Rows of numbers: an array or a DataFrame.
          y: Number of each row.
          owner: Owner of each row: an array, a Series, or the name of a column of X; None: one owner, which is alone.
        """
        given = owners_of(X, owner)
        X, y = validate_data(self, without_owners(X, given), y, dtype=np.float64, y_numeric=True)
        self._fit(X, y, checked_owners(given, len(X)), "regression", 1)
        return self

    def predict(self, X: Any, owner: Any = None) -> NDArray[np.float64]:
        """Return a number for each row.

        Args:
          X: Rows of numbers.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        centre, width = self._scaling.label if hasattr(self, "_scaling") else (0.0, 1.0)
        return self._outputs(X, owner) * width + centre

    def score(self, X: Any, y: Any, owner: Any = None) -> float:
        """Return the coefficient of determination R^2.

        Args:
          X: Rows of numbers.
          y: Number of each row.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, owner)))
