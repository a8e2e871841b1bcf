"""The board in Firefox: every test of it in a browser, in that of the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.browser import HOW, WANTED, installed

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(installed("firefox") is None, reason=HOW["firefox"])
@pytest.mark.skipif(WANTED == "firefox", reason="all tests of the board are run in Firefox already")
def test_the_board_in_firefox(tmp_path: Path) -> None:
    files = sorted(HERE.glob("test_browser*.py"))
    assert len(files) >= 4
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "--junitxml", tmp_path / "told.xml", *files],
        env={**os.environ, "TACIT_BROWSER": "firefox"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-5000:]
    suite = ElementTree.parse(tmp_path / "told.xml").getroot().find("testsuite")
    assert suite is not None
    assert int(suite.attrib["tests"]) > 12
    assert int(suite.attrib["skipped"]) == 0, told.stdout[-5000:]
