"""Sections of a configuration: files of settings, tables checked by a model, and faults in plain words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.core import limits
from tacit.core.errors import ConfigError, TacitError, nearest

Model = TypeVar("Model", bound=BaseModel)
Seeding = Annotated[int, Field(ge=0, le=limits.MOST_SEED)]
"""A seed of a configuration."""
EXPECTED: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number, got a number with a fractional part",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a table of settings",
    "model_type": "a table of settings",
    "list_type": "a list",
    "tuple_type": "a list",
    "is_instance_of": "a list",
    "literal_error": "{expected}",
    "greater_than": "a value greater than {gt}",
    "greater_than_equal": "a value greater than or equal to {ge}",
    "less_than": "a value less than {lt}",
    "less_than_equal": "a value less than or equal to {le}",
    "string_too_short": "at least {min_length} letter(s)",
    "string_too_long": "at most {max_length} letter(s)",
    "too_short": "at least {min_length} item(s), got {actual_length}",
    "too_long": "at most {max_length} item(s), got {actual_length}",
}
"""Pydantic's code of a fault -> expectation, with the places of its context."""


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


def check_path(path: str | None, place: Place) -> None:
    """Refuse a text that is no path."""
    if path is not None and (path == "" or "\0" in path):
        raise ConfigError(f"{place} = {path!r}: expected a path; leave the key out for the default")


class Section(BaseModel):
    """A table of a configuration: no unknown keys, and no value is bent into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
def in_words_of_a_file() -> Iterator[None]:
    """Say the remedy of an error in the words of a file; where the cause stands, nobody knows here."""
    try:
        yield
    except TacitError as error:
        raise type(error)(_in_toml(error)) from error


@contextmanager
def located(place: Place) -> Iterator[None]:
    """Say in which section of which file the cause of an error stands, and the remedy in the words of a file."""
    try:
        yield
    except TacitError as error:
        raise type(error)(f"{place}: {_in_toml(error)}") from error


def _in_toml(error: TacitError) -> str:
    from tacit.config.wording import in_toml  # a peer without faults has no use for it

    return in_toml(str(error))


def check(model: type[Model], data: Mapping[str, Any], place: Place, also: tuple[str, ...] = ()) -> Model:
    """Return a checked section, or say in one line each what is wrong with it."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        known = [*also, *model.model_fields]
        faults = _without_echoes(error.errors(include_url=False))
        lines = [_sentence(place, fault, known) for fault in faults]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


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
        return f"{place} {key} = {toml_text(fault['input'])}: {unknown_name(location[-1], names, 'key')}"
    return f"{place} {key} = {toml_text(fault['input'])}: {expectation(fault)}"


def expectation(fault: Mapping[str, Any]) -> str:
    """Return what was expected of a value, by the code and the context of pydantic's fault."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] == "sequence_str":
        return "or a list"
    if fault["type"] not in EXPECTED:
        return str(fault["msg"])
    return "expected " + EXPECTED[fault["type"]].format_map({key: _plain(value) for key, value in context.items()})


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_type_tag(part: Any) -> bool:
    """Pydantic names the member of a union that it tried: 'float', 'StepSchedule', 'literal[...]'."""
    return isinstance(part, str) and (part in ("float", "int", "str", "none", "StepSchedule") or "[" in part)


def leaves_of(tree: Any, name: str = "") -> dict[str, Any]:
    """Return the leaves of a document by dotted keys.

    Args:
      tree: Tables within tables; a list of one table counts as the table.
      name: Of the whole.

    Example:
      >>> leaves_of({"run": {"rounds": 5}, "algorithm": [{"step": 0.1}]})
      {'run.rounds': 5, 'algorithm.step': 0.1}
    """
    if isinstance(tree, Mapping):
        parts = [leaves_of(inner, f"{name}.{key}" if name else key) for key, inner in tree.items()]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(tree, list) and len(tree) == 1 and isinstance(tree[0], Mapping):
        return leaves_of(tree[0], name)
    return {name: tree}


def toml_text(value: Any) -> str:
    """Return a value as a TOML file has it; long ones are cut.

    Args:
      value: What `tomllib` made of it.

    Example:
      >>> toml_text({"names": ["a", "b"], "on": True})
      "{ names = ['a', 'b'], on = true }"
    """
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list | tuple):
        text = f"[{', '.join(map(toml_text, value))}]"
    elif isinstance(value, Mapping):
        text = f"{{ {', '.join(f'{key} = {toml_text(inner)}' for key, inner in value.items())} }}" if value else "{}"
    else:
        text = repr(value) if isinstance(value, str | int | float) else str(value)  # dates and times too
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown_name(name: str, known: list[str], what: str) -> str:
    """Return the end of a message about a name that there is not."""
    listed = f"known: {', '.join(known)}" if known else "remove it"
    return f"unknown {what}; {nearest(name, known)}{listed}"
