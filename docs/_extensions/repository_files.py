"""Links from a page to Markdown outside docs/, which is no page of the site: there the file itself is handed out.

In the repository's browser `[Contributing](../CONTRIBUTING.md)` leads to the file; on the site it is a download.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+\.md)(#[^)\s]*)?\)")


def _hand_out(app: Sphinx, page: str, source: list[str]) -> None:
    here = Path(app.srcdir, page).parent

    def outside(found: re.Match[str]) -> str:
        inside = (here / found[1]).resolve().is_relative_to(Path(app.srcdir).resolve())
        return found[0] if inside else f"](path:{found[1]})"

    source[0] = LINK.sub(outside, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the links."""
    app.connect("source-read", _hand_out)
    return {"version": "1", "parallel_read_safe": True}
