"""The board for everybody: by the keyboard alone, read aloud, in light and dark, narrow and wide, without motion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.results import Run
from tacit.results.store import save_data
from tests.board.going import Going, folder
from tests.board.served import FOCUSED, Loop, Served, opened, served, tab_to, until

MakeRun = Callable[..., Run]

CHECKS = Path(__file__).with_name("access_checks.js").read_text()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def board(loop: Loop, root: Path) -> Iterator[Served]:
    with served(loop, root) as one:
        yield one


@pytest.fixture
def runs(root: Path, make_run: MakeRun) -> Path:
    if not (root / "live").exists():
        going = Going(
            folder(root, "live"), "A run with a long name that goes over more than one line where it is narrow"
        )
        for _ in range(4):
            going.on(20)
        save_data(make_run(seed=1, label="Stored").record(), root / "stored")
    return root


def ids(page: Any) -> dict[str, str]:
    found = page.evaluate("fetch('api/runs').then(answer => answer.json())")["runs"]
    return {run["state"]: run["id"] for run in found}


def test_every_page_is_accessible_at_every_width(browser: Any, board: Served, runs: Path) -> None:
    with opened(browser, board) as tab:
        page, known = tab.page, ids(tab.page)
        live, done = known["live"], known["done"]
        for place, ready in {
            "runs": "tbody tr",
            f"run/{live}": "svg.plot .line[d]",
            f"run/{live}/graph": "[data-placed]",
            f"run/{live}/ledger": ".classes",
            f"run/{live}/settings": "table",
            f"compare/{live},{done}": "svg.plot .line[d]",
            "peers": ".empty",
            "run/no-such-run": ".notice.bad",
        }.items():
            tab.open(place)
            page.locator(ready).first.wait_for()
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                for width in (400, 900, 1600):
                    page.set_viewport_size({"width": width, "height": 900})
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, (place, width)
                assert page.evaluate(CHECKS) == [], (place, scheme)
        page.emulate_media(color_scheme="light")
        tab.faults[:] = [fault for fault in tab.faults if "404" not in fault]  # of the run that is not there
        page.evaluate("""() => { const main = document.querySelector('main'), made = (tag, text) => main.appendChild(Object.assign(document.createElement(tag), { textContent: text }));
            Object.assign(made('button', '').style, { minHeight: 0, padding: 0 }); made('h4', 'four'); made('p', 'pale').style.color = '#999'; document.querySelectorAll('nav')[0].removeAttribute('aria-label'); }""")
        assert [fault.split()[0] for fault in sorted(page.evaluate(CHECKS))] == [
            "a",
            "contrast",
            "navigations",
            "no",
            "small",
        ]


def test_light_and_dark_are_switched_and_kept(browser: Any, board: Served, runs: Path) -> None:
    with opened(browser, board, color_scheme="light") as tab:
        page, ground = tab.page, "getComputedStyle(document.body).backgroundColor"
        switch = page.locator("#theme")
        light = page.evaluate(ground)
        switch.click()  # light
        assert page.evaluate(ground) == light
        switch.click()  # dark
        dark = page.evaluate(ground)
        assert dark != light
        page.reload()
        assert page.evaluate(ground) == dark
        switch.click()  # as the system has it
        assert page.evaluate(ground) == light


def test_the_keyboard_alone_is_enough(browser: Any, board: Served, runs: Path) -> None:
    with opened(browser, board, viewport={"width": 1200, "height": 900}) as tab:
        page = tab.page
        page.locator("tbody tr").nth(1).wait_for()
        page.keyboard.press("Tab")
        assert "Skip" in page.evaluate(FOCUSED)
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        for name in ("Compare A run", "Compare Stored"):
            tab_to(page, name)
            page.keyboard.press("Space")
        tab_to(page, "Compare 2 runs")
        page.keyboard.press("Enter")
        page.locator("h1", has_text="2 runs compared").wait_for()
        page.locator("svg.plot .line[d]").first.wait_for()
        assert page.evaluate("document.activeElement.tagName") == "H1"  # where reading goes on
        tab_to(page, "Loss:")
        page.keyboard.press("End")
        assert page.locator(".tip").first.is_visible()
        tab_to(page, "A run with")  # on from the plot: it is no trap
        page.keyboard.press("Shift+Tab")

        live = ids(page)["live"]
        tab.open(f"run/{live}/graph")
        page.locator("[data-placed]").wait_for()
        tab_to(page, "12 agents", 80)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.locator(".panel figure").first.wait_for()
        until(page, "document.getElementById('announcer').textContent.includes('opened')")
        tab_to(page, "Zoom in")  # on from the canvas, too
        tab_to(page, "Play")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.play').textContent.includes('Play')")  # it has come to the end
