"""A federation in a browser: who is killed turns red within five seconds and comes back; acts are asked for twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tacit.board.federation import Federation
from tacit.config.fleet import load_fleet
from tests.board.fleets import Standing
from tests.board.served import Loop, opened, served, until

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
