"""Tables with predictions: the rows as they came, in their order, and what a model says of each."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, DataError
from tacit.models.model import Model
from tacit.streams.reading.columns import Unknown
from tacit.streams.reading.formats import open_source
from tacit.streams.reading.labels import SIGNS
from tacit.streams.reading.preprocessing import Preprocessing
from tacit.streams.reading.source import Source


class Predicted(NamedTuple):
    """Predictions for a table."""

    content: bytes
    """A CSV file in UTF-8, with the table's separator: all its columns, then those that were added."""
    rows: int
    added: tuple[str, ...]
    """Names of the columns that were added."""
    judged: dict[str, float]
    """Figures, where the table has labels: of the model, and of the best constant."""
    unjudged: str = ""
    """Why there are none, where the table has a column of labels all the same."""


def predicted(
    model: Model,
    data: Any,
    *,
    proba: bool = False,
    owner: str | None = None,
    by_owner: bool = False,
    unknown: Unknown = "refuse",
) -> Predicted:
    """Return a table with predictions.

    Args:
      model: The model.
      data: Path of a file, or an open table.
      proba: Whether the probability of each class is added, instead of a score.
      owner: Whose model predicts; None: the model's default.
      by_owner: Whether each row is predicted by its own owner's model, by the owner column.
      unknown: Treatment of a word that is none of a column's categories.
    """
    record = model.preprocessing
    source = open_source(data) if record is None else open_source(data, record.reading)
    whose: str | Sequence[str] | None = owner
    if by_owner:
        whose = _owners(model, source)
    scores = model.decision_function(source, whose, unknown)
    labels = model.said(scores)
    mark = source.reading.decimal
    added: dict[str, Sequence[str]] = {"prediction": _texts(labels, mark)}
    if proba:
        chances = model.chances(scores)
        added |= {f"probability of {name}": _texts(chances[:, k], mark) for k, name in enumerate(model.classes)}
    elif model.task in ("binary", "multiclass"):
        added["score"] = _texts(scores if scores.ndim == 1 else scores.max(axis=1), mark)
    names = [_free(name, source.columns) for name in added]
    file = io.StringIO(newline="")
    table = csv.writer(file, delimiter=source.reading.separator or ",", lineterminator="\n")
    table.writerow([*source.columns, *names])
    table.writerows([*own, *more] for own, more in zip(_rows(source), zip(*added.values(), strict=True), strict=True))
    judged, why = _judged(model, source, scores)
    return Predicted(file.getvalue().encode("utf-8"), len(scores), tuple(names), judged, why)


def _owners(model: Model, source: Source) -> list[str]:
    record = model.preprocessing
    if record is None or not record.owners:
        raise ConfigError("the table that the model was made of had no owners; leave --owner-column out")
    return [record.owners[agent] for agent in record.holders(source)]


def _judged(model: Model, source: Source, scores: NDArray[np.float64]) -> tuple[dict[str, float], str]:
    """Return figures of the predictions where the table has labels; or why there are none."""
    record = model.preprocessing
    if record is None or record.label not in source.columns or model.task is None:
        return {}, ""
    try:
        y = _labels(record, source)
    except DataError as error:
        return {}, str(error)
    if model.task == "regression":
        return {"RMSE": _size(scores - y), "of a constant": _size(y - y.mean())}, ""
    number = (scores > 0) * 2 - 1 if model.task == "binary" else scores.argmax(axis=1)
    _, counts = np.unique(y, return_counts=True)
    return {"accuracy": float(np.mean(number == y)), "of a constant": float(counts.max() / len(y))}, ""


def _labels(record: Preprocessing, source: Source) -> NDArray[Any]:
    """Return the labels of a table; of a model that knows -1 and 1, 0 is -1, as for a peer."""
    if record.task == "binary" and record.classes in SIGNS:
        for signs in SIGNS:
            with suppress(DataError):
                return replace(record, classes=signs).labels(source)
    return record.labels(source)


def _size(differences: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(differences))))


def _rows(source: Source) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table as text, as they stand in it: 007 in a text file stays 007."""
    return zip(*(_column(source.column(name)) for name in source.columns), strict=True)


def _column(column: Any) -> list[str]:
    values = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return ["" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value) for value in values]


def _texts(values: NDArray[Any], mark: str) -> list[str]:
    """Return numbers with all their digits and the table's mark of decimals, and words as they are."""
    return [repr(value).replace(".", mark) if isinstance(value, float) else str(value) for value in values.tolist()]


def _free(name: str, taken: Sequence[str]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name} {number}"
    return free
