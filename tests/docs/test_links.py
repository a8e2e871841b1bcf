"""Every link and every path in what people read leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT, WRITTEN, anchors, inline

each_page = pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
PATH = re.compile(r"(docs|examples|src|tests|benchmarks)/[\w./-]+\w")
MADE_LATER = re.compile(r"/reference/commands\.md$")
"""Its headings are made when the site is built; tests/docs/test_site.py looks at them."""


def broken(path: Path, target: str) -> str | None:
    """Say what is wrong with a link."""
    parts = urlsplit(target)
    if parts.scheme in ("http", "https"):
        host = parts.hostname or ""
        return None if re.fullmatch(r"[\w-]+(\.[\w-]+)+", host) and " " not in target else "not an address"
    if parts.scheme:
        return f"links of the kind {parts.scheme} are not used"
    file = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if not file.exists():
        return "there is no such file"
    if not file.is_relative_to(ROOT):
        return "it leads out of the repository"
    if parts.fragment and not MADE_LATER.search(str(file)) and parts.fragment not in anchors(file):
        return f"{file.name} has no such heading"
    return None


@each_page
def test_links_lead_somewhere(path: Path) -> None:
    targets = [str(part.attrs["href"]) for part in inline(path, "link_open")]
    targets += [str(part.attrs["src"]) for part in inline(path, "image")]
    faults = {target: fault for target in targets if (fault := broken(path, target))}
    assert not faults


@each_page
def test_paths_that_are_named_exist(path: Path) -> None:
    named = [part.content for part in inline(path, "code_inline") if PATH.fullmatch(part.content)]
    assert not [name for name in named if not (ROOT / name).exists()]


def test_a_broken_link_is_noticed() -> None:
    readme = ROOT / "README.md"
    assert broken(readme, "docs/nowhere.md") == "there is no such file"
    assert "no such heading" in broken(readme, "docs/design.md#nowhere")
    assert broken(readme, "docs/design.md#the-contract") is None
    assert broken(readme, "https://nowhere/") == "not an address"
    assert "ftp" in broken(readme, "ftp://example.org/")
    assert broken(readme, "../elsewhere")
