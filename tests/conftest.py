"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_programs_left_behind() -> Iterator[None]:
    """Forget compiled programs with each module: thousands of them fill gigabytes in a worker that lives long."""
    yield
    jax.clear_caches()
