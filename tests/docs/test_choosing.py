"""docs/choosing.md speaks of every algorithm that there is, and of none that there is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tacit.algorithms import REGISTRY

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
DECISIONS, _, DETAILS = PAGE.partition("## Every algorithm, when and when not")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", DETAILS, re.MULTILINE))


def test_every_algorithm_has_a_row_with_when_and_when_not() -> None:
    assert set(ROWS) == set(REGISTRY)
    assert all(row.count(" | ") == 1 for row in ROWS.values())


def test_the_decision_table_names_algorithms_that_there_are() -> None:
    chosen = {name for row in DECISIONS.splitlines() if row.count("|") == 5 for name in _names(row.split("|")[3])}
    assert len(chosen) >= 15
    assert chosen <= set(REGISTRY)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_what_takes_no_noise_is_said_to(name: str) -> None:
    takes_noise = "mechanism" in inspect.signature(REGISTRY[name].constructor).parameters
    assert ("takes no mechanism" in ROWS[name]) == (not takes_noise and name != "local_online")


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)
