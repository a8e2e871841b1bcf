"""Audits compile one program each and run it for a blink: a compiler that tries less hard saves a third of the time."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def quick_compiler():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
