"""A browser for tests: that of the system, Chromium unless `TACIT_BROWSER=firefox`, or a reason why there is none."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WANTED = os.environ.get("TACIT_BROWSER", "chromium")
NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox": ("firefox-esr", "firefox")}
HOW = {name: f"no browser is installed: apt-get install {commands[0]}" for name, commands in NAMES.items()}
DOWNLOADS = Path(tempfile.gettempdir()) / f"tacit-downloads-{os.getpid()}"
PATIENCE = 60.0
"""Seconds until a download has ended."""


def installed(name: str) -> str | None:
    """Return the path of a browser."""
    return next(filter(None, map(shutil.which, NAMES[name])), None)


BROWSER = installed(WANTED)


def running() -> Iterator[Any]:
    """Yield a browser, and close it; without one the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if BROWSER is None:
        pytest.skip(HOW[WANTED])
    with playwright.sync_playwright() as started:
        if WANTED == "firefox":  # over WebDriver BiDi: Playwright's own Firefox is another one
            browser = started.firefox.launch(
                executable_path=BROWSER, channel="moz-firefox", downloads_path=str(DOWNLOADS)
            )
            try:
                browser.new_context().close()
            except playwright.Error as fault:
                browser.close()
                pytest.skip(f"this Playwright cannot drive this Firefox ({fault}): pip install 'playwright<1.65'")
        else:
            sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has none for root
            browser = started.chromium.launch(executable_path=BROWSER, args=sandbox)
        yield browser
        browser.close()
        shutil.rmtree(DOWNLOADS, ignore_errors=True)


def downloaded(page: Any, act: Callable[[], object]) -> str:
    """Return the content of the file that an act on a page saves."""
    if WANTED == "chromium":
        with page.expect_download() as begun:
            act()
        return Path(begun.value.path()).read_text()
    before, deadline = set(DOWNLOADS.glob("*")), time.monotonic() + PATIENCE
    act()  # Playwright does not hear that Firefox saves what a page has made, so that its folder is looked at
    while True:
        new = [file for file in set(DOWNLOADS.glob("*")) - before if file.suffix != ".part"]
        if new and (content := new[0].read_text()):
            return content
        assert time.monotonic() < deadline, "nothing was saved"
        page.wait_for_timeout(30)
