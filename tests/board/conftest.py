"""Fixtures of the board: a browser, and runs with made-up figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.board.fleets import Fleet, Standing
from tests.board.served import Loop, loops
from tests.browser import running
from tests.results.conftest import make_run

__all__ = ["make_run"]

browser = pytest.fixture(scope="module")(running)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with loops() as one:
        yield one


@pytest.fixture
def standing(loop: Loop, tmp_path: Path) -> Iterator[Standing]:
    found = Standing(loop, Fleet(tmp_path, "hospital-a", "hospital-b"))
    for name in found.fleet.names:
        found.up(name)
    yield found
    for name in list(found.open):
        found.down(name)
