"""What holds for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from reproduction.tests.datasets.published import serve

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


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the data sets, and without a network until a test gives it one."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    serve(monkeypatch, OSError("no route to host"))
    return tmp_path
