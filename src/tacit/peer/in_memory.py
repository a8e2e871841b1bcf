"""In-memory runtime: many round machines in one process, one agent at a time.

The machines are those of a real peer, graph and channel are drawn as in the simulator, so that both runtimes can be
compared round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Batch, Params
from tacit.core.errors import DataError, MessageRefused
from tacit.graphs import Channel, Graph, Topology
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.releases import Releaser
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.node.exchange import Parcel
from tacit.peer.sources.batches import in_precision
from tacit.peer.views import AgentViews
from tacit.privacy.noise import hides
from tacit.streams import Stream
from tacit.streams.learnt import refuse_undeclared


class Trajectory(NamedTuple):
    """Result of :func:`run_in_process`.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
      >>> stream = tacit.streams.logistic_drift(agents=3, dim=2)
      >>> run = tacit.peer.run_in_process(method, tacit.graphs.directed_ring(3), stream, rounds=2)
      >>> run.loss.shape, run.refused, [machine.round for machine in run.machines["peer"]]
      ((2,), 0, [2, 2, 2])
    """

    models: Params
    """Models of the predictors after each round, leading axes (rounds, agents)."""
    loss: np.ndarray
    """(rounds,) mean over agents of the loss at prediction time."""
    messages: np.ndarray
    """(rounds,) messages sent, those that were lost included."""
    refused: int
    """Messages that arrived and were not accepted."""
    machines: dict[str, list[RoundMachine]]
    """Role -> the machines as they were left."""


class _Masks:
    """Masks on all messages, as peers put them on, but from a seed."""

    def __init__(
        self, algorithm: Algorithm, views: AgentViews, specs: Sequence[runtime.MessageSpec], seed: int
    ) -> None:
        from tacit.peer.masking.masker import Masker, SeededPads
        from tacit.peer.transport.codec import Codec

        self.codec, self.phases = Codec("", specs), algorithm.phases
        self.names = {role: [f"{role}-{k}" for k in range(count)] for role, count in views.topology.roles.items()}
        self.maskers = {
            name: Masker(name, specs, views.co_senders(role, agent, self.names), partial(SeededPads, seed, name))
            for role, names in self.names.items()
            for agent, name in enumerate(names)
        }

    def applied(self, envelope: Envelope) -> Envelope:
        phase = self.phases[envelope.phase]
        sender, receiver = self.names[phase.source][envelope.sender], self.names[phase.target][envelope.receiver]
        content = self.codec.pack(envelope.phase, envelope.message)
        parcel = Parcel(envelope.links, envelope.phase, envelope.round, receiver, content)
        (left,) = self.maskers[sender].masked(receiver, [parcel])
        return envelope._replace(message=self.codec.unpack(envelope.phase, left.content), masks=left.masks)


class _Network:
    """Network that loses and delays envelopes as the simulator's channel does."""

    def __init__(self, channel: Channel, topology: Topology, root: jax.Array) -> None:
        self.channel, self.root = channel, root
        self.edge = {
            name: {(int(s), int(r)): e for e, (s, r) in enumerate(zip(g.senders, g.receivers, strict=True))}
            for name, g in topology.links.items()
        }
        self.in_flight: list[tuple[int, Envelope]] = []

    def send(self, index: int, t: int, envelopes: list[Envelope]) -> None:
        channel = self.channel.on(envelopes[0].links) if envelopes else self.channel
        if channel.reliable or not envelopes:
            self.in_flight += [(t, envelope) for envelope in envelopes]
            return
        edge = self.edge[envelopes[0].links]
        fate = channel.draw(runtime.channel_key(self.root, index, t), len(edge))
        lost, delay = map(np.asarray, fate)
        for envelope in envelopes:
            e = edge[envelope.sender, envelope.receiver]
            if not lost[e]:
                self.in_flight.append((t + int(delay[e]), envelope))

    def arriving(self, index: int, t: int) -> list[Envelope]:
        due = [e for when, e in self.in_flight if when == t and e.phase == index]
        self.in_flight = [(when, e) for when, e in self.in_flight if not (when == t and e.phase == index)]
        return due


def run_in_process(
    algorithm: Algorithm,
    graph: Graph | Topology,
    stream: Stream,
    *,
    rounds: int,
    seed: int = 0,
    channel: Channel | None = None,
    dtype: str = "float32",
    start: Params | Callable[[int], Params] | None = None,
    releaser: Callable[[str, int], Releaser] | None = None,
    watch: Callable[[Envelope], None] | None = None,
) -> Trajectory:
    """Run every agent as a round machine of its own, over a network in memory.

    In each round every agent is given its batch; then, phase by phase, all messages are sent, lost or delayed as the
    channel says, received and absorbed. The same seed gives the trajectory of the first repeat of
    :func:`tacit.simulate`, so that the two runtimes can be compared round by round.

    Args:
      algorithm: The method, e.g. ``tacit.algorithms.online_push_sum(...)``.
      graph: Links of all agents, or a topology with several roles.
      stream: Data of the learners, as many as the graph has.
      rounds: Number of rounds, at least 1.
      seed: Seed of keys, graph dynamics and channel.
      channel: Losses and delays of messages; by default every message arrives in its round.
      dtype: Precision, "float32" or "float64".
      start: First parameters of all learners, or a function of the learner's id; by default the method's own.
      releaser: (Role, agent) -> releaser that books what the agent releases and draws its noise; by default noise is
        simulated from the seed, and nothing is booked.
      watch: Called with every message that is sent, before it is masked.

    Returns:
      The models and losses of every round, and the machines as they were left.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> stream = tacit.streams.logistic_drift(agents=3, dim=2)
      >>> run = tacit.peer.run_in_process(method, tacit.graphs.directed_ring(3), stream, rounds=4)
      >>> run.models.shape, run.messages.tolist()
      ((4, 3, 2), [3, 3, 3, 3])
    """
    channel = channel or Channel()
    with jax.enable_x64(dtype == "float64"):
        topology = runtime.prepared_topology(algorithm, graph, channel)
        if stream.agents != topology.roles[algorithm.learner]:
            raise DataError(
                f"stream {stream.name!r} feeds {stream.agents} agents, but the graph has "
                f"{topology.roles[algorithm.learner]}; make both the same size"
            )
        refuse_undeclared(algorithm, [stream])
        views = AgentViews(algorithm, topology, seed, jnp.dtype(dtype))
        runtime.check_window(algorithm, topology, views.root, rounds)
        runtime.check_horizon(algorithm, rounds)
        run = _Run(algorithm, stream, views, channel, seed, start, releaser, watch)
        return run.finished([run.round(t) for t in range(1, rounds + 1)])


class _Round(NamedTuple):
    """Models of the predictors after a round, mean loss before it, and messages sent in it."""

    models: list[Params]
    loss: float
    messages: int


class _Run:
    """All machines of a run, and the network between them."""

    def __init__(
        self,
        algorithm: Algorithm,
        stream: Stream,
        views: AgentViews,
        channel: Channel,
        seed: int,
        start: Params | Callable[[int], Params] | None,
        releaser: Callable[[str, int], Releaser] | None,
        watch: Callable[[Envelope], None] | None,
    ) -> None:
        self._algorithm, self._stream, self._views, self._watch = algorithm, stream, views, watch
        self._network = _Network(channel, views.topology, views.root)
        first = jax.tree.map(lambda leaf: in_precision(leaf[0, 0], views.dtype.name), stream.chunk(0, 1))
        params, own = runtime.starting_points(algorithm, first, views.dtype, start, stream.agents)
        self._sizes = {role: np.zeros(n, np.int32) for role, n in views.topology.roles.items()}
        self._sizes[algorithm.learner] = stream.data_size
        now = views.at_first()
        role_views = {role: views.views(role, 0, 0, 0, now) for role in algorithm.init}
        functions = AgentFunctions(algorithm, runtime.settle(algorithm, params, first, role_views))
        self.machines = {
            role: [
                RoundMachine(
                    functions,
                    role,
                    agent,
                    runtime.agent_key(views.root, index, 0, agent),
                    params if own is None or role != algorithm.learner else own[agent],
                    views.views(role, agent, 0, int(self._sizes[role][agent]), now),
                    channel.longest_delay,
                    None if releaser is None else releaser(role, agent),
                )
                for agent in range(views.topology.roles[role])
            ]
            for index, role in enumerate(algorithm.init)
        }
        masked = any(hides(phase.mechanism) for phase in algorithm.phases)
        self._masks = _Masks(algorithm, views, functions.specs, seed) if masked else None
        self._loss = jax.jit(algorithm.objective.loss)
        self._following = {
            role: [views.rounds_of(role, agent) for agent in range(len(agents))]
            for role, agents in self.machines.items()
        }
        self._speakers = speakers(algorithm, views.topology)
        self._refused = 0

    def round(self, t: int) -> _Round:
        """Run round t."""
        dtype, algorithm = self._views.dtype.name, self._algorithm
        batches = jax.tree.map(lambda leaf: in_precision(leaf[0], dtype), self._stream.chunk(t - 1, t))
        mine = [jax.tree.map(lambda leaf, a=a: leaf[a], batches) for a in range(self._stream.agents)]
        predictors = self.machines[algorithm.predictor]
        losses = [self._loss(predictors[s].model, b) for s, b in zip(self._speakers, mine, strict=True)]
        loss, sent, outgoing = float(np.mean(losses)), 0, self._begun(t, mine)
        for index in range(len(algorithm.phases)):
            sent += len(outgoing)
            self._deliver(index, t, outgoing)
            working = [m for agents in self.machines.values() for m in agents if not m.between_rounds]
            outgoing = [e for machine in working for e in machine.proceed()]
        return _Round([jax.tree.map(np.asarray, machine.model) for machine in predictors], loss, sent)

    def _begun(self, t: int, batches: Sequence[Batch]) -> list[Envelope]:
        """Begin round t at every agent; returns the messages of the first phase."""
        stream, now = self._stream, self._views.now(t)
        outgoing: list[Envelope] = []
        for role, agents in self.machines.items():
            learns = role == self._algorithm.learner
            for agent, machine in enumerate(agents):
                if self._following[role][agent](t - 1) != t:  # it rests
                    machine.skip_to(t)
                    continue
                view = self._views.views(role, agent, t, int(self._sizes[role][agent]), now)
                batch: Batch = batches[agent] if learns else ()
                outgoing += machine.begin(batch, view, stream.records_in_round(agent, t) if learns else None)
        return outgoing

    def _deliver(self, index: int, t: int, outgoing: list[Envelope]) -> None:
        """Send the messages of a phase, and hand over those that arrive in it."""
        if self._watch is not None:
            for envelope in outgoing:
                self._watch(envelope)
        masks = self._masks
        self._network.send(index, t, outgoing if masks is None else [masks.applied(envelope) for envelope in outgoing])
        for envelope in self._network.arriving(index, t):
            machine = self.machines[self._algorithm.phases[index].target][envelope.receiver]
            if machine.between_rounds:  # what comes to an agent that rests is lost
                continue
            try:
                machine.receive(envelope)
            except MessageRefused:
                self._refused += 1

    def finished(self, rounds: Sequence[_Round]) -> Trajectory:
        """Return what the agents did in all rounds."""
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[model for row in rounds for model in row.models])
        count = len(self.machines[self._algorithm.predictor])
        return Trajectory(
            jax.tree.map(lambda leaf: leaf.reshape(len(rounds), count, *leaf.shape[1:]), stacked),
            np.array([row.loss for row in rounds]),
            np.array([row.messages for row in rounds]),
            self._refused,
            self.machines,
        )


def speakers(algorithm: Algorithm, topology: Topology) -> list[int]:
    """Return for each learner the predictor whose model speaks for it: itself, or one that it hears."""
    learners = range(topology.roles[algorithm.learner])
    if algorithm.predictor == algorithm.learner:
        return list(learners)
    ends = (algorithm.predictor, algorithm.learner)
    links = next(p.links for p in algorithm.phases if (p.source, p.target) == ends)
    return [int(topology.links[links].neighbours_in(learner)[0]) for learner in learners]
