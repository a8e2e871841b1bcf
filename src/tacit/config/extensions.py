"""Commands, streams and data sets that other distributions add, by entry point.

tacit.commands   name -> a function or a typer.Typer: `tacit NAME`
tacit.streams    name -> a function that returns a Stream: [stream] kind = "NAME"
tacit.datasets   name -> a function that returns a Dataset: likewise, with partition, batch, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tacit.core.errors import ConfigError


class Extensions(Mapping[str, Callable[..., Any]]):
    """The entry points of one group by name; one is imported when it is asked for."""

    def __init__(self, group: str) -> None:
        """Look up which there are."""
        self.group = group
        self._found: dict[str, EntryPoint] = {each.name: each for each in entry_points(group=group)}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        point = self._found[name]
        try:
            loaded: Callable[..., Any] = point.load()
        except (Exception, SystemExit) as fault:  # code of others raises anything
            of = point.dist.name if point.dist is not None else point.value
            why = f"{type(fault).__name__}: {fault}"
            raise ConfigError(f"{name!r} of {of} cannot be loaded ({why}); install {of} again") from fault
        if not callable(loaded):
            raise ConfigError(f"{name!r} ({point.value}) is {loaded!r}; expected a function")
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
