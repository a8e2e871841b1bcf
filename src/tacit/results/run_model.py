"""The model of a run: parameters of one repeat, their mean over the owners, and the card."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from tacit.core.contract import Params
from tacit.core.errors import ConfigError, nearest
from tacit.models.card import MEAN, DataCard, MadeCard
from tacit.models.making import MOST_BYTES, MOST_NAMES, fingerprint, model_of, now, plain, privacy_card
from tacit.models.model import Model
from tacit.results.record import versions
from tacit.streams import Stream

if TYPE_CHECKING:
    from tacit.results.run import Run


def model_of_run(run: Run, owner: str | None = None, repeat: int = 0, most: float = float("inf")) -> Model:
    """Return the model of one repeat, or of one owner; models of all are left out where they take more than `most`."""
    if not 0 <= repeat < run.repeats:
        raise ConfigError(f"repeat = {repeat}: expected 0 to {run.repeats - 1}, as many as the run had repeats")
    stream = run.streams[repeat if len(run.streams) > 1 else 0]
    owned = jax.tree.map(lambda leaf: np.asarray(leaf[repeat]), run.models)
    took_part = _took_part(stream)
    kept = (
        owner is None and len(took_part) <= MOST_NAMES and sum(leaf.nbytes for leaf in jax.tree.leaves(owned)) <= most
    )
    summary = run.privacy.summary()
    left_out = f"Models of the {run.agents:,} owners are left out for their size; their mean is here."
    return model_of(
        run.objective,
        _mean(owned) if owner is None else _one(owned, owner, list(took_part)),
        owned=owned if kept else None,
        which=MEAN if owner is None else owner,
        agents=run.agents,
        took_part=took_part if len(took_part) <= MOST_NAMES else {},
        preprocessing=stream.preprocessing,
        features=_features(run, stream),
        privacy=privacy_card(run.privacy.statement, summary, simulated=True),
        data=DataCard(
            description=_description(run),
            rows=int(stream.data_size.sum()) or None,
            fingerprint=None if run.privacy.statement.private else fingerprint([stream]),
        ),
        made=MadeCard(
            algorithm=run.algorithm,
            settings=plain((run.settings.get("algorithm") or [{}])[0]),
            rounds=run.rounds if run.chosen is None else run.chosen.rounds[repeat],
            seed=run.seed,
            repeat=repeat,
            graph=run.graph,
            created=now(),
            versions=versions(),
            partial=run.partial,
        ),
        figures=_figures(run, repeat, owner),
        notes=[*([] if kept or owner is not None else [left_out]), *_chosen(run)],
    )


def _chosen(run: Run) -> list[str]:
    if run.chosen is None:
        return []
    return [
        f"The best by their loss on {run.chosen.rows:,} rows, of a run of {run.chosen.of:,} rounds: figures on those "
        "rows would flatter them."
    ]


def kept_model(run: Run) -> Model | str:
    """Return the model that a run's directory keeps, or why there is none."""
    if run.is_reference:
        return "it was run to be compared with alone"
    try:
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.models)):
            return "its parameters are not finite: the run diverged"
        return model_of_run(run, most=MOST_BYTES)
    except ConfigError as error:
        return str(error)


def _mean(owned: Params) -> Params:
    """Return the mean over the owners, taken in double precision."""
    return jax.tree.map(lambda leaf: leaf.mean(axis=0, dtype=np.float64).astype(leaf.dtype), owned)


def _one(owned: Params, owner: str, names: list[str]) -> Params:
    if owner not in names:
        raise ConfigError(f"owner = {owner!r}: {nearest(owner, names)}expected one of {', '.join(names[:8])}, ...")
    return jax.tree.map(lambda leaf: leaf[names.index(owner)], owned)


def _took_part(stream: Stream) -> dict[str, int | None]:
    named = () if stream.preprocessing is None else stream.preprocessing.owners
    names = named if len(named) == stream.agents else [str(agent) for agent in range(stream.agents)]
    return {name: int(size) or None for name, size in zip(names, stream.data_size, strict=True)}


def _features(run: Run, stream: Stream) -> int:
    spec = stream.batch_spec()
    x, y = getattr(spec, "x", None), getattr(spec, "y", None)
    shape = [] if x is None or y is None else list(x.shape[len(y.shape) :])
    if len(shape) > 1 and getattr(getattr(run.objective.predict, "__self__", None), "shape", None) == tuple(shape):
        return math.prod(shape)  # its models take flat rows as well
    if len(shape) != 1:
        raise ConfigError(
            f"data {run.stream!r}: a model is kept of rows of numbers alone; run.models has the parameters"
        )
    return int(shape[0])


def _description(run: Run) -> str:
    """Return the data in words, without the folders of the maker's machine."""
    path = run.settings.get("stream", {}).get("path")
    return run.stream.replace(path, Path(path).name) if isinstance(path, str) and path else run.stream


def _figures(run: Run, repeat: int, owner: str | None) -> dict[str, float | None]:
    """Return the figures of the model, with names that say what they are: on held-out rows first."""
    found: dict[str, float | None] = {}
    evaluation = run.evaluation
    if evaluation is not None and owner is None:
        for name, scores in evaluation.scores["mean"].items():
            place = repeat if len(scores) > 1 else 0
            found[f"{name} on {evaluation.rows:,} held-out rows"] = float(scores[place])
            if name in evaluation.constant:
                found[f"{name} of a constant there"] = float(evaluation.constant[name][place])
    metrics, score = run.metrics(), run.objective.score_name
    reads = "on rows that were learnt before" if run.reads().most > 1 else "while learning"
    for name, words in (("average_loss", "average loss"), (score, score)):
        if name in metrics:
            found[f"{words} {reads}"] = metrics[name]["mean"]
    return found
