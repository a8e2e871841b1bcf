"""Methods as linear maps: what every message of a run makes of every release, taken from the method's own functions.

The simulator's round is run with each number of the states, and each release, moved by one in turn; what that moves are
the columns of a `LinearNetwork`. The loss of the data is replaced by nothing at all: gradients are what they are,
wherever they are taken, and what is left is how releases travel. That the map is linear, the same for every coordinate
and without chance is not taken from a list of methods but tried, on a run with two coordinates, other keys, and large
random releases in all rounds: a method that is not linear is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.core import limits
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Extent,
    Key,
    Mechanism,
    Objective,
    Params,
    PrivacyStatement,
    Separable,
    State,
    Tree,
    View,
    unprotected,
)
from tacit.core.errors import ConfigError, TacitError
from tacit.graphs import Channel, Graph, Topology
from tacit.objectives import PenalisedLoss, Regulariser
from tacit.privacy import LinearNetwork, NetworkLoss, network_loss, records_in
from tacit.privacy.charges import charges_all
from tacit.privacy.strategies import inverse
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out
from tacit.simulator.loop_state import LoopState, Network, PackedState, joined
from tacit.simulator.setup import VIEW_AXES
from tacit.streams import Stream

Floats = NDArray[np.float64]
Make = Callable[[Objective], Algorithm]
DTYPE = "float64"
_SIZE, _AGREES = 1e3, 1e-8
"""Of the random releases that linearity is tried with, and to which share of the largest message it has to hold."""


class LinearMethod(NamedTuple):
    """A method on a graph as a linear map, with what it declares of its releases; made by `linear_network`.

    Args:
      network: What every message makes of every release.
      sensitivity: (rounds, agents), in the l2 norm.
      scale: (rounds, agents), standard deviation of the noise.
      records: Per agent the numbers of the records in its batches; None where no record comes twice.
      noise_response: First column of C^-1, of noise that is correlated over rounds.
    """

    network: LinearNetwork
    sensitivity: Floats
    scale: Floats
    records: tuple[NDArray[np.int64] | None, ...]
    noise_response: Floats | None = None

    def loss(self) -> NetworkLoss:
        """Return the loss from each agent to each single observer; see `tacit.privacy.network_loss`."""
        return network_loss(
            self.network, self.sensitivity, self.scale, records=self.records, noise_response=self.noise_response
        )


def linear_network(
    make: Make,
    objective: Objective,
    graph: Graph | Topology,
    stream: Stream,
    rounds: int,
    channel: Channel | None = None,
) -> LinearMethod:
    """Return a method as a linear map of its releases; refuse one that is none, with the reason.

    Args:
      make: From an objective to the method with its settings.
      objective: The objective that is to be learnt.
      graph: Links of the agents; they must not change.
      stream: Data of the agents, of which only sizes and the numbers of records are read.
      rounds: How many rounds to look at, from the first on.
      channel: Losses and delays of messages, of which there must be none.

    Returns:
      The map and the declarations; its `loss()` is what each observer learns.

    Example:
      >>> import tacit
      >>> noise = tacit.privacy.gaussian(noise_multiplier=2.0, clip=1.0)
      >>> method = tacit.audit.linear_network(
      ...     lambda objective: tacit.algorithms.online_push_sum(objective, mechanism=noise),
      ...     tacit.objectives.logistic(),
      ...     tacit.graphs.directed_ring(4),
      ...     tacit.streams.logistic_drift(agents=4, dim=3),
      ...     rounds=6,
      ... )
      >>> loss = method.loss()
      >>> [round(float(mu), 3) for mu in loss.mu[0, 1:]]
      [0.5, ..., ...]
    """
    algorithm = make(objective)
    index = _released_phase(algorithm)
    topology = runtime.prepared_topology(algorithm, graph, channel)
    _refuse_unsteady(algorithm, topology, channel, stream)
    stream.refuse_outside(0, rounds)
    if stream.agents != topology.roles["peer"]:
        agents = topology.roles["peer"]
        raise ConfigError(f"stream {stream.name!r} feeds {stream.agents} agents, but the graph has {agents}")
    spec = stream.batch_spec()
    with jax.enable_x64(True):
        one, two = (Probe(_injected(_made_still(make, objective, d), index), topology, _blank(spec, d)) for d in (1, 2))
        network = _derived(one, rounds)
        _try_linearity(algorithm, network, two)
        params = runtime.first_params(algorithm, spec, jnp.dtype(DTYPE), None)
        extent = Extent(sum(leaf.size for leaf in jax.tree.leaves(params)), records_in(spec))
        sensitivity, scale = one.declared(algorithm.phases[index].mechanism, index, extent, rounds, stream.data_size)
    everything = algorithm.phases[index].mechanism.adjacency == "dataset"
    whole = np.zeros((rounds, 1), np.int64)
    records = (whole if everything else stream.numbered(agent, 0, rounds) for agent in range(stream.agents))
    return LinearMethod(network, sensitivity, scale, tuple(records), _noise_response(algorithm, index, rounds))


def _noise_response(algorithm: Algorithm, index: int, rounds: int) -> Floats | None:
    correlation = algorithm.phases[index].mechanism.correlation
    if correlation is None:
        return None
    if rounds > correlation.rounds:
        raise ConfigError(
            f"{rounds:,} rounds, but the noise of {algorithm.name!r} begins anew after {correlation.rounds:,}; look at "
            "that many at most"
        )
    return inverse(correlation.coefficients(rounds))


class _Injected(NamedTuple):
    """A batch, and what is added to the value before it is released."""

    batch: Batch
    moved: Array


class Probe:
    """The simulator's round of a method on a graph, all messages at hand; agents are numbered as in the graph."""

    def __init__(self, algorithm: Algorithm, topology: Topology, spec: Batch, repeats: int = 1, seed: int = 0) -> None:
        self.algorithm, self.seed = algorithm, seed
        layout = lay_out(Topology.union([topology] * repeats), runtime.link_ends(algorithm), repeats)
        self.params = runtime.first_params(algorithm, spec, jnp.dtype(DTYPE), None)
        self.engine = Engine(algorithm, layout, Channel(), jnp.dtype(DTYPE), self.params, spec)
        self.role, self.spec, self.topology = layout.roles["peer"], spec, topology
        self.agents = self.role.agents

    def network(self, data_size: NDArray[Any] | int = 0) -> Network:
        """Return agents and links on the device."""
        sizes = np.broadcast_to(np.asarray(data_size, np.int32), (self.agents,))
        return self.engine.network(self.seed, np.tile(sizes, self.role.order.size // self.agents))

    def first(self, network: Network) -> LoopState:
        """Return the state before round 1."""
        return self.engine.start(network, self.params)

    def round(self, network: Network, loop: LoopState, batch: Tree) -> tuple[LoopState, Array]:
        """Run a round on batches in the order of the graph; returns all messages, (agents, numbers of a message)."""
        ordered = jax.tree.map(lambda leaf: leaf[self.role.order], batch)
        loop, buffers, _ = self.engine.round(network, loop, ordered, self.engine.send_buffers())
        parts = []
        for packing, rows in zip(self.engine.setup.packings, buffers, strict=True):
            private = jax.tree.leaves(packing.unpack(rows).private) if rows else []
            parts += [leaf.reshape(len(leaf), -1) for leaf in private]
        return loop, jnp.concatenate(parts, axis=1)[self.role.position]

    def heard(self) -> NDArray[np.bool_]:
        """Return (agents, agents * numbers of a message), who hears which of them."""
        found = []
        for phase, spec in zip(self.algorithm.phases, self.engine.specs, strict=True):
            width = sum(leaf.size for leaf in jax.tree.leaves(spec.message.private))
            if width and (spec.delivery == "per_slot" or spec.addressed):
                raise ConfigError(
                    f"{self.algorithm.name!r} sends to some neighbours and not to others, or not the same to all: what "
                    "an observer hears is no fixed set of messages; network privacy is for methods that send one value "
                    "to all neighbours"
                )
            graph = self.topology.links[phase.links]
            links = np.zeros((self.agents, self.agents), bool)
            links[graph.receivers, graph.senders] = True
            found += [links & ~np.eye(self.agents, dtype=bool)] * width
        return np.stack(found, axis=2).reshape(self.agents, -1)

    def declared(
        self, mechanism: Mechanism, index: int, extent: Extent, rounds: int, data_size: NDArray[Any]
    ) -> tuple[Floats, Floats]:
        """Return (rounds, agents) sensitivity and scale of the releases, in the order of the graph."""
        setup, name = self.engine.setup, self.algorithm.phases[index].links
        network = self.network(data_size)

        def of_round(t: Array) -> tuple[Array, Array]:
            links = setup.links_now(network, name, t)

            def one(view: View) -> tuple[Array, Array]:
                noise = mechanism.noise(view, extent)
                assert noise is not None
                return jnp.asarray(noise.sensitivity, DTYPE), jnp.asarray(noise.scale, DTYPE)

            views = [setup.view("peer", links, b, members) for b, members in enumerate(network.members["peer"])]
            both: tuple[Array, Array] = joined([jax.vmap(one, (VIEW_AXES,), axis_size=len(v.agent))(v) for v in views])
            return both

        found = jax.lax.map(of_round, jnp.arange(1, rounds + 1, dtype=jnp.int32))
        sensitivity, scale = (np.asarray(each, np.float64)[:, self.role.position] for each in found)
        return sensitivity, scale


def _derived(probe: Probe, rounds: int) -> LinearNetwork:
    """Return the map of a method with one coordinate, by moving each number of the states and each release by one."""
    network, agents, heard = probe.network(), probe.agents, probe.heard()
    states, rebuilt = _floating(probe.engine, probe.first(network))
    size = states.size
    wanted = 8 * (rounds + 2) * (size + agents) * (size + heard.shape[1])
    limits.refuse_beyond(wanted, f"the map of {agents:,} agents over {rounds:,} rounds")

    def of_round(loop: LoopState) -> tuple[LoopState, Array, Array]:
        start, rebuilt = _floating(probe.engine, loop)

        def moved(by: Array) -> tuple[Array, Array, LoopState]:
            noise = by[size:, None]
            batch = _Injected(_stacked(probe.spec.batch, agents), noise)
            after, messages = probe.round(network, rebuilt(start + by[:size]), batch)
            return _floating(probe.engine, after)[0], messages.reshape(-1), after

        basis = jnp.eye(size + agents)
        still, said, after = moved(jnp.zeros(size + agents))
        columns, messages, _ = jax.vmap(moved)(basis)
        return after, columns - still, messages - said

    advance = jax.jit(of_round)
    loop, steps, sent = rebuilt(states), [], []
    for _ in range(rounds):
        loop, columns, messages = advance(loop)
        steps.append(np.asarray(columns).T)
        sent.append(np.asarray(messages).T)
    step, message = np.stack(steps), np.stack(sent)
    return LinearNetwork(step[:, :, :size], step[:, :, size:], message[:, :, :size], message[:, :, size:], heard)


def _try_linearity(algorithm: Algorithm, linear: LinearNetwork, probe: Probe) -> None:
    """Refuse a method whose messages are not what its map says, on two coordinates and with other keys."""
    probe.seed = 1
    network, batches = probe.network(), _stacked(probe.spec.batch, probe.agents)
    advance = jax.jit(lambda loop, moved: probe.round(network, loop, _Injected(batches, moved)))
    noise = _SIZE * np.random.default_rng(0).standard_normal((linear.rounds, probe.agents, 2))
    loop = still = probe.first(network)
    state = np.zeros((linear.transition.shape[1], 2))
    for t, moved in enumerate(noise):
        loop, messages = advance(loop, jnp.asarray(moved))
        still, quiet = advance(still, jnp.zeros_like(moved))
        found = np.asarray(messages - quiet).reshape(-1, 2)
        expected = linear.from_state[t] @ state + linear.from_release[t] @ moved
        state = linear.transition[t] @ state + linear.entry[t] @ moved
        if found.shape != expected.shape or np.abs(found - expected).max() > _AGREES * np.abs(expected).max():
            raise ConfigError(
                f"{algorithm.name!r}: in round {t + 1} the messages are no fixed linear function of what was released, "
                "the same for every coordinate (a projection, a mirror map, an l1 term, values chosen at random, or a "
                "part of the model in each message); network privacy is for linear methods, the strong figure for all"
            )


def _floating(engine: Engine, loop: LoopState) -> tuple[Array, Callable[[Array], LoopState]]:
    """Return the floating numbers of all states as one vector, and what puts others in their place."""
    states = engine.states("peer", loop)
    leaves, structure = jax.tree_util.tree_flatten(states)
    real = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    ends = np.cumsum([leaves[k].size for k in real])

    def rebuilt(vector: Array) -> LoopState:
        new = list(leaves)
        for k, end in zip(real, ends.tolist(), strict=True):
            new[k] = vector[end - leaves[k].size : end].reshape(leaves[k].shape)
        packed = tuple(PackedState.of(state, {}) for state in jax.tree_util.tree_unflatten(structure, new))
        return loop._replace(states={**loop.states, "peer": packed})

    return jnp.concatenate([leaves[k].reshape(-1) for k in real]), rebuilt


def _stacked(spec: Batch, agents: int) -> Batch:
    return jax.tree.map(lambda leaf: jnp.zeros((agents, *leaf.shape), leaf.dtype), spec)


def _blank(spec: Batch, coordinates: int) -> _Injected:
    """Return the shapes of a batch for a model of so many coordinates."""

    def shape(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.dtype(DTYPE) if jnp.issubdtype(dtype, jnp.floating) else dtype)

    return _Injected(jax.tree.map(lambda leaf: shape(leaf.shape, leaf.dtype), spec), shape((coordinates,), float))


def _made_still(make: Make, objective: Objective, coordinates: int) -> Algorithm:
    """Return the method for an objective of which the data's part is nothing, on so many coordinates."""
    penalty = objective.loss.regulariser if isinstance(objective.loss, Separable) else Regulariser()

    def nothing(params: Params, batch: Batch) -> Array:
        return jnp.zeros(())

    loss = PenalisedLoss(nothing, penalty)
    still = objective._replace(loss=loss, initial=lambda batch: jnp.zeros(coordinates))
    try:
        return make(still)
    except TacitError as error:
        raise ConfigError(
            f"network privacy of {make(objective).name!r} is not known: it cannot be made without a loss of the data, "
            "so that its messages are no linear function of what is released; the strong figure holds"
        ) from error


def _injected(algorithm: Algorithm, index: int) -> Algorithm:
    """Return the method without noise, with a number of our own added to each value before it is released."""
    algorithm = runtime.self_contained(algorithm)

    def phase_of(number: int) -> Any:
        phase = algorithm.phases[number]

        def compute(key: Key, state: State, batch: _Injected, view: View) -> tuple[State, Tree]:
            state, value = phase.compute(key, state, batch.batch, view)
            if number != index:
                return state, value
            if [leaf.shape for leaf in jax.tree.leaves(value)] != [batch.moved.shape]:
                raise ConfigError(
                    f"{algorithm.name!r} releases {jax.tree.map(jnp.shape, value)}, not one value as large as the "
                    "model; network privacy is for methods that release a gradient, a step or a model"
                )
            return state, jax.tree.map(lambda leaf: leaf + batch.moved, value)

        return phase._replace(compute=compute, mechanism=unprotected)

    phases = tuple(map(phase_of, range(len(algorithm.phases))))
    return algorithm._replace(phases=phases, privacy=PrivacyStatement.none(), check_data=None)


def _released_phase(algorithm: Algorithm) -> int:
    """Return the phase with noise; refuse methods of whose releases too little is known."""
    noisy = [k for k, phase in enumerate(algorithm.phases) if phase.mechanism.distribution is not None]
    reason = None
    if not algorithm.privacy.private or not noisy:
        raise ConfigError(f"{algorithm.name!r} promises no privacy to anybody: give it Gaussian noise and a clip")
    if len(noisy) > 1:
        reason = f"{len(noisy)} of its phases release values under noise, expected one"
    elif len(algorithm.init) != 1 or "peer" not in algorithm.init:
        reason = f"its agents have roles {sorted(algorithm.init)}, expected peers alone"
    elif any(phase.answers is not None for phase in algorithm.phases):
        reason = "some agents take part only in some rounds"
    else:
        mechanism = algorithm.phases[noisy[0]].mechanism
        if mechanism.distribution != "gaussian" or mechanism.finish is not None:
            reason = f"mechanism {mechanism.name!r} is not plain Gaussian noise: choose kind = 'gaussian'"
        elif mechanism.spread != "common":
            reason = f"mechanism {mechanism.name!r} puts other noise on each link: choose kind = 'gaussian'"
        elif mechanism.adjacency != "dataset" and charges_all(algorithm.privacy, mechanism.adjacency):
            reason = "a record moves releases of rounds that do not read it, by a private state"
    if reason is not None:
        raise ConfigError(f"network privacy of {algorithm.name!r} is not known: {reason}; the strong figure holds")
    return noisy[0]


def _refuse_unsteady(algorithm: Algorithm, topology: Topology, channel: Channel | None, stream: Stream) -> None:
    graphs = topology.links.values()
    reason = None
    if topology.availability or any(g.dynamics is not None for g in graphs):
        reason = "links or agents come and go: run it on a fixed graph"
    elif any(g.weights is not None and g.weights.period is not None for g in graphs):
        reason = "weights change from round to round: take fixed ones"
    elif channel is not None and not channel.reliable:
        reason = "messages are lost or late: remove the channel"
    elif stream.arrivals is not None:
        reason = "some rounds bring an agent no data: give everybody data in every round"
    if reason is not None:
        raise ConfigError(f"network privacy of {algorithm.name!r} needs a W that is known beforehand, but {reason}")
