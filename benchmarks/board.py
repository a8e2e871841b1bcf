"""The live board: what it costs the run that it shows, and how quick it is: `python -m benchmarks.board`.

Runs that are compared take `SECONDS` each, one after the other, in an order that is turned round from one repetition to
the next. A cost is the median over repetitions of one run's seconds over the other's, less 1; a goal is met if this
median is below it. The least and the largest are told, too. Of what is not compared the worst repetition counts.

- A run that writes a live file, beside the same run without: seconds of the rounds, and the share of them that the
  writer itself took. Goal: 2 %. Programs are compiled in a run before, which counts for nothing.
- A run of many agents with a board beside it and browsers that listen to its events and ask for what is new, beside the
  same run with the board but nobody there. Goal: 3 %. Browsers are elsewhere, as a rule: those of the benchmark are a
  process that yields to all others. They and the board use processor time that this machine lacks elsewhere, so that a
  third run is taken, with nobody there, beside two processes that do nothing but use as much of it, at their priority.
- A directory of many runs, listed for the first time, and looked at again. Goal: 2 seconds; the same goal in Chromium,
  until all of them stand in the page.
- A graph of many agents in Chromium, played through its rounds as fast as it goes. Goal: 20 frames a second. Told too
  are the milliseconds that drawing a frame takes, and the seconds until all agents have their places.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from benchmarks.browsers import BOARD, BROWSING, browsers, burning, processor_seconds
from benchmarks.figures import write
from tacit.board.beside import beside
from tacit.board.runs import Runs
from tacit.results import Run
from tacit.results.live import About, Drawing, LiveFolder, Part

SIZES = {1000: 20_000, 100_000: 150}
"""Agents -> rounds of a run by which it is found out how many it takes."""
WATCHED = 100_000
"""Agents of the run that browsers look at; one of `SIZES`."""
SECONDS = 16.0
"""Of the rounds of a run."""
DRAWN = (2000, 10, 120)
"""Agents, links of each, and frames of the graph that is drawn."""
BROWSERS, RUNS, REPETITIONS = 20, 1000, 5
WRITING, LOOKING, LISTING, FRAMES = 0.02, 0.03, 2.0, 20.0
"""Goals."""
SMOKE = {"SIZES": {20: 30}, "WATCHED": 20, "SECONDS": 0.01, "DRAWN": (20, 2, 3), "BROWSERS": 2, "RUNS": 3} | {
    "REPETITIONS": 1
}


def simulated(agents: int, rounds: int, watch: object = ()) -> Run:
    """Return a run of online push-sum."""
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.1)
    graph = tacit.graphs.directed_ring(agents)
    stream = tacit.streams.logistic_drift(agents, 10, batch=4)
    return tacit.simulate(method, graph, stream, rounds=rounds, progress=False, watch=watch)  # type: ignore[arg-type]


class Timed:
    """A live file whose writing is timed."""

    def __init__(self, directory: Path) -> None:
        self._write, self.seconds, self.first = LiveFolder(directory)("timed"), 0.0, 0.0

    def __call__(self, part: Part) -> None:
        begun = time.perf_counter()
        self._write(part)
        taken = time.perf_counter() - begun
        if part.done and not part.ended:
            self.seconds += taken
        else:
            self.first += taken


def rounds_of(agents: int) -> int:
    """Return the rounds that take `SECONDS`; whatever a run needs is compiled afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        first = SIZES[agents]
        simulated(agents, first, LiveFolder(folder)("first"))
        return math.ceil(first * SECONDS / simulated(agents, first).seconds)


def turns(ways: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Return the seconds of each way to run, repetition by repetition."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(REPETITIONS):
        for name in list(ways)[:: 1 if repetition % 2 == 0 else -1]:
            found[name].append(ways[name]())
    return found


def cost(slow: list[float], quick: list[float]) -> dict[str, float]:
    """Return the median of the ratios of two ways to run, less 1, with the least and the largest of them."""
    each = np.array(slow) / np.array(quick) - 1
    return {"more": float(np.median(each)), "least": float(each.min()), "largest": float(each.max())}


def writing(folder: Path) -> dict[str, dict[str, float]]:
    """Return what writing costs runs of several sizes."""
    found = {}
    for agents in SIZES:
        rounds, files = rounds_of(agents), list[Timed]()

        def written(agents: int = agents, rounds: int = rounds, files: list[Timed] = files) -> float:
            files.append(Timed(folder / f"{agents}"))
            return simulated(agents, rounds, files[-1]).seconds

        def plain(agents: int = agents, rounds: int = rounds) -> float:
            return simulated(agents, rounds).seconds

        seconds = turns({"without": plain, "with": written})
        found[f"{agents} agents"] = {
            "rounds": float(rounds),
            **{f"seconds {name}": float(np.median(each)) for name, each in seconds.items()},
            **cost(seconds["with"], seconds["without"]),
            "share of the writer": max(file.seconds / all_ for file, all_ in zip(files, seconds["with"], strict=True)),
            "seconds before and after the rounds": max(file.first for file in files),
        }
    return found


def looked_at(folder: Path) -> dict[str, Any]:
    """Return what browsers cost the run that they look at, and what as much plain load costs it."""
    rounds, heard, shares = rounds_of(WATCHED), [], list[dict[bytes, float]]()

    def watched() -> float:
        return simulated(WATCHED, rounds, LiveFolder(folder / "live")("watched")).seconds

    def alone() -> float:
        with beside(folder / "live"):
            return watched()

    def seen() -> float:
        with beside(folder / "live") as link, browsers(link, BROWSERS) as told:
            before, begun = {name: processor_seconds(name) for name in (BOARD, BROWSING)}, time.perf_counter()
            seconds = watched()
            taken = time.perf_counter() - begun
            shares.append({name: (processor_seconds(name) - was) / taken for name, was in before.items()})
        heard.append(told[0])
        return seconds

    def loaded() -> float:
        board, browsing = (float(np.mean([each[name] for each in shares])) for name in (BOARD, BROWSING))
        with beside(folder / "live"), burning((board, 0), (browsing, 19)):
            return watched()

    seen()  # how much they use, before as much is used
    del heard[:]
    seconds = turns({"nobody": alone, "browsers": seen, "plain load": loaded})
    return {
        "rounds": float(rounds),
        **{f"seconds, {name}": float(np.median(each)) for name, each in seconds.items()},
        "browsers": cost(seconds["browsers"], seconds["nobody"]),
        "plain load": cost(seconds["plain load"], seconds["nobody"]),
        "share of a core, board": float(np.mean([each[BOARD] for each in shares])),
        "share of a core, browsers": float(np.mean([each[BROWSING] for each in shares])),
        "events heard by all browsers": float(min(heard)),
    }


def listing(folder: Path) -> dict[str, float]:
    """Return the seconds in which many runs are listed."""
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    stream = tacit.streams.logistic_drift(8, 5)
    one = folder / "one"
    tacit.simulate(method, tacit.graphs.directed_ring(8), stream, rounds=200, repeats=1, watch=one).save(one)
    many = folder / "many"
    for k in range(RUNS):
        shutil.copytree(one, many / f"{k // 100}" / f"{k:04d}")
    first, again = [], []
    for _ in range(REPETITIONS):
        runs = Runs(many)
        for kept in (first, again):
            begun = time.perf_counter()
            assert len(runs.all()) == RUNS
            kept.append(time.perf_counter() - begun)
            runs._looked = -1.0  # as if a second had passed
    return {"runs": float(RUNS), "seconds": max(first), "seconds again": max(again)}


class Sights:
    """A network of made-up agents, whose figures change from round to round."""

    def __init__(self, agents: int, links: int) -> None:
        self.count, self.done = agents, 0
        self._senders = np.repeat(np.arange(agents), links)
        self._receivers = np.random.default_rng(0).integers(agents, size=agents * links)

    def drawing(self) -> Drawing:
        apart = self._senders != self._receivers
        clusters = np.arange(self.count) // 50
        return Drawing(self.count, ("",) * self.count, clusters, self._senders[apart], self._receivers[apart])

    def agents(self) -> dict[str, np.ndarray]:
        each = np.arange(self.count)
        return {"loss": 1 + np.sin(each + self.done / 3), "mass": 1 + 0.3 * np.cos(each * self.done)}

    def spent(self) -> tuple[float, None]:
        return 1.0, None


def recorded(folder: Path) -> None:
    """Write the live file of a run whose graph is drawn."""
    agents, links, frames = DRAWN
    sights, live = Sights(agents, links), LiveFolder(folder)("graph")
    about = About("made up", agents, 1, frames, 0, "float32", "at random", "made up", None, False, "")
    live(Part(about, 0, {}, sights=sights))
    for done in range(1, frames + 1):
        sights.done, loss = done, {"loss": np.ones((1, 1)), "bits": np.ones((1, 1))}
        live(Part(about, done, loss, seconds=1000.0 * done, ended="done" if done == frames else "", sights=sights))


def shown(folder: Path) -> dict[str, float]:
    """Return how quick pages are in Chromium; empty where there is none."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        print("pages were not measured: there is no Chromium (apt-get install chromium), or no playwright")
        return {}
    from playwright.sync_api import sync_playwright

    recorded(folder / "graph")
    with sync_playwright() as started, contextlib.ExitStack() as stack:
        browser = started.chromium.launch(executable_path=chromium, args=[] if os.geteuid() else ["--no-sandbox"])
        stack.callback(browser.close)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(300_000)
        listed = []
        for _ in range(REPETITIONS):  # each a board that has not looked at the directory yet
            with beside(folder / "many") as link:
                begun = time.perf_counter()
                page.goto(link)
                page.locator("tbody tr").nth(RUNS - 1).wait_for()
                listed.append(time.perf_counter() - begun)
        link = stack.enter_context(beside(folder / "graph"))
        page.goto(link)
        page.locator("tbody th a").click()
        page.get_by_role("link", name="Graph", exact=True).click()
        begun = time.perf_counter()
        page.locator("[data-placed]").wait_for()
        placed = time.perf_counter() - begun
        page.get_by_label("Speed").select_option("60")
        rates, drawing = [], []
        for _ in range(REPETITIONS):
            found = page.evaluate(PLAYED)
            rates.append(1000 * found["frames"] / found["milliseconds"])
            drawing.append(found["drawing"] / found["frames"])
    return {
        "seconds until all runs are in the page": max(listed),
        "seconds until agents have their places": placed,
        "frames per second": min(rates),
        "milliseconds of drawing per frame": max(drawing),
    }


PLAYED = """async () => {
  const { drawn } = document.querySelector(".part"), slider = document.querySelector(".scrub input");
  const before = { ...drawn }, began = performance.now();
  document.querySelector(".play").click();
  const over = () => document.querySelector(".play").textContent.includes("Play") && slider.value === slider.max;
  while (!over()) await new Promise(requestAnimationFrame);
  const milliseconds = performance.now() - began, drawing = drawn.milliseconds - before.milliseconds;
  return { frames: drawn.frames - before.frames, milliseconds, drawing };
}"""
"""Plays the graph from its first round to its last one."""


def told(found: dict[str, float]) -> str:
    """Return a cost in words."""
    return f"{100 * found['more']:+.2f} %, from {100 * found['least']:+.2f} to {100 * found['largest']:+.2f} %"


def main() -> int:
    """Measure, print and keep the figures; 1 if a goal is missed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        listed = listing(folder)
        print(f"{RUNS} runs: listed in {listed['seconds']:.2f} s, looked at again in {listed['seconds again']:.3f} s")
        pages = shown(folder)
        for name, figure in pages.items():
            print(f"{name}: {figure:.2f}")
        written = writing(folder)
        for name, found in written.items():
            print(
                f"{name}: {found['seconds without']:.2f} s, {found['seconds with']:.2f} s with a live file "
                f"({told(found)}); the writer took {100 * found['share of the writer']:.2f} %"
            )
        looked = looked_at(folder)
        print(
            f"{WATCHED:,} agents: {looked['seconds, nobody']:.2f} s, with {BROWSERS} browsers "
            f"{looked['seconds, browsers']:.2f} s ({told(looked['browsers'])}), with as much plain load "
            f"{looked['seconds, plain load']:.2f} s ({told(looked['plain load'])}); the board uses "
            f"{100 * looked['share of a core, board']:.1f} % of a core, the browsers "
            f"{100 * looked['share of a core, browsers']:.1f} %"
        )
    results = {"listing": listed, "pages": pages, "writing": written, "looking": looked}
    write("board", results, "jax", "starlette", "uvicorn")
    missed = [f"a live file of {name}" for name, found in written.items() if found["more"] >= WRITING]
    missed += ["browsers on a run"] * (looked["browsers"]["more"] >= LOOKING) + ["a list of runs"] * (
        listed["seconds"] >= LISTING
    )
    if pages:
        missed += ["a page of runs"] * (pages["seconds until all runs are in the page"] >= LISTING)
        missed += ["a graph that is played"] * (pages["frames per second"] < FRAMES)
    print(f"missed: {', '.join(missed)}" if missed else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
