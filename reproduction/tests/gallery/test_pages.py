from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reproduction.tests.gallery import made_up
from tacit.core.errors import ResultError
from tacit_reproduction.catalogue import EXPERIMENTS
from tacit_reproduction.gallery import TEXTS, Finished, write_pages
from tacit_reproduction.gallery.texts import text_of


class Links(HTMLParser):
    """Every id and every place that a page points to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and tag == "section":
                self.ids.append(str(value))
            if tag == "a" and name == "href":
                self.links.append(str(value))
            assert (tag, name) not in {("link", "href"), ("script", "src"), ("img", "src")}


def finished(name: str, out: Path) -> Finished:
    """An experiment of the texts as a made-up one found it."""
    experiment = EXPERIMENTS[name]
    from tacit_reproduction.experiment import reproducible

    run = reproducible(name, experiment.title, experiment.source, made_up.found).run
    return Finished(experiment, out / name, run(False, out / name, 0))


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gallery")
    fault = "rows.csv <is> not there"
    outcomes = [
        finished("ops-occupancy", out),
        finished("pao-theory", out),
        Finished(EXPERIMENTS["ops-susy"], out / "ops-susy", None, fault),
    ]
    assert write_pages(outcomes, out) == out / "index.html"
    return out


def parsed(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text())
    return links


def test_links_lead_somewhere_and_pages_ask_for_nothing(gallery: Path) -> None:
    pages = sorted(gallery.glob("*.html"))
    assert [page.name for page in pages] == ["index.html", "text-gauthier.html", "text-ops.html"]
    followed = 0
    for page in pages:
        for link in parsed(page).links:
            name, _, place = link.partition("#")
            target = gallery / name if name else page
            assert target.is_file(), link
            assert not place or place in parsed(target).ids
            followed += 1
    assert followed >= 8


def test_index_counts_and_names_what_did_not_run(gallery: Path) -> None:
    index = (gallery / "index.html").read_text()
    assert re.findall(r"<b>(\d+)</b>", index)[:4] == ["2", "4", "2", "2"]  # experiments, claims, that hold, that do not
    assert "Part 1. " in index
    assert "Part 5. " in index
    assert "did not run: rows.csv &lt;is&gt; not there" in index
    assert "1 did not run" in index


def test_a_figure_stands_with_claim_text_verdict_command_seed_and_seconds(gallery: Path) -> None:
    page = (gallery / "text-ops.html").read_text()
    figure = page[page.index("<figure>") : page.index("</figure>")]
    for words in ("<svg", "A &lt; B", "0.3 (table 1)", "A 0.1, B 0.2", "✓ holds"):
        assert words in figure
    assert "✗ does not hold" in page
    assert "<code>tacit reproduce ops-occupancy --seed 0 --out runs/ops-occupancy</code> · seed 0 · full · " in page
    assert re.search(r"· \d+ s · \d{4}-\d\d-\d\d · .+ cores?", page)


def test_verdicts_are_tables_in_which_nothing_breaks_a_cell(gallery: Path) -> None:
    lines = (gallery / "verdicts.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| B")]
    assert rows == ["| B \\| A | – | the reason | **does not hold** |"] * 2
    assert "| A < B | 0.3 (table 1) | A 0.1, B 0.2 | holds |" in lines
    assert "- ops-susy did not run: rows.csv &lt;is> not there" in lines


def test_a_lost_picture_is_told(gallery: Path, tmp_path: Path) -> None:
    outcome = finished("ops-occupancy", tmp_path)
    (tmp_path / "ops-occupancy" / "picture.svg").unlink()
    with pytest.raises(ResultError, match="picture.svg"):
        write_pages([outcome], tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_every_experiment_belongs_to_a_text() -> None:
    assert {text_of(experiment.source).key for experiment in EXPERIMENTS.values()} == TEXTS.keys()
