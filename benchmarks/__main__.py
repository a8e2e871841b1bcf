"""`make bench`: all benchmarks one after the other; exit code 1, with their names, if any of them failed.

A benchmark fails when it cannot run, and when it misses a goal of its own. The others run all the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

BY_HAND = {"soak", "gpu", "networks_gpu"}
"""Takes minutes by the clock; need an accelerator."""


def names() -> list[str]:
    """Return every benchmark: a module of this folder with a `main`."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem for file in modules if file.stem != "__main__" and "\ndef main(" in file.read_text()]


def failed(benchmarks: Iterable[str]) -> list[str]:
    """Run benchmarks, each as a process of its own, and return those that failed."""
    found = []
    for name in benchmarks:
        print(f"-- {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            found.append(name)
    return found


def main() -> int:
    """Run them all."""
    faults = failed(name for name in names() if name not in BY_HAND)
    print(f"failed, or missed a goal: {', '.join(faults)}" if faults else "all benchmarks ran, and all goals are met")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
