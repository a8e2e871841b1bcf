"""The live board: its cost for the run that it shows, and a thousand runs listed: `python -m benchmarks.board`.

Three questions, each answered side by side in one process; the best of some repetitions counts.

- A run that writes a live file, beside the same run without: seconds of the rounds, and the share of them that the
  writer itself took. Goal: 2 %.
- A run of many agents with a board beside it and browsers that listen to its events and ask for what is new, beside the
  same run with the board but nobody there. Goal: 3 %. The processor time of the board's process is told, too: on a
  machine with a core to spare it is what a run does not notice.
- A directory of many runs, listed for the first time, and looked at again. Goal: 2 seconds.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import tacit
from benchmarks.figures import write
from tacit.board.beside import beside
from tacit.board.runs import Runs
from tacit.results import Run
from tacit.results.live import LiveFolder, Part

SIZES = {1000: 12_000, 100_000: 150}
"""Agents -> rounds of a run."""
WATCHED = (100_000, 300)
"""Agents and rounds of the run that browsers look at."""
BROWSERS, RUNS, REPETITIONS = 20, 1000, 3
WRITING, LOOKING, LISTING = 0.02, 0.03, 2.0
"""Goals."""
ASKS = 2.0
"""Seconds after which a browser asks for the curves anew."""
SMOKE = {"SIZES": {20: 30}, "WATCHED": (20, 30), "BROWSERS": 2, "RUNS": 3, "REPETITIONS": 1}


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


@contextlib.contextmanager
def browsers(link: str, count: int) -> Iterator[list[Browser]]:
    """Have browsers look at a board."""
    started = [Browser(link) for _ in range(count)]
    for each in started:
        each.start()
    try:
        yield started
    finally:
        for each in started:
            each.over.set()


def looked_at(folder: Path) -> dict[str, float]:
    """Return what browsers cost the run that they look at."""
    agents, rounds = WATCHED
    seconds: dict[int, list[float]] = {0: [], BROWSERS: []}
    heard, worked = 0, 0.0
    for repetition in range(REPETITIONS + 1):
        for count, own in seconds.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with beside(folder / "live") as link, browsers(link, count) as started:
                run = simulated(agents, rounds, LiveFolder(folder / "live")("watched"))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if repetition or REPETITIONS == 1:
                own.append(run.seconds)
            if count:
                heard = sum(each.heard for each in started)
                worked = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / run.seconds
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


def main() -> int:
    """Measure, print and keep the figures; 1 if a goal is missed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        listed = listing(folder)
        print(f"{RUNS} runs: listed in {listed['seconds']:.2f} s, looked at again in {listed['seconds again']:.3f} s")
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
    write("board", {"listing": listed, "writing": written, "looking": looked}, "jax", "starlette", "uvicorn")
    kept = all(found["more"] < WRITING for found in written.values())
    return 0 if kept and looked["more"] < LOOKING and listed["seconds"] < LISTING else 1


if __name__ == "__main__":
    sys.exit(main())
