"""Settings and fixtures of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import jax
import pytest

# Programs are compiled for small problems and run for a blink: a compiler that tries less hard, and writes loops in its
# older and plainer way, saves a third of all the time. Processes that tests start inherit it, so that the same program
# gives the same bits here and there.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
jax.config.update("jax_disable_most_optimizations", True)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()

# Programs of earlier runs would hide what is compiled, and tests write nothing outside of their folders.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
jax.config.update("jax_enable_compilation_cache", False)


@pytest.fixture(autouse=True, scope="module")
def _no_programs_left_behind() -> Iterator[None]:
    """Forget compiled programs with each module: thousands of them fill gigabytes in a worker that lives long."""
    yield
    jax.clear_caches()
