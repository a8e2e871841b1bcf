"""What those who watch a run are told of it while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ended = Literal["", "done", "interrupted", "failed"]
"""How a run ended; empty: it goes on."""
LinkState = Literal["late", "lost", "dead", "refused", "quarantined"]
"""What became of a link in a round in which it was not simply open."""


class About(NamedTuple):
    """Facts of a run that do not change."""

    algorithm: str
    agents: int
    repeats: int
    rounds: int
    seed: int
    dtype: str
    graph: str
    """In words."""
    stream: str
    """In words."""
    score: str | None
    """Name of the objective's score among the figures."""
    private: bool
    """Whether the method promises anything."""
    privacy: str
    """What it promises, in words."""


class Drawing(NamedTuple):
    """The network of the first repeat: nodes are learners first, then agents of other roles."""

    agents: int
    """Learners."""
    names: tuple[str, ...]
    """Of the nodes that are no plain learners: servers, and agents that lie; empty text: its number will do."""
    clusters: NDArray[np.int64] | None
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    states: tuple[LinkState, ...] = ()
    """Besides open, that its links can be in; none: links are not looked at."""


class LinksSeen(NamedTuple):
    """Links of a drawing in one round."""

    states: Mapping[LinkState, NDArray[np.int64]]
    """State -> places among the drawing's links; all others are open."""
    slowest: tuple[int, int] | None = None
    """Place of a link whose message of the round takes longest, and its rounds; None: none is late."""


class Sights(Protocol):
    """What a run can be asked for while a watcher is told of it: each answer takes time."""

    def drawing(self) -> Drawing:
        """Return the network."""

    def agents(self) -> Mapping[str, NDArray[np.float64]]:
        """Return figures of the first repeat's learners after the last round, (learners,) each, NaN where unknown.

        "loss" on the next round's data, "disagreement" (squared distance from the mean of all models), "mass" where
        states have one; where agents come and go "presence" in the round, and "releases", rounds with a release so far.
        """

    def links(self) -> LinksSeen:
        """Return what became of the drawing's links in the last round."""

    def regret(self, seconds: float, speed: float) -> tuple[float, float, float] | None:
        """Return regret so far per agent and round, estimated, and the ends of its band of 95 %.

        It is that against the best of a few stated models, which the simulator names; see
        `tacit.simulator.watching.compared`. None: it cannot be told, or not in this time.

        Args:
          seconds: That it may take.
          speed: Rounds per second of the run.
        """

    def spent(self) -> tuple[float, NDArray[np.float64] | None]:
        """Return epsilon of the dearest record so far, and of each learner's dearest where that is known."""


class NoSights:
    """Sights of a run of which there are none."""

    def drawing(self) -> Drawing:
        """Return no network."""
        nobody = np.zeros(0, np.int64)
        return Drawing(0, (), None, nobody, nobody)

    def agents(self) -> Mapping[str, NDArray[np.float64]]:
        """Return nothing."""
        return {}

    def links(self) -> LinksSeen:
        """Return that none is known to be anything but open."""
        return LinksSeen({})

    def regret(self, seconds: float, speed: float) -> None:
        """Return what is not known."""
        return

    def spent(self) -> tuple[float, NDArray[np.float64] | None]:
        """Return what is not known."""
        return float("nan"), None


@dataclass(frozen=True)
class Part:
    """Some rounds of a run, as its watchers are told of them: half a second's or more, and the first part has none."""

    about: About
    done: int
    """Rounds so far."""
    figures: Mapping[str, NDArray[Any]]
    """Of the part's rounds, (rounds, repeats) each, by the names of `run.per_round`; the last round is `done`."""
    recorded_rounds: tuple[int, ...] = ()
    """Those after which the state was recorded."""
    recorded: Mapping[str, NDArray[Any]] | None = None
    """Figures of those states, (recorded rounds, repeats, ...) each; None: there is none."""
    rate: float | None = None
    """Rounds per second; None: not known yet."""
    seconds: float = 0.0
    """Since the first round began."""
    ended: Ended = ""
    error: str = ""
    """Why it failed."""
    sights: Sights = field(default_factory=NoSights)

    @property
    def rounds(self) -> int:
        """Number of rounds in this part."""
        return next((len(values) for values in self.figures.values()), 0)


Watch = Callable[[Part], object]
"""Hears of a run's parts, in the run's own thread: what it takes long for, the run waits for."""
