"""Optional libraries: imported, or named with the extra that brings them."""

from __future__ import annotations

import sys

import pytest

from tacit.core.errors import ConfigError
from tacit.core.extras import require


def test_a_library_that_is_there_is_returned() -> None:
    assert require("json.decoder", extra="accounting") is sys.modules["json.decoder"]


def test_a_library_that_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dp_accounting.rdp", raising=False)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"dp_accounting.*tacit\[accounting\]"):
        require("dp_accounting.rdp", extra="accounting")


def test_a_fault_inside_a_library_is_its_own(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        require("half_installed", extra="accounting")
