"""The whole of it: a run by its command, with the board that it opens, and peers that are processes, in a browser."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.board.federation import Federation
from tacit.cli.board import watching
from tacit.config.fleet import load_fleet
from tacit.deploy.swarm import one_thread
from tests.board.served import Loop, at, opened, served, until
from tests.board.test_real_peers import DOWN_WITHIN, PAIR, Pair

LASTING = """
[run]
name = "Lasting"
rounds = 20000000
[graph]
kind = "ring"
agents = 12
[stream]
kind = "logistic_drift"
dim = 3
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
label = "Lasting push-sum"
step = 0.3
"""
SLOW = 300_000
"""Milliseconds that processes have to start and to learn, on a busy machine."""


def test_the_printed_link_is_opened_and_ends_with_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browsed: list[str] = []
    monkeypatch.setenv("BROWSER", "any")
    monkeypatch.setattr(webbrowser, "open", browsed.append)
    with watching(tmp_path, True):
        (link,) = (word for word in capsys.readouterr().out.split() if word.startswith("http"))
        assert browsed == [link]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(link) as answer:
            assert b"<title>" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(link.partition("?")[0])
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(link)
    with watching(tmp_path, False):
        assert capsys.readouterr().out == ""


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Have `tacit run FILE --watch` run until it is interrupted; gives the link that it prints."""
    (folder / "lasting.toml").write_text(LASTING)
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "BROWSER")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tacit", "run", "lasting.toml", "--watch", "--out", "found"],
        cwd=folder,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = next(line for line in process.stdout if line.startswith("board: "))
        yield said.split()[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SLOW / 1000)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_run_by_its_command_is_watched_as_it_learns(browser: Any, tmp_path: Path) -> None:
    with running(tmp_path) as link, at(browser, link, viewport={"width": 1300, "height": 1000}) as tab:
        page = tab.page
        page.set_default_timeout(SLOW)
        row = page.locator("tr.live", has_text="Lasting push-sum")
        row.get_by_role("link").click()
        page.locator("figure.chart .line[d]").first.wait_for()
        rounds = "parseInt(document.querySelector('.progress small').textContent.replaceAll(',', ''))"
        seen = page.evaluate(rounds)
        until(page, f"{rounds} > {seen}")
        drawn = "document.querySelector('figure.chart .line[d]').getAttribute('d')"
        before = page.evaluate(drawn)
        until(page, f"{drawn} !== {before!r}")
        page.get_by_role("link", name="Graph", exact=True).click()
        page.locator("[data-placed]").wait_for()
        page.locator(".scrub input").wait_for()
        canvas = page.locator(".sheet canvas")
        canvas.evaluate("canvas => canvas.scrollIntoView()")
        place = canvas.evaluate("canvas => canvas.getBoundingClientRect().toJSON()")
        for x, y in ((0.1 + 0.02 * k, 0.1 + 0.04 * m) for m in range(20) for k in range(40)):
            page.mouse.move(place["x"] + place["width"] * x, place["y"] + place["height"] * y)
            if page.locator(".sheet .tip").is_visible():
                break
        name = page.locator(".sheet .tip b").inner_text()
        page.mouse.down()
        page.mouse.up()
        page.locator(".panel").get_by_role("heading", name=name, exact=True).wait_for()
        page.locator(".panel figure .line[d]").first.wait_for()


@pytest.mark.slow
def test_a_peer_that_is_killed_is_red_and_comes_back_green(
    browser: Any, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in one_thread(os.environ).items():
        monkeypatch.setenv(name, value)
    pair = Pair(tmp_path)
    federation = Federation(load_fleet(pair.fleet))

    async def end() -> None:
        await federation.close()
        for one in federation.peers.values():
            if one.child is not None and one.child.returncode is None:
                one.child.kill()
                await one.child.wait()

    try:
        with served(loop, tmp_path / "runs", federation) as board, opened(browser, board) as tab:
            page = tab.open("peers")
            page.set_default_timeout(SLOW)

            def start(name: str) -> None:
                page.get_by_role("button", name=f"Start {name}").click()
                page.get_by_role("dialog").get_by_role("button", name=f"Start {name}").click()

            for name in PAIR:
                start(name)
            badge = page.locator("[data-peer='hospital-b'] header .badge")
            colour = "getComputedStyle(document.querySelector('[data-peer=\"hospital-b\"] header .badge')).color"
            page.get_by_text("2 of 2 peers up").wait_for()
            until(page, "document.querySelectorAll('.map .k-open').length === 2", SLOW)
            green = page.evaluate(colour)

            began = time.monotonic()
            os.kill(pair.pid("hospital-b"), signal.SIGKILL)
            page.locator("[data-peer='hospital-b'] header .badge[data-state='down']").wait_for()
            assert time.monotonic() - began < DOWN_WITHIN
            assert "down" in badge.inner_text()
            red = page.evaluate(colour)
            assert red != green
            until(page, "document.querySelectorAll('.map .k-dead').length === 2", SLOW)

            child = federation.peers["hospital-b"].child
            assert child is not None
            loop.call(child.wait())
            start("hospital-b")
            page.locator("[data-peer='hospital-b'] header .badge[data-state='up']").wait_for()
            assert page.evaluate(colour) == green
            until(page, "document.querySelectorAll('.map .k-open').length === 2", SLOW)
    finally:
        loop.call(end())
