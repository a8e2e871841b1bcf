"""Runs as they go on: what a watcher is told, and the live files that the board reads."""

from __future__ import annotations

from tacit.results.live.file import LiveFile, LiveFolder
from tacit.results.live.log import LiveLog
from tacit.results.live.parts import About, Drawing, Ended, LinksSeen, LinkState, Part, Sights, Watch

__all__ = [
    "About",
    "Drawing",
    "Ended",
    "LinkState",
    "LinksSeen",
    "LiveFile",
    "LiveFolder",
    "LiveLog",
    "Part",
    "Sights",
    "Watch",
]
