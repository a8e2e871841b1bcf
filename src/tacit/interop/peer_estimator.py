"""The common part of the estimators: scaling, plan, run, and what the owners' models say."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit import privacy
from tacit.algorithms import averaged, find
from tacit.config.experiment import choose_graph
from tacit.config.sections import Place
from tacit.core.checks import whole_number
from tacit.core.contract import Algorithm, Mechanism, Objective, Params, unprotected
from tacit.core.errors import ConfigError, PrivacyError
from tacit.experiments.build import graph_maker
from tacit.experiments.references import compare, warn_of_constant
from tacit.graphs import Graph, Topology, random_digraph
from tacit.interop.objectives import resolved
from tacit.interop.owners import Owners, in_passes, owners_of, without_owners
from tacit.interop.scaling import BOUNDS_SHARE, Scaling, as_it_is, by_all_rows, by_histograms, dense, given_bounds
from tacit.interop.weights import FitError, Weights, weighted
from tacit.privacy.accounting import guarantee
from tacit.privacy.charges import charges_all
from tacit.privacy.conversions import rho_within, tight
from tacit.privacy.events import Loss
from tacit.privacy.planning import Plan, plan
from tacit.privacy.spending import RunPrivacy
from tacit.results import Comparison, RegretCurve, Run
from tacit.simulator import simulate
from tacit.streams.batch import Task
from tacit.streams.learnt import Learnt, declared

OUT_DEGREE = 4
"""Of the graph that owners get where none is given."""


@dataclass(eq=False, repr=False)
class PeerEstimator(BaseEstimator):  # type: ignore[misc]
    """Common part of both estimators."""

    algorithm: str = "online_push_sum"
    _: KW_ONLY
    parameters: Mapping[str, Any] | None = None
    objective: str | Objective | None = None
    graph: Graph | Topology | str | Mapping[str, Any] | None = None
    epsilon: float | None = None
    delta: float = 1e-6
    mechanism: Mechanism | None = None
    passes: int | None = None
    standardise: bool = True
    bounds: Any = None
    label_bounds: tuple[float, float] | None = None
    public: Sequence[str] = ()
    random_state: int = 0

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------------------------------------------------------

    def _rows_of(self, X: Any, y: Any, owners: Owners | None, reset: bool, **kind: Any) -> tuple[Any, Any]:
        """Return rows as dense numbers and labels, checked."""
        X, y = validate_data(
            self, without_owners(X, owners), y, dtype=np.float64, accept_sparse="csr", reset=reset, **kind
        )
        return dense(X), y

    def _fit(
        self,
        x: NDArray[np.float64],
        y: NDArray[Any],
        owner: NDArray[Any] | None,
        task: Task,
        classes: int,
        passes: int | None,
        learnt: tuple[Learnt, ...] = (),
        weight: Weights | None = None,
    ) -> None:
        """Learn from all rows in so many passes (None: as many as suit), from the first parameters on."""
        if self.epsilon is not None and self._noise_given is not None:
            raise ConfigError(f"epsilon={self.epsilon!r} and a mechanism: expected one of them; leave one out")
        if weight is not None and not self._noisy:  # with noise such a row has its place all the same
            x, y, owner = x[weight > 0], y[weight > 0], None if owner is None else owner[weight > 0]
            weight = weight[weight > 0]
        self.owners_, agent = np.unique(np.zeros(len(x), int) if owner is None else owner, return_inverse=True)
        self.task_, self.outputs_, owner_of_row = task, classes, agent.astype(np.int64)
        self._scaling = self._find_scaling(x, y, owner_of_row)
        self.plan_ = self._plan(len(self._scaling.centre) + 1, owner_of_row)
        if self.plan_ is not None:
            passes = self.plan_.passes
        elif passes is None:
            passes = 1 if self._noisy else 5
        whole_number("passes", passes)
        self._learnt, self._begun, self._calls = learnt, (self.algorithm, self._noise_given), 0
        self._run(x, y, owner_of_row, passes, weight)
        self.privacy_: RunPrivacy = self._spent(self.run_.privacy)
        """Privacy spent by the fit, the scaling included."""
        self.n_iter_ = self.run_.rounds

    def _fit_more(
        self, x: NDArray[np.float64], y: NDArray[Any], owner: NDArray[Any] | None, weight: Weights | None
    ) -> None:
        """Learn from more rows in one pass, from the owners' models on."""
        whose = np.zeros(len(x), int) if owner is None else owner
        agent = np.searchsorted(self.owners_, whose).clip(max=len(self.owners_) - 1)
        self._refuse_strangers(self.owners_[agent] != whose, whose)
        spent, done = self.privacy_, self.n_iter_
        self._calls += 1
        self._run(x, y, agent.astype(np.int64), 1, weight, self.models_)
        self.privacy_ = added_up(spent, self.run_.privacy)
        self.n_iter_ = done + self.run_.rounds

    def _refuse_partial(self) -> None:
        """Refuse more rows where what they cost does not add up to what was paid before."""
        if self.epsilon is not None:
            raise ConfigError(
                f"epsilon={self.epsilon!r} is planned over all rows of one fit, so that there is no partial_fit; use "
                "fit, or say mechanism=... instead, of which every call is charged"
            )
        if hasattr(self, "models_") and self._begun != (self.algorithm, self._noise_given):
            raise ConfigError("algorithm or mechanism have changed since the first call: costs do not add; use fit")
        spent = self.privacy_.guarantee if hasattr(self, "privacy_") else None
        if spent is not None and spent.private and spent.rho == math.inf:
            raise PrivacyError(f"the costs of {self._noise_given!r} do not add up over calls; use fit, or other noise")

    @property
    def _counted(self) -> tuple[Learnt, ...]:
        """What weights of classes were learnt from all rows."""
        return ()

    @property
    def _noise_given(self) -> Mechanism | None:
        found: Mechanism | None = (self.parameters or {}).get("mechanism", self.mechanism)
        return found

    @property
    def _noisy(self) -> bool:
        return self.epsilon is not None or self._noise_given is not None

    def _run(
        self,
        x: NDArray[np.float64],
        y: NDArray[Any],
        agent: NDArray[np.int64],
        passes: int,
        weight: Weights | None,
        models: Params | None = None,
    ) -> None:
        """Simulate what the owners learn from these rows; every call has an order and noise of its own."""
        rows, seed = self._prepared(x), int(self.random_state) + self._calls
        if self.task_ == "regression":
            centre, width = self._scaling.label
            y = np.clip((y - centre) / width, -1, 1) if self.plan_ else (y - centre) / width
        known = self._scaling.learnt
        note = f"; columns scaled by {known[0].what}, which no privacy account covers" if known else ""
        facts = declared((*self._learnt, *self._counted, *known), self.public)
        batch = self.plan_.batch if self.plan_ else 1
        stream = in_passes(rows, y, agent, self.task_, seed, note, facts, batch, weight, len(self.owners_))
        rounds = passes * int(stream.period or 0)
        self._weighted = weight is not None
        method, mechanism = self._method(rows.shape[1], rounds)
        network = self._graph(len(self.owners_))
        settings: dict[str, Any] = {"rounds": rounds, "seed": seed, "progress": False}
        if models is not None:
            settings["start"] = lambda owner: jax.tree.map(lambda leaf: leaf[owner], models)
        self.run_: Run = simulate(method(mechanism), network, stream, **settings)
        self._compare = functools.partial(compare, method, mechanism, network, stream, **settings)
        warn_of_constant(self.run_)
        self.models_ = jax.tree.map(lambda leaf: np.asarray(leaf)[0], self.run_.models)
        """The owners' models, leading axis in the order of `owners_`."""

    def _find_scaling(self, x: NDArray[np.float64], y: NDArray[Any], owner: NDArray[np.int64]) -> Scaling:
        """Return the scaling of columns and labels: given, or charged where there is an epsilon, or learnt."""
        columns, planned, regression = x.shape[1], self.epsilon is not None, self.task_ == "regression"
        free = self.bounds is not None or not self.standardise or "scaling" in self.public
        unknown = planned and not free
        if self.bounds is not None:
            found = given_bounds(self.bounds, columns)
        elif not self.standardise:
            found = as_it_is(columns)
        else:
            found = as_it_is(columns) if unknown else by_all_rows(x)
        label = None if self.label_bounds is None else given_bounds(self.label_bounds, 1)
        unknown_label = planned and regression and label is None
        if unknown or unknown_label:
            table = np.concatenate([x] * unknown + [np.asarray(y, np.float64)[:, None]] * unknown_label, axis=1)
            rho = BOUNDS_SHARE * rho_within(float(self.epsilon or 0), self.delta)
            private = by_histograms(table, owner, rho, int(self.random_state))
            if unknown:
                cut = slice(None, columns)
                found = private._replace(centre=private.centre[cut], width=private.width[cut])
            if unknown_label:
                label = private._replace(centre=private.centre[-1:], width=private.width[-1:])
            found = found._replace(rho=private.rho)
        if regression and label is not None:
            found = found._replace(label=(float(label.centre[0]), float(label.width[0])))
        return found._replace(unit=planned)

    def _plan(self, columns: int, owner: NDArray[np.int64]) -> Plan | None:
        """Return the settings that follow from epsilon, where one is given."""
        if self.epsilon is None:
            return None
        left = rho_within(self.epsilon, self.delta) - self._scaling.rho
        outputs = self.outputs_ if self.task_ == "multiclass" else 1
        return plan(
            int(np.bincount(owner).max()),
            columns,
            tight(left, self.delta),
            self.delta,
            len(self.owners_),
            self.task_,
            outputs,
            self.passes,
        )

    def _spent(self, spent: RunPrivacy) -> RunPrivacy:
        """Return what a record has paid for the fit and its scaling, at the delta that was asked for."""
        found = spent.guarantee
        if self.plan_ is None or found is None:
            return spent
        both = Loss(math.inf, found.rho).plus(Loss(math.inf, self._scaling.rho))
        total = guarantee(both, found.adjacency, self.delta)
        paid = "; a private histogram of the columns included" if self._scaling.rho else ""
        return replace(spent, guarantee=replace(total, theorem=f"{found.theorem}{paid}"))

    def _prepared(self, x: NDArray[np.float64]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            return self._scaling.rows(x)

    def _objective(self) -> Objective:
        return resolved(self.objective, self.task_, self.outputs_)

    def _method(self, columns: int, rounds: int) -> tuple[Callable[[Mechanism], Algorithm], Mechanism]:
        """Return the method as a function of its noise, and the noise."""
        constructor = find(self.algorithm).constructor
        settings = dict(self.parameters or {})
        settings.pop("mechanism", None)
        own_step = "step" in settings or "step" not in inspect.signature(constructor).parameters
        # Standardised columns and the one of ones have a mean squared norm of `columns`, which bounds a stable step.
        step = self.plan_.step if self.plan_ else (0.5 if self.task_ == "regression" else 2.0) / columns

        objective = weighted(self._objective()) if self._weighted else self._objective()

        def made(mechanism: Mechanism) -> Algorithm:
            noise = {} if mechanism is unprotected else {"mechanism": mechanism}
            rate = {} if own_step else {"step": step}
            try:
                algorithm: Algorithm = constructor(objective, **{**rate, **noise, **settings})
            except TypeError as error:
                raise ConfigError(f"algorithm {self.algorithm!r} with {sorted(settings)}: {error}") from error
            return averaged(algorithm, "tail", share=self.plan_.tail) if self.plan_ else algorithm

        if self.plan_ is None:
            return made, self._noise_given or unprotected
        noise = self.plan_.mechanism()
        if charges_all(made(noise).privacy, noise.adjacency):  # every release costs every record: no other noise helps
            noise = privacy.gaussian(math.sqrt(rounds / (2 * self.plan_.rho)), self.plan_.clip)
        return made, noise

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
        table = validate_data(self, without_owners(X, owner), reset=False, dtype=np.float64, accept_sparse="csr")
        x = jnp.asarray(self._prepared(dense(table)))
        predict = self._objective().predict
        if predict is None:
            raise ConfigError(f"objective {self._objective().name!r} does not say what it predicts; give it `predict`")
        if owner is None:
            mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), self.models_)
            return np.asarray(predict(mean, x), np.float64)
        known = np.searchsorted(self.owners_, owner.values).clip(max=len(self.owners_) - 1)
        self._refuse_strangers(self.owners_[known] != owner.values, owner.values)
        own = jax.tree.map(lambda leaf: leaf[known], self.models_)
        return np.asarray(jax.vmap(predict)(own, x), np.float64)

    def _refuse_strangers(self, strange: NDArray[np.bool_], whose: NDArray[Any]) -> None:
        if strange.any():
            raise FitError(
                f"owner {whose[strange].tolist()[0]!r} had no rows in fit; expected one of "
                f"{', '.join(map(str, self.owners_[:5]))}{', ...' if len(self.owners_) > 5 else ''}; where a model "
                "predicts, leave `owner` out, and the mean of all models does"
            )


def added_up(one: RunPrivacy, other: RunPrivacy) -> RunPrivacy:
    """Return what a record has paid that may have been in both calls of partial_fit.

    Args:
      one: Spent by the calls before.
      other: Spent by the last one.
    """
    before, after = one.guarantee, other.guarantee
    if before is None or after is None:
        return other
    pure = before.delta == after.delta == 0
    losses = [Loss(found.epsilon if pure else math.inf, found.rho) for found in (before, after)]
    reads = (one.reads or 0) + (other.reads or 0)
    total = guarantee(losses[0].plus(losses[1]), after.adjacency, max(before.delta, after.delta) or 1e-5, max(1, reads))
    return replace(other, guarantee=replace(total, theorem=f"{total.theorem}, as if in all calls"), reads=reads)
