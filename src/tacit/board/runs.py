"""Runs below a directory: those under way from their live files, those that ended from their summaries.

What one directory holds is read once for each state of its files. A directory that cannot be read is listed as faulty,
and the others with it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tacit.board.tree import Tree
from tacit.core.errors import TacitError
from tacit.results.sealed import SUMMARY, Sealed

State = Literal["live", "done", "stopped", "failed"]
Kind = Literal["run", "sweep", "study", "swarm"]
ORDER = {"live": 0, "failed": 1, "stopped": 1, "done": 1}
FRESH = 0.4
"""Seconds for which what was found is not looked for again."""
LONGEST = 2000
"""Letters of a fault that are told."""


@dataclass(frozen=True)
class Found:
    """One run, as far as a list tells of it."""

    folder: Path
    """Directory that holds it."""
    path: str
    """The same, relative to the board's directory."""
    experiment: str
    label: str
    algorithm: str = ""
    state: State = "done"
    started: float | None = None
    updated: float | None = None
    rounds: int | None = None
    done: int = 0
    agents: int = 0
    repeats: int = 1
    rate: float | None = None
    figures: dict[str, float | None] = field(default_factory=dict)
    private: bool = False
    kind: Kind = "run"
    fault: str | None = None
    sealed: bool = False
    """Whether its summary is there."""
    live: Path | None = None
    """Its live file, where there is one."""

    @property
    def id(self) -> str:
        """Name in addresses: the same for a run while it goes on and afterwards."""
        return hashlib.sha256(f"{self.path}\0{self.label}".encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """Return the run as the list has it."""
        told = ("path", "experiment", "label", "algorithm", "state", "started", "updated", "rounds", "done")
        more = ("agents", "repeats", "rate", "figures", "private", "kind", "fault")
        return {"id": self.id, **{name: getattr(self, name) for name in (*told, *more)}}


class Runs:
    """All runs below a directory; may be asked from several threads."""

    def __init__(self, directory: Path) -> None:
        """Look for runs below a directory."""
        self.directory = directory
        self._tree = Tree(directory, frozenset({SUMMARY}))
        self._read: dict[Path, tuple[Any, list[Found]]] = {}
        self._found: dict[str, Found] = {}
        self._looked = -1.0
        self._lock = threading.Lock()

    def all(self) -> list[Found]:
        """Return all runs, those under way first and then the latest."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                self._look()
            found = list(self._found.values())
        return sorted(found, key=lambda run: (ORDER[run.state], -(run.updated or 0.0), run.path, run.label))

    def get(self, id_: str) -> Found | None:
        """Return the run of a name in addresses; None: there is none."""
        self.all()
        return self._found.get(id_)

    def _look(self) -> None:
        before, self._read = self._read, {}
        found: dict[str, Found] = {}
        named: dict[Path, str] = {}
        for folder, _ in self._tree:
            signature = _signature(folder / SUMMARY)
            known = before.get(folder)
            runs = known[1] if known is not None and known[0] == signature else list(self._of(folder, named))
            self._read[folder] = signature, runs
            found |= {run.id: run for run in runs}
        self._found, self._looked = found, time.monotonic()

    def _of(self, folder: Path, named: dict[Path, str]) -> Iterator[Found]:
        path = folder.relative_to(self.directory).as_posix()
        blank = Found(folder, path, named.get(folder.parent, folder.name), folder.name, sealed=True)
        try:
            summary = Sealed.read(folder).summary
            changed = (folder / SUMMARY).stat().st_mtime
            if "runs" in summary:
                named[folder] = str(summary.get("name", folder.name))
            else:
                yield replace(of_summary(blank, summary), updated=changed)
        except (TacitError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            yield replace(blank, state="failed", fault=str(error)[:LONGEST])


def of_summary(blank: Found, summary: dict[str, Any]) -> Found:
    """Return a run of which a summary is there.

    Args:
      blank: What is known without it.
      summary: Content of summary.json.
    """
    if "claims" in summary and "experiment" in summary:
        name = str(summary["experiment"])
        return replace(blank, experiment=name, label=name, algorithm="", kind="study")
    metrics, privacy, score = summary["metrics"], summary["privacy"], summary.get("score_name")

    def mean(name: str | None) -> float | None:
        found = metrics.get(name)
        return None if found is None else found["mean"]

    bits, agents, seconds = mean("bits_per_agent"), int(summary["agents"]), summary["timings"]["seconds"]
    return replace(
        blank,
        label=str(summary["label"]),
        algorithm=str(summary["algorithm"]),
        state="stopped" if summary["partial"] else "done",
        rounds=int(summary["rounds"]),
        done=int(summary["rounds"]),
        agents=agents,
        repeats=int(summary["repeats"]),
        rate=summary["rounds"] / seconds if seconds else None,
        figures={
            "loss": mean("average_loss"),
            "accuracy": mean(score),
            "regret": mean("regret_per_agent_round"),
            "consensus": mean("final_consensus"),
            "bits": None if bits is None else bits * agents,
            "epsilon": privacy["epsilon"],
        },
        private=bool(privacy["private"]),
    )


def _signature(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
