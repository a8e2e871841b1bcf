"""axe finds nothing, of whatever weight, on any page of the board, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.board.federation import Federation
from tacit.config.fleet import load_fleet
from tacit.results import Run
from tacit.results.store import save_data
from tests.board import axe
from tests.board.fleets import AILING, BOOK, Standing
from tests.board.going import Going, folder
from tests.board.served import Loop, Tab, opened, served
from tests.board.test_browser_access import CHECKS

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def checker() -> str:
    return axe.script()


def look(tab: Tab, checker: str, what: str) -> None:
    """Check what is shown, with all that opens open, light and dark."""
    page = tab.page
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width in (400, 900, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (what, width)
        assert page.evaluate(CHECKS) == [], (what, scheme)
        assert axe.faults(page, checker) == [], (what, scheme)
    page.emulate_media(color_scheme="light")


def test_axe_notices_faults(browser: Any, checker: str, loop: Loop, tmp_path: Path) -> None:
    with served(loop, tmp_path) as board, opened(browser, board) as tab:
        page = tab.page
        page.locator(".empty").wait_for()
        look(tab, checker, "no runs")
        page.evaluate("""() => { const made = (tag) => document.querySelector("main").appendChild(document.createElement(tag));
          made("button"); made("img").src = "icon.svg"; Object.assign(made("p"), { textContent: "pale" }).style.color = "#ccc"; }""")
        assert {fault.split()[0] for fault in axe.faults(page, checker)} == {
            "button-name",
            "color-contrast",
            "image-alt",
        }


def test_axe_finds_nothing_on_pages_of_runs(
    browser: Any, checker: str, loop: Loop, tmp_path: Path, make_run: MakeRun
) -> None:
    going = Going(folder(tmp_path, "live"), "Going on", agents=24)
    for _ in range(4):
        going.on(20)
    save_data(make_run(seed=1, label="Stored").record(), tmp_path / "stored")
    with served(loop, tmp_path) as board, opened(browser, board) as tab:
        page = tab.page
        found = page.evaluate("fetch('api/runs').then(answer => answer.json())")["runs"]
        ids = {run["label"]: run["id"] for run in found}
        live, stored = ids["Going on"], ids["Stored"]
        for place, ready in {
            "runs": "tbody tr",
            f"run/{live}": "svg.plot .line[d]",
            f"run/{live}/graph": "[data-placed]",
            f"run/{live}/ledger": ".classes",
            f"run/{live}/settings": "table",
            f"run/{stored}": "svg.plot .line[d]",
            f"compare/{live},{stored}": "svg.plot .line[d]",
        }.items():
            tab.open(place)
            page.locator(ready).first.wait_for()
            if place.endswith("graph"):
                page.locator(".find input").fill("7")
                page.get_by_role("button", name="Open", exact=True).click()
                page.locator(".panel figure .line[d]").first.wait_for()
            look(tab, checker, place)


def test_axe_finds_nothing_on_pages_of_peers(
    browser: Any, checker: str, loop: Loop, standing: Standing, tmp_path: Path
) -> None:
    standing.reports["hospital-b"].more, standing.reports["hospital-b"].book = AILING, BOOK
    federation = Federation(load_fleet(standing.fleet.write(standing.ports)))
    with served(loop, tmp_path / "runs", federation) as board, opened(browser, board) as tab:
        page = tab.open("peers")
        page.get_by_text("used up").first.wait_for()
        look(tab, checker, "cards")
        page.get_by_role("button", name="Stop hospital-a").click()
        page.get_by_role("dialog").wait_for()
        look(tab, checker, "the question")
        page.keyboard.press("Escape")
        standing.down("hospital-a")
        page.locator("[data-peer='hospital-a'] header .badge[data-state='down']").wait_for()
        look(tab, checker, "one of them down")
        page.get_by_label("Show as").select_option("table")
        page.locator("tr[data-peer='hospital-a']").wait_for()
        look(tab, checker, "a table")
        tab.open("peers/hospital-b")
        page.locator(".classes meter, .classes progress").first.wait_for()
        look(tab, checker, "a ledger")
        loop.call(federation.close())
