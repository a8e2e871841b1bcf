"""The manual's site: it builds without a warning, its links hold, and it has every public symbol."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from sphinx.util.inventory import InventoryFile

import tacit
from tests.docs.pages import PAGES, ROOT

sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
public_symbols = importlib.import_module("public_symbols")
sys.path.pop(0)

MODULES = [
    "tacit.algorithms",
    "tacit.attacks",
    "tacit.audit",
    "tacit.core.contract",
    "tacit.core.errors",
    "tacit.experiments",
    "tacit.graphs",
    "tacit.interop",
    "tacit.core.limits",
    "tacit.metrics",
    "tacit.models",
    "tacit.objectives",
    "tacit.peer",
    "tacit.privacy",
    "tacit.privacy.ledger",
    "tacit.privacy.noise",
    "tacit.results",
    "tacit.streams",
    "tacit.streams.partition",
]


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what a browser fetches with it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        fetched = values.get("src") or (values.get("href") if tag == "link" else None)
        if fetched:
            self.fetched.append(fetched)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def test_every_page_is_there(site: Path) -> None:
    for page in PAGES:
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
            if not target.is_file() or (
                target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].anchors
            ):
                broken.append((file.name, link))
    assert not broken


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        assert not [url for url in page.fetched if urlsplit(url).netloc], file.name
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "@import" not in text
        assert "url(http" not in text.replace('"', "").replace("'", "")


def modules() -> Iterator[ModuleType]:
    yield from map(importlib.import_module, MODULES)


def test_every_public_module_is_checked() -> None:
    offered = {part.__name__ for name in tacit.__all__ if inspect.ismodule(part := getattr(tacit, name))}
    assert offered <= set(MODULES)
    for module in modules():
        inner = {
            f"{module.__name__}.{name}"
            for name in public_symbols.public_names(module)
            if inspect.ismodule(getattr(module, name))
        }
        assert inner <= set(MODULES)


def test_every_public_symbol_is_in_the_reference(site: Path) -> None:
    with (site / "objects.inv").open("rb") as file:
        known = {
            entry
            for kind, entries in InventoryFile.load(file, "", lambda base, path: path).items()
            if kind.startswith("py:")
            for entry in entries
        }
    wanted = {f"{module.__name__}.{name}" for module in modules() for name in public_symbols.public_names(module)}
    wanted |= {"tacit.simulate", "tacit.Peer", "tacit.results.Run"}
    for module in modules():
        for name in public_symbols.by_kind(module).get("Classes", ()):
            wanted |= {f"{module.__name__}.{name}.{field}" for field in public_symbols.fields(getattr(module, name))}
    assert sorted(wanted - known) == []


def test_every_public_symbol_says_something() -> None:
    silent = []
    classes = [("tacit.Peer", tacit.Peer)]
    for module in modules():
        for kind, names in public_symbols.by_kind(module).items():
            silent += [f"{module.__name__}.{n}" for n in names if not public_symbols.docstring(module, n)]
            if kind == "Classes":
                classes += [(f"{module.__name__}.{name}", getattr(module, name)) for name in names]
    for path, owner in classes:
        silent += [f"{path}.{field}" for field in public_symbols.silent_fields(owner)]
    assert tacit.simulate.__doc__
    assert not silent
