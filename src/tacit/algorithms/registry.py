"""The list of methods: what the command line, configurations and the contract tests discover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tacit.core.contract import Algorithm, Objective
from tacit.core.errors import ConfigError, nearest


class Entry(NamedTuple):
    """One registered method."""

    name: str
    """What configurations and commands call it."""
    source: str
    """Text and place, e.g. "003 Alg. 1"."""
    constructor: Callable[..., Algorithm]
    """Objective and settings -> the method."""
    example_settings: Mapping[str, Any] = MappingProxyType({})
    """Values for the parameters that have no default, so that there is an example to show and to try."""

    def example(self, objective: Objective, **settings: Any) -> Algorithm:
        """Return the method for an objective, with example values for what is not given."""
        return self.constructor(objective, **{**self.example_settings, **settings})

    @property
    def summary(self) -> str:
        """First line of the constructor's docstring."""
        return (self.constructor.__doc__ or "").strip().splitlines()[0]


REGISTRY: dict[str, Entry] = {}
"""Name -> method, of all that were registered so far."""


def register(
    source: str, example: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Callable[..., Algorithm]], Callable[..., Algorithm]]:
    """Register a constructor under its own name, with example values for parameters that have no default."""

    def add(constructor: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
        name = constructor.__name__
        REGISTRY[name] = Entry(name, source, constructor, example)
        return constructor

    return add


def find(name: str) -> Entry:
    """Return the entry of a name, or say which names there are."""
    if name not in REGISTRY:
        raise ConfigError(
            f"unknown algorithm {name!r}; {nearest(name, REGISTRY)}expected one of: {', '.join(sorted(REGISTRY))}"
        )
    return REGISTRY[name]
