"""A browser for tests: Chromium of the system, or a reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def running() -> Iterator[Any]:
    """Yield a browser, and close it; without one the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if CHROMIUM is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has none for root
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()
