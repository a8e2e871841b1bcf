"""The board in a browser: runs are found, compared and followed as they learn; nothing leaves, nothing is logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.results import Run
from tacit.results.store import save_data
from tests.board.going import Going, folder
from tests.board.served import PATIENCE, Loop, Served, opened, served, until
from tests.browser import downloaded

MakeRun = Callable[..., Run]
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def board(loop: Loop, root: Path) -> Iterator[Served]:
    with served(loop, root) as one:
        yield one


@pytest.fixture
def stored(root: Path, make_run: MakeRun) -> Path:
    """Three runs that ended; two differ in a setting, and one is called by markup."""
    for k, label in enumerate(("Push-sum", "Diffusion", MARKUP)):
        settings = {"run": {"rounds": 40}, "algorithm": [{"name": "online_push_sum", "step": 0.1 * (1 + k)}]}
        if not (root / "stored" / str(k)).exists():
            save_data(make_run(seed=k, label=label, settings=settings).record(), root / "stored" / str(k))
    return root


def test_runs_are_found_filtered_and_compared(browser: Any, board: Served, stored: Path) -> None:
    with opened(browser, board, viewport={"width": 1300, "height": 900}) as tab:
        page = tab.page
        rows = page.locator("table.runs tbody tr")
        page.locator("tr", has_text=MARKUP).wait_for()  # as text
        assert page.locator("img[src='x']").count() == 0
        page.get_by_label("Find").fill("diffu")
        until(page, "document.querySelectorAll('table.runs tbody tr').length === 1")
        assert "Diffusion" in rows.first.inner_text()
        page.get_by_label("Find").fill("no such run")
        page.get_by_role("button", name="Show all runs").click()
        for label in ("Push-sum", "Diffusion"):
            page.get_by_role("checkbox", name=f"Compare {label}").check()
        page.get_by_role("link", name="Compare 2 runs").click()

        page.get_by_role("heading", name="2 runs compared").wait_for()
        loss = page.locator("figure.chart").first
        loss.locator("g[data-line] .line").nth(1).wait_for()
        assert page.locator("table.side tr", has_text="algorithm.step").locator("td").all_inner_texts() == [
            "0.1",
            "0.2",
        ]
        assert page.locator("table.side tr", has_text="run.rounds").count() == 0  # the same in both
        # A name switches its line in every plot; the arrow keys tell values.
        button = loss.locator(".legend button", has_text="Diffusion")
        button.click()
        until(
            page,
            "document.querySelectorAll('g[data-line]').length === document.querySelectorAll('figure.chart').length",
        )
        assert button.get_attribute("aria-pressed") == "false"
        button.press("Enter")
        until(
            page, "document.querySelectorAll('g[data-line]').length > document.querySelectorAll('figure.chart').length"
        )
        plot = loss.locator("svg.plot")
        plot.focus()
        plot.press("End")
        assert "round 40" in loss.locator(".tip").inner_text()
        plot.press("Escape")
        assert not loss.locator(".tip").is_visible()
        page.get_by_label("log values").check()
        page.get_by_label("Smoothing").select_option("5")
        page.locator("figcaption", has_text="means over 5").first.wait_for()


def test_data_and_pictures_are_downloaded(browser: Any, board: Served, stored: Path, tmp_path: Path) -> None:
    with opened(browser, board) as tab:
        page = tab.page
        page.get_by_role("link", name="Diffusion").click()
        loss = page.locator("figure.chart").first
        loss.locator(".line[d]").wait_for()
        buttons = {kind: loss.get_by_role("button", name=kind) for kind in ("CSV", "JSON", "SVG")}
        files = {kind: downloaded(page, button.click) for kind, button in buttons.items()}
        head, *rows = files["CSV"].splitlines()
        assert head.split(",")[0] == "round"
        line = json.loads(files["JSON"])["lines"][0]
        assert [float(row.split(",")[1]) for row in rows] == line["mean"]
        assert len(line["rounds"]) == len(rows) > 3
        standing = browser.new_context().new_page()
        (tmp_path / "plot.svg").write_text(files["SVG"])
        standing.goto((tmp_path / "plot.svg").as_uri())
        stroke = "getComputedStyle(document.querySelector('.line')).stroke"
        assert standing.evaluate(stroke) == page.evaluate(stroke)
        standing.context.close()


def test_a_live_run_grows_and_ends(browser: Any, board: Served, root: Path) -> None:
    run = Going(folder(root, "live"), "Going on")
    run.on(20)
    with opened(browser, board) as tab:
        page = tab.page
        row = page.locator("tr.live", has_text="Going on")
        row.wait_for()
        assert page.locator("table.runs tbody tr").first.get_attribute("class") == "live"
        row.get_by_role("link").click()
        page.locator("figure.chart .line[d]").first.wait_for()
        length = "document.querySelector('figure.chart svg').getAttribute('aria-label')"
        assert "round 20" in page.evaluate(length)
        for rounds in (40, 300):
            run.on(rounds)
            until(page, f"{length}.includes('round {run.done}')")
            page.locator(".progress small", has_text=f"{run.done} of 1,000").wait_for()
        page.get_by_role("link", name="Runs", exact=True).first.click()
        row.wait_for()
        run.on(640, ended="done")
        page.locator("tr.done", has_text="Going on").wait_for()


def test_regret_so_far_gives_way_to_the_true_one(browser: Any, board: Served, root: Path, make_run: MakeRun) -> None:
    run = Going(folder(root, "regret"), "With regret")
    run.on(20)
    with opened(browser, board) as tab:
        page = tab.page
        page.get_by_role("link", name="With regret").click()
        page.get_by_role("heading", name="Regret so far", exact=False).wait_for()
        assert not page.locator(".regretless").is_visible()
        run.on(980, ended="done")
        made = make_run(seed=3, label="With regret")
        made.regret(points=3)
        save_data(made.record(), root / "regret")
        page.get_by_role("heading", name="Regret", exact=True).wait_for()
        until(
            page,
            "![...document.querySelectorAll('h3, h2, figcaption')].some((each) => each.textContent.startsWith('Regret so far'))",
        )


def test_an_agent_is_opened(browser: Any, board: Served, root: Path) -> None:
    run = Going(folder(root, "graph"), "With a graph", agents=24)
    for _ in range(5):
        run.on(10)
    with opened(browser, board, viewport={"width": 1300, "height": 1000}) as tab:
        page = tab.page
        page.get_by_role("link", name="With a graph").click()
        page.get_by_role("link", name="Graph", exact=True).click()
        page.locator("[data-placed]").wait_for()
        canvas = page.locator(".sheet canvas")
        # Pressed on where it lies.
        place = canvas.evaluate(
            "canvas => { canvas.scrollIntoView(); return canvas.getBoundingClientRect().toJSON(); }"
        )
        spots = [(0.15 + 0.02 * x, 0.1 + 0.04 * y) for y in range(20) for x in range(35)]
        for x, y in spots:  # over the picture, until an agent is under the pointer
            page.mouse.move(place["x"] + place["width"] * x, place["y"] + place["height"] * y)
            if page.locator(".sheet .tip").is_visible():
                break
        name = page.locator(".sheet .tip b").inner_text()
        page.mouse.down()
        page.mouse.up()
        panel = page.locator(".panel")
        panel.get_by_role("heading", name=name, exact=True).wait_for()
        panel.locator("figure .line[d]").first.wait_for()
        panel.get_by_text("epsilon").first.wait_for()
        # A neighbour is opened from there; by the keyboard, another one.
        neighbour = panel.locator(".links button").first
        other = neighbour.inner_text()
        neighbour.click()
        panel.get_by_role("heading", name=other, exact=True).wait_for()
        canvas.focus()
        canvas.press("ArrowRight")
        shown = page.locator(".sheet .tip b").inner_text()
        canvas.press("Enter")
        panel.get_by_role("heading", name=shown, exact=True).wait_for()
        canvas.press("Escape")
        panel.get_by_role("heading", name="No agent chosen").wait_for()

        # Rounds are gone through, and what is drawn stands in a table, too.
        slider = page.get_by_role("slider", name="Round")
        slider.press("Home")
        first = page.locator(".scrub output").inner_text()
        slider.press("ArrowRight")
        assert page.locator(".scrub output").inner_text() != first
        page.locator("summary", has_text="as a table").click()
        cells = page.locator("details table tbody tr").first.locator("td")
        assert float(cells.first.inner_text()) > 0
        page.get_by_label("Colour by").select_option("presence")
        until(page, "/took part|was away/.test(document.querySelector('details table tbody td').textContent)")
        # What is recorded later comes at the slider's end.
        end = slider.get_attribute("max")
        run.on(10)
        until(page, f"document.querySelector('.scrub input').max > {end}")


def test_a_lost_connection_is_told_and_mended(browser: Any, loop: Loop, tmp_path: Path) -> None:
    run = Going(folder(tmp_path, "live"), "Going on")
    with served(loop, tmp_path) as board, opened(browser, board) as tab:
        page = tab.page
        page.locator("tr.live").wait_for()
        page.locator("#connection", has_text="connected").wait_for()
        board.end()
        page.locator("#lost", has_text="Connection lost").wait_for()
        run.on(50)
        board.begin()
        page.locator("#connection", has_text="connected").wait_for()
        assert not page.locator("#lost").is_visible()
        page.locator(".progress small", has_text="50 of").wait_for()
        tab.faults[:] = [
            fault for fault in tab.faults if "ERR_CONNECTION" not in fault and "ERR_INCOMPLETE" not in fault
        ]


def test_an_empty_folder_says_what_to_do(browser: Any, loop: Loop, tmp_path: Path) -> None:
    with served(loop, tmp_path) as board, opened(browser, board) as tab:
        tab.page.locator(".empty code", has_text="tacit demo").wait_for()
        run = Going(folder(tmp_path, "first"), "The first")
        run.on(10)
        tab.page.locator("tr.live", has_text="The first").wait_for(timeout=PATIENCE)
        tab.open("compare/")
        tab.page.locator(".empty").wait_for()
