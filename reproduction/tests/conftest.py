"""Fixtures of the reproduction's tests."""

from pathlib import Path

import pytest

from reproduction.tests.datasets.published import serve


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the data sets, and without a network until a test gives it one."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    serve(monkeypatch, OSError("no route to host"))
    return tmp_path
