"""A federation in a browser: who is killed turns red within five seconds and comes back; acts are asked for twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tacit.board.federation import Federation
from tacit.config.fleet import load_fleet
from tests.board.fleets import BOOK, Fleet, Standing
from tests.board.served import FOCUSED, Loop, opened, served, tab_to, until

DOWN_WITHIN = 5.0
"""Seconds, promised."""


def test_a_peer_that_dies_is_red_and_comes_back_green(
    browser: Any, loop: Loop, standing: Standing, tmp_path: Path
) -> None:
    federation = Federation(load_fleet(standing.fleet.write(standing.ports)))
    with served(loop, tmp_path, federation) as board, opened(browser, board) as tab:
        page = tab.open("peers")
        card = page.locator("[data-peer='hospital-b']")
        colour = "getComputedStyle(document.querySelector('[data-peer=\"hospital-b\"] header .badge')).color"
        card.locator("header .badge[data-state='up']").wait_for()
        page.get_by_text("2 of 2 peers up").wait_for()
        green = page.evaluate(colour)

        began = time.monotonic()
        standing.down("hospital-b")
        card.locator("header .badge[data-state='down']").wait_for()
        assert time.monotonic() - began < DOWN_WITHIN
        assert page.evaluate(colour) != green
        assert "down" in card.locator("header .badge").inner_text()  # in words, too
        assert card.locator("header .badge svg path").get_attribute("d") != page.locator(
            "[data-peer='hospital-a'] header .badge svg path"
        ).get_attribute("d")
        until(page, "document.getElementById('announcer').textContent.includes('hospital-b is down')")
        page.get_by_text("1 of 2 peers up").wait_for()

        standing.up("hospital-b")
        card.locator("header .badge[data-state='up']").wait_for()
        assert page.evaluate(colour) == green
        loop.call(federation.close())


def test_a_peer_is_stopped_after_a_question(browser: Any, loop: Loop, standing: Standing, tmp_path: Path) -> None:
    federation = Federation(load_fleet(standing.fleet.write(standing.ports)))
    with served(loop, tmp_path, federation) as board, opened(browser, board) as tab:
        page = tab.open("peers")
        stop = page.get_by_role("button", name="Stop hospital-a")
        stop.click()
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
        assert standing.fleet.stopped == []
        stop.click()
        page.get_by_role("dialog").get_by_role("button", name="Stop hospital-a").click()
        until(page, "document.getElementById('announcer').textContent.includes('asked to stop')")
        assert standing.fleet.stopped == ["hospital-a"]
        # Whoever may act is known by the fleet's file alone.
        page.get_by_label("Show as").select_option("table")
        page.locator("tr[data-peer='hospital-a']").wait_for()
        loop.call(federation.close())


STATES = ("open", "late", "dead", "refused", "quarantined")


def test_every_state_of_a_link_is_told_by_a_line_a_sign_and_words(browser: Any, loop: Loop, tmp_path: Path) -> None:
    names = ["hub", *STATES]
    standing = Standing(loop, Fleet(tmp_path, *names))
    for name in names:
        standing.up(name)
        standing.reports[name].links = []
    standing.reports["hub"].links = [{"peer": state, "direction": "out", "state": state, "lag": 0} for state in STATES]
    federation = Federation(load_fleet(standing.fleet.write(standing.ports)))
    with served(loop, tmp_path / "runs", federation) as board, opened(browser, board) as tab:
        page = tab.open("peers")
        page.get_by_text("6 of 6 peers up").wait_for()
        looks = set()
        for state in STATES:
            link = page.locator(f".map g.k-{state}")
            link.wait_for()
            assert link.count() == 1
            line = link.locator("path.k")
            sign = link.locator("text.sign").text_content() if state != "open" else ""
            looks.add((line.get_attribute("stroke-dasharray"), sign))
        assert len(looks) == len(STATES), "none needs a colour to be told from another"
        words = page.locator(".map svg").get_attribute("aria-label") or ""
        assert all(f"from hub to {state}" in words for state in STATES[1:])
        assert "from hub to open" not in words
        card = page.locator("[data-peer='hub']")
        assert [card.locator(f"li .badge[data-state='{state}']").count() for state in STATES] == [0, 1, 1, 1, 1]
        loop.call(federation.close())
    for name in names:
        standing.down(name)


def test_the_keyboard_alone_stops_a_peer(browser: Any, loop: Loop, standing: Standing, tmp_path: Path) -> None:
    standing.reports["hospital-a"].book = BOOK
    federation = Federation(load_fleet(standing.fleet.write(standing.ports)))
    with served(loop, tmp_path / "runs", federation) as board, opened(browser, board) as tab:
        page = tab.page
        tab_to(page, "Federation")
        page.keyboard.press("Enter")
        page.get_by_text("2 of 2 peers up").wait_for()
        assert page.evaluate("document.activeElement.tagName") == "H1"
        tab_to(page, "Stop hospital-b")
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        assert "Leave it" in page.evaluate(FOCUSED), "the harmless answer has the focus"
        for key in ("Tab", "Shift+Tab"):  # beyond the last one are the browser's own parts
            page.keyboard.press(key)
            assert page.evaluate("Boolean(document.activeElement.closest('dialog'))")
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
        assert "Stop hospital-b" in page.evaluate(FOCUSED), "back where it was asked"
        assert standing.fleet.stopped == []
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        tab_to(page, "Stop hospital-b")
        page.keyboard.press("Enter")
        until(page, "document.getElementById('announcer').textContent.includes('asked to stop')")
        assert standing.fleet.stopped == ["hospital-b"]
        page.reload()  # Firefox does not go on from the last place to the first one by itself
        page.get_by_role("link", name="More of hospital-a").wait_for()
        tab_to(page, "More of hospital-a")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Ledger").wait_for()
        loop.call(federation.close())
