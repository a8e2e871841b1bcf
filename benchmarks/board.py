"""The live board: what it costs the run that it shows, and how quick it is: `python -m benchmarks.board [PART ...]`.

Its parts are pages, few and many (agents of a run with a live file), browsers, and load: five minutes each, at most.

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
from tacit.results.live import About, Drawing, LinksSeen, LiveFolder, Part

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
    """A live file whose writing is timed, from the first part that has rounds to the last but one."""

    def __init__(self, directory: Path) -> None:
        self._write = LiveFolder(directory)("timed")
        self.seconds, self.aside = 0.0, 0.0
        """Seconds of writing during the rounds; before and after them."""
        self._processor, self._from, self._to = 0.0, math.nan, math.nan

    def __call__(self, part: Part) -> None:
        begun, used = time.perf_counter(), time.process_time()
        self._write(part)
        taken = time.perf_counter() - begun
        if not part.done or part.ended:
            self.aside += taken
            self._to = used if part.ended else self._to
            return
        self.seconds += taken
        if math.isnan(self._from):
            self._from = used
        self._processor += time.process_time() - used

    def share(self) -> float:
        """Return the writer's part of the processor time of the rounds, which stands on a busy machine, too."""
        return self._processor / max(self._to - self._from, 1e-9)


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


def writing(folder: Path, agents: int) -> dict[str, Any]:
    """Return what writing costs a run."""
    rounds, files = rounds_of(agents), list[Timed]()

    def plain() -> float:
        return simulated(agents, rounds).seconds

    def written() -> float:
        files.append(Timed(folder / f"{agents}"))
        return simulated(agents, rounds, files[-1]).seconds

    seconds = turns({"without": plain, "with": written})
    found = cost(seconds["with"], seconds["without"])
    print(
        f"{agents:,} agents: {np.median(seconds['without']):.2f} s, live file {np.median(seconds['with']):.2f} s "
        f"({told(found)}); the writer's part of the processor time is "
        f"{100 * max(file.share() for file in files):.2f} %"
    )
    return {
        "agents": agents,
        "rounds": rounds,
        "seconds": seconds,
        "cost": found,
        "goal": WRITING,
        "largest share of the writer, processor time": max(file.share() for file in files),
        "largest share of the writer": max(
            one.seconds / all_ for one, all_ in zip(files, seconds["with"], strict=True)
        ),
        "seconds before and after the rounds": max(file.aside for file in files),
    }


def looked_at(folder: Path, way: str) -> dict[str, Any]:
    """Return what browsers cost the run that they look at, or what as much plain load costs it."""
    rounds, shares = rounds_of(WATCHED), list[dict[bytes, float]]()

    def watched() -> float:
        return simulated(WATCHED, rounds, LiveFolder(folder / "live")("watched")).seconds

    def nobody() -> float:
        with beside(folder / "live"):
            return watched()

    def seen() -> float:
        with beside(folder / "live") as link, browsers(link, BROWSERS):
            before, begun = {name: processor_seconds(name) for name in (BOARD, BROWSING)}, time.perf_counter()
            seconds = watched()
            taken = time.perf_counter() - begun
            shares.append({name: (processor_seconds(name) - was) / taken for name, was in before.items()})
        return seconds

    def loaded() -> float:
        with beside(folder / "live"), burning((shares[0][BOARD], 0), (shares[0][BROWSING], 19)):
            return watched()

    if way == "load":
        seen()  # how much is as much
    seconds = turns({"nobody": nobody, way: seen if way == "browsers" else loaded})
    board, browsing = (float(np.mean([each[name] for each in shares])) for name in (BOARD, BROWSING))
    found = cost(seconds[way], seconds["nobody"])
    print(
        f"{WATCHED:,} agents: {np.median(seconds['nobody']):.2f} s, {np.median(seconds[way]):.2f} s with "
        f"{BROWSERS} browsers{' as plain load' * (way == 'load')} ({told(found)}); "
        f"the board uses {100 * board:.1f} % of a core, the browsers {100 * browsing:.1f} %"
    )
    goal = {"goal": LOOKING} if way == "browsers" else {}
    of_a_core = {"share of a core, board": board, "share of a core, browsers": browsing}
    return {"agents": WATCHED, "rounds": rounds, "seconds": seconds, "cost": found, **goal, **of_a_core}


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

    def links(self) -> LinksSeen:
        return LinksSeen({"dead": np.arange(self.done % 10, self._senders.size, 10)})

    def regret(self, seconds: float, speed: float) -> None:
        return None

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


def pages(folder: Path) -> dict[str, Any]:
    """Return how quick the list and the pages are."""
    listed = listing(folder)
    print(f"{RUNS} runs: listed in {listed['seconds']:.2f} s, looked at again in {listed['seconds again']:.3f} s")
    found = shown(folder)
    for name, figure in found.items():
        print(f"{name}: {figure:.2f}")
    return {"listing": listed, "pages": found}


def slow(found: dict[str, Any]) -> bool:
    """Whether a list, a page of runs or a graph misses its goal."""
    frames, filled = (
        found["pages"].get(name) for name in ("frames per second", "seconds until all runs are in the page")
    )
    return found["listing"]["seconds"] >= LISTING or (frames or FRAMES) < FRAMES or (filled or 0.0) >= LISTING


def main() -> int:
    """Measure the parts that are named, or all; print and keep the figures; 1 if a goal is missed."""
    few, many = min(SIZES), max(SIZES)
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "pages": pages,
        "few": lambda folder: writing(folder, few),
        "many": lambda folder: writing(folder, many),
        "browsers": lambda folder: looked_at(folder, "browsers"),
        "load": lambda folder: looked_at(folder, "load"),
    }
    missed = []
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as place:
            found = parts[name](Path(place))
        write(f"board_{name}", found, "jax", "starlette", "uvicorn")
        if slow(found) if name == "pages" else found["cost"]["more"] >= found.get("goal", math.inf):
            missed.append(name)
    print(f"missed: {', '.join(missed)}" if missed else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
