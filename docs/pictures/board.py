"""Takes the pictures of the board in docs/board.md: `python docs/pictures/board.py [runs] [peers] [matrix=FOLDER]`.

`matrix=FOLDER` takes every page, light and dark, 400, 900 and 1,600 pixels wide, into a folder, to be looked at.

It needs Chromium, and playwright of the extra `dev`. It runs an experiment, begins another one, and has a federation of
three peers, one of which it kills; all of it in a folder that is gone afterwards. Minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
TACIT = [sys.executable, "-m", "tacit"]
COLOURS = 256
TO_THE_TOP = """element => {
  const below = document.querySelector(".top").getBoundingClientRect().bottom;
  scrollBy(0, element.getBoundingClientRect().top - below - 10);
}"""
LIVE = """
[run]
name = "A network that learns"
rounds = 1000000
[graph]
kind = "random_digraph"
agents = 60
out_degree = 3
[stream]
kind = "logistic_drift"
dim = 10
noise = 0.3
batch = 16
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
label = "Online push-sum, Laplace"
step = 0.3
[algorithm.mechanism]
kind = "laplace"
epsilon = 1.0
clip = 1.0
"""


@contextlib.contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a command run, in a folder."""
    process = subprocess.Popen(
        [*TACIT, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def federation(folder: Path) -> None:
    """Write a federation whose peers have enough rows, and are started by this Python."""
    subprocess.run([*TACIT, "new", "federation"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    home = folder / "federation"
    for file in home.glob("*/peer.toml"):
        file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("last = ")))
        head, *rows = (file.parent / "rows.csv").read_text().splitlines(True)
        (file.parent / "rows.csv").write_text("".join([head, *50 * rows]))
    fleet = (home / "fleet.toml").read_text()
    (home / "fleet.toml").write_text(fleet.replace('["tacit", ', f"{json.dumps(TACIT)[:-1]}, "))


class Camera:
    """Takes pictures of places of a board."""

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.base = page, base

    def take(
        self, name: str, place: str, ready: str, width: int, height: int, scheme: str = "light", top: str = "h1"
    ) -> None:
        """Take a picture of a place, once something is there, from an element on."""
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.page.set_viewport_size({"width": width, "height": height})
        if not self.page.url.endswith(f"#/{place}"):
            self.page.goto(f"{self.base}#/{place}")
        self.page.locator(ready).first.wait_for()
        self.page.wait_for_timeout(1500)
        if top != "h1":
            self.page.locator(top).first.evaluate(TO_THE_TOP)
            self.page.wait_for_timeout(300)
        file = HERE / f"board-{name}.png"
        self.page.screenshot(path=file)
        Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)

    def ids(self) -> dict[str, str]:
        """Return the runs by their labels."""
        found = self.page.evaluate("fetch('api/runs').then(answer => answer.json())")["runs"]
        return {run["label"]: run["id"] for run in found}


def pictures_of_runs(camera: Camera) -> None:
    """Take those of runs; the last one in the list is going on."""
    page = camera.page
    page.goto(f"{camera.base}#/runs")
    page.locator("tr.live").wait_for()
    page.wait_for_timeout(20_000)  # so that there is something to see
    known = camera.ids()
    live = f"run/{known['Online push-sum, Laplace']}"
    for label in ("open", "Gaussian"):
        page.get_by_role("checkbox", name=f"Compare {label} of").check()
    camera.take("runs-light", "runs", "tr.live", 1600, 560)
    camera.take("runs-narrow", "runs", "tr.live", 400, 860, "dark")
    compared = ",".join(known[label] for label in ("open", "Laplace", "Gaussian"))
    camera.take("compare-light", f"compare/{compared}", "svg.plot .line[d]", 1600, 760)
    camera.take("curves-dark", live, "svg.plot .line[d]", 900, 900, "dark")
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{camera.base}#/{live}/graph")
    page.locator("[data-placed]").wait_for()
    page.locator(".find input").fill("7")
    page.get_by_role("button", name="Open", exact=True).click()
    page.locator(".panel figure .line[d]").first.wait_for()
    camera.take("graph-light", f"{live}/graph", "[data-placed]", 1600, 1000, top=".tabs")
    camera.take("graph-narrow", f"{live}/graph", "[data-placed]", 400, 860, "dark", ".tabs")


def pictures_of_peers(camera: Camera, home: Path) -> None:
    """Take those of a federation: one of its peers is killed."""
    page = camera.page
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{camera.base}#/peers")
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        page.get_by_role("button", name=f"Start {name}").click()
        page.get_by_role("dialog").get_by_role("button", name=f"Start {name}").click()
        page.locator(f"[data-peer='{name}'] header .badge[data-state='up']").wait_for()
    page.wait_for_timeout(15_000)
    os.kill(json.loads((home / "hospital-b/state/store.db.control").read_text())["pid"], signal.SIGKILL)
    page.locator("[data-peer='hospital-b'] header .badge[data-state='down']").wait_for()
    page.wait_for_timeout(8_000)
    camera.take("peers-light", "peers", ".peer.down", 1600, 1250)
    camera.take("peers-dark", "peers", ".peer.down", 900, 1000, "dark")
    camera.take("ledger-light", "peers/hospital-a", ".classes", 900, 1000, top="h2:text('Ledger')")


def matrix(camera: Camera, folder: Path) -> None:
    """Take every page, light and dark, at three widths."""
    page, known = camera.page, camera.ids()
    live, compared = (
        f"run/{known['Online push-sum, Laplace']}",
        ",".join(known[label] for label in ("open", "Gaussian")),
    )
    places = {
        "runs": ("runs", "tr.live"),
        "curves": (live, "svg.plot .line[d]"),
        "graph": (f"{live}/graph", "[data-placed]"),
        "ledger": (f"{live}/ledger", ".classes"),
        "settings": (f"{live}/settings", "table"),
        "compare": (f"compare/{compared}", "svg.plot .line[d]"),
        "peers": ("peers", ".peer"),
        "peer": ("peers/hospital-a", ".classes"),
    }
    for name, (place, ready) in places.items():
        page.goto(f"{camera.base}#/{place}")
        page.locator(ready).first.wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for width in (400, 900, 1600):
                page.set_viewport_size({"width": width, "height": 1000})
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"{name}-{scheme}-{width}.png")


def main(wanted: list[str]) -> None:
    """Take all pictures, or those of "peers" or "runs" alone, or the matrix into a folder."""
    table = [Path(word.removeprefix("matrix=")).resolve() for word in wanted if word.startswith("matrix=")]
    examples = HERE.parent.parent / "examples"
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, token = Path(place), secrets.token_hex(12)
        (folder / "live.toml").write_text(LIVE)
        run = [*TACIT, "run", str(examples / "private.toml"), "--out", str(folder / "runs/private")]
        subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        federation(folder)
        stack.enter_context(running("run", "live.toml", cwd=folder))
        fleet = ("--peers", "federation/fleet.toml", "--port", "0", "--token", token)
        board = stack.enter_context(running("board", "runs", *fleet, cwd=folder))
        assert board.stdout is not None
        link = board.stdout.readline().partition(" ")[2].strip()
        started = stack.enter_context(sync_playwright())
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        stack.callback(browser.close)
        page = browser.new_page()
        page.set_default_timeout(300_000)
        page.goto(link)
        camera = Camera(page, link.partition("?")[0])
        try:
            if not wanted or "peers" in wanted or table:
                pictures_of_peers(camera, folder / "federation")
            if not wanted or "runs" in wanted:
                pictures_of_runs(camera)
            if table:
                table[0].mkdir(parents=True, exist_ok=True)
                matrix(camera, table[0])
        finally:
            for control in folder.glob("federation/*/state/*.control"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(json.loads(control.read_text())["pid"], signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
