"""Settings and fixtures of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

# Programs are compiled for small problems and run for a blink: a compiler that tries less hard, and writes loops in its
# older and plainer way, saves a third of all the time. Processes that tests start inherit it, so that the same program
# gives the same bits here and there.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
jax.config.update("jax_disable_most_optimizations", True)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()


@pytest.fixture(autouse=True, scope="module")
def _no_programs_left_behind() -> Iterator[None]:
    """Forget compiled programs with each module: thousands of them fill gigabytes in a worker that lives long."""
    yield
    jax.clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests of covered.txt to `make test-slow`; a line that names none in a file that was read is a fault."""
    lines = (Path(__file__).parent / "tests" / "covered.txt").read_text(encoding="utf-8").splitlines()
    covered = {line for line in lines if line and not line.startswith("#")}
    files = {item.nodeid.partition("::")[0] for item in items}
    whole = len(files) > 100  # a run of everything, not of a test picked by hand
    unknown = covered - {item.nodeid for item in items} if whole else set()
    if unknown:
        raise pytest.UsageError(f"tests/covered.txt names {min(unknown)}, which is no test; remove or correct the line")
    for item in items:
        if item.nodeid in covered:
            item.add_marker(pytest.mark.slow)
