"""Packages whose public names are imported when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; mypy sees its imports under `TYPE_CHECKING`.

    A name equal to its module's stands for the module itself. Otherwise no public name may be that of a module of the
    package: importing the module would put it in the name's place.

    Args:
      package: The package, ``__name__`` in its ``__init__``.
      names: Module of the package -> its public names, parted by spaces, e.g. ``{"build": "ring star"}``.
    """
    modules = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; dir({package}) lists what there is")
        module = import_module(f"{package}.{modules[name]}")
        return module if name == modules[name] else getattr(module, name)

    public = sorted(modules)
    return get, lambda: public, public


class LazyTable(Mapping[str, Callable[..., Any]]):
    """Names in files -> public functions of a package, each imported when it is asked for.

    Example:
      >>> from tacit.core.lazy import LazyTable
      >>> table = LazyTable("tacit.objectives", {"euclidean": "euclidean_ball"})
      >>> list(table), table["euclidean"].__name__
      (['euclidean'], 'euclidean_ball')
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        self._package, self._names = package, names

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return the function of a name, whose module is imported if need be."""
        found: Callable[..., Any] = getattr(import_module(self._package), self._names[name])
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether a name is listed, without an import."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)
