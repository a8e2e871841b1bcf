"""The examples in docstrings run, and every parameter of what is public is described."""

import doctest
import enum
import importlib
import inspect
import re
from pathlib import Path

import pytest

import tacit

SOURCE = Path(tacit.__file__).parent
GENERATED = SOURCE / "peer" / "transport" / "wire"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FEWEST = 9
"""Modules with examples."""


def with_examples():
    files = (file for file in sorted(SOURCE.rglob("*.py")) if GENERATED not in file.parents)
    for file in files:
        if re.search(r"^\s*>>> ", file.read_text(encoding="utf-8"), re.MULTILINE):
            parts = file.relative_to(SOURCE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=FLAGS)
    assert found.attempted
    assert not found.failed


def test_there_are_examples():
    assert len(list(with_examples())) >= FEWEST


def ours(thing):
    """Whether it is a function or a class of this package; an alias such as `Params` is typing's or another's."""
    return callable(thing) and getattr(thing, "__module__", "").partition(".")[0] == "tacit"


def public():
    """Yield what the package offers: (name at the top, name to show, object)."""
    for top in sorted(tacit.__all__):
        offered = getattr(tacit, top)
        if not inspect.ismodule(offered):
            yield top, f"tacit.{top}", offered
            continue
        for name in sorted(getattr(offered, "__all__", [])):
            thing = getattr(offered, name)
            if ours(thing):
                yield top, f"{offered.__name__}.{name}", thing


def made_of_fields(owner):
    """Whether the parameters are fields, each of which is described below it."""
    special = issubclass(owner, (enum.Enum, BaseException)) or getattr(owner, "_is_protocol", False)
    return special or any(hasattr(owner, fields) for fields in ("__dataclass_fields__", "_fields", "model_fields"))


def undescribed(name, function, docs):
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    _, _, described = docs.partition("Args:")
    for parameter in parameters:
        if parameter not in ("self", "cls") and not re.search(rf"^\s*\*{{0,2}}{parameter}: ", described, re.MULTILINE):
            yield f"{name}({parameter})"


def missing(name, thing):
    """Yield the parameters of a callable, or of a class and its public methods, that no Args section names.

    What a class says of a method holds for those that override it.
    """
    if not inspect.isclass(thing):
        yield from undescribed(name, thing, inspect.getdoc(thing) or "")
        return
    if not made_of_fields(thing):
        docs = f"{inspect.getdoc(thing) or ''}\n{inspect.getdoc(thing.__init__) or ''}"
        yield from undescribed(name, thing, docs)
    for owner in thing.__mro__:
        if owner.__module__.partition(".")[0] == "tacit":
            for inner, method in vars(owner).items():
                function = getattr(method, "__func__", method)
                if not inner.startswith("_") and inspect.isfunction(function):
                    said = [inspect.getdoc(vars(each)[inner]) or "" for each in thing.__mro__ if inner in vars(each)]
                    yield from undescribed(f"{name}.{inner}", function, "\n".join(said))


def test_every_parameter_of_what_is_public_is_described():
    found = [line for top, name, thing in public() for line in missing(name, thing)]
    assert found == []
