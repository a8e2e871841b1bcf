"""Sections of a configuration, checked against the signature of the function that they will be given to.

A generator of graphs, say, is offered in configurations by being listed in a registry: its parameters, their
types and defaults are read from its signature, so a configuration cannot drift away from the code.
"""

from __future__ import annotations

import inspect
import os
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tacit.algorithms import inverse, inverse_sqrt
from tacit.core import limits
from tacit.core.contract import Mechanism, Objective, Schedule
from tacit.core.errors import ConfigError, ContractError, TacitError, nearest
from tacit.objectives import CONSTRAINTS, MIRROR_MAPS, Constraint, MirrorMap
from tacit.privacy import (
    bounded_laplace,
    classic_gaussian,
    decaying_gaussian,
    gaussian,
    graph_homomorphic,
    laplace,
    laplace_of_size,
    local_graph_homomorphic,
    on_grid,
    per_edge,
)

SCHEDULES: Mapping[str, Callable[[float], Schedule]] = {"inverse_sqrt": inverse_sqrt, "inverse": inverse}
"""Name -> schedule of the round with one scale."""
MECHANISMS: Mapping[str, Callable[..., Mechanism]] = {
    "laplace": laplace,
    "gaussian": gaussian,
    "decaying_gaussian": decaying_gaussian,
    "bounded_laplace": bounded_laplace,
    "classic_gaussian": classic_gaussian,
    "laplace_of_size": laplace_of_size,
    "per_edge": per_edge,
    "graph_homomorphic": graph_homomorphic,
    "local_graph_homomorphic": local_graph_homomorphic,
    "on_grid": on_grid,
}
TABLES: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    Mechanism: MECHANISMS,
    MirrorMap: MIRROR_MAPS,
    Constraint: CONSTRAINTS,
}
"""Type of a parameter that has a table of its own -> what the table's `kind` names. Where a parameter also takes a
sequence of the type, it may have several tables."""
PLAIN_WORDS = {
    "Value error, ": "",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
    "Input should be": "expected",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text in quotes",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table of settings",
    "an instance of Sequence": "a list",
    "'str' instances are not allowed as a Sequence value": "or a list",
    "expected greater": "expected a value greater",
    "expected less": "expected a value less",
}
"""Pydantic's words, and those of a configuration's author; replaced in this order."""

Model = TypeVar("Model", bound=BaseModel)
NOT_CONFIGURED = (Objective,)
"""Types of parameters that a configuration does not set at this place."""


Seeding = Annotated[int, Field(ge=0, le=limits.MOST_SEED)]


def read_text(file: Path, what: str) -> str:
    """Return the text of a configuration, or say why it cannot be read; `what` is what should have been given."""
    try:
        size = file.stat().st_size
        if size > limits.LARGEST_SETTINGS:
            raise ConfigError(
                f"{file}: {size:,} bytes, and a file of settings has at most {limits.LARGEST_SETTINGS:,}; give the "
                f"path of {what}"
            )
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = f"({error.strerror})" if isinstance(error, OSError) else f"as TOML ({error})"
        raise ConfigError(f"{file}: cannot be read {reason}; give the path of {what}") from error


def read_toml(text: str, file: Path) -> dict[str, Any]:
    """Return what a text holds; `file` is named in messages."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: not valid TOML: lists or tables are nested too deeply; write them flat") from error


def beside(file: Path, path: str, place: Place) -> Path:
    """Return a path that is taken to start beside a file."""
    try:
        return (file.parent / path).resolve()
    except (ValueError, OSError, RuntimeError) as error:
        raise ConfigError(f"{place} = {path!r}: no path ({error}); name a file") from error


class Section(BaseModel):
    """A table of a configuration: no unknown keys, and no value is bent into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StepSchedule(Section):
    """A step size that changes with the round."""

    schedule: Literal["inverse_sqrt", "inverse"]
    scale: float = Field(gt=0, allow_inf_nan=False)

    def function(self) -> Schedule:
        """Return the schedule as a function of the round."""
        return SCHEDULES[self.schedule](self.scale)


class Place(NamedTuple):
    """Where in which file: the beginning of every message about a setting."""

    file: str
    section: str

    def __str__(self) -> str:
        return f"{self.file}: {self.section}"

    def table(self, key: str) -> Place:
        """Return the place of a table inside this one."""
        name = self.section.partition("]")[0].lstrip("[")
        return Place(self.file, f"[{name}.{key}] of {self.section}")


@contextmanager
def located(place: Place) -> Iterator[None]:
    """Say in which section of which file the cause of an error stands."""
    try:
        yield
    except TacitError as error:
        raise type(error)(f"{place}: {error}") from error


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
        problem = f"has no {key}" if name is None else f"{key} = {name!r}: expected a name in quotes"
        raise ConfigError(f"{place} {problem}; add {key} = one of: {known}")
    if name not in functions:
        raise ConfigError(f"{place} {key} = {name!r}: {_unknown(name, list(functions), key)}")
    model, own = _model(functions[name], common, hidden)
    values = check(model, {k: v for k, v in data.items() if k != key}, place, also=(key,))
    hints = _types(functions[name])
    tables = {
        inner: _table(kinds, getattr(values, inner), place.table(inner))
        for inner, parameter in own.items()
        if (kinds := _table_kinds(hints[parameter])) and getattr(values, inner) is not None
    }
    return Choice(name, functions[name], values, own, place, tables)


def _table(
    functions: Mapping[str, Callable[..., Any]], data: Mapping[str, Any] | list[Mapping[str, Any]], place: Place
) -> Table:
    if isinstance(data, list):
        each = [_table(functions, one, place) for one in data]
        return Table([one.settings for one in each], [one.made for one in each])  # type: ignore[misc]
    choice = choose(functions, data, place)
    with located(place):
        return Table(choice.settings(), choice.function(**choice.arguments()))


def _table_kinds(hint: Any) -> Mapping[str, Callable[..., Any]] | None:
    """Return what a parameter's table may name, for one that has a table."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((TABLES[member] for member in members if isinstance(member, type) and member in TABLES), None)


def _is_own_default(function: Callable[..., Any], parameter: str, value: Any) -> bool:
    """Whether a parameter was left out whose default no configuration could write: a schedule, a mechanism."""
    return value is None and inspect.signature(function).parameters[parameter].default is not None


def check(model: type[Model], data: Mapping[str, Any], place: Place, also: tuple[str, ...] = ()) -> Model:
    """Return a checked section, or say in one line each what is wrong with it."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        known = [*also, *model.model_fields]
        faults = _without_echoes(error.errors(include_url=False))
        lines = [_sentence(place, fault, known) for fault in faults]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


def parameters(function: Callable[..., Any], hidden: frozenset[str] = frozenset()) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that a configuration can set, by their key there."""
    hints = _types(function)
    return {
        _key(name): parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in hidden and hints.get(name) not in NOT_CONFIGURED
    }


def _types(function: Callable[..., Any]) -> dict[str, Any]:
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
    hints = _types(function)
    found = {key: _table_kinds(hints[parameter.name]) for key, parameter in parameters(function).items()}
    return {key: list(kinds) for key, kinds in found.items() if kinds}


def _model(
    function: Callable[..., Any], common: type[Section], hidden: frozenset[str]
) -> tuple[type[BaseModel], dict[str, str]]:
    hints = _types(function)
    fields: dict[str, Any] = {}
    own: dict[str, str] = {}
    for key, parameter in parameters(function, hidden).items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        settable = _settable(hints[parameter.name])
        if callable(default) or isinstance(default, tuple(TABLES)):
            settable, default = Union[settable, None], None  # noqa: UP007 - the type is known at run time only
        fields[key] = (settable, default)
        own[key] = parameter.name
    return create_model(function.__name__, __base__=common, **fields), own


def _key(parameter: str) -> str:
    """Graph generators call the number of agents n, as the texts do; a configuration says what it means."""
    return {"n": "agents"}.get(parameter, parameter)


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
    members = [m for m in get_args(hint) if get_origin(m) is not os.PathLike]
    functions = [m for m in members if get_origin(m) is typing.get_origin(Callable[..., Any])]
    if functions:
        members = [m for m in members if m not in functions] + [StepSchedule]
    return Union[tuple(members)]  # noqa: UP007 - the members are known at run time only


def _without_echoes(faults: list[Any]) -> list[Any]:
    """Where a number or a schedule is expected, pydantic complains for both: keep what fits the value."""
    return [
        fault
        for fault in faults
        if not (fault["type"] == "float_type" and isinstance(fault["input"], dict) and len(faults) > 1)
        and not (fault["type"] == "model_type" and len(faults) > 1)
    ]


def _sentence(place: Place, fault: Any, known: list[str]) -> str:
    location = [str(part) for part in fault["loc"] if not _is_type_tag(part)]
    key = ".".join(location)
    if fault["type"] == "missing":
        return f"{place} has no {key!r}, which is required; add {key} = ..."
    if fault["type"] == "extra_forbidden":
        names = known if len(location) == 1 else []
        return f"{place} {key} = {_shown(fault['input'])}: {_unknown(location[-1], names, 'key')}"
    return f"{place} {key} = {_shown(fault['input'])}: {expectation(fault)}"


def expectation(fault: Mapping[str, Any]) -> str:
    """Return what pydantic expected, in the words of this project."""
    expected = str(fault["msg"])
    for words, plain in PLAIN_WORDS.items():
        expected = expected.replace(words, plain)
    return expected


def _is_type_tag(part: Any) -> bool:
    """Pydantic names the member of a union that it tried: 'float', 'StepSchedule', 'literal[...]'."""
    return isinstance(part, str) and (part in ("float", "int", "str", "none", StepSchedule.__name__) or "[" in part)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown(name: str, known: list[str], what: str) -> str:
    listed = f"known: {', '.join(known)}" if known else "remove it"
    return f"unknown {what}; {nearest(name, known)}{listed}"
