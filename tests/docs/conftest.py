from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.algorithms import REGISTRY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be in an empty folder that modules can be imported from; what is registered or imported there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    registered, imported = dict(REGISTRY), set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - imported:
        if name.startswith("with_") or str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    REGISTRY.clear()
    REGISTRY.update(registered)
