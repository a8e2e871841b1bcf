"""The live board: what it costs the run that it shows, and how quick it is: `python -m benchmarks.board`.

Where two runs are compared, they are taken in turns; the best of some repetitions counts.

- A run that writes a live file, beside the same run without: seconds of the rounds, and the share of them that the
  writer itself took. Goal: 2 %.
- A run of many agents with a board beside it and browsers that listen to its events and ask for what is new, beside the
  same run with the board but nobody there. Goal: 3 %. Browsers are elsewhere, as a rule: those of the benchmark are a
  process that yields to all others. The processor time of the board's process is told, too: on a machine with a core to
  spare it is what a run does not notice.
- A directory of many runs, listed for the first time, and looked at again. Goal: 2 seconds; the same goal in Chromium,
  until all of them stand in the page.
- A graph of many agents in Chromium, played through its rounds as fast as it goes. Goal: 20 frames a second. Told too
  are the milliseconds that drawing a frame takes, and the seconds until all agents have their places.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

import tacit
from benchmarks.figures import write
from tacit.board.beside import beside
from tacit.board.runs import Runs
from tacit.results import Run
from tacit.results.live import About, Drawing, LinksSeen, LiveFolder, Part

SIZES = {1000: 12_000, 100_000: 150}
"""Agents -> rounds of a run."""
WATCHED = (100_000, 600)
"""Agents and rounds of the run that browsers look at."""
DRAWN = (2000, 10, 120)
"""Agents, links of each, and frames of the graph that is drawn."""
BROWSERS, RUNS, REPETITIONS = 20, 1000, 3
WRITING, LOOKING, LISTING, FRAMES = 0.02, 0.03, 2.0, 20.0
"""Goals."""
ASKS = 2.0
"""Seconds after which a browser asks for the curves anew."""
SMOKE = {"SIZES": {20: 30}, "WATCHED": (20, 30), "DRAWN": (20, 2, 3), "BROWSERS": 2, "RUNS": 3, "REPETITIONS": 1}


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


def writing(folder: Path) -> dict[str, dict[str, float]]:
    """Return what writing costs runs of several sizes."""
    found = {}
    for agents, rounds in SIZES.items():
        plain, watched = [], []
        for repetition in range(REPETITIONS + 1):  # the first one compiles, and counts for nothing
            timed = Timed(folder / f"{agents}")
            runs = simulated(agents, rounds).seconds, simulated(agents, rounds, timed).seconds
            if repetition or REPETITIONS == 1:
                plain.append(runs[0])
                watched.append((runs[1], timed.seconds, timed.first))
        best = min(watched)
        found[f"{agents} agents"] = {
            "seconds without": min(plain),
            "seconds with": best[0],
            "more": best[0] / min(plain) - 1,
            "share of the writer": best[1] / best[0],
            "seconds before and after the rounds": best[2],
        }
    return found


class Browser(threading.Thread):
    """Listens to the events, and asks for the list and for a run's curves every now and then."""

    def __init__(self, link: str) -> None:
        super().__init__(daemon=True)
        address = urlsplit(link)
        self._place, self.heard, self.over = address.netloc, 0, threading.Event()
        self._headers = {"Authorization": f"Bearer {parse_qs(address.query)['token'][0]}"}

    def run(self) -> None:
        events = http.client.HTTPConnection(self._place, timeout=60)
        events.request("GET", "/api/events", headers=self._headers)
        answer, after, due = events.getresponse(), 0, 0.0
        while not self.over.is_set():
            self.heard += answer.readline().startswith(b"event: progress")
            if time.monotonic() >= due:
                due = time.monotonic() + ASKS
                for run in self._asked("/api/runs")["runs"]:
                    rounds = self._asked(f"/api/runs/{run['id']}/curves?after={after}")["rounds"]
                    after = max([after, *rounds])
        events.close()

    def _asked(self, path: str) -> dict[str, list[dict[str, str]]]:
        connection = http.client.HTTPConnection(self._place, timeout=60)
        connection.request("GET", path, headers=self._headers)
        found: dict[str, list[dict[str, str]]] = json.loads(connection.getresponse().read())
        connection.close()
        return found


def browse(link: str, count: int, told: Connection) -> None:
    """Be some browsers, in a process of their own, until told to end; says how many events they heard."""
    os.nice(19)
    started = [Browser(link) for _ in range(count)]
    for each in started:
        each.start()
    told.recv()
    told.send(sum(each.heard for each in started))


@contextlib.contextmanager
def browsers(link: str, count: int) -> Iterator[list[int]]:
    """Have browsers look at a board; gives a list that has the number of events they heard, in the end."""
    heard: list[int] = []
    if not count:
        yield heard
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=browse, args=(link, count, theirs))
    process.start()
    try:
        yield heard
        ours.send("end")
        heard.append(ours.recv())
    finally:
        process.kill()
        process.join()


def board_seconds() -> float:
    """Return the processor seconds that the board's process, a child of this one, has taken so far."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and b"tacit.board.beside" in stat.with_name("cmdline").read_bytes():
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return math.nan


def looked_at(folder: Path) -> dict[str, float]:
    """Return what browsers cost the run that they look at."""
    agents, rounds = WATCHED
    seconds: dict[int, list[float]] = {0: [], BROWSERS: []}
    heard, worked = 0, math.nan
    for repetition in range(REPETITIONS + 1):
        for count, own in seconds.items():
            with beside(folder / "live") as link, browsers(link, count) as told:
                before = board_seconds()
                run = simulated(agents, rounds, LiveFolder(folder / "live")("watched"))
                taken = board_seconds() - before
            if repetition or REPETITIONS == 1:
                own.append(run.seconds)
            if count:
                heard, worked = told[0], taken / run.seconds
    return {
        "seconds without browsers": min(seconds[0]),
        "seconds with": min(seconds[BROWSERS]),
        "more": min(seconds[BROWSERS]) / min(seconds[0]) - 1,
        "processor seconds of the board per second of the run": worked,
        "events heard by all browsers": float(heard),
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
    return {"runs": float(RUNS), "seconds": min(first), "seconds again": min(again)}


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
        "seconds until all runs are in the page": min(listed),
        "seconds until agents have their places": placed,
        "frames per second": max(rates),
        "milliseconds of drawing per frame": min(drawing),
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
                f"({100 * found['more']:+.1f} %); the writer took {100 * found['share of the writer']:.2f} %"
            )
        looked = looked_at(folder)
        print(
            f"{WATCHED[0]:,} agents: {looked['seconds without browsers']:.2f} s, with {BROWSERS} browsers "
            f"{looked['seconds with']:.2f} s ({100 * looked['more']:+.1f} %); the board's processor time is "
            f"{100 * looked['processor seconds of the board per second of the run']:.1f} % of the run's seconds"
        )
    results = {"listing": listed, "pages": pages, "writing": written, "looking": looked}
    write("board", results, "jax", "starlette", "uvicorn")
    missed = [f"a live file of {name}" for name, found in written.items() if found["more"] >= WRITING]
    missed += ["browsers on a run"] * (looked["more"] >= LOOKING) + ["a list of runs"] * (listed["seconds"] >= LISTING)
    if pages:
        missed += ["a page of runs"] * (pages["seconds until all runs are in the page"] >= LISTING)
        missed += ["a graph that is played"] * (pages["frames per second"] < FRAMES)
    print(f"missed: {', '.join(missed)}" if missed else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
