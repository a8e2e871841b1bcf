"""Models made of the parameters of a run or of a peer: objective by name, owners, and what the card says of both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jax
import numpy as np

from tacit.core.contract import Objective, Params, PrivacyStatement
from tacit.core.errors import ConfigError
from tacit.metrics.held_out import TASKS
from tacit.models.card import (
    COVERED,
    MEAN,
    NOT_COVERED,
    NOT_PRIVATE,
    SIMULATED,
    Card,
    DataCard,
    MadeCard,
    ObjectiveCard,
    PrivacyCard,
)
from tacit.models.model import Model
from tacit.models.objective_names import arguments_of, like
from tacit.streams import Preprocessing, Stream
from tacit.streams.digests import digest

MOST_BYTES, MOST_NAMES = 2**26, 10_000
"""Of the owners' own models that are kept beside their mean in the directory of a run, and owners that a card names."""


def model_of(
    objective: Objective,
    params: Params,
    *,
    owned: Params | None,
    agents: int,
    took_part: Mapping[str, int | None],
    which: str = MEAN,
    preprocessing: Preprocessing | None,
    features: int,
    bias: bool = False,
    columns: Sequence[str] = (),
    label: str | None = None,
    classes: Sequence[str] = (),
    privacy: PrivacyCard,
    data: DataCard,
    made: MadeCard,
    figures: Mapping[str, float | None],
    notes: Sequence[str] = (),
) -> Model:
    """Return a model with its card.

    Args:
      objective: Loss and prediction.
      params: Parameters that predict by default.
      owned: Those of all owners, with a leading axis; None: left out.
      agents: Number of owners.
      took_part: Owner -> its rows; empty where there are too many to name.
      which: Name of the default: the mean, or an owner.
      preprocessing: From a table to x, where known.
      features: Numbers that the model sees of a row.
      bias: Whether the last of them is a one that the model adds.
      columns: Names of x, where there is no preprocessing that knows them.
      label: Column of the labels, likewise.
      classes: Labels in the order of their numbers, likewise.
      privacy: What was spent.
      data: What it was made of.
      made: How.
      figures: Numbers to show.
      notes: Sentences to show.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
    if not leaves:
        raise ConfigError(f"{made.algorithm!r} has no parameters, so that there is no model")
    arguments = arguments_of(objective, params)
    own = arguments is None
    if own:
        notes = [*notes, f"The objective {objective.name!r} is the user's own: its code is needed to predict."]
    task = objective.task if own else TASKS[objective.name]
    if not own and [leaf.shape for leaf in leaves] != [
        leaf.shape for leaf in jax.tree.leaves(like(objective, features))
    ]:
        raise ConfigError(f"parameters of {objective.name!r} of other shapes than its own: there is no model of them")
    if preprocessing is not None:
        classes = preprocessing.classes if preprocessing.task == task else ()
    count = _outputs(objective, params, features) if task == "multiclass" else 0
    if classes and task == "multiclass":  # an objective may have room for more than the data hold
        classes = [*classes, *(f"class {number}" for number in range(len(classes), count))]
    elif own and task == "multiclass":
        classes = [str(number) for number in range(count)]
    card = Card(
        objective=ObjectiveCard(name=objective.name, arguments=arguments or {}, own=own),
        task=task,
        features=features,
        bias=bias,
        preprocessing=None if preprocessing is None else preprocessing.to_json(),
        columns=list(columns if preprocessing is None else preprocessing.columns),
        label=label if preprocessing is None else preprocessing.label,
        classes=list(classes),
        which=which,
        owners=[] if owned is None else list(took_part),
        agents=agents,
        took_part=dict(took_part),
        privacy=privacy,
        data=data,
        figures={
            name: value if value is not None and math.isfinite(value) else None for name, value in figures.items()
        },
        made=made,
        notes=list(notes),
    )
    return Model(params, owned, objective, card)


def _outputs(objective: Objective, params: Params, features: int) -> int:
    """Return how many numbers a model of several classes says of a row."""
    if objective.predict is None:
        return len(jax.tree.leaves(params)[-1])
    row = jax.ShapeDtypeStruct((features,), np.float32)
    return int(jax.eval_shape(objective.predict, params, row).shape[-1])


def privacy_card(statement: PrivacyStatement, summary: Mapping[str, Any], simulated: bool = False) -> PrivacyCard:
    """Return what was spent, and what it means for handing the model on.

    Where records compose in parallel the runtimes have checked, before round 0, that no state holds data by another way
    than through a release (`tacit.runtime.data_flow`): a model is then made of released values alone. Of a simulation
    not even these are covered: who knows the seed, and all records but one, tries the last one until the model fits.
    """
    private = bool(summary["private"])
    covered = COVERED if statement.composition == "parallel" else NOT_COVERED
    covered = SIMULATED if simulated else covered
    return PrivacyCard(
        private=private,
        words=summary["words"],
        epsilon=summary["epsilon"] if private else None,
        delta=summary["delta"] if private else None,
        unit=summary["unit"],
        adjacency=summary["adjacency"],
        model=covered if private else NOT_PRIVATE,
    )


def fingerprint(streams: Iterable[Stream]) -> str | None:
    """Return a hash of the rows of streams, of whose they are and of their order; None where no rows are kept."""
    rows = [stream.backing() for stream in streams]
    return digest([each] for each in rows) if all(rows) else None


def now() -> str:
    """Return date and time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(settings: Any) -> Any:
    """Return settings as values that JSON has."""
    return json.loads(json.dumps(settings, default=str), parse_constant=str)
