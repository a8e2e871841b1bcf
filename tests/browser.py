"""A browser for tests: that of the system, Chromium unless `TACIT_BROWSER=firefox`, or a reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

WANTED = os.environ.get("TACIT_BROWSER", "chromium")
NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox": ("firefox-esr", "firefox")}
BROWSER = next(filter(None, map(shutil.which, NAMES[WANTED])), None)


def running() -> Iterator[Any]:
    """Yield a browser, and close it; without one the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if BROWSER is None:
        pytest.skip(f"no browser is installed: apt-get install {NAMES[WANTED][0]}")
    with playwright.sync_playwright() as started:
        if WANTED == "firefox":
            browser = started.firefox.launch(executable_path=BROWSER, channel="moz-firefox")
            try:
                browser.new_context().new_page()
            except playwright.Error as fault:
                browser.close()
                pytest.skip(f"this Playwright cannot drive this Firefox ({fault}); use Chromium, or newer ones")
        else:
            sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has none for root
            browser = started.chromium.launch(executable_path=BROWSER, args=sandbox)
        yield browser
        browser.close()
