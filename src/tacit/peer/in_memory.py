"""Many round machines in one process over a network in memory, one agent at a time.

This is the second runtime in its simplest shell: the same machines that a real peer runs, and the same graph and
channel that the simulator draws, so that both can be compared round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Array, Batch, Params
from tacit.core.errors import DataError, MessageRefused
from tacit.graphs import Channel, Graph, Topology
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.releases import Releaser
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.node.exchange import Parcel
from tacit.peer.sources.batches import in_precision
from tacit.peer.views import AgentViews
from tacit.privacy.noise.mask_noise import hides
from tacit.streams import Stream
from tacit.streams.learnt import refuse_undeclared


class Trajectory(NamedTuple):
    """What the agents did."""

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
    """Masks what machines send each other as peers do, but from a seed."""

    def __init__(
        self, algorithm: Algorithm, world: AgentViews, specs: Sequence[runtime.MessageSpec], seed: int
    ) -> None:
        from tacit.peer.masking.masker import Masker, SeededPads
        from tacit.peer.transport.codec import Codec

        self.codec, self.phases = Codec("", specs), algorithm.phases
        self.names = {role: [f"{role}-{k}" for k in range(count)] for role, count in world.topology.roles.items()}
        self.maskers = {
            name: Masker(name, specs, world.co_senders(role, agent, self.names), partial(SeededPads, seed, name))
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
    """Carries envelopes; loses and delays them as the simulator's channel does."""

    def __init__(self, channel: Channel, topology: Topology, root: jax.Array) -> None:
        self.channel, self.root = channel, root
        self.edge = {
            name: {(int(s), int(r)): e for e, (s, r) in enumerate(zip(g.senders, g.receivers, strict=True))}
            for name, g in topology.links.items()
        }
        self.under_way: list[tuple[int, Envelope]] = []

    def send(self, index: int, t: int, envelopes: list[Envelope]) -> None:
        channel = self.channel.on(envelopes[0].links) if envelopes else self.channel
        if channel.reliable or not envelopes:
            self.under_way += [(t, envelope) for envelope in envelopes]
            return
        edge = self.edge[envelopes[0].links]
        fate = channel.draw(runtime.channel_key(self.root, index, t), len(edge))
        lost, delay = map(np.asarray, fate)
        for envelope in envelopes:
            e = edge[envelope.sender, envelope.receiver]
            if not lost[e]:
                self.under_way.append((t + int(delay[e]), envelope))

    def arriving(self, index: int, t: int) -> list[Envelope]:
        due = [e for when, e in self.under_way if when == t and e.phase == index]
        self.under_way = [(when, e) for when, e in self.under_way if not (when == t and e.phase == index)]
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
    """Run every agent as its own round machine; the same seed gives the trajectory of `simulate`'s first repeat.

    With `releaser` (role, agent -> releaser) each agent books what it releases, and draws its noise, for itself.
    `watch` is shown every message that is sent.
    """
    channel = channel or Channel()
    with jax.enable_x64(dtype == "float64"):
        topology = runtime.prepared_topology(algorithm, graph, channel)
        return _run(algorithm, topology, stream, rounds, seed, channel, jnp.dtype(dtype), start, releaser, watch)


def _run(
    algorithm: Algorithm,
    topology: Topology,
    stream: Stream,
    rounds: int,
    seed: int,
    channel: Channel,
    dtype: jnp.dtype,
    start: Params | Callable[[int], Params] | None,
    releaser: Callable[[str, int], Releaser] | None,
    watch: Callable[[Envelope], None] | None,
) -> Trajectory:
    if stream.agents != topology.roles[algorithm.learner]:
        raise DataError(
            f"stream {stream.name!r} feeds {stream.agents} agents, but the graph has "
            f"{topology.roles[algorithm.learner]}; make both the same size"
        )
    refuse_undeclared(algorithm, [stream])
    world = AgentViews(algorithm, topology, seed, dtype)
    runtime.check_window(algorithm, topology, world.root, rounds)
    runtime.check_horizon(algorithm, rounds)
    network = _Network(channel, topology, world.root)
    first = jax.tree.map(lambda leaf: in_precision(leaf[0, 0], dtype.name), stream.chunk(0, 1))
    params, own = runtime.starting_points(algorithm, first, dtype, start, stream.agents)
    sizes = {role: np.zeros(n, np.int32) for role, n in topology.roles.items()}
    sizes[algorithm.learner] = stream.data_size
    now = world.at_first()
    views = {role: world.views(role, 0, 0, 0, now) for role in algorithm.init}
    functions = AgentFunctions(algorithm, runtime.settle(algorithm, params, first, views))
    machines = {
        role: [
            RoundMachine(
                functions,
                role,
                agent,
                runtime.agent_key(world.root, index, 0, agent),
                params if own is None or role != algorithm.learner else own[agent],
                world.views(role, agent, 0, int(sizes[role][agent]), now),
                channel.longest_delay,
                None if releaser is None else releaser(role, agent),
            )
            for agent in range(topology.roles[role])
        ]
        for index, role in enumerate(algorithm.init)
    }
    masked = any(hides(phase.mechanism) for phase in algorithm.phases)
    masks = _Masks(algorithm, world, functions.specs, seed) if masked else None
    losses, models, messages, refused = [], [], [], 0
    loss = jax.jit(algorithm.objective.loss)
    for t in range(1, rounds + 1):
        now = world.now(t)
        batches = jax.tree.map(lambda leaf: in_precision(leaf[0], dtype.name), stream.chunk(t - 1, t))
        mine = [jax.tree.map(lambda leaf, a=a: leaf[a], batches) for a in range(stream.agents)]
        losses.append(_mean_loss(loss, machines, algorithm, mine, topology))
        sent = 0
        outgoing: list[Envelope] = []
        for role, agents in machines.items():
            for agent, machine in enumerate(agents):
                learns = role == algorithm.learner
                batch: Batch = mine[agent] if learns else ()
                view = world.views(role, agent, t, int(sizes[role][agent]), now)
                outgoing += machine.begin(batch, view, stream.records_in_round(agent, t) if learns else None)
        for index in range(len(algorithm.phases)):
            sent += len(outgoing)
            if watch is not None:
                for envelope in outgoing:
                    watch(envelope)
            network.send(index, t, outgoing if masks is None else [masks.applied(envelope) for envelope in outgoing])
            for envelope in network.arriving(index, t):
                try:
                    machines[algorithm.phases[index].target][envelope.receiver].receive(envelope)
                except MessageRefused:
                    refused += 1
            outgoing = [e for agents in machines.values() for machine in agents for e in machine.proceed()]
        messages.append(sent)
        models.append([jax.tree.map(np.asarray, m.model) for m in machines[algorithm.predictor]])
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[m for row in models for m in row])
    count = len(machines[algorithm.predictor])
    return Trajectory(
        jax.tree.map(lambda leaf: leaf.reshape(rounds, count, *leaf.shape[1:]), stacked),
        np.array(losses),
        np.array(messages),
        refused,
        machines,
    )


def _mean_loss(
    loss: Callable[[Params, Batch], Array],
    machines: dict[str, list[RoundMachine]],
    algorithm: Algorithm,
    batches: list[Batch],
    topology: Topology,
) -> float:
    """Mean loss of the learners at the models that speak for them."""
    predictors = machines[algorithm.predictor]
    serving = speakers(algorithm, topology)
    return float(np.mean([loss(predictors[s].model, b) for s, b in zip(serving, batches, strict=True)]))


def speakers(algorithm: Algorithm, topology: Topology) -> list[int]:
    """Return for each learner the predictor whose model speaks for it: itself, or one that it hears."""
    learners = range(topology.roles[algorithm.learner])
    if algorithm.predictor == algorithm.learner:
        return list(learners)
    ends = (algorithm.predictor, algorithm.learner)
    links = next(p.links for p in algorithm.phases if (p.source, p.target) == ends)
    return [int(topology.links[links].neighbours_in(learner)[0]) for learner in learners]
