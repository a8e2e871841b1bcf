"""Every public callable explains its parameters, and its example runs."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import tacit

PUBLIC = [name for name in tacit.algorithms.__all__ if callable(getattr(tacit.algorithms, name))]
WITHOUT_PARAMETERS = ("Entry", "Found")


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in WITHOUT_PARAMETERS])
def test_every_parameter_is_explained(name):
    found = getattr(tacit.algorithms, name)
    documented = re.findall(r"^  \**(\w+): \S", _section(found, "Args"), re.MULTILINE)
    assert documented == list(inspect.signature(found).parameters)
    if not inspect.isclass(found):
        assert _section(found, "Returns")
    assert "Example:\n  >>> " in inspect.getdoc(found)


@pytest.mark.parametrize("name", tacit.algorithms.registry.METHODS)
def test_a_signature_can_be_read_and_a_method_names_its_text(name):
    found = getattr(tacit.algorithms, name)
    for parameter in inspect.signature(found).parameters.values():
        assert "<function" not in repr(parameter.default)
        assert len(repr(parameter.default)) < 40
    assert _section(found, "References")
    assert len(inspect.getdoc(found).splitlines()[0]) <= 115


def test_there_are_examples():
    """They are run with those of all modules: docs/test_doctests.py."""
    examples = [getattr(tacit.algorithms, name) for name in PUBLIC] + [type(tacit.algorithms.REGISTRY)]
    parser = doctest.DocTestParser()
    lines = sum(len(parser.get_examples(inspect.getdoc(found) or "")) for found in examples)
    assert lines > 3 * len(tacit.algorithms.registry.METHODS) / 2


def _section(found, title: str) -> str:
    """Text under a title of a docstring."""
    after = inspect.getdoc(found).partition(f"\n{title}:\n")[2]
    return re.split(r"\n(?=\S)", after)[0]
