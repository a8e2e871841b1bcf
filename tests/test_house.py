"""Proportions of the house: no long files, no crowded folders, and a front door that opens at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tacit

SOURCE = Path(tacit.__file__).parent
GENERATED = SOURCE / "peer" / "transport" / "wire"
MOST_LINES, MOST_MODULES = 400, 15


def test_no_file_is_long_and_no_folder_is_crowded() -> None:
    files = [file for file in SOURCE.rglob("*.py") if GENERATED not in file.parents]
    assert len(files) > 100
    long = {str(file.relative_to(SOURCE)): n for file in files if (n := file.read_text().count("\n")) > MOST_LINES}
    assert long == {}
    folders = {file.parent for file in files}
    crowded = [str(f) for f in folders if len([m for m in f.glob("*.py") if m.stem != "__init__"]) > MOST_MODULES]
    assert crowded == []


def test_the_package_imports_nothing_before_it_is_used() -> None:
    code = "import sys, tacit; print([m for m in ('jax', 'numpy', 'pandas', 'pydantic', 'ssl') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
