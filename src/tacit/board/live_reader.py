"""Live files, read while they grow: whole lines count, and what cannot be read as it is meant to is left out.

A list of runs needs the first line of a file and the last; `glance` reads these. `LiveRecord` reads all of it, once,
and then what was added.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ResultError
from tacit.results.live.log import VERSION
from tacit.results.live.parts import LinkState

HEAD, TAIL = 2**20, 2**16
"""Bytes of a header at most; of the end of a file in which its last state is looked for first."""
MOST_BYTES = 2**28
"""Of a file that are read."""
MOST_NODES = 10**6
FIGURES = ("loss", "accuracy", "regret", "consensus", "bits", "epsilon")
LINK_STATES: tuple[str, ...] = get_args(LinkState)
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Glance:
    """What the first and the last line of a live file say."""

    header: dict[str, Any]
    rounds: int | None = None
    done: int = 0
    at: float | None = None
    rate: float | None = None
    figures: dict[str, float | None] = field(default_factory=dict)
    ended: str = ""
    error: str = ""
    held: bool = False
    """Whether its writer is at work."""


def glance(path: Path) -> Glance:
    """Return how far a run is.

    Args:
      path: Its live file.
    """
    with _opened(path) as file:
        held = _is_held(file)  # before it is read: a writer that ends meanwhile has written how
        head = os.pread(file, HEAD, 0)
        first, newline, _ = head.partition(b"\n")
        header = _parsed(first) if newline else None
        if header is None or header.get("tacit_live") != VERSION:
            raise ResultError(f"{path} is no live file of version {VERSION}; it may be removed")
        size, end, window = os.fstat(file).st_size, {}, TAIL
        last: dict[str, Any] = {}
        while not last:
            for line in _lines_back(os.pread(file, window, max(0, size - window)), window >= size):
                found = _parsed(line) if line.startswith((b'{"rows"', b'{"end"')) else None
                if found is not None and "end" in found:
                    end = found
                elif found is not None:
                    last = found
                    break
            if window >= min(size, MOST_BYTES):
                break
            window *= 8
    figures = last.get("figures")
    return Glance(
        header,
        count(last.get("rounds", header.get("rounds"))),
        count(end.get("done", last.get("done"))) or 0,
        finite_or_none(end.get("at", last.get("at"))) or finite_or_none(header.get("started")),
        finite_or_none(last.get("rate")),
        {name: finite_or_none(figures.get(name)) for name in FIGURES} if isinstance(figures, dict) else {},
        text(end.get("end")),
        text(end.get("error")),
        held,
    )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Give the descriptor of a plain file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise ResultError(f"{path} cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ResultError(f"{path} is no plain file")
        yield file
    finally:
        os.close(file)


def _is_held(file: int) -> bool:
    """Whether a writer holds a file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _lines_back(content: bytes, whole: bool) -> Iterator[bytes]:
    """Yield whole lines, the last one first."""
    lines = content.split(b"\n")
    yield from reversed(lines[0 if whole else 1 : -1])


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; None where it is none."""
    try:
        found = json.loads(line, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def count(value: Any) -> int | None:
    """Return a whole number that may be of rounds, agents or repeats; None where it is none.

    Args:
      value: Anything of JSON.
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def finite_or_none(value: Any) -> float | None:
    """Return a number; None where it is none, or not finite.

    Args:
      value: Anything of JSON.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def text(value: Any, most: int = 2000) -> str:
    """Return text, cut; none where it is something else.

    Args:
      value: Anything of JSON.
      most: Letters.
    """
    return value[:most] if isinstance(value, str) else ""


@dataclass(frozen=True)
class Network:
    """A network as its line has it."""

    agents: int
    aggregated: bool
    labels: list[str]
    clusters: list[int | None]
    sizes: list[int]
    links: NDArray[np.int64]
    """(links, 2) sender and receiver."""
    left_out: int
    """Links that are too many to be drawn."""
    states: list[str]
    """That links can be in besides open, as far as the run knew."""


class LiveRecord:
    """All that a live file holds; `refresh` reads what was added."""

    def __init__(self, path: Path) -> None:
        """Take a live file."""
        self.path = path
        self._clear()

    def _clear(self) -> None:
        self._inode, self._offset = 0, 0
        self.header: dict[str, Any] = {}
        self.network: Network | None = None
        self.curves: dict[str, dict[int, list[float | None]]] = {}
        """Name -> round -> mean, or mean, low and high."""
        self.frames: list[tuple[int, dict[str, Values]]] = []
        """Rounds, and figures of all nodes by name."""
        self.links: dict[int, dict[str, NDArray[np.int64]]] = {}
        """Round -> state -> places of the links that were in it; all others were open."""

    def refresh(self) -> None:
        """Read the lines that were added since the last time."""
        with _opened(self.path) as file:
            status = os.fstat(file)
            if status.st_ino != self._inode or status.st_size < self._offset:  # another run has begun
                self._clear()
                self._inode = status.st_ino
            while self._offset < min(status.st_size, MOST_BYTES):
                content = os.pread(file, min(status.st_size, MOST_BYTES) - self._offset, self._offset)
                whole = content.rfind(b"\n") + 1
                if whole == 0:
                    return
                for line in content[:whole].split(b"\n"):
                    self._take(line)
                self._offset += whole

    def _take(self, line: bytes) -> None:
        found = _parsed(line)
        if found is None:
            return
        if "tacit_live" in found:
            self.header = self.header or found
        elif "rows" in found:
            self._take_rows(found["rows"])
        elif isinstance(found.get("graph"), dict):
            self.network = self.network or _network(found["graph"])
        elif "frame" in found:
            self._take_frame(found)

    def _take_rows(self, blocks: Any) -> None:
        for block in blocks if isinstance(blocks, list) else ():
            if not isinstance(block, dict) or not isinstance(block.get("curves"), dict):
                continue
            rounds = block.get("rounds")
            if not isinstance(rounds, list) or any(count(each) is None for each in rounds):
                continue
            for name, lines in block["curves"].items():
                if isinstance(lines, list) and lines and all(isinstance(line, list) for line in lines):
                    each = zip(*([finite_or_none(value) for value in line] for line in lines), strict=False)
                    mine = self.curves.setdefault(name, {})
                    mine |= {at: list(values) for at, values in zip(rounds, each, strict=False)}

    def _take_frame(self, found: Mapping[str, Any]) -> None:
        at, measures = count(found["frame"]), found.get("measures")
        if at is None or not isinstance(measures, dict) or self.network is None:
            return
        nodes = len(self.network.labels)
        self.frames.append((at, {name: _values(line, nodes) for name, line in measures.items()}))
        links = found.get("links")
        if isinstance(links, dict):
            most = len(self.network.links)
            self.links[at] = {state: _places(links[state], most) for state in LINK_STATES if state in links}


def _values(line: Any, nodes: int) -> Values:
    """Return figures of all nodes, NaN where there is none."""
    found = np.full(nodes, np.nan)
    given = [finite_or_none(value) for value in (line if isinstance(line, list) else [])[:nodes]]
    found[: len(given)] = [math.nan if value is None else value for value in given]
    return found


def _places(line: Any, most: int) -> NDArray[np.int64]:
    """Return places of links."""
    given = line if isinstance(line, list) else []
    return np.array([k for each in given if (k := count(each)) is not None and k < most], np.int64)


def _network(given: Mapping[str, Any]) -> Network | None:
    """Return the network of a line; None where it makes no sense."""
    nodes, agents, links = count(given.get("count")), count(given.get("agents")), given.get("links")
    if nodes is None or agents is None or nodes > MOST_NODES or not isinstance(links, list):
        return None
    pairs = [
        pair
        for pair in links
        if isinstance(pair, list) and len(pair) == 2 and all(count(end) is not None and end < nodes for end in pair)
    ]
    labels, clusters, sizes, states = (
        found if isinstance(found := given.get(name), list) else []
        for name in ("labels", "clusters", "sizes", "states")
    )
    return Network(
        agents,
        given.get("aggregated") is True,
        [text(labels[k], 200) if k < len(labels) and labels[k] else str(k) for k in range(nodes)],
        [count(clusters[k]) if k < len(clusters) else None for k in range(nodes)],
        [(count(sizes[k]) if k < len(sizes) else None) or 1 for k in range(nodes)],
        np.array(pairs, np.int64).reshape(-1, 2),
        count(given.get("left_out")) or 0,
        [state for state in LINK_STATES if state in states],
    )
