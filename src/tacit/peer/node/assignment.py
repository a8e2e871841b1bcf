"""Assignment of a peer: the plan that it carries out, and its pace."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Batch, Key, Params
from tacit.core.errors import DataError
from tacit.peer.machine.rounds import Views
from tacit.privacy.accounting import Budget

if TYPE_CHECKING:
    from tacit.peer.membership.terms import OpenLinks

NOTHING_BOOKED = Budget(epsilon=sys.float_info.min)
"""Budget of a store whose peer books nothing: its ledger would refuse any charge."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything about a peer that stays the same while it runs."""

    job: str
    """Hash of the job in hexadecimal, its program included; peers of different jobs do not talk."""
    algorithm: Algorithm
    role: str
    agent: int
    members: Mapping[str, Sequence[str]]
    """Role -> names of its agents, by id. No name is used twice."""
    key: Key
    params: Params
    batch: Batch
    """An example of the shape and type of every round's batch."""
    views: Callable[[int], Views]
    """Round -> this agent's view of its link sets; round 0 is for the first state, with every link there will be."""
    role_views: Mapping[str, Views]
    """Role -> views of one of its agents, for the shapes."""
    longest_delay: int = 0
    dtype: str = "float32"
    booked: bool = True
    """Whether releases are drawn from the operating system's entropy and charged. Otherwise noise is computed from the
    key, as in the simulator: a rehearsal, or a method that has no noise."""
    co_senders: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """(Links, receiver) -> all senders of that receiver by id, this peer included, where it sends under masks."""
    open_links: OpenLinks | None = None
    """Terms on which links change while the peer runs; None: they are fixed."""
    settings: str = ""
    """Hash of the job's settings alone; stores and secrets, which outlive a change of the program, are bound to it."""
    joins: bool = False
    """Whether it is new in its epoch, which others have gone on to: it begins with the round that they name."""
    following: runtime.Following = runtime.every_round
    """Round -> the next one that this peer takes part in; None: none."""
    settled: tuple[runtime.MessageSpec, ...] | None = None
    """What `specs` returns, where it is known."""

    @property
    def specs(self) -> tuple[runtime.MessageSpec, ...]:
        """Messages and releases of each phase; a method that breaks its promises is refused."""
        if self.settled is not None:
            return self.settled
        return runtime.settle(self.algorithm, self.params, self.batch, self.role_views)

    @property
    def name(self) -> str:
        """Own name."""
        return self.members[self.role][self.agent]

    def neighbours(self, views: Views, side: Literal["into", "out"]) -> frozenset[str]:
        """Return the names of the agents that this peer hears ("into") or sends to ("out")."""
        found = set()
        for links, (source, target) in runtime.link_ends(self.algorithm).items():
            own, other = (target, source) if side == "into" else (source, target)
            if links in views and self.role == own:
                agents = np.asarray(getattr(views[links], side).agent)[1:]
                found |= {self.members[other][int(agent)] for agent in agents if agent >= 0}
        return frozenset(found)

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which JAX computes with the precision of this job."""
        context: contextlib.AbstractContextManager[Any] = jax.enable_x64(self.dtype == "float64")
        return context

    def validate_batch(self, batch: Batch) -> None:
        """Refuse a learner's batch of other shapes or types than every round's."""
        expected, found = (
            [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(tree)] for tree in (self.batch, batch)
        )
        if found != expected and self.role == self.algorithm.learner:
            given, wanted = (" and ".join(f"{dtype} {shape}" for shape, dtype in each) for each in (found, expected))
            raise DataError(f"a batch of {given}; every round's is {wanted}: fill it up, and convert its numbers")


@dataclass(frozen=True)
class Pace:
    """Times of a peer, in seconds."""

    deadline: float | None = 5.0
    """Longest wait of a phase for neighbours that the method can do without; None: it waits for all."""
    interval: float = 0.0
    """Shortest time from the beginning of a round to that of the next."""
    grace: float = 5.0
    """Time for neighbours to confirm messages when the peer stops."""
    last_round: int | None = None
    """After this round the peer only delivers what its neighbours still need; None: no last round."""
