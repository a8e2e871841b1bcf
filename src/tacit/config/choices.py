"""Choices of a configuration: functions named in a section, checked against their own signatures.

A generator of graphs, say, is offered in configurations by being listed in a registry: its parameters, their
types and defaults are read from its signature, so a configuration cannot drift away from the code.
"""

from __future__ import annotations

import inspect
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model

from tacit.algorithms import REGISTRY, inverse, inverse_sqrt
from tacit.config.sections import Place, Section, check, located, toml_text, unknown_name
from tacit.core.contract import Objective, Schedule
from tacit.core.errors import ConfigError, ContractError
from tacit.core.lazy import LazyTable
from tacit.objectives import CONSTRAINTS, MIRROR_MAPS
from tacit.objectives.registry import OWN_OBJECTIVES

SCHEDULES: Mapping[str, Callable[[float], Schedule]] = {"inverse_sqrt": inverse_sqrt, "inverse": inverse}
"""Name -> schedule of the round with one scale."""
MECHANISMS = LazyTable(
    "tacit.privacy",
    {
        name: name
        for name in (
            "laplace",
            "gaussian",
            "correlated",
            "decaying_gaussian",
            "bounded_laplace",
            "classic_gaussian",
            "laplace_of_size",
            "per_edge",
            "graph_homomorphic",
            "local_graph_homomorphic",
            "on_grid",
        )
    },
)
"""Kind of noise -> its constructor."""
TABLES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "tacit.core.mechanism.Mechanism": MECHANISMS,
    "tacit.objectives.mirror_maps.MirrorMap": MIRROR_MAPS,
    "tacit.objectives.constraints.Constraint": CONSTRAINTS,
}
"""Type of a parameter that has a table of its own -> what the table's `kind` names. Where a parameter also takes a
sequence of the type, it may have several tables."""
OPTIMISER = "tacit.algorithms.local_step.Optimiser"
"""Type of what a step may be instead of a number; in a file it has a table of its own beside `step`."""
NOT_CONFIGURED = (Objective,)
"""Types of parameters that a configuration does not set at this place."""


class _Constructors(Mapping[str, Callable[..., Any]]):
    """Constructors of the registered methods; a method's module is imported when it is chosen."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return REGISTRY[name].constructor

    def __contains__(self, name: object) -> bool:
        return name in REGISTRY

    def __iter__(self) -> Iterator[str]:
        return iter(REGISTRY)

    def __len__(self) -> int:
        return len(REGISTRY)


CONSTRUCTORS = _Constructors()
"""Name of a method -> its constructor."""


class StepSchedule(Section):
    """A step size that changes with the round."""

    schedule: Literal["inverse_sqrt", "inverse"]
    scale: float = Field(gt=0, allow_inf_nan=False)

    def function(self) -> Schedule:
        """Return the schedule as a function of the round."""
        return SCHEDULES[self.schedule](self.scale)


class Table(NamedTuple):
    """A table inside a section, or a list of them, and what was made of it."""

    settings: dict[str, Any] | list[dict[str, Any]]
    made: Any


class Choice(NamedTuple):
    """A function named by a configuration, and the settings that it was given, checked."""

    kind: str
    function: Callable[..., Any]
    values: BaseModel
    own: Mapping[str, str]
    """Key in the configuration -> parameter of the function."""
    place: Place
    tables: Mapping[str, Table]
    """Key -> a table inside the section."""

    def arguments(self) -> dict[str, Any]:
        """Return the settings that are the function's own, by parameter name; without what its own defaults say."""
        found = {}
        for key, name in self.own.items():
            value = getattr(self.values, key)
            if key in self.tables:
                found[name] = self.tables[key].made
            elif isinstance(value, StepSchedule):
                found[name] = value.function()
            elif not _is_own_default(self.function, name, value):
                found[name] = value
        return found

    def settings(self, key: str = "kind") -> dict[str, Any]:
        """Return the section as it would stand in a file, defaults spelt out."""
        plain = self.values.model_dump(exclude_none=True)
        return {key: self.kind, **plain, **{name: table.settings for name, table in self.tables.items()}}


def choose(
    functions: Mapping[str, Callable[..., Any]],
    data: Mapping[str, Any],
    place: Place,
    *,
    common: type[Section] = Section,
    hidden: frozenset[str] = frozenset(),
    key: str = "kind",
) -> Choice:
    """Check a section that names a function by `key` and sets its parameters, besides the `common` ones."""
    name = data.get(key)
    if not isinstance(name, str):
        known = ", ".join(functions)
        problem = f"has no {key}" if name is None else f"{key} = {toml_text(name)}: expected a name in quotes"
        raise ConfigError(f"{place} {problem}; add {key} = one of: {known}")
    if name not in functions:
        remedy = "; one of your own: tacit --with FILE.py ..." if key == "name" else ""
        raise ConfigError(f"{place} {key} = {name!r}: {unknown_name(name, list(functions), key)}{remedy}")
    model, own = _model(functions[name], common, hidden)
    values = check(model, {k: v for k, v in data.items() if k != key}, place, also=(key,))
    hints = types_of(functions[name])
    tables = {
        inner: table_from(kinds, getattr(values, inner), place.table(inner))
        for inner, parameter in own.items()
        if (kinds := _table_kinds(hints[parameter])) and getattr(values, inner) is not None
    }
    return Choice(name, functions[name], values, own, place, tables)


def table_from(
    functions: Mapping[str, Callable[..., Any]], data: Mapping[str, Any] | list[Mapping[str, Any]], place: Place
) -> Table:
    """Check a table that names a function, or a list of such tables, and make what it names."""
    if isinstance(data, list):
        each = [table_from(functions, one, place) for one in data]
        return Table([one.settings for one in each], [one.made for one in each])  # type: ignore[misc]
    choice = choose(functions, data, place)
    with located(place):
        return Table(choice.settings(), choice.function(**choice.arguments()))


def qualified(member: Any) -> str:
    """Return where a type is found, and its name."""
    return f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"


def _table_kinds(hint: Any) -> Mapping[str, Callable[..., Any]] | None:
    """Return what a parameter's table may name, for one that has a table."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((TABLES[name] for name in map(qualified, members) if name in TABLES), None)


def _is_own_default(function: Callable[..., Any], parameter: str, value: Any) -> bool:
    """Whether a parameter was left out whose default no configuration could write: a schedule, a mechanism."""
    return value is None and inspect.signature(function).parameters[parameter].default is not None


def parameters(function: Callable[..., Any], hidden: frozenset[str] = frozenset()) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that a configuration can set, by their key there."""
    hints = types_of(function)
    return {
        {"n": "agents"}.get(name, name): parameter  # the texts' n says nothing to the reader of a file
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in hidden and hints.get(name) not in NOT_CONFIGURED
    }


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters, which decide what a configuration may say."""
    hints = get_type_hints(function)
    for name in inspect.signature(function).parameters:
        if name not in hints:
            raise ContractError(
                f"{function.__name__}: its parameter {name!r} has no type, and a configuration is checked by types; "
                "annotate them all, as in (objective: Objective, step: float = 0.1)"
            )
    return hints


def table_kinds(function: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the parameters of a function that are tables in a configuration -> the kinds that each can be of."""
    hints = types_of(function)
    found = {key: _table_kinds(hints[parameter.name]) for key, parameter in parameters(function).items()}
    return {key: list(kinds) for key, kinds in found.items() if kinds}


def _model(
    function: Callable[..., Any], common: type[Section], hidden: frozenset[str]
) -> tuple[type[BaseModel], dict[str, str]]:
    hints = types_of(function)
    fields: dict[str, Any] = {}
    own: dict[str, str] = {}
    for key, parameter in parameters(function, hidden).items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        settable = _settable(hints[parameter.name])
        if callable(default) or any(qualified(base) in TABLES for base in type(default).__mro__):
            settable, default = Union[settable, None], None  # noqa: UP007 - the type is known at run time only
        fields[key] = (settable, default)
        own[key] = parameter.name
    return create_model(function.__name__, __base__=common, **fields), own


def _settable(hint: Any) -> Any:
    """Return the type that a TOML value must have for a parameter of this type."""
    if hint is Any:  # a matrix
        return list[list[float]]
    if _table_kinds(hint):
        return dict[str, Any] if isinstance(hint, type) else dict[str, Any] | list[dict[str, Any]]
    if get_origin(hint) is tuple:  # TOML has lists only
        return Annotated[hint, Field(strict=False)]
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    # An optimiser is made in Python: no value of a file is one.
    members = [m for m in get_args(hint) if get_origin(m) is not os.PathLike and not getattr(m, "_is_protocol", False)]
    functions = [m for m in members if get_origin(m) is typing.get_origin(Callable[..., Any])]
    if functions:
        members = [m for m in members if m not in functions] + [StepSchedule]
    return Union[tuple(members)]  # noqa: UP007 - the members are known at run time only


def task_of(objective: Choice) -> tuple[Literal["binary", "multiclass", "regression"], int | None]:
    """Return the kind of label that an objective is for, and the number of classes where it says so."""
    if objective.kind in ("logistic", "hinge"):
        return "binary", None
    if objective.kind == "softmax":
        return "multiclass", objective.arguments()["classes"]
    if objective.kind in OWN_OBJECTIVES:
        return _task_of_own(objective)
    return "regression", None


def _task_of_own(choice: Choice) -> tuple[Literal["binary", "multiclass", "regression"], int | None]:
    """Return the labels that an objective of the user's own says it is for."""
    with located(choice.place):
        task = choice.function(**choice.arguments()).task
    if task is None:
        raise ConfigError(f"{choice.place} {choice.kind!r} does not say what its labels are: from_model(..., task=...)")
    classes = getattr(choice.values, "classes", None)
    if task == "multiclass" and not (isinstance(classes, int) and classes >= 2):
        raise ConfigError(
            f"{choice.place} {choice.kind!r} is for several classes and does not say how many: give its constructor a "
            "parameter `classes: int`, 2 or more"
        )
    return task, classes if task == "multiclass" else None
