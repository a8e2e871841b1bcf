"""Figures on held-out rows: what final models say of rows that no model learnt from, overall and owner by owner.

Three answers, by whose model predicts::

    own    each row by its owner's model: what every owner gets of taking part, all rows counted once
    each   every row by each owner's model, and the mean of the scores over the owners
    mean   every row by the mean of all models

A constant stands beside them: the class frequencies, or the mean, of the labels that were learnt from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective, Params
from tacit.core.errors import ConfigError, DataError
from tacit.metrics.scores import Numbers, classification_scores, regression_scores, score_names
from tacit.objectives.probabilities import has_probabilities, probabilities
from tacit.streams import Stream
from tacit.streams.batch import Task
from tacit.streams.validate import check_features, check_labels

Whose = Literal["own", "each", "mean"]
WORDS: Mapping[Whose, str] = {
    "own": "each row by its owner's model",
    "each": "every row by each owner's model, mean of their scores",
    "mean": "every row by the mean of all models",
}
TASKS: Mapping[str, Task] = {
    "logistic": "binary",
    "hinge": "binary",
    "softmax": "multiclass",
    "cnn": "multiclass",
    "squared": "regression",
    "absolute": "regression",
    "fourier": "regression",
}
"""Objective -> kind of its labels."""
MOST_JUDGED = 20
"""Owners whose models are judged on all rows; of more, as many, evenly spaced."""
MOST_OWNERS = 1000
"""Owners (times repeats) up to which each has figures of its own rows."""


class HeldOut(NamedTuple):
    """Rows that no model has learnt from."""

    x: NDArray[Any]
    """(rows, columns), as models see them."""
    y: NDArray[Any]
    """(rows,) labels, as of `tacit.streams.from_arrays`."""
    owner: NDArray[np.int64] | None = None
    """(rows,) agent whose row it is, -1 where it is none; None: nobody's."""
    owners: tuple[str, ...] = ()
    """Names of agents 0, 1, ...; empty: their numbers."""
    how: str = "rows that were given"
    """How they were chosen, in words."""
    constant: NDArray[np.float64] | None = None
    """Frequencies of the classes among the labels that were learnt from, or (1,) their mean; None: not known."""

    def beside(self, stream: Stream, rounds: int, objective: Objective, models: Params, task: Task) -> HeldOut:
        """Return them with the constant of the labels that a run has read; refuse rows of another form than its own.

        Args:
          stream: Its data.
          rounds: Number of its rounds.
          objective: What the models were made for.
          models: Its final models, which say how many classes there are.
          task: Kind of the labels.
        """
        spec = stream.batch_spec()
        shape = tuple(spec.x.shape[len(spec.y.shape) :]) if hasattr(spec, "y") else self.x.shape[1:]
        if self.x.shape[1:] != shape:
            raise DataError(f"rows of {list(self.x.shape[1:])} numbers; expected {list(shape)}, as of {stream.name!r}")
        classes = 2 if task != "multiclass" else outputs_of(objective, models, self.x)
        if task == "multiclass" and self.y.max(initial=0) >= classes:
            raise DataError(f"class {int(self.y.max())} among the labels; the models have classes 0 to {classes - 1}")
        return self._replace(constant=constant_of_stream(stream, rounds, task, classes))


def outputs_of(objective: Objective, models: Params, x: NDArray[Any]) -> int:
    """Return how many numbers models say of a row: one per class.

    Args:
      objective: It says how they predict.
      models: Parameters, leading axes (repeats, agents).
      x: (rows, ...), of which the shape alone is looked at.
    """
    if objective.predict is None:
        return int(jax.tree.leaves(models)[-1].shape[2])
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), models)
    rows = jax.ShapeDtypeStruct((1, *x.shape[1:]), jax.dtypes.canonicalize_dtype(x.dtype))
    return int(jax.eval_shape(objective.predict, one, rows).shape[-1])


class OwnerScores(NamedTuple):
    """Scores of one owner's model on its own held-out rows, means over the repeats."""

    owner: str
    rows: int
    scores: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Scores of a run's final models on held-out rows; `Run.evaluate` makes it.

    Example:
      >>> import numpy as np, tacit
      >>> x = np.random.default_rng(0).normal(size=(60, 2))
      >>> y, owner = np.sign(x[:, 0]), np.arange(60) % 3
      >>> stream = tacit.streams.from_arrays(x[:45], y[:45], owner[:45])
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=1.0)
      >>> run = tacit.simulate(ops, tacit.graphs.complete(3), stream, rounds=15)
      >>> run.evaluate(x[45:], y[45:], owner=owner[45:])
      Evaluation(15 rows, own: accuracy ..., a constant ...)
    """

    task: Task
    """Kind of the labels."""
    rows: int
    """Number of rows; of several repeats, that of the first."""
    how: str
    """How they were chosen, in words."""
    shown: Whose
    """Whose models the figures of tables are of: "own" where every row has an owner that took part, else "each"."""
    scores: Mapping[Whose, Mapping[str, Numbers]]
    """By whose model -> name of the score -> (repeats,)."""
    constant: Mapping[str, Numbers]
    """Scores of the constant (repeats,)."""
    by_owner: tuple[OwnerScores, ...] = ()
    """Each owner's own model on its own rows; owners without held-out rows are left out."""

    def __repr__(self) -> str:
        first = score_names(self.task)[0]
        own, constant = (float(np.mean(each[first])) for each in (self.scores[self.shown], self.constant))
        return f"Evaluation({self.rows} rows, {self.shown}: {first} {own:.3f}, a constant {constant:.3f})"


def evaluate_models(objective: Objective, models: Params, held: Sequence[HeldOut], task: Task) -> Evaluation:
    """Scores of final models on held-out rows.

    Args:
      objective: That the models were made for; it says how they predict.
      models: Parameters, leading axes (repeats, agents).
      held: The rows: one for all repeats, or one for each.
      task: "binary", "multiclass" or "regression".
    """
    predict = objective.predict
    if predict is None:
        raise ConfigError(f"objective {objective.name!r} does not say how it predicts: from_loss(..., predict=...)")
    repeats, agents = jax.tree.leaves(models)[0].shape[:2]
    chosen = set(np.linspace(0, agents - 1, min(agents, MOST_JUDGED)).round().astype(int).tolist())
    said_by = jax.jit(predict)
    each = [held[min(repeat, len(held) - 1)] for repeat in range(repeats)]
    owned = all(rows.owner is not None and len(rows.y) > 0 and rows.owner.min() >= 0 for rows in each)
    found: dict[Whose, list[Mapping[str, float]]] = {"own": [], "each": [], "mean": []}
    by_owner: dict[int, list[Mapping[str, float]]] = {}
    constant = []
    for repeat, rows in enumerate(each):
        judge = _Judge(objective, rows.y, task)
        x = jnp.asarray(rows.x)
        own: Numbers | None = None
        scores = []
        holders = () if rows.owner is None else np.unique(rows.owner)
        for agent in sorted(chosen.union(int(who) for who in holders if who >= 0)):
            said = np.asarray(said_by(jax.tree.map(lambda m, r=repeat, k=agent: m[r, k], models), x), np.float64)
            own = np.zeros(said.shape) if own is None else own
            if agent in chosen:
                scores.append(judge(said))
            if rows.owner is not None:
                mine = rows.owner == agent
                own[mine] = said[mine]
                if mine.any() and agents * repeats <= MOST_OWNERS:
                    by_owner.setdefault(agent, []).append(_Judge(objective, rows.y[mine], task)(said[mine]))
        found["each"].append({name: float(np.mean([one[name] for one in scores])) for name in score_names(task)})
        if owned and own is not None:
            found["own"].append(judge(own))
        mean = jax.tree.map(lambda m, r=repeat: m[r].mean(axis=0), models)
        found["mean"].append(judge(np.asarray(said_by(mean, x), np.float64)))
        constant.append(judge.constant(rows.constant))
    names = each[0].owners or tuple(map(str, range(agents)))
    whose = each[0].owner
    return Evaluation(
        task,
        len(each[0].y),
        each[0].how,
        "own" if owned else "each",
        {kind: _by_name(scores) for kind, scores in found.items() if scores},
        _by_name(constant),
        tuple(
            OwnerScores(
                names[agent],
                0 if whose is None else int((whose == agent).sum()),
                {name: float(np.mean([one[name] for one in scores])) for name in score_names(task)},
            )
            for agent, scores in sorted(by_owner.items())
        ),
    )


class _Judge:
    """Scores of what models say of given labels."""

    def __init__(self, objective: Objective, y: NDArray[Any], task: Task) -> None:
        self.objective, self.task = objective, task
        self.y = (y > 0).astype(np.int64) if task == "binary" else y

    def __call__(self, said: Numbers) -> Mapping[str, float]:
        if self.task == "regression":
            return regression_scores(self.y, said)
        sure = None
        if has_probabilities(self.objective) and np.isfinite(said).all():
            sure = probabilities(self.objective, said)
        return classification_scores(self.y, said, sure)

    def constant(self, known: Numbers | None) -> Mapping[str, float]:
        """Return the scores of one prediction for all rows."""
        if known is None:
            return dict.fromkeys(score_names(self.task), np.nan)
        every = np.ones(len(self.y))
        if self.task == "regression":
            return regression_scores(self.y, every * known[0])
        sure = np.outer(every, known / known.sum())
        return classification_scores(self.y, sure[:, 1] - sure[:, 0] if self.task == "binary" else sure, sure)


def constant_of(labels: NDArray[Any], task: Task, classes: int = 2) -> Numbers:
    """Frequencies of classes among labels that are learnt from, or (1,) the mean of numbers.

    Args:
      labels: (rows,) as of `tacit.streams.from_arrays`.
      task: "binary", "multiclass" or "regression".
      classes: Number of classes.
    """
    if task == "regression":
        return np.array([labels.mean()])
    numbers = (labels > 0).astype(np.int64) if task == "binary" else labels.astype(np.int64)
    return np.bincount(numbers, minlength=classes) / max(len(labels), 1)


def constant_of_stream(stream: Stream, rounds: int, task: Task, classes: int = 2) -> Numbers | None:
    """Return `constant_of` the labels of a stream's first rounds; None where its batches have none.

    Args:
      stream: The data.
      rounds: Number of rounds.
      task: "binary", "multiclass" or "regression".
      classes: Number of classes.
    """
    if not hasattr(stream.batch_spec(), "y"):
        return None
    parts, step = [], max(1, 2**20 // stream.agents)
    for start in range(0, rounds, step):
        batch = stream.chunk(start, min(start + step, rounds))
        weight = getattr(batch, "weight", None)
        parts.append(batch.y.ravel() if weight is None else batch.y[np.broadcast_to(weight, batch.y.shape) > 0])
    return constant_of(np.concatenate(parts), task, classes)


def task_of(objective: Objective, given: Task | None = None) -> Task:
    """Return the kind of an objective's labels.

    Args:
      objective: The objective.
      given: What is known of it; None: it follows from its name.
    """
    found = given or objective.task or TASKS.get(objective.name)
    if found is None:
        raise ConfigError(f"objective {objective.name!r}: give task='binary', 'multiclass' or 'regression'")
    return found


def given_rows(x: Any, y: Any, owner: Any, agents: int, task: Task) -> HeldOut:
    """Return rows that were given as arrays, checked.

    Args:
      x: Rows as models see them.
      y: Labels.
      owner: Number of the agent whose row it is, -1 for nobody's; None: all are nobody's.
      agents: Number of agents.
      task: Kind of the labels.
    """
    rows = check_features(x, exact=True)
    labels = check_labels(y, len(rows), task, exact=True)
    return HeldOut(rows, labels, None if owner is None else _checked_owner(owner, len(rows), agents))


def _checked_owner(owner: Any, rows: int, agents: int) -> NDArray[np.int64]:
    found = np.asarray(owner)
    if found.shape != (rows,) or found.dtype.kind not in "iu" or not (found.min(initial=0) >= -1):
        raise DataError(
            f"owner: {found.dtype}{list(found.shape)}; expected the number of an agent for each of {rows} rows"
        )
    if found.max(initial=0) >= agents:
        raise DataError(
            f"owner: agent {int(found.max())}, but the run has agents 0 to {agents - 1}; -1 is nobody's row"
        )
    return found.astype(np.int64)


def _by_name(scores: Sequence[Mapping[str, float]]) -> dict[str, Numbers]:
    return {name: np.array([one[name] for one in scores], np.float64) for name in scores[0]}
