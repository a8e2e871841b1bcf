"""Estimators in the manner of scikit-learn, for data of several owners: X, y and a column that says whose row it is.

    model = PeerClassifier(epsilon=2.0, bounds=(0, 100)).fit(X, y, owner=hospital, classes=["no", "yes"])
    model.predict_proba(X_new)                # by the mean of the owners' models
    model.predict(X_new, owner=whose)         # each row by its owner's model
    print(model.privacy_.words())

`fit` is a simulation on this machine, which sees all rows: it answers what owners would have learnt together, and what
it would have cost them. For owners that do not hand out rows there are peers (docs/deploy.md).
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit import privacy
from tacit.algorithms import find
from tacit.config.experiment import choose_graph
from tacit.config.sections import Place
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.core.errors import ConfigError
from tacit.experiments.build import graph_maker
from tacit.experiments.references import compare, warn_of_constant
from tacit.graphs import Graph, Topology, random_digraph
from tacit.interop.objectives import probabilities, resolved
from tacit.interop.owners import FitError, checked_owners, in_passes, owners_of, without_owners
from tacit.privacy.charges import charges_all
from tacit.privacy.spending import RunPrivacy
from tacit.results import Comparison, RegretCurve, Run
from tacit.simulator import simulate
from tacit.streams.learnt import Learnt, declared
from tacit.streams.validate import Task, check_count

OUT_DEGREE = 4
"""Of the graph that owners get where none is given."""


class _PeerEstimator(BaseEstimator):  # type: ignore[misc]
    """Common part of both estimators."""

    def __init__(
        self,
        algorithm: str = "online_push_sum",
        *,
        parameters: Mapping[str, Any] | None = None,
        objective: str | Objective | None = None,
        graph: Graph | Topology | str | Mapping[str, Any] | None = None,
        epsilon: float | None = None,
        clip: float = 1.0,
        mechanism: Mechanism | None = None,
        passes: int | None = None,
        standardise: bool = True,
        bounds: Any = None,
        public: Sequence[str] = (),
        random_state: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.parameters = parameters
        self.objective = objective
        self.graph = graph
        self.epsilon = epsilon
        self.clip = clip
        self.mechanism = mechanism
        self.passes = passes
        self.standardise = standardise
        self.bounds = bounds
        self.public = public
        self.random_state = random_state

    @property
    def regret_(self) -> RegretCurve:
        """Loss of the run above that of the best single model; it is computed when first asked for."""
        check_is_fitted(self)
        return self.run_.regret()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the run out of what is pickled: it holds the data, and functions that cannot be."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("run_", "_compare")}

    def compared(self) -> Comparison:
        """Run the fit again beside its references (`tacit.compare`), and warn where it is worse than staying alone."""
        check_is_fitted(self)
        return self._compare()

    # ------------------------------------------------------------------------------------------------------------------

    def _fit(
        self,
        x: NDArray[np.float64],
        y: NDArray[Any],
        owner: NDArray[Any] | None,
        task: Task,
        classes: int,
        learnt: tuple[Learnt, ...] = (),
    ) -> None:
        noisy = self.epsilon is not None or self.mechanism is not None
        passes = self.passes if self.passes is not None else 1 if noisy else 5
        check_count("passes", passes)
        self.owners_, agent = np.unique(np.zeros(len(x), int) if owner is None else owner, return_inverse=True)
        note, learnt = "", (*learnt, *self._find_scale(x))
        if self.bounds is None and self.standardise:
            note = "; columns scaled by mean and deviation of all rows, which no privacy account covers"
        with np.errstate(over="ignore"):
            rows = self._prepared(x)
        stream = in_passes(
            rows,
            y,
            agent.astype(np.int64),
            task,
            int(self.random_state),
            note,
            declared(learnt, self.public),
        )
        rounds = passes * int(stream.period or 0)
        self.task_, self.outputs_ = task, classes
        method, mechanism = self._method(rows.shape[1], rounds, passes)
        network = self._graph(len(self.owners_))
        settings: dict[str, Any] = {"rounds": rounds, "seed": int(self.random_state), "progress": False}
        self.run_: Run = simulate(method(mechanism), network, stream, **settings)
        self._compare = functools.partial(compare, method, mechanism, network, stream, **settings)
        warn_of_constant(self.run_)
        self.privacy_: RunPrivacy = self.run_.privacy
        """Privacy spent by the fit."""
        self.n_iter_ = rounds
        self.models_ = jax.tree.map(lambda leaf: np.asarray(leaf)[0], self.run_.models)
        """The owners' models, leading axis in the order of `owners_`."""

    def _find_scale(self, x: NDArray[np.float64]) -> tuple[Learnt, ...]:
        """Set centre and scale of every column; return what of that was learnt from all rows."""
        columns = x.shape[1]
        if self.bounds is not None:
            low, high = _bounds(self.bounds, columns).T
            self._centre, self._scale = (low + high) / 2, (high - low) / 2
            return ()
        if not self.standardise:
            self._centre, self._scale = np.zeros(columns), np.ones(columns)
            return ()
        spread = x.std(axis=0)
        self._centre, self._scale = x.mean(axis=0), np.where(spread > 0, spread, 1)
        remedy = "bounds=(low, high), one pair for all columns or one for each, or standardise=False"
        return (Learnt("scaling", "mean and deviation of every column over all rows", remedy),)

    def _prepared(self, x: NDArray[np.float64]) -> NDArray[np.float32]:
        scaled = (x - self._centre) / self._scale
        if self.bounds is not None:
            scaled = np.clip(scaled, -1, 1)
        return np.concatenate([scaled, np.ones((len(x), 1))], axis=1).astype(np.float32)

    def _objective(self) -> Objective:
        return resolved(self.objective, self.task_, self.outputs_)

    def _method(self, columns: int, rounds: int, passes: int) -> tuple[Callable[[Mechanism], Algorithm], Mechanism]:
        """Return the method as a function of its noise, and the noise."""
        constructor = find(self.algorithm).constructor
        settings = dict(self.parameters or {})
        given = settings.pop("mechanism", self.mechanism)
        own_step = "step" in settings or "step" not in inspect.signature(constructor).parameters

        def made(step: float, mechanism: Mechanism) -> Algorithm:
            noise = {} if mechanism is unprotected else {"mechanism": mechanism}
            rate = {} if own_step else {"step": step}
            try:
                return constructor(self._objective(), **{**rate, **noise, **settings})
            except TypeError as error:
                raise ConfigError(f"algorithm {self.algorithm!r} with {sorted(settings)}: {error}") from error

        # Standardised columns and the one of ones have a mean squared norm of `columns`, which bounds a stable step.
        step = (0.5 if self.task_ == "regression" else 2.0) / columns
        if self.epsilon is None:
            return functools.partial(made, step), given or unprotected
        if given is not None:
            raise ConfigError(f"epsilon={self.epsilon!r} and a mechanism: expected one of them; leave one out")
        whole = privacy.laplace(epsilon=self.epsilon, clip=self.clip)
        releases = rounds if charges_all(made(step, whole).privacy, whole.adjacency) else passes
        size = columns * (self.outputs_ if self.task_ == "multiclass" else 1)
        # The usual step for T noisy gradients, D / (G sqrt(T)), with the noise that is left of them in a mean of all.
        scale = 2 * self.clip * math.sqrt(size) * releases / self.epsilon
        gradient = math.sqrt(self.clip**2 + 2 * size * scale**2 / len(self.owners_))
        step = min(step, math.sqrt(size) / (gradient * math.sqrt(rounds)))
        return functools.partial(made, step), privacy.laplace(epsilon=self.epsilon / releases, clip=self.clip)

    def _graph(self, owners: int) -> Graph | Topology:
        if isinstance(self.graph, Graph | Topology):
            return self.graph
        if self.graph is None:
            if owners == 1:
                return Graph.from_edges(1, [], [], name="one owner")
            return random_digraph(owners, min(OUT_DEGREE, owners - 1), int(self.random_state))
        table = {"kind": self.graph} if isinstance(self.graph, str) else dict(self.graph)
        place = Place(type(self).__name__, "graph")
        return graph_maker(choose_graph({"agents": owners, **table}, place), None)(int(self.random_state))

    def _outputs(self, X: Any, owner: Any) -> NDArray[np.float64]:
        """Return what the models say: (rows,) numbers, or (rows, classes)."""
        check_is_fitted(self)
        owner = owners_of(X, owner)
        x = jnp.asarray(self._prepared(validate_data(self, without_owners(X, owner), reset=False, dtype=np.float64)))
        predict = self._objective().predict
        if predict is None:
            raise ConfigError(f"objective {self._objective().name!r} does not say what it predicts; give it `predict`")
        if owner is None:
            mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), self.models_)
            return np.asarray(predict(mean, x), np.float64)
        known = np.searchsorted(self.owners_, owner.values).clip(max=len(self.owners_) - 1)
        strange = self.owners_[known] != owner.values
        if strange.any():
            raise FitError(
                f"owner {owner.values[strange].tolist()[0]!r} had no rows in fit; expected one of "
                f"{', '.join(map(str, self.owners_[:5]))}{', ...' if len(self.owners_) > 5 else ''}, or "
                "leave `owner` out, and the mean of all models predicts"
            )
        own = jax.tree.map(lambda leaf: leaf[known], self.models_)
        return np.asarray(jax.vmap(predict)(own, x), np.float64)


def _bounds(given: Any, columns: int) -> NDArray[np.float64]:
    """Return (columns, 2) bounds of one pair, or of one per column."""
    pairs = np.asarray(given, np.float64)
    if pairs.shape not in ((2,), (columns, 2)) or not (np.isfinite(pairs).all() and (np.diff(pairs) > 0).all()):
        raise ConfigError(f"bounds={given!r}: expected (low, high), or one such pair for each of {columns} columns")
    return np.broadcast_to(pairs, (columns, 2))


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


class PeerClassifier(ClassifierMixin, _PeerEstimator):  # type: ignore[misc]
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
      epsilon: Privacy loss of a record in the whole fit, by Laplace noise on clipped gradients; None: no such noise.
      clip: Largest norm of a gradient under `epsilon`.
      mechanism: Other noise, instead of `epsilon`.
      passes: Times that every row is read; None: five, or with noise one, since every reading costs.
      standardise: Whether columns are scaled by mean and deviation of all rows, which no privacy account covers.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
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


class PeerRegressor(RegressorMixin, _PeerEstimator):  # type: ignore[misc]
    """A regression that the owners of the rows learn together, each with its own model.

    Args:
      algorithm: Name out of `tacit algorithms`.
      parameters: Settings of the algorithm, e.g. ``{"step": 0.3}``.
      objective: Name or `Objective`; None: least squares.
      graph: Links, as for `PeerClassifier`.
      epsilon: Privacy loss of a record in the whole fit, by Laplace noise on clipped gradients; None: no such noise.
      clip: Largest norm of a gradient under `epsilon`.
      mechanism: Other noise, instead of `epsilon`.
      passes: Times that every row is read; None: five, or with noise one.
      standardise: Whether columns are scaled by mean and deviation of all rows, which no privacy account covers.
      bounds: (low, high) by which columns are scaled to -1 ... 1 instead, one pair for all or one for each.
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
        return self._outputs(X, owner)

    def score(self, X: Any, y: Any, owner: Any = None) -> float:
        """Return the coefficient of determination R^2.

        Args:
          X: Rows of numbers.
          y: Number of each row.
          owner: Owner of each row, whose model is used; None: the mean of all models.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, owner)))
