"""Takes the pictures of the gallery in docs/gallery.md: `python docs/pictures/gallery.py runs/gallery`.

It needs Chromium, and playwright of the extra `dev`. `tacit reproduce --all` writes the gallery.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent


def main(gallery: Path) -> None:
    """Take the top of the index, and the first result of the last text, in light and dark."""
    text = sorted(gallery.glob("text-*.html"))[-1].name
    with sync_playwright() as started:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        for name, file in (("index", "index.html"), ("text", text)):
            page.goto((gallery / file).resolve().as_uri())
            if name == "text":
                page.locator("article.result").first.evaluate("article => article.scrollIntoView()")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=HERE / f"gallery-{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
