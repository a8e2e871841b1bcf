"""What both runtimes do in the same way: keys, and one agent's way from data to outbox."""

from __future__ import annotations

import inspect
import math
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core import limits
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Delivery,
    Extent,
    Key,
    Links,
    Mechanism,
    Message,
    Noise,
    Objective,
    Outbox,
    Params,
    Phase,
    State,
    Tree,
    View,
)  # fmt: skip
from tacit.core.errors import ConfigError, ContractError, RequirementError, TacitWarning
from tacit.graphs import Channel, Graph, Topology, as_topology, first_gap_of_run, require
from tacit.privacy import records_in, release
from tacit.privacy.charges import charges_all
from tacit.privacy.noise import hides, noise_words
from tacit.privacy.noise.fixed_point import fixed_point_step
from tacit.privacy.noise.mask_noise import check_size
from tacit.tracing import Flow, Method, Sending, followed, hearing, sending, trace

_AGENT, _LINKS, _CHANNEL, _MASKS, _PRESENCE = 0, 1, 2, 3, 4
_INIT, _COMPUTE, _ABSORB = 0, 1, 3


def agent_key(root: Key, role: int, repeat: Array | int, agent: Array | int) -> Key:
    """Key of one agent for a whole run."""
    fold = jax.random.fold_in
    return fold(fold(fold(fold(root, _AGENT), role), repeat), agent)


def links_key(root: Key, links: int, t: Array | int) -> Key:
    """Key of the dynamics of one link set in round t."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _LINKS), links), t)


def channel_key(root: Key, phase: int, t: Array | int) -> Key:
    """Key of what the network does to the messages of one phase in round t."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _CHANNEL), phase), t)


def presence_key(root: Key, role: str, t: Array | int) -> Key:
    """Key of who of a role is there in round t: the same for every method that has this role."""
    number = zlib.crc32(role.encode()) & 0x7FFFFFFF
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _PRESENCE), number), t)


def masks_key(root: Key) -> Key:
    """Key of the masks that pairs of senders agree on (simulation only)."""
    return jax.random.fold_in(root, _MASKS)


def init_key(key: Key) -> Key:
    """Key of an agent's first state."""
    return _stage(key, 0, 0, _INIT)


def absorb_key(key: Key, t: Array | int, phase: int) -> Key:
    """Key of an agent's absorb function in a phase of round t."""
    return _stage(key, t, phase, _ABSORB)


def _stage(key: Key, t: Array | int, phase: int, stage: int) -> Key:
    return jax.random.fold_in(jax.random.fold_in(key, t), phase * 4 + stage)


class FirstParams(NamedTuple):
    """Where the agents of a run begin."""

    common: Params
    """Of everybody who has none of its own."""
    own: tuple[Params, ...] | None
    """Of each learner, where they differ."""


def starting_points(
    algorithm: Algorithm, spec: Batch, dtype: jnp.dtype, start: Params | Callable[[int], Params] | None, learners: int
) -> FirstParams:
    """Return the first parameters of a run whose `start` is given for all, or as a function of the learner's number."""
    if not callable(start):
        return FirstParams(first_params(algorithm, spec, dtype, start), None)
    own = tuple(first_params(algorithm, spec, dtype, start(learner)) for learner in range(learners))
    return FirstParams(own[0], own)


def first_params(algorithm: Algorithm, spec: Batch, dtype: jnp.dtype, start: Params | None) -> Params:
    """Return the parameters from which every agent starts, floating leaves in the run's precision."""
    own = jax.tree.map(lambda leaf: _cast(jnp.asarray(leaf), dtype), _initial(algorithm.objective, spec))
    if start is None:
        return own if algorithm.domain is None else algorithm.domain.first(own)
    if not same_structure(start, own) or any(map(_misshapen, jax.tree.leaves(start), jax.tree.leaves(own))):
        raise ConfigError(
            f"the start is {jax.tree.map(jnp.shape, start)}; expected the shapes of the parameters of "
            f"{algorithm.objective.name!r}, {jax.tree.map(jnp.shape, own)}"
        )
    given = jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), start, own)
    if algorithm.domain is None:
        return given
    fault = algorithm.domain.fault(given)
    if fault is not None:
        raise ConfigError(
            f"the start lies outside of the set of {algorithm.name!r} ({algorithm.domain}): {fault}; give one inside, "
            "or none, and the run begins inside"
        )
    return given


def _initial(objective: Objective, spec: Batch) -> Params:
    """Return an objective's first parameters; it is shown shapes alone, so that they hold nothing of the data."""
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), spec)
    limits.refuse_beyond(_foretold_bytes(objective, shapes), f"a model of {objective.name!r}")
    try:
        return objective.initial(shapes)
    except OverflowError as error:
        raise ConfigError(f"objective {objective.name!r}: a model is too large ({error}); make it smaller") from error
    except TypeError as error:
        raise ContractError(
            f"objective {objective.name!r}: initial was shown the shapes of a batch, {shapes}, and failed ({error}); "
            "make the first parameters of shapes and types, not of values"
        ) from error


def _foretold_bytes(objective: Objective, shapes: Batch) -> int:
    """Return what a model will take, without making one; 0 where only the call itself can tell."""
    initial = inspect.unwrap(objective.initial)  # a cache around it would keep what belongs to the trace
    try:
        return model_bytes(jax.eval_shape(lambda: initial(shapes)))
    except Exception:  # functions that need numbers raise anything where there are shapes alone
        return 0


def model_bytes(model: Params) -> int:
    """Return what the arrays of one model take, or would take."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(model))


def _misshapen(leaf: Any, like: Array) -> bool:
    return jnp.shape(leaf) != like.shape


def _cast(leaf: Array, dtype: jnp.dtype) -> Array:
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


class Declared(NamedTuple):
    """The numbers of the declaration that a release was drawn from; its words are in the phase's `ReleaseSpec`."""

    sensitivity: Array
    scale: Array
    bound: Array
    """Infinite for noise without one."""


class Prepared(NamedTuple):
    """What one agent has ready to send in a phase."""

    state: State
    outbox: Outbox
    addressed: Array
    """Which out-slots are sent to, slot 0 included."""
    declared: Declared | None
    """None where nothing was added."""


def prepare(phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View) -> Prepared:
    """One agent's side of sending, with simulated noise: compute, release, emit."""
    view, batch = with_data(view, batch)
    state, value = compute(phase, index, key, state, batch, view)
    words = noise_words(key, view.round, index)
    released, noise = release(phase.mechanism, words, value, view, records_in(batch))
    return emit(phase, state, released, view, None if noise is None else _declared(noise))


def with_data(view: View, batch: Batch) -> tuple[View, Batch]:
    """Return the view of a round that brings this batch, and the batch as a method sees it.

    A record that cannot be used (a weight below 0) counts as none to the method, but the round has brought data:
    whether it did must not tell what a record holds.
    """
    weight = getattr(batch, "weight", None)
    if weight is None:
        return view, batch
    return view._replace(fresh=jnp.any(weight != 0)), batch._replace(weight=jnp.maximum(weight, 0))


def compute(phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
    """Do the private work: one agent's next state and the value to release."""
    return phase.compute(_stage(key, view.round, index, _COMPUTE), state, batch, view)


def declare(phase: Phase, value: Tree, records: int, view: View) -> Declared | None:
    """Return the declaration from which the noise on a value must be drawn; None where the mechanism adds nothing."""
    leaves = jax.tree.leaves(value)
    noise = phase.mechanism.noise(view, Extent(sum(leaf.size for leaf in leaves), records)) if leaves else None
    return None if noise is None else _declared(noise)


def finish(phase: Phase, noisy: Tree, declared: Declared | None) -> Tree:
    """Apply the post-processing that belongs to the mechanism to a value that has its noise."""
    mechanism = phase.mechanism
    if mechanism.finish is None or mechanism.distribution is None or declared is None:
        return noisy
    return mechanism.finish(noisy, Noise(mechanism.distribution, declared.scale, declared.sensitivity, declared.bound))


def emit(phase: Phase, state: State, released: Tree, view: View, declared: Declared | None) -> Prepared:
    """Make messages of what was released."""
    state, outbox = phase.emit(state, released, view)
    return Prepared(state, outbox, _addressed(outbox, view), declared)


def _declared(noise: Noise) -> Declared:
    bound = jnp.inf if noise.bound is None else noise.bound
    return Declared(*(jnp.asarray(x, jnp.result_type(float)) for x in (noise.sensitivity, noise.scale, bound)))


def _addressed(outbox: Outbox, view: View) -> Array:
    live = view.out.live
    if outbox.to is None:
        return live
    slots = live.shape[0]
    # What names no slot (-1) falls on an extra place, or would count from the end.
    chosen = jnp.zeros(slots + 1, bool).at[jnp.where(outbox.to < 0, slots, outbox.to)].set(True)[:-1]
    return live & chosen.at[0].set(True)


def same_structure(a: Tree, b: Tree) -> bool:
    """Whether two pytrees have their leaves in the same places."""
    one: object = jax.tree.structure(a)
    return one == jax.tree.structure(b)


def check_state(algorithm: Algorithm, phase: int, role: str, before: Tree, after: Tree) -> None:
    """Refuse an algorithm whose functions change the structure, shapes or types of a state."""
    if not same_structure(before, after):
        raise ContractError(
            f"algorithm {algorithm.name!r}, phase {phase}, role {role!r}: the state came in as "
            f"{jax.tree.structure(before)} and went out as {jax.tree.structure(after)}; return the same structure"
        )
    for path, (old, new) in zip(
        (p for p, _ in jax.tree_util.tree_leaves_with_path(before)),
        zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True),
        strict=True,
    ):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {phase}, role {role!r}: state{jax.tree_util.keystr(path)} "
                f"came in as {old.dtype}{list(old.shape)} and went out as {new.dtype}{list(new.shape)}; "
                "keep shapes and types (a Python float times float32 stays float32, jnp.float64 does not)"
            )


class ReleaseSpec(NamedTuple):
    """What a phase releases, settled before the run: the part of a declaration that never changes."""

    mechanism: Mechanism
    coordinates: int
    from_data: bool
    """Whether the value depends on the batch, or on a state that does. What does not is free."""
    records: int = 1
    """Places for records in a batch."""
    in_sequence: bool = True
    """Whether it is charged to every record, those of other rounds too."""


class MessageSpec(NamedTuple):
    """What a phase sends, settled before the run."""

    message: Message
    """ShapeDtypeStruct of each leaf as it lies on the wire."""
    delivery: Delivery
    addressed: bool
    """Whether the outbox picks whom it is for."""
    release: ReleaseSpec


def settle(
    algorithm: Algorithm, params: Params, batch: Batch, views: Mapping[str, Mapping[str, View]]
) -> tuple[MessageSpec, ...]:
    """Trace every function once, abstractly, for one agent per role: what the phases send.

    `views` gives one agent's view per role and link set. An algorithm that breaks its promises is refused: `tracing`
    says how data are followed.
    """
    algorithm = self_contained(algorithm)
    key = jax.eval_shape(lambda: jax.random.key(0))
    init = {role: trace(make, key=key, params=params, views=views[role]) for role, make in algorithm.init.items()}
    method = Method(algorithm, init, [], [])
    for index, phase in enumerate(algorithm.phases):
        state, heard_by = init[phase.source].shapes, init[phase.target].shapes
        own_batch = batch if phase.source == algorithm.learner else ()
        view, own_batch = jax.eval_shape(with_data, views[phase.source][phase.links], own_batch)
        found = sending(phase, index, key, state, own_batch, view)
        _check_spread(algorithm, index, found.outbox)
        check_state(algorithm, index, phase.source, state, found.emit.shapes[0])
        _check_outbox(algorithm, index, found.outbox)
        heard = hearing(phase, key, heard_by, found.outbox, views[phase.target][phase.links])
        check_state(algorithm, index, phase.target, heard_by, heard.shapes)
        method.sends.append(found)
        method.hears.append(heard)
    each = zip(algorithm.phases, method.sends, followed(method), strict=True)
    return tuple(_message_spec(algorithm, *found) for found in each)


def _message_spec(algorithm: Algorithm, phase: Phase, found: Sending, flow: Flow) -> MessageSpec:
    outbox = found.outbox
    skip = 1 if outbox.delivery == "per_slot" else 0
    message = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[skip:], leaf.dtype), outbox.message)
    coordinates = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(found.value))
    in_sequence = charges_all(algorithm.privacy, phase.mechanism.adjacency)
    release = ReleaseSpec(phase.mechanism, coordinates, any(jax.tree.leaves(flow.value)), found.records, in_sequence)
    return MessageSpec(message, outbox.delivery, outbox.to is not None, release)


def self_contained(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with its preparation of a batch as part of `compute`, for data as they come."""
    prepare = algorithm.prepare
    if prepare is None:
        return algorithm

    def preparing(phase: Phase) -> Phase:
        work = phase.compute
        return phase._replace(compute=lambda key, state, batch, view: work(key, state, prepare(batch), view))

    phases = (preparing(phase) if phase.source == algorithm.learner else phase for phase in algorithm.phases)
    return algorithm._replace(prepare=None, phases=tuple(phases))


def _check_outbox(algorithm: Algorithm, index: int, outbox: Outbox) -> None:
    for leaf in jax.tree.leaves(outbox.message) if outbox.delivery == "push" else ():
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {index} pushes a leaf of type {leaf.dtype}, of which no share "
                "can be sent: make it a floating number, or send it with `share`"
            )


def _check_spread(algorithm: Algorithm, index: int, outbox: Outbox) -> None:
    """Refuse a mechanism that releases link by link in a phase that sends one value to all."""
    mechanism = algorithm.phases[index].mechanism
    if mechanism.per_slot and outbox.delivery != "per_slot":
        raise ConfigError(
            f"mechanism {mechanism.name!r} releases a value for each link, but algorithm {algorithm.name!r} sends "
            f"one to all in phase {index}; use it with a diffusion method, or take laplace or gaussian noise"
        )
    if mechanism.spread == "masked":
        other = [leaf for leaf in jax.tree.leaves(outbox.message) if not jnp.issubdtype(leaf.dtype, jnp.integer)]
        if other:
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {index}: masks are added to whole numbers of steps, but a "
                f"leaf of type {other[0].dtype} is sent; send what was released as it is"
            )
        for leaf in jax.tree.leaves(outbox.message) if hides(mechanism) else ():
            check_size(mechanism.mask_scale, fixed_point_step(mechanism, leaf.dtype))


def empty_links(shape: tuple[int, ...], dtype: jnp.dtype) -> Links:
    """Links of an agent on the side where a phase gives it none."""
    return Links(jnp.full(shape, -1, jnp.int32), jnp.zeros(shape, bool), jnp.zeros(shape, dtype))


def link_ends(algorithm: Algorithm) -> Mapping[str, tuple[str, str]]:
    """Return source and target role of each link set that the algorithm uses."""
    ends: dict[str, tuple[str, str]] = {}
    for phase in algorithm.phases:
        pair = (phase.source, phase.target)
        if phase.answers is not None and ends.get(phase.answers, ("", ""))[1] != phase.source:
            raise ContractError(
                f"algorithm {algorithm.name!r}: {phase.source!r} answers {phase.answers!r} on {phase.links!r}, but no "
                f"earlier phase leads to {phase.source!r} on {phase.answers!r}; name links of an earlier phase"
            )
        if ends.setdefault(phase.links, pair) != pair:
            raise ContractError(
                f"algorithm {algorithm.name!r} uses links {phase.links!r} from {ends[phase.links][0]!r} to "
                f"{ends[phase.links][1]!r} and from {pair[0]!r} to {pair[1]!r}; give each direction its own name"
            )
    return ends


def is_answered(algorithm: Algorithm, index: int) -> bool:
    """Whether agents of another role which a phase does not reach are left alone in it."""
    phase = algorithm.phases[index]
    return phase.source != phase.target and any(p.answers == phase.links for p in algorithm.phases[index + 1 :])


def prepared_topology(algorithm: Algorithm, graph: Graph | Topology, channel: Channel | None = None) -> Topology:
    """Return what the algorithm makes of a graph, with weights, its requirements checked (the channel's too)."""
    topology = as_topology(graph)
    if algorithm.topology is not None:
        topology = algorithm.topology(topology)
    if algorithm.check is not None:
        algorithm.check(topology)
    ends = link_ends(algorithm)
    for name, (source, target) in ends.items():
        if name not in topology.links or {source, target} - topology.roles.keys():
            raise ConfigError(
                f"algorithm {algorithm.name!r} needs links {name!r} from {source!r} to {target!r}, but the topology "
                f"has links {sorted(topology.links)} among roles {sorted(topology.roles)}"
            )
        _check_ends(name, topology.links[name], source, target, topology.roles)
    if channel is not None and channel.links is not None and not ends.keys() & set(channel.links):
        raise ConfigError(
            f"the channel is for links {', '.join(map(repr, channel.links))}, but {algorithm.name!r} has "
            f"{', '.join(map(repr, ends))}: name one of these, or none for all of them"
        )
    used = replace(topology, links={name: topology.links[name] for name in ends})
    require(used, algorithm.requires, algorithm.name, channel)
    unweighted = [name for name in ends if used.links[name].weights is None]
    chosen = {name: used.links[name].with_weights(_rule(algorithm, used.links[name])) for name in unweighted}
    ready = replace(used, links={**used.links, **chosen})
    # Connectivity was checked above and does not depend on weights; whether these sum to one does.
    require(ready, algorithm.requires - {"strongly_connected", "connected_over_time"}, algorithm.name)
    return ready


def _rule(algorithm: Algorithm, graph: Graph) -> str:
    """Return the rule for the weights of links that have none; Metropolis weights are for links within one role."""
    return "receiver" if algorithm.weights == "metropolis" and graph.sources is not None else algorithm.weights


def check_window(algorithm: Algorithm, topology: Topology, root: Key, rounds: int, repeats: int = 1) -> None:
    """Refuse a run in which the links of some `algorithm.window` rounds in a row leave somebody unreached.

    Who comes and goes is drawn from the run's own keys, so that the very rounds to come are looked at. `topology` is
    the disjoint union of the repeats. A run that is shorter than the window must connect everybody over all of it.
    """
    if algorithm.window is None:
        return
    if topology.availability:
        raise RequirementError(
            f"{algorithm.name} requires that the links of every {algorithm.window} rounds in a row connect everybody, "
            "which agents that are there by chance do not promise: say who is there with graphs.Attendance"
        )
    window = min(algorithm.window, rounds)
    for index, (name, graph) in enumerate(topology.links.items()):
        if graph.sources is not None:
            continue
        keys = jax.vmap(partial(links_key, root, index))(jnp.arange(1, rounds + 1))
        gap = first_gap_of_run(graph, keys, window, parts=repeats)
        if gap is not None:
            where = f" (repeat {gap.part})" if repeats > 1 else ""
            raise RequirementError(
                f"{algorithm.name} requires that the links of every {window} rounds in a row connect everybody, but of "
                f"{name!r} {gap}{where}: let fewer agents stay away at a time, add links, or declare a longer window"
            )


def check_horizon(algorithm: Algorithm, rounds: int) -> None:
    """Warn of a run that is shorter or longer than what the method's settings were made for."""
    if algorithm.horizon not in (None, rounds):
        warnings.warn(
            f"{algorithm.name} was made for rounds = {algorithm.horizon:,} and is run for {rounds:,}: its steps are "
            "those of the former, and what is known of its regret does not hold; make it for the rounds that it is run",
            TacitWarning,
            stacklevel=2,
        )


def _check_ends(name: str, graph: Graph, source: str, target: str, roles: Mapping[str, int]) -> None:
    """Refuse a graph that cannot be the links from one role to another: its slots would mean other agents."""
    senders = None if source == target else roles[source]
    if (graph.agents, graph.sources) != (roles[target], senders):
        raise ConfigError(
            f"links {name!r} lead from {roles[source]} {source!r} to {roles[target]} {target!r}, but their graph has "
            f"agents={graph.agents} and sources={graph.sources}; expected agents={roles[target]} and sources={senders} "
            "(receivers, and senders where these are another role)"
        )
