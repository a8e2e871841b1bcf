"""How fast a sweep is against one run after the other: `python -m benchmarks.sweep`.

The demonstration's problem (20 agents, 1,000 rounds) with 64 settings of online push-sum and 10 seeds of each: as 64
runs one after the other in one process (each as `tacit run` makes it, without regret, plots and files), and as a
sweep, whose time has all of it: workers where it needs some, compiling, the table and the page. The settings are 64
steps, which are one program, or 16 steps for each of 4 l1 regularisers, which are 4. The sweep is measured before and
after the runs, and the slower one counts. The goal is a factor of 10 for the 64 steps. Then the same on a Ray of this
machine, of which a worker is killed in the middle: no row may be missing. Beside it what a Ray takes to start,
import JAX in a worker and end. Both sides begin without programs of earlier processes, and so does Ray.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

from pyarrow import parquet

from benchmarks.figures import write
from tacit.experiments import build
from tacit.experiments.demo import PROBLEM
from tacit.sweeps import load_sweep, run_sweep
from tacit.sweeps.workers import in_parallel, one_thread

STEPS, REGULARISERS, SEEDS, ROUNDS, GOAL = 64, 4, 10, 1000, 10.0
ON_RAY, WORKERS = True, None
AFTER = 1.0
"""Seconds from the sight of a worker to its end."""


def sweep_file(folder: Path, several: bool) -> Path:
    """Write the sweep, of 64 steps or of 16 for each regulariser."""
    count = STEPS // REGULARISERS if several else STEPS
    l1 = f'"objective.l1" = {{low = 1e-6, high = 1e-3, scale = "log", points = {REGULARISERS}}}'
    keys = f'"algorithm.step" = {{low = 0.01, high = 10.0, scale = "log", points = {count}}}\n{l1 if several else ""}'
    file = folder / f"demo-{several}.toml"
    problem = PROBLEM.replace("{rounds}", str(ROUNDS))
    file.write_text(
        f"[sweep]\nseeds = {SEEDS}\n[sweep.keys]\n{keys}\n{problem}\n[[algorithm]]\nname = 'online_push_sum'"
    )
    return file


def swept(folder: Path, several: bool, out: str, on: str = "pool") -> float:
    """Return the seconds of a whole sweep; all of its rows must be there."""
    begun = time.perf_counter()
    result = run_sweep(load_sweep(sweep_file(folder, several)), folder / out, on=on, workers=WORKERS)
    seconds = time.perf_counter() - begun
    rows = parquet.read_table(result.table).to_pylist()
    assert len(rows) == STEPS * SEEDS
    assert {row["status"] for row in rows} == {"done"}
    return seconds


def one_after_the_other(folder: Path) -> float:
    """Return the seconds of as many runs, each compiled and run by itself."""
    settings = load_sweep(sweep_file(folder, several=False)).each
    begun = time.perf_counter()
    for setting in settings:
        (run,) = build(setting.config).runs(progress=False)
        run.metrics()
    return time.perf_counter() - begun


def nothing_on_ray() -> float:
    """Return the seconds that a Ray takes to start, import JAX in a worker, and end."""
    begun = time.perf_counter()
    assert [ended.result for ended in in_parallel(abs, [-1], "ray", WORKERS)] == [1]
    return time.perf_counter() - begun


def kill_a_worker(killed: list[float]) -> None:
    """Wait for a worker of Ray below this process that is at work, kill it, and note the time."""
    while not killed:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                title = (process / "cmdline").read_bytes()
                if title.startswith(b"ray::_on_one_thread") and _is_below(int(process.name)):
                    time.sleep(AFTER)
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(time.perf_counter())
                    return
            except (OSError, ValueError):
                continue
        time.sleep(0.05)


def _is_below(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


SMOKE = {"STEPS": 4, "REGULARISERS": 2, "SEEDS": 2, "ROUNDS": 3, "GOAL": 0.0, "ON_RAY": False, "WORKERS": 1}


def main() -> int:
    """Measure, print, and write results/sweep.json; 1 if the goal is missed."""
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, XDG_CACHE_HOME=f"{name}/programs"):
        folder = Path(name)
        before = swept(folder, False, "before")
        several = swept(folder, True, "several")
        runs = one_after_the_other(folder)
        after = swept(folder, False, "after")
        one = max(before, after)
        found = {
            "settings": STEPS,
            "seeds": SEEDS,
            "rounds": ROUNDS,
            "seconds": {"runs": runs, "one program": [before, after], "several programs": several},
            "times faster": {"one program": runs / one, "several programs": runs / several},
        }
        print(f"{STEPS} settings x {SEEDS} seeds: {runs:.0f} s one after the other")
        print(f"  sweep, one program: {one:.1f} s, {runs / one:.1f} times as fast")
        print(f"  sweep, {REGULARISERS} programs: {several:.1f} s, {runs / several:.1f} times as fast")
        if ON_RAY and find_spec("ray"):
            os.environ["XDG_CACHE_HOME"] = str(folder / "of ray")
            nothing = nothing_on_ray()
            killed: list[float] = []
            begun = time.perf_counter()
            threading.Thread(target=kill_a_worker, args=(killed,), daemon=True).start()
            seconds = swept(folder, False, "ray", "ray")
            at = [end - begun for end in killed]
            found["seconds"] |= {"ray, a worker killed": seconds, "ray, nothing": nothing, "killed at": at}
            print(f"  on Ray, {len(killed)} worker killed: {seconds:.1f} s, {runs / seconds:.1f} times as fast and")
            print(f"  all {STEPS * SEEDS} rows are there; to start, import JAX and end it takes {nothing:.1f} s")
            if not killed:
                print("no worker was seen, so that none was killed")
                return 1
    write("sweep", found, "jax")
    return int(runs / one < GOAL)


if __name__ == "__main__":
    one_thread()  # as `tacit run` does for so few agents
    raise SystemExit(main())
