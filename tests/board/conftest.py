"""Fixtures of the board: a browser, and runs with made-up figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.board.served import Loop, loops
from tests.browser import running
from tests.results.conftest import make_run

__all__ = ["make_run"]

browser = pytest.fixture(scope="module")(running)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with loops() as one:
        yield one
