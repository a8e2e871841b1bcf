"""Takes the pictures of a report in docs/gallery.md: `python docs/pictures/report.py runs/demo/report.html`.

It needs Chromium, and playwright of the extra `dev`. The demonstration (`tacit demo`) writes the report.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent


def main(report: Path) -> None:
    """Take the top of a report in light and dark, and its plots with a line switched off and values shown."""
    with sync_playwright() as started:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        page = browser.new_page(viewport={"width": 1200, "height": 1300})
        page.goto(report.resolve().as_uri())
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=HERE / f"report-{scheme}.png")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1200, "height": 860})
        page.locator(".legend button").nth(7).click()
        plots = page.locator(".plots")
        plots.evaluate("box => window.scrollTo(0, box.getBoundingClientRect().top + scrollY - 20)")
        plots.locator("svg.plot").nth(1).hover(position={"x": 250, "y": 200})
        page.screenshot(path=HERE / "report-plots.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
