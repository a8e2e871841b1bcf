"""The list of mutants fits the code and the tests that are there; `python -m tests.mutation` tries them."""

from __future__ import annotations

import ast
import functools
from collections import Counter

import pytest

from tests.mutation.__main__ import report
from tests.mutation.groups import GROUPS

MUTANTS = [mutant for mutants in GROUPS.values() for mutant in mutants]


@functools.cache
def meaning(source):
    """Without comments and layout."""
    return ast.dump(ast.parse(source))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_module_and_names_tests_that_exist(mutant):
    source = mutant.path().read_text("utf-8")
    changed = mutant.applied(source)  # refuses what is not there, or more than once
    assert meaning(changed) != meaning(source)
    compile(changed, mutant.module, "exec")
    assert mutant.missing_tests() == []


def test_no_two_mutants_have_one_name():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_a_text_that_is_not_there_once_is_refused():
    mutant = MUTANTS[0]
    source = mutant.path().read_text("utf-8")
    for text in ("", source + source):
        with pytest.raises(ValueError, match="once in .*, found it [02]"):
            mutant.applied(text)


def test_a_test_that_does_not_exist_is_named():
    mutant = MUTANTS[0]
    gone = ("tests/no_such_file.py", f"{mutant.tests[0].partition('::')[0]}::test_none")
    assert mutant._replace(tests=(*gone, *mutant.tests)).missing_tests() == list(gone)


@pytest.mark.parametrize(("killed", "survived", "code"), [(4, 1, 0), (3, 1, 1), (0, 1, 1)])
def test_less_than_four_fifths_of_a_group_is_too_little(killed, survived, code, capsys):
    found = Counter(
        {("group a", True): killed, ("group a", False): survived, ("group b", True): 9, ("module c", False): 1}
    )
    assert report(found) == code
    assert f"group a: {killed} of {killed + survived} killed" in capsys.readouterr().out
