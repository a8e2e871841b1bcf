"""A model that can be handed on: parameters, how data are read, and a card that says where it comes from."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective, Params
from tacit.core.errors import ConfigError, DataError, ModelError, nearest
from tacit.models.card import MEAN, Card
from tacit.models.objective_names import LINEAR
from tacit.objectives.probabilities import probabilities
from tacit.streams import Preprocessing
from tacit.streams.dataset import with_bias
from tacit.streams.reading.columns import Input, Unknown, encoded
from tacit.streams.reading.formats import open_source
from tacit.streams.reading.frames import is_frame
from tacit.streams.reading.source import Source
from tacit.streams.validate import check_features

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

ROWS_AT_A_TIME = 4096
"""Of x that a network sees at once."""
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model out of a run, a peer or a file: it predicts from data as they come, in the words of their labels.

    `run.model()` makes it, and `tacit.load_model` reads it. It holds the mean of the owners' models, which predicts
    where nothing else is said, and where there is room each owner's own.

    Args:
      params: Parameters that predict by default.
      owned: Parameters of every owner, with a leading axis in the order of ``card.owners``; None: not there.
      objective: Function of parameters and x; None: the user's own, whose code is not here.
      card: All else that is known of the model.

    Example:
      >>> import numpy as np, tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> run = tacit.simulate(ops, tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3), rounds=20)
      >>> model = run.model()
      >>> model
      Model(logistic, binary, 3 features, mean of 4 owners, not private)
      >>> model.predict(np.ones((2, 3))).shape, model.predict_proba(np.ones((2, 3)), owner="1").shape
      ((2,), (2, 2))
    """

    params: Params
    owned: Params | None
    objective: Objective | None
    card: Card

    def __repr__(self) -> str:
        card = self.card
        which = f"mean of {card.agents:,} owners" if card.which == MEAN else f"of {card.which}"
        spent = card.privacy
        epsilon = f"epsilon {spent.epsilon:.3g} per {spent.unit}" if spent.private else "not private"
        return f"Model({card.objective.name}, {card.task or 'own task'}, {card.features} features, {which}, {epsilon})"

    @property
    def task(self) -> str | None:
        """Kind of the labels: "binary", "multiclass" or "regression"; None: an objective that does not say."""
        return self.card.task

    @property
    def classes(self) -> NDArray[Any]:
        """Labels that `predict` gives, in the order of the columns of `predict_proba`; none for a regression."""
        card = self.card
        if card.task not in ("binary", "multiclass"):
            return np.array([])
        if card.classes:
            return _whole_numbers(card.classes)
        return np.array([-1, 1]) if card.task == "binary" else np.arange(len(jax.tree.leaves(self.params)[-1]))

    @property
    def owners(self) -> tuple[str, ...]:
        """Names by which `owner=` picks a model."""
        return tuple(self.card.owners)

    @functools.cached_property
    def preprocessing(self) -> Preprocessing | None:
        """How columns of a table become rows of x; None: rows are given as they are."""
        found = self.card.preprocessing
        return None if found is None else Preprocessing.from_json(found)

    def parameters(self, owner: str | None = None) -> Params:
        """Return the parameters, of the model that predicts by default or of an owner's.

        Args:
          owner: Its name; None: the default.
        """
        if owner is None or (owner == self.card.which and owner not in self.owners):
            return self.params
        return jax.tree.map(lambda leaf: leaf[self._place(owner)], self.owned)

    def of(self, owner: str) -> Model:
        """Return the model of one owner alone.

        Args:
          owner: Its name.
        """
        card = self.card.model_copy(update={"which": owner, "owners": []})
        return Model(self.parameters(owner), None, self.objective, card)

    def x(self, data: Any, owner: str | None = None, unknown: Unknown = "refuse") -> NDArray[Any]:
        """Return the rows of data as the model sees them (rows, features).

        Args:
          data: A file or a table with the columns that the model was made of; without `preprocessing` also an array
            of numbers (rows, features).
          owner: Whose rows these are, where columns are scaled by owner and the table has no owner column.
          unknown: Treatment of a word that is none of a column's categories: "refuse" names its line; "ignore" takes
            it for none of them.
        """
        if self.preprocessing is not None:
            rows: NDArray[Any] = self.preprocessing.apply(data, owner=owner, unknown=unknown)
        else:
            rows = check_features(self._numbers(data), exact=True)
            rows = rows.reshape(len(rows), -1)
            rows = with_bias(rows) if self.card.bias else rows
        if rows.shape[1] != self.card.features:
            own = self.card.features - self.card.bias
            raise DataError(
                f"rows of {rows.shape[1] - self.card.bias} numbers; expected {own}, as the model was made of"
            )
        return rows

    def _numbers(self, data: Any) -> Any:
        """Return rows of numbers as they are; of a file, its columns by name, or all but the label."""
        if not (isinstance(data, str | os.PathLike | Source) or is_frame(data)):
            return data
        source = open_source(data)
        known, label = self.card.columns, self.card.label
        names = known or [name for name in source.features if name != label]
        return encoded(source, [Input(name, "number") for name in names]).x

    def decision_function(
        self, data: Any, owner: str | Sequence[str] | None = None, unknown: Unknown = "refuse"
    ) -> Numbers:
        """Return what the model says of each row: a number, or one per class; of two classes, above 0 is the second.

        Args:
          data: As of `x`.
          owner: Whose model predicts: a name, or one per row; None: the default, the mean of all.
          unknown: As of `x`.
        """
        if owner is None or isinstance(owner, str):
            return self.scores(self.x(data, owner, unknown), owner)
        rows, names = self.x(data, unknown=unknown), np.asarray(owner, str)
        if names.shape != (len(rows),):
            raise DataError(f"{names.size} owners for {len(rows)} rows; expected one name, or one per row")
        found = {name: names == name for name in dict.fromkeys(names.tolist())}
        said = {name: self.scores(rows[mine], name) for name, mine in found.items()}
        result = np.zeros((len(rows), *next(iter(said.values())).shape[1:]))
        for name, mine in found.items():
            result[mine] = said[name]
        return result

    def scores(self, x: NDArray[Any], owner: str | None = None) -> Numbers:
        """Return `decision_function` of rows that `x` made.

        Args:
          x: (rows, features), a bias included.
          owner: Whose model predicts; None: the default.
        """
        params, objective = self.parameters(owner), self._predictor()
        if self.is_linear:
            weights = np.asarray(_leaf(params), np.float64)
            return np.asarray(x, np.float64) @ weights.T
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
            said = [
                np.asarray(objective.predict(wide, jnp.asarray(x[k : k + ROWS_AT_A_TIME], jnp.float64)), np.float64)  # type: ignore[misc]
                for k in range(0, len(x), ROWS_AT_A_TIME)
            ]
        return np.concatenate(said)

    def predict(self, data: Any, owner: str | Sequence[str] | None = None, unknown: Unknown = "refuse") -> NDArray[Any]:
        """Return the label of each row, in the words of the data that the model was made of; or a number.

        Args:
          data: As of `x`.
          owner: Whose model predicts: a name, or one per row; None: the default, the mean of all.
          unknown: As of `x`.
        """
        return self.said(self.decision_function(data, owner, unknown))

    def said(self, scores: Numbers) -> NDArray[Any]:
        """Return the labels that scores stand for.

        Args:
          scores: Result of `decision_function`.
        """
        if self.task == "binary":
            return self.classes[(scores > 0).astype(np.int64)]
        return self.classes[scores.argmax(axis=1)] if self.task == "multiclass" else scores

    def predict_proba(
        self, data: Any, owner: str | Sequence[str] | None = None, unknown: Unknown = "refuse"
    ) -> Numbers:
        """Return the probability of each class (rows, classes), in the order of `classes`.

        Args:
          data: As of `x`.
          owner: Whose model predicts: a name, or one per row; None: the default, the mean of all.
          unknown: As of `x`.
        """
        return self.chances(self.decision_function(data, owner, unknown))

    def chances(self, scores: Numbers) -> Numbers:
        """Return the probabilities that scores stand for; an objective without any is refused.

        Args:
          scores: Result of `decision_function`.
        """
        return probabilities(self._predictor(), scores)

    @property
    def is_linear(self) -> bool:
        """Whether what it says is <x, w>, of one w or of one per class."""
        return self.card.objective.name in LINEAR and not self.card.objective.own

    def weights(self, owner: str | None = None) -> Numbers:
        """Return w (features,) or (classes, features) of a linear model; another is refused.

        Args:
          owner: Whose; None: the default.
        """
        if not self.is_linear:
            raise ConfigError(
                f"objective {self.card.objective.name!r} is not linear in x; only linear models are exported"
            )
        return np.asarray(_leaf(self.parameters(owner)), np.float64)

    def save(self, path: str | os.PathLike[str], *, figures: bool = True, force: bool = False) -> Path:
        """Write the model as one safetensors file, with its card in it; it appears when it is whole.

        Args:
          path: File to write, usually ending in ``.safetensors``.
          figures: Whether the card's figures go with it; no privacy account covers these.
          force: Whether a file that is there is replaced.

        Returns:
          The path.
        """
        from tacit.models.files import save

        return save(self if figures else self.without_figures(), Path(path), force)

    def without_figures(self) -> Model:
        """Return the same model with a card that has no figures."""
        return Model(self.params, self.owned, self.objective, self.card.model_copy(update={"figures": {}}))

    def made_by(self, command: str | None) -> Model:
        """Return the same model with a card that names the command that made it.

        Args:
          command: Command line; None: leaves the card as it is.
        """
        made = self.card.made if command is None else self.card.made.model_copy(update={"command": command})
        return Model(self.params, self.owned, self.objective, self.card.model_copy(update={"made": made}))

    def to_sklearn(self, preprocess: bool = True) -> Pipeline:
        """Return a linear model as a fitted scikit-learn pipeline; needs the extra `data`.

        Its input is a frame with the model's columns, its output that of `predict`. A word that is no category of its
        column is refused there as here.

        Args:
          preprocess: Whether the pipeline reads columns as the model does; False: it takes rows of `x`.
        """
        from tacit.models.sklearn_export import pipeline

        return pipeline(self, preprocess)

    def to_onnx(self, path: str | os.PathLike[str], preprocess: bool = True, force: bool = False) -> Path:
        """Write a linear model as an ONNX graph in double precision; needs the extra `onnx`.

        It has an input (rows, 1) for each column of the table, numbers or strings (without `preprocessing`, one input
        ``x``), and the outputs ``label``, ``score`` and, where there are any, ``probability``.

        Args:
          path: File to write.
          preprocess: Whether the graph reads columns as the model does; False: it takes rows of `x`.
          force: Whether a file that is there is replaced.

        Returns:
          The path.
        """
        from tacit.models.files import put_file
        from tacit.models.onnx_export import graph

        return put_file(Path(path), graph(self, preprocess), force)

    def _predictor(self) -> Objective:
        if self.objective is None or self.objective.predict is None:
            name = self.card.objective.name
            raise ModelError(
                f"the objective {name!r} is the user's own and its code is not in the file; give an objective with a "
                f"`predict`: tacit.load_model(path, objective=...)"
            )
        return self.objective

    def _place(self, owner: str) -> int:
        if self.owned is None:
            there = "the mean of all" if self.card.which == MEAN else f"that of {self.card.which!r}"
            raise ConfigError(f"owner {owner!r}: owners' own models are not in this one, only {there}")
        if owner not in self.owners:
            raise ConfigError(
                f"owner {owner!r} is unknown: {nearest(owner, self.owners)}expected one of {_some(self.owners)}"
            )
        return self.owners.index(owner)


def _leaf(params: Params) -> NDArray[Any]:
    return np.asarray(jax.tree.leaves(params)[0])


def _whole_numbers(words: Sequence[str]) -> NDArray[Any]:
    """Return classes as the numbers that they are, or else as words."""
    try:
        numbers = np.array([int(word) for word in words], np.int64)
    except (ValueError, OverflowError):
        return np.array(list(words))
    return numbers if list(map(str, numbers.tolist())) == list(words) else np.array(list(words))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
