"""One agent without neighbours, sample by sample: the round machine of a peer, with no neighbour to wait for.

Where a method has a server, that is played in the same process. Noise comes from the operating system as a peer's
does, so that what is released (to whom predictions are shown, say) is as private as the account says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.core.contract import Algorithm
from tacit.graphs import Graph
from tacit.interop.agents import Agent
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.releases import BookedReleaser
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.views import AgentViews
from tacit.privacy.accounting import Account, guarantee
from tacit.privacy.charges import charges_all
from tacit.privacy.events import Event
from tacit.privacy.noise import NoiseSource
from tacit.privacy.spending import RunPrivacy
from tacit.streams import Batch

T = TypeVar("T")
PRECISION = jnp.dtype("float32")


class Books:
    """An account in memory: what a learner has spent, as long as its process lives."""

    def __init__(self) -> None:
        self.account, self.last = Account(), None  # type: tuple[Account, Event | None]

    def release(self, release: str, event: Event, draw: Callable[[], T]) -> T:
        """Charge, then draw."""
        self.account, self.last = self.account.charged(event), event
        return draw()


class SoloAgent(Agent):
    """A method that promises privacy, on one agent: every sample is released and booked as it comes."""

    def __init__(self, algorithm: Algorithm, columns: int, label: type[np.generic], seed: int) -> None:
        """Make the first state for samples of so many columns."""
        self.algorithm = algorithm
        topology = runtime.prepared_topology(algorithm, Graph.from_edges(1, [], [], name="one agent"))
        self._world = AgentViews(algorithm, topology, seed, PRECISION)
        self._label = label
        self._books = Books()
        self.round = 0
        params = runtime.first_params(algorithm, self._batch(np.zeros(columns), 0), PRECISION, None)
        at_first = self._world.at_first()
        views = {role: self._world.views(role, 0, 0, 0, at_first) for role in algorithm.init}
        specs = runtime.settle(algorithm, params, self._batch(np.zeros(columns), 0), views)
        functions = AgentFunctions(algorithm, specs)
        releaser = BookedReleaser(self._books, NoiseSource())
        self._machines: list[RoundMachine] = []
        for number, (role, agents) in enumerate(topology.roles.items()):
            for agent in range(agents if role in algorithm.init else 0):
                key = runtime.agent_key(self._world.root, number, 0, agent)
                own = self._world.views(role, agent, 0, 0, at_first)
                self._machines.append(RoundMachine(functions, role, agent, key, params, own, releaser=releaser))
        speaker = next(machine for machine in self._machines if machine.role == algorithm.predictor)
        self._speaker = speaker
        predict = algorithm.objective.predict
        assert predict is not None  # the learner that makes this has checked it
        self._predict = jax.jit(lambda state, x: predict(algorithm.model(state), x))

    def learn(self, x: NDArray[Any], y: float) -> None:
        """Play one round with one sample."""
        t = self.round + 1
        now = self._world.now(t)
        batch = self._batch(x, y)
        sent = [
            envelope
            for machine in self._machines
            for envelope in machine.begin(
                batch if machine.role == self.algorithm.learner else (),
                self._world.views(machine.role, machine.agent, t, 0, now),
            )
        ]
        for phase in self.algorithm.phases:
            for envelope in sent:
                for machine in self._machines:
                    if (machine.role, machine.agent) == (phase.target, envelope.receiver):
                        machine.receive(envelope)
            sent = [envelope for machine in self._machines for envelope in machine.proceed()]
        self.round = t

    def output(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the model says of a sample: a number, or one per class."""
        return np.asarray(self._predict(self._speaker.state, x.astype(PRECISION)), np.float64)

    @property
    def privacy(self) -> RunPrivacy:
        """Privacy promised and spent."""
        statement, last = self.algorithm.privacy, self._books.last
        if not statement.private or last is None:
            return RunPrivacy(statement)
        uses = self.round if charges_all(statement, last.adjacency) else 1
        spent = guarantee(self._books.account.spent(), last.adjacency, uses=max(1, uses))
        return RunPrivacy(statement, spent, 1)

    def _batch(self, x: NDArray[Any], y: float) -> Batch:
        return Batch(x.astype(PRECISION), np.asarray(y, self._label))
