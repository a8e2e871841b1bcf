"""Pages of the gallery and their Markdown: links, escaping, verdicts; in a browser the filter, widths and values."""

import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reproduction.tests import made_up
from tacit_reproduction.catalogue import TEXTS, studies
from tacit_reproduction.gallery import Finished, judge_all, write_pages
from tacit_reproduction.page import KEYS, MARKS, MEANINGS
from tacit_reproduction.verdict import VERDICTS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RAN = [
    made_up.study("a", "OPS paper, sec. 5"),
    made_up.study("b", "OPS paper", best=False),
    made_up.study("c", "Rizk (2023), ch. 2"),
]


class Page(HTMLParser):
    """Ids, links, and the tags that a page has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            self.ids += [str(value)] if name == "id" else []
            self.links += [str(value)] if (tag, name) == ("a", "href") else []
            assert (tag, name) not in {("link", "href"), ("script", "src"), ("img", "src")}
            assert not name.startswith("on")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three studies that ran, of two texts, and one that did not."""
    out = tmp_path_factory.mktemp("gallery")
    outcomes = [Finished(each, out / each.name, each.run(False, out / each.name, 0)) for each in RAN]
    outcomes.append(Finished(made_up.named("fails"), out / "fails", None, "rows.csv <is> not there"))
    assert write_pages(outcomes, out) == out / "index.html"
    return out


def test_links_lead_somewhere_no_id_is_there_twice_and_nothing_is_asked_for(gallery: Path) -> None:
    pages = {path.name: Page(path) for path in sorted(gallery.glob("*.html"))}
    assert list(pages) == ["index.html", "text-ops.html", "text-rizk.html"]
    followed = 0
    for name, page in pages.items():
        assert len(set(page.ids)) == len(page.ids)
        for link in page.links:
            file, _, place = link.partition("#")
            assert not place or place in pages[file or name].ids
            assert (file or name) in pages
            followed += 1
    assert followed >= 20
    report = (gallery / "a" / "report.html").read_text()
    for page in (report, *((gallery / name).read_text() for name in pages)):
        assert "default-src 'none'" in page


def test_markup_in_words_is_text(gallery: Path) -> None:
    for path in (*gallery.glob("*.html"), gallery / "a" / "report.html"):
        assert not {"is", "one", "made", "picture", "here"} & Page(path).tags
    index = (gallery / "index.html").read_text()
    for words in ("B | A &lt;is&gt;", "A &lt;picture&gt;", "Done so."):
        assert words in (gallery / "text-ops.html").read_text()
    assert "0.3 &lt;here&gt;" in index
    assert "fails did not run: rows.csv &lt;is&gt; not there" in index


def test_every_verdict_has_a_glyph_a_colour_and_a_meaning(gallery: Path) -> None:
    assert tuple(MARKS) == tuple(KEYS) == tuple(MEANINGS) == VERDICTS
    index = (gallery / "index.html").read_text()
    cells = re.findall(r"<td class='(\w+)' data-verdict='([^']+)'><a [^>]*><b>(.) ([^<]+)</b>", index)
    assert len(cells) == 6
    for key, verdict, mark, words in cells:
        assert (KEYS[verdict], MARKS[verdict]) == (key, mark)
        assert words == (f"{verdict} (holds at 1 of 2)" if key == "depends" else verdict)
    assert "6 headline results: 1 reproduced, 2 depends on an open setting, 3 refuted" in index


def test_a_headline_that_two_studies_state_is_there_once_with_the_worst_of_their_verdicts(gallery: Path) -> None:
    page = (gallery / "text-ops.html").read_text()
    assert re.findall(r"<article class='result (\w+)' id='([^']+)'", page) == [
        ("no", "a-1"),
        ("depends", "a-2"),
        ("no", "a-3"),
    ]
    parts = re.findall(r"<h4 class='(\w+)'>The (\w)", page)
    assert parts[:2] == [("yes", "a"), ("no", "b")]
    assert re.findall(r"<a href='#(a-.)'>", page.split("<section id='b'>")[1]) == ["a-1", "a-2", "a-3"]
    assert "✗ refuted: b; ✓ reproduced: a" in (gallery / "headlines.md").read_text()


def test_tables_in_markdown_break_at_nothing(gallery: Path) -> None:
    lines = (gallery / "headlines.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 6
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert any("A is best \\| of all" in row and "✓ reproduced" in row and " s, full |" in row for row in rows)
    assert any("fails did not run" in line for line in lines)
    claims = (gallery / "claims.md").read_text()
    assert re.findall(r"^## (.*)", claims, re.M) == ["a", "b", "c"]
    assert max(map(len, claims.splitlines())) <= 120
    told = " ".join(claims.split())
    assert told.count(r"Text: 0.3 \<here\>. Here: ") == 9
    assert r"Swept: R = 1 \<&\>: ✓ holds; R = 2: ✗ fails." in told
    assert claims.count("*ours*") == 3 + 1  # and once at the head
    assert " ".join(claims.split()).count("1 of 2 claims of the text hold") == 3


def test_what_is_stored_makes_the_same_pages(gallery: Path, tmp_path: Path) -> None:
    shutil.copytree(gallery, tmp_path / "copy")
    before = {path.name: path.read_bytes() for path in gallery.glob("*.*")}
    outcomes = judge_all([*RAN, made_up.named("dies")], tmp_path / "copy")
    assert [outcome.summary is None for outcome in outcomes] == [False, False, False, True]
    outcomes[-1] = Finished(made_up.named("fails"), tmp_path, None, "rows.csv <is> not there")
    write_pages(outcomes, tmp_path / "copy")
    assert {path.name: path.read_bytes() for path in (tmp_path / "copy").glob("*.*")} == before


def test_every_study_cites_its_text_and_has_a_name_and_a_time_of_its_own() -> None:
    found = [(text, study) for text in TEXTS for study in studies(text)]
    assert found
    assert len({study.name for _, study in found}) == len(found)
    assert all([each for each in TEXTS if each.cited in study.source] == [text] for text, study in found)
    assert all(study.minutes > 0 for _, study in found)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if BROWSER is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=BROWSER, args=[] if os.geteuid() else ["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize("page", ["index.html", "text-ops.html", "text-rizk.html", "a/report.html"])
def test_pages_fit_screens_of_every_width(browser: Any, gallery: Path, page: str) -> None:
    tab = browser.new_page()
    tab.goto((gallery / page).as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for width in (400, 900, 1400):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_gallery_in_a_browser(browser: Any, gallery: Path) -> None:
    tab, faults = browser.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda said: faults.append(said.text))
    tab.goto((gallery / "index.html").as_uri())

    def seen(kind: str) -> int:
        return tab.evaluate(f"[...document.querySelectorAll('{kind}')].filter(each => each.offsetParent).length")

    assert (seen("article"), seen("section"), seen(".filter button")) == (6, 2, 4)
    tab.click(".filter button[value='refuted']")
    assert (seen("article"), seen("article[data-verdict=refuted]"), seen("section")) == (3, 3, 2)
    assert tab.get_attribute(".filter button[value='refuted']", "aria-pressed") == "true"
    assert tab.inner_text(".filter output").startswith("3 ")
    tab.click(".filter button[value='']")
    assert seen("article") == 6
    tab.locator("svg.plot").first.hover()
    assert "A & B" in tab.locator(".tip:visible").inner_text()
    grounds = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        grounds.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]
    assert faults == []
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto((gallery / "index.html").as_uri())
    assert plain.locator("article:visible").count() == 6
    assert plain.locator(".filter:visible").count() == 0
