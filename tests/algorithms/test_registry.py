"""The table of methods is complete, and a method is imported when it is asked for, not before."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tacit
from tacit.algorithms import REGISTRY, register
from tacit.algorithms.registry import METHODS, Entry, Registry
from tacit.core.errors import ConfigError

PACKAGE = tacit.algorithms
FAMILIES = [found.name for found in pkgutil.iter_modules(PACKAGE.__path__) if found.ispkg and found.name[0] != "_"]
MOST_LINES, MOST_MODULES = 400, 15


def modules() -> Iterator[str]:
    """Modules of methods: those of a family whose name does not begin with an underscore."""
    for family in FAMILIES:
        for found in pkgutil.iter_modules([str(Path(PACKAGE.__file__).parent / family)]):
            if not found.name.startswith("_"):
                yield f"{family}.{found.name}"


@pytest.mark.parametrize("module", list(modules()))
def test_a_module_of_a_family_registers_the_methods_of_the_table(module):
    found = importlib.import_module(f"{PACKAGE.__name__}.{module}")
    mine = [name for name, entry in REGISTRY.items() if entry.constructor.__module__ == found.__name__]
    assert mine
    assert mine == [name for name, place in METHODS.items() if place == module]


def test_the_table_lists_methods_by_family():
    assert [name for name in REGISTRY if name in METHODS] == list(METHODS)
    assert set(METHODS.values()) == set(modules())
    families = [place.partition(".")[0] for place in METHODS.values()]
    assert len([1 for a, b in itertools.pairwise(families) if a != b]) == len(set(families)) - 1


def test_every_public_name_is_what_the_table_says():
    assert set(METHODS) <= set(PACKAGE.__all__)
    assert dir(PACKAGE) == sorted(PACKAGE.__all__)
    for name in PACKAGE.__all__:
        assert getattr(PACKAGE, name) is not None
    assert all(getattr(PACKAGE, name) is REGISTRY[name].constructor for name in METHODS)
    with pytest.raises(AttributeError, match="no_such_method"):
        getattr(PACKAGE, "no_such_method")  # noqa: B009
    with pytest.raises(ConfigError, match="fedavg"):
        PACKAGE.find("fedavgg")


def loaded(code: str) -> set[str]:
    """Modules of the package's families that a new interpreter has imported after some code."""
    ask = f"{code}\nimport sys\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    prefix = f"{PACKAGE.__name__}."
    names = {name.removeprefix(prefix) for name in out.split() if name.startswith(prefix)}
    return {name for name in names if name.partition(".")[0] in FAMILIES and "." in name}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import tacit.algorithms", set()),
        ("from tacit.algorithms import REGISTRY; assert 'fedavg' in REGISTRY; len(list(REGISTRY))", set()),
        ("from tacit.algorithms import online_push_sum", {"push_sum.online_push_sum"}),
        ("import tacit; tacit.algorithms.find('private_admm')", {"admm.private_admm"}),
        (
            "import tacit, types; tacit.algorithms.adapt_then_combine; import tacit.algorithms.averaging.diffusion\n"
            "assert isinstance(tacit.algorithms.diffusion, types.FunctionType)",
            {"averaging.diffusion", "averaging._recursion"},
        ),
    ],
)
def test_only_what_is_asked_for_is_imported(code, expected):
    assert loaded(code) == expected


def test_a_method_of_a_user_replaces_one_of_the_package_whenever_that_is_imported():
    check = (
        "from tacit.algorithms import REGISTRY, register\n"
        "@register('own', title='Mine')\n"
        "def fedavg(objective): ...\n"
        "import tacit.algorithms.federated.fedavg\n"
        "assert REGISTRY['fedavg'].title == 'Mine'\n"
        "del REGISTRY['graph_federated']\n"
        "import tacit.algorithms.federated.graph_federated\n"
        "assert 'graph_federated' not in REGISTRY\n"
    )
    assert "federated.fedavg" in loaded(check)


def test_a_method_of_a_user_is_added_and_taken_away():
    before = list(REGISTRY)
    register("own work")(_own_method)
    entry = REGISTRY["_own_method"]
    assert list(REGISTRY) == [*before, "_own_method"]
    assert (entry.source, entry.title, entry.summary) == ("own work", "own method", "A method of one's own.")
    assert REGISTRY.pop("_own_method") is entry
    assert list(REGISTRY) == before
    assert len(Registry()) == 0
    assert Entry("a", "b", _own_method).title == ""


def _own_method(objective):
    """A method of one's own."""


def test_files_and_folders_are_small():
    root = Path(PACKAGE.__file__).parent
    lengths = {str(file.relative_to(root)): len(file.read_text("utf-8").splitlines()) for file in root.rglob("*.py")}
    assert len(lengths) > 40
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
    folders = [root, *(folder for folder in root.iterdir() if (folder / "__init__.py").exists())]
    assert all(
        len(list(folder.glob("[!_]*.py")) + list(folder.glob("_[!_]*.py"))) <= MOST_MODULES for folder in folders
    )
