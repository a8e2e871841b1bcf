"""Runs below a directory: those under way from their live files, those that ended from their summaries.

What one directory holds is read once for each state of its files. A directory that cannot be read is listed as faulty,
and the others with it.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tacit.board.live_reader import Glance, LiveRecord, count, finite_or_none, glance, text
from tacit.board.tree import Tree
from tacit.core.errors import TacitError
from tacit.results.live.log import ENDING, FOLDER
from tacit.results.sealed import SUMMARY, Sealed

State = Literal["live", "done", "stopped", "failed"]
ENDS: dict[str, State] = {"done": "done", "interrupted": "stopped", "failed": "failed"}
KINDS = ("run", "sweep", "study", "swarm")
FRESH = 0.4
"""Seconds for which what was found is not looked for again."""
LONGEST = 2000
"""Letters of a fault that are told."""
MOST_RECORDS = 16
"""Live files that are kept in memory."""


@dataclass(frozen=True)
class Found:
    """One run, as far as a list tells of it."""

    path: str
    """Directory of its experiment, relative to the board's."""
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
    kind: str = "run"
    fault: str | None = None
    sealed: Path | None = None
    """Directory of its summary, where there is one."""
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


@dataclass(frozen=True)
class _Folder:
    """What a directory with a summary holds."""

    run: Found | None
    """None: it holds others."""
    name: str = ""
    holds: tuple[str, ...] = ()
    """Folders of the runs of an experiment."""


class Runs:
    """All runs below a directory; may be asked from several threads."""

    def __init__(self, directory: Path) -> None:
        """Look for runs below a directory."""
        self.directory = directory
        self._tree = Tree(directory, lambda name: name == SUMMARY or name.endswith(ENDING), frozenset({FOLDER}))
        self._folders: dict[Path, tuple[tuple[int, ...], _Folder]] = {}
        self._files: dict[Path, tuple[tuple[int, ...], Found]] = {}
        self._found: dict[str, Found] = {}
        self._ordered: list[Found] = []
        self._records: dict[Path, LiveRecord] = {}
        self._looked = -1.0
        self._lock = threading.Lock()

    def all(self) -> list[Found]:
        """Return all runs, those under way first and then the latest."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                self._look()
                self._looked = time.monotonic()
            return self._ordered

    def get(self, id_: str) -> Found | None:
        """Return the run of a name in addresses; None: there is none."""
        self.all()
        return self._found.get(id_)

    def record(self, run: Found) -> LiveRecord | None:
        """Return what a run's live file holds by now; None: there is no such file."""
        if run.live is None:
            return None
        with self._lock:
            found = self._records.pop(run.live, None) or LiveRecord(run.live)
            found.refresh()
            self._records[run.live] = found  # the latest is the last
            while len(self._records) > MOST_RECORDS:
                del self._records[next(iter(self._records))]
            return found

    def _look(self) -> None:
        folders: dict[Path, tuple[tuple[int, ...], _Folder]] = {}
        files: dict[Path, tuple[tuple[int, ...], Found]] = {}
        for folder, names in self._tree:
            if folder.name == FOLDER:
                files |= {folder / name: self._log(folder / name) for name in sorted(names - {SUMMARY})}
            elif SUMMARY in names:
                signature = _signature(folder / SUMMARY)
                known = self._folders.get(folder)
                folders[folder] = known if known and known[0] == signature else (signature, self._in(folder))
        if folders == self._folders and files == self._files and self._ordered:
            return
        self._folders, self._files = folders, files
        self._assemble()

    def _assemble(self) -> None:
        """Bring together what summaries and live files say of the same runs."""
        held: dict[Path, tuple[Path, str]] = {}  # folder of a run -> that of its experiment, and its name
        for folder, (_, found) in self._folders.items():
            held |= {folder / name: (folder, found.name) for name in found.holds}
        together: dict[str, Found] = {}
        for folder, (_, found) in self._folders.items():
            if found.run is not None:
                home, experiment = held.get(folder, (folder, found.run.experiment))
                run = replace(found.run, path=self._relative(home), experiment=experiment)
                together[run.id] = run
        for _, run in self._files.values():
            before = together.get(run.id)
            over = before is not None and run.state != "live" and (before.updated or 0) >= (run.updated or 0)
            if before is not None and over:
                ended = before.updated if run.updated is None else run.updated
                together[run.id] = replace(
                    before, live=run.live, started=run.started, updated=ended, rate=before.rate or run.rate
                )
            else:
                together[run.id] = run
        self._found = together
        order = sorted(together.values(), key=lambda run: (run.path, run.label))
        self._ordered = sorted(order, key=lambda run: (run.state != "live", -(run.updated or 0.0)))

    def _relative(self, folder: Path) -> str:
        return folder.relative_to(self.directory).as_posix()

    def _in(self, folder: Path) -> _Folder:
        """Return what a directory's summary says."""
        path = self._relative(folder)
        blank = Found(path, folder.name, folder.name, sealed=folder)
        try:
            summary = Sealed.read(folder).summary
            changed = (folder / SUMMARY).stat().st_mtime
            if isinstance(summary.get("runs"), list):
                names = tuple(name for name in summary["runs"] if isinstance(name, str))
                return _Folder(None, text(summary.get("name"), 500) or folder.name, names)
            return _Folder(replace(of_summary(blank, summary), updated=changed))
        except (TacitError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            words = str(error) if isinstance(error, TacitError | OSError) else f"{SUMMARY} cannot be read ({error!r})"
            return _Folder(replace(blank, state="failed", fault=words[:LONGEST]))

    def _log(self, path: Path) -> tuple[tuple[int, ...], Found]:
        """Return the run of a live file."""
        known = self._files.get(path)
        signature = _signature(path)
        # Its writer may end without a word.
        if known is None or known[0] != signature or known[1].state == "live":
            return signature, self._of_log(path.parent.parent, path)
        return known

    def _of_log(self, folder: Path, path: Path) -> Found:
        blank = Found(self._relative(folder), folder.name, path.stem, state="failed", live=path)
        try:
            return of_glance(blank, glance(path))
        except (TacitError, OSError) as error:
            return replace(blank, fault=str(error)[:LONGEST], live=None)


def of_glance(blank: Found, seen: Glance) -> Found:
    """Return a run of which there is a live file.

    Args:
      blank: What is known without it.
      seen: What its first and its last line say.
    """
    header, kind = seen.header, text(seen.header.get("kind"))
    state: State = ENDS.get(seen.ended, "live" if seen.held else "stopped")
    return replace(
        blank,
        experiment=text(header.get("experiment"), 500) or blank.experiment,
        label=text(header.get("label"), 500) or blank.label,
        algorithm=text(header.get("algorithm"), 500),
        state=state,
        started=finite_or_none(header.get("started")),
        updated=seen.at,
        rounds=seen.rounds,
        done=seen.done,
        agents=count(header.get("agents")) or 0,
        repeats=count(header.get("repeats")) or 1,
        rate=seen.rate,
        figures=seen.figures,
        private=header.get("private") is True,
        kind=kind if kind in KINDS else "run",
        fault=seen.error or None,
    )


def of_summary(blank: Found, summary: dict[str, Any]) -> Found:
    """Return a run of which a summary is there.

    Args:
      blank: What is known without it.
      summary: Content of summary.json.
    """
    if "claims" in summary and "experiment" in summary:
        name = str(summary["experiment"])
        return replace(blank, experiment=str(summary.get("title", name)), label=name, kind="study")
    metrics, privacy = summary["metrics"], summary["privacy"]

    def mean(name: str | None) -> float | None:
        found = metrics.get(name)
        return None if found is None else finite_or_none(found["mean"])

    bits, agents = mean("bits_per_agent"), count(summary["agents"]) or 0
    rounds, seconds = count(summary["rounds"]) or 0, finite_or_none(summary["timings"]["seconds"])
    return replace(
        blank,
        label=str(summary["label"]),
        algorithm=str(summary["algorithm"]),
        state="stopped" if summary["partial"] else "done",
        rounds=rounds,
        done=rounds,
        agents=agents,
        repeats=count(summary["repeats"]) or 1,
        rate=rounds / seconds if seconds else None,
        figures={
            "loss": mean("average_loss"),
            "accuracy": mean(summary.get("score_name")),
            "regret": mean("regret_per_agent_round"),
            "consensus": mean("final_consensus"),
            "bits": None if bits is None else bits * agents,
            "epsilon": finite_or_none(privacy["epsilon"]),
        },
        private=bool(privacy["private"]),
    )


def _signature(path: Path) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
