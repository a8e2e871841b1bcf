"""Labels of a table: the classes that stand for -1 and +1, or for 0, 1, 2, ..., and the numbers of a regression.

Labels that are already such numbers keep them, and nothing is learnt from the rows but how many there are, where that
is not given. Other classes (1 to 7, 1 and 2, "no" and "yes") are given in their order, or are those that the column
holds, by number or by the alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import one_of
from tacit.core.errors import ConfigError
from tacit.streams.batch import TASKS, Task
from tacit.streams.learnt import Learnt
from tacit.streams.reading.source import Column, Source, listed
from tacit.streams.reading.words import candidates
from tacit.streams.validate import Origin, check_labels

SIGNS = (("0", "1"), ("-1", "1"))
"""Labels that stand for -1 and +1 by themselves."""
MOST_CLASSES = 100_000
MOST_LOOKED_AT = 1000
"""Different labels whose first rows are looked for, to name one."""
FILL = "fill it in, or leave that row out"
OF_NUMBERS = "name a label of numbers, or for classes use an objective such as logistic or softmax"


def find_classes(
    source: Source, name: str, task: Task, given: Sequence[str] | int | None = None
) -> tuple[tuple[str, ...], tuple[Learnt, ...]]:
    """Return the classes of a label column in their order, none for a regression, and whether they were learnt.

    Args:
      source: The table.
      name: Its label column.
      task: Kind of the labels.
      given: The classes; or how many 0, 1, 2, ... may be, where the column holds these; None: found.
    """
    one_of("task", task, TASKS)
    if isinstance(given, int):
        if not 1 <= given <= MOST_CLASSES or isinstance(given, bool):
            raise ConfigError(f"classes={given}: expected a list, or a number of classes from 1 to {MOST_CLASSES:,}")
    elif given is not None:
        return _checked(name, task, given), ()
    if task == "regression":
        return (), ()
    column = _label(source, name)
    if column.kind == "time":
        source.refuse(0, name, f"{column.shown(0)!r} is a time and no class; {OF_NUMBERS}")
    known = _by_convention(column, task, given)
    if known:
        counted = task == "multiclass" and given is None and column.values.dtype.kind != "b"
        remedy = "their number: classes = 3, say"
        return known, (Learnt("classes", f"how many classes label {name!r} has", remedy),) if counted else ()
    source.refuse_inexact(name, column, "write classes as words")
    different, which = column.distinct()
    values = sorted(different)
    if task == "binary" and len(values) != 2:
        first = np.sort([np.argmax(which == k) for k in range(min(len(different), MOST_LOOKED_AT))])
        source.refuse(
            int(first[min(2, len(first) - 1)]),
            name,
            f"{len(values)} different labels ({listed(values)}); expected two: mend it, or say task = 'multiclass' "
            "(with the objective softmax) or task = 'regression' (with squared)",
        )
    broken = next((value for value in values if isinstance(value, float) and value != np.floor(value)), None)
    if task == "multiclass" and broken is not None:
        row = int(np.argmax(column.values == broken))
        source.refuse(row, name, f"label {broken}; expected whole numbers or words as classes: {OF_NUMBERS}")
    classes = tuple(candidates(value)[0] for value in values)
    learnt = Learnt("classes", f"the classes of label {name!r}", 'classes = ["...", "..."], in their order')
    return classes, (learnt,)


def class_numbers(source: Source, name: str, task: Task, classes: tuple[str, ...]) -> NDArray[Any]:
    """Return labels (rows,): -1/+1 float32 (binary), 0..C-1 int32 (multiclass) or float32 (regression)."""
    source.require(name)
    if task == "regression":
        column = _label(source, name)
        if column.kind != "number":
            source.refuse(0, name, f"{column.shown(0)!r} is not a number, as a regression needs; {OF_NUMBERS}")
        source.refuse_inexact(name, column, "give it in larger units, as 1.25e16")
        return check_labels(column.values, len(column.values), task, Origin(source.name, None, repr(name), source.row))
    column = source.words(name)
    source.refuse_missing(name, column, FILL)
    number = column.numbered(classes)
    source.refuse_strange(name, column, classes, number < 0, "classes")
    return np.where(number == 1, np.float32(1), np.float32(-1)) if task == "binary" else number.astype(np.int32)


def _label(source: Source, name: str) -> Column:
    column = source.read(name)
    source.refuse_missing(name, column, FILL)
    return column


def _by_convention(column: Column, task: Task, count: int | None) -> tuple[str, ...]:
    """Return classes that are their own numbers: 0 and 1, -1 and +1, 0 ... C - 1; otherwise none."""
    if column.kind != "number":
        return ()
    if column.values.dtype.kind == "b":
        return ("false", "true")
    found = np.unique(column.values)
    if task == "binary":
        return next((pair for pair in SIGNS if np.isin(found, [float(sign) for sign in pair]).all()), ())
    most = len(found) if count is None else count
    within = (found >= 0) & (found < most) & (found == np.floor(found))
    return tuple(map(str, range(most))) if most <= MOST_CLASSES and within.all() else ()


def _checked(name: str, task: Task, given: Sequence[str]) -> tuple[str, ...]:
    known = tuple(str(each) for each in given)
    if task == "regression" or len(known) < 2 or (task == "binary" and len(known) != 2) or len(set(known)) < len(known):
        raise ConfigError(
            f"classes={list(given)!r} of label {name!r} with task {task!r}: expected two classes, each once, or for "
            "task 'multiclass' more; a regression has none"
        )
    return known
