"""Runs that go on as a test wants them to: their live files, written by the product's own writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.results.live import About, Drawing, LinksSeen, LiveFolder, Part


class MadeUpSights:
    """Agents on a ring with chords, in clusters of eight."""

    def __init__(self, agents: int) -> None:
        self.count = agents
        self.done = 0

    def drawing(self) -> Drawing:
        each = np.arange(self.count)
        senders = np.concatenate([each, each])
        receivers = np.concatenate([(each + 1) % self.count, (each * 7 + 3) % self.count])
        kept = senders != receivers
        states = ("late", "lost", "dead")
        return Drawing(self.count, ("",) * self.count, each // 8, senders[kept], receivers[kept], states)

    def links(self) -> LinksSeen:
        """Another few links are late and lost in every round; those of an agent that is away are dead."""
        drawing, there = self.drawing(), self.agents()["presence"]
        dead = (there[drawing.senders] == 0) | (there[drawing.receivers] == 0)
        chance = (np.arange(dead.size) * 7 + self.done) % 13
        found = {"late": ~dead & (chance == 0), "lost": ~dead & (chance == 1), "dead": dead}
        return LinksSeen({state: np.flatnonzero(which) for state, which in found.items()}, (0, 2))

    def agents(self) -> dict[str, np.ndarray]:
        each = np.arange(self.count)
        slow = 20 + each % 13
        return {
            "loss": 0.3 + np.exp(-self.done / slow),
            "disagreement": (1 + each % 5) * np.exp(-self.done / 30),
            "mass": 1 + 0.3 * np.sin(each + self.done / 10),
            "presence": ((each * 7 + self.done) % 11 > 0).astype(np.float64),
            "releases": np.full(self.count, self.done * 10 // 11, np.float64),
        }

    def regret(self, seconds: float, speed: float) -> tuple[float, float, float]:
        """A line that falls, with a band."""
        found = 0.2 / (1 + self.done / 50)
        return found, found - 0.02, found + 0.02

    def spent(self) -> tuple[float, np.ndarray]:
        each = 0.01 * np.sqrt(self.done) * (1 + np.arange(self.count) % 4)
        return float(each.max()), each


class Going:
    """A run of which a test says how far it is."""

    def __init__(self, folder: LiveFolder, label: str, agents: int = 12, rounds: int = 1000, **settings: Any) -> None:
        self.about = About(
            "online_push_sum",
            agents,
            2,
            rounds,
            0,
            "float32",
            "a ring",
            "made up",
            "accuracy",
            True,
            "epsilon 1 per record",
        )
        self.file = folder(label, {"run": {"rounds": rounds}, "algorithm": [{"name": "online_push_sum", **settings}]})
        self.sights, self.done = MadeUpSights(agents), 0
        self.file(Part(self.about, 0, {}, sights=self.sights))

    def on(self, rounds: int, ended: Any = "") -> None:
        """Go on for some rounds."""
        at = np.arange(self.done + 1, self.done + rounds + 1)[:, None] + np.zeros((1, 2))
        self.done = self.sights.done = self.done + rounds
        figures = {
            "loss": 0.3 + np.exp(-at / 40) + 0.01 * np.array([[-1, 1]]),
            "bits": np.full(at.shape, 960 * self.about.agents),
        }
        figures["accuracy"] = 1 - 0.5 * figures["loss"]
        recorded = {"consensus": 4 * np.exp(-at[-1:] / 30)}
        # A frame takes a hundredth of the run's time at most: so many seconds allow one in each part.
        self.file(Part(self.about, self.done, figures, (self.done,), recorded, 250.0, 1e6, ended, sights=self.sights))


def folder(root: Path, name: str) -> LiveFolder:
    """Give a directory of results."""
    return LiveFolder(root / name)
