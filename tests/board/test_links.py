"""Links that are not open: in the live file, from the server for the round that is asked for, and in the picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.board.graph_view import agent, graph, link_states, links
from tacit.board.live_reader import LiveRecord
from tests.board.going import Going, folder
from tests.board.served import Loop, Served, opened, served, until


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two thousand agents, with more links than were once marked, and a small one."""
    found = tmp_path_factory.mktemp("runs")
    for name, agents in (("large", 2000), ("small", 24)):
        run = Going(folder(found, name), name, agents=agents)
        for _ in range(3):
            run.on(10)
        run.on(10, ended="done")
    return found


@pytest.fixture(scope="module")
def board(loop: Loop, root: Path) -> Iterator[Served]:
    with served(loop, root) as one:
        yield one


def record(directory: Path) -> LiveRecord:
    (path,) = (directory / ".tacit-live").iterdir()
    found = LiveRecord(path)
    found.refresh()
    return found


def test_states_are_those_of_the_round_that_is_asked_for(root: Path) -> None:
    live = record(root / "small")
    assert graph(live)["link_states"] == ["late", "lost", "dead"]
    ends = [tuple(link) for link in graph(live)["links"]]
    told = {each["round"]: each["states"] for each in links(live, 0, None)["rounds"]}
    assert list(told) == [10, 20, 30, 40]
    assert [each["round"] for each in links(live, 11, 30)["rounds"]] == [20, 30]
    seen = set()
    for round_, states in told.items():
        there = dict(live.frames)[round_]["presence"]
        dead = {place for place, (a, b) in enumerate(ends) if not (there[a] and there[b])}
        assert set(states["dead"]) == dead
        for number in range(24):
            one = agent(live, number, True, 1.0, round_)
            expected = [
                next((state for state, places in states.items() if place in places), "open")
                for place, (sender, _) in enumerate(ends)
                if sender == number
            ]
            assert [link["state"] for link in one["links"]] == expected
            seen |= {*expected, *(link["state"] for link in one["heard"])}
    assert seen == {"open", "late", "lost", "dead"}
    assert agent(live, 3, True, 1.0)["links"] == agent(live, 3, True, 1.0, 40)["links"]
    assert agent(live, 3, True, 1.0)["released"]["times"] == 36


def test_a_state_that_was_not_foreseen_is_known_once_it_was_seen(tmp_path: Path) -> None:
    (tmp_path / ".tacit-live").mkdir()
    network = {"agents": 2, "aggregated": False, "count": 2, "links": [[0, 1], [1, 0]], "states": ["late", "<b>"]}
    lines: list[dict[str, Any]] = [
        {"tacit_live": 1, "label": "x", "rounds": 9},
        {"graph": network},
        {"frame": 1, "measures": {"loss": [1, 2]}, "links": {"late": [1, 7, -1, "x"], "<b>": [0]}},
    ]
    file = tmp_path / ".tacit-live" / "01-x.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    live = record(tmp_path)
    assert link_states(live) == ["late"]
    assert links(live, 0, None)["rounds"] == [{"round": 1, "states": {"late": [1]}}]
    with file.open("a") as more:
        more.write(json.dumps({"frame": 2, "measures": {"loss": [1, 2]}, "links": {"quarantined": [0]}}) + "\n")
    live.refresh()
    assert link_states(live) == ["late", "quarantined"]


def test_links_are_marked_in_the_picture_of_two_thousand_agents(browser: Any, board: Served) -> None:
    with opened(browser, board, viewport={"width": 1300, "height": 1000}) as tab:
        page = tab.page
        page.get_by_role("link", name="large").click()
        page.get_by_role("link", name="Graph", exact=True).click()
        page.locator("[data-placed]").wait_for()
        words = "document.querySelector('.closed').textContent"
        until(page, f"/\\d+ late, \\d+ lost, [\\d,]+ dead/.test({words})")
        last = page.evaluate(words)
        slider = page.get_by_role("slider", name="Round")
        slider.press("Home")
        until(page, f"/dead/.test({words}) && {words} !== {json.dumps(last)}")
        # Red and yellow pixels are there, which open links have none of.
        marked = """() => { const canvas = document.querySelector('.sheet canvas'), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const probe = document.body.appendChild(document.createElement('i')); probe.style.color = 'var(--bad)';
            const bad = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number); probe.remove(); let found = 0;
            for (let k = 0; k < pixels.length; k += 4) if (bad.every((each, c) => Math.abs(each - pixels[k + c]) < 24)) found += 1; return found; }"""
        assert page.evaluate(marked) > 500
        legend = page.locator(".panel .lines .badge").all_inner_texts()
        assert legend == ["open", "late", "lost", "dead"], "and none that cannot be here"


def test_the_chosen_agent_has_the_links_of_the_round(browser: Any, board: Served, root: Path) -> None:
    live = record(root / "small")
    changing = next(
        number
        for number in range(24)
        if len({str(agent(live, number, True, 1.0, round_)["links"]) for round_ in (10, 20, 30, 40)}) > 1
    )
    with opened(browser, board, viewport={"width": 1300, "height": 1000}) as tab:
        page = tab.page
        page.get_by_role("link", name="small").click()
        page.get_by_role("link", name="Graph", exact=True).click()
        page.locator("[data-placed]").wait_for()
        page.get_by_label("Number of the agent").fill(str(changing))
        page.get_by_role("button", name="Open").click()
        page.get_by_role("heading", name=f"agent {changing}", exact=True).wait_for()
        slider = page.get_by_role("slider", name="Round")
        for place, round_ in enumerate((10, 20, 30, 40)):
            slider.press("Home" if place == 0 else "ArrowRight")
            states = [link["state"] for link in agent(live, changing, True, 1.0, round_)["links"]]
            shown = "[...document.querySelectorAll('.around .links')[0].children].map((each) => each.querySelector('.badge')?.dataset.state ?? 'open')"
            until(
                page,
                f"document.querySelectorAll('.around .links').length === 2 && JSON.stringify({shown}) === {json.dumps(json.dumps(states, separators=(',', ':')))}",
            )
        page.get_by_text("rounds with a release").wait_for()
