"""Arrays of a simulation: the network on the device, the state that a round hands on, messages under way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Key, Links, Memory, State, Tree
from tacit.core.lifted import own_part
from tacit.graphs import Availability, Graph
from tacit.graphs.weights import evaluate_exactly
from tacit.runtime import agent_key
from tacit.simulator.inbox import Packed, padding_width


class Slots(NamedTuple):
    """A bucket's slot table on the device; None where a run does not need a column."""

    links: Links
    """As at round 0; weights are 0 where the graph varies."""
    row: Array
    edge: Array | None
    slot_row: Array | None
    lie: Array | None = None
    """In-side: which of the liars' links it is, -1 where the sender is honest; None: nobody lies."""


class OutSlots(NamedTuple):
    """The same of the links out."""

    links: Links
    edge: Array | None


class LinkArrays(NamedTuple):
    """A link set on the device."""

    into: tuple[Slots, ...]
    out: tuple[OutSlots, ...]
    graph: Graph | None
    """Only where it varies over the rounds."""
    halo: tuple[Array, ...] = ()
    """As `Halo.sends`, of this shard: (1, length) each."""
    slot_halo: tuple[Array, ...] = ()


class Members(NamedTuple):
    """Agents of one bucket."""

    key: Key
    agent: Array
    repeat: Array
    data_size: Array
    cluster: Array
    real: Array | None = None
    """False where the agent is padding of a shard; None: all are real."""

    def counted(self, values: Tree) -> Tree:
        """Return values of which those of padding are 0."""
        real = self.real
        return values if real is None else jax.tree.map(lambda leaf: where(real, leaf, jnp.zeros_like(leaf)), values)


class Masks(NamedTuple):
    """Rows of the per-slot messages that carry the same mask, one entry per pair of senders."""

    adds: Array
    subtracts: Array
    scale: Mapping[str, Array]
    """Integer type -> scale of a mask in steps of the grid. An argument of the compiled round, not a constant of it: a
    masked run and one without masks are then one program, and the same to the bit wherever masks cancel."""


class Called(NamedTuple):
    """Tables of a phase that calls a cohort."""

    agent: Array
    """(callers, out-slots) position of the agent at the end of each of a caller's links."""
    heard_at: Array
    """(agents,) in-slot at which an agent's caller hears its answer."""
    caller: Array
    """(agents,) position of an agent's caller."""


class Network(NamedTuple):
    """Agents and links on the device: everything that stays the same through a run."""

    root: Key
    members: Mapping[str, tuple[Members, ...]]
    links: Mapping[str, LinkArrays]
    masks: tuple[Masks | None, ...]
    """Per phase; None where its mechanism masks nothing."""
    called: tuple[Called | None, ...]
    """Per phase; None where it calls no cohort that is run by itself."""
    served_by: Array | None
    """Position of the predictor that speaks for each learner; None where learners predict."""
    availability: Mapping[str, Availability]
    """Role -> which of its agents are there in a round, where not all are."""
    order: Mapping[str, Array]
    """Role -> id in the union of the repeats, by internal position."""
    position: Array
    """(repeats, learners) internal position, by id."""


class InFlight(NamedTuple):
    """Messages of one phase that may still be under way: a ring of delay + 1 rounds, in which round t has place t."""

    rows: Packed
    """(rounds * senders, width) each."""
    delay: tuple[Array, ...]
    """Per target bucket (rounds, slots, agents): delay of each message, -1 where none was sent or it was lost."""
    weight: tuple[Array, ...] | None
    """Per target bucket: the weight at the time of sending; None where weights never change."""


SendBuffers = tuple[Packed, ...]
"""Per phase, the arrays from which neighbours' messages are read."""


class StateForm(NamedTuple):
    """Structure of one agent's state; shape and type of each leaf, and whether it is packed."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any, bool], ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedState:
    """States of a bucket between two rounds: vectors and numbers of one type side by side in one array.

    A mix that lands in several leaves is then written once, as one array; XLA would otherwise gather the neighbours'
    rows once per leaf, or copy every link's row to share it. The array has as many padding columns as a message; what
    they hold is never read, and taking them from the mix lets XLA see that state and mix are one array. What a state
    carries along (`Carrying`) stays apart: made of the mix and packed beside it, it would have the rows gathered twice.
    """

    columns: Mapping[str, Array]
    """Element type -> (agents, width)."""
    others: tuple[Array, ...]
    """Leaves with more axes, one per slot for instance, and what is carried along, as they are."""
    form: StateForm = field(metadata={"static": True})

    @classmethod
    def of(cls, state: State, padding: Packed) -> PackedState:
        """Put the vectors and numbers of a bucket's states side by side, followed by `padding` where it fits."""
        leaves, structure = jax.tree_util.tree_flatten(state)
        columns: dict[str, list[Array]] = {}
        others = []
        own = len(jax.tree.leaves(own_part(state)))  # they come first
        packed = [k < own and leaf.ndim <= 2 for k, leaf in enumerate(leaves)]
        for leaf, in_columns in zip(leaves, packed, strict=True):
            if in_columns:
                columns.setdefault(leaf.dtype.name, []).append(leaf.reshape(leaf.shape[0], -1))
            else:
                others.append(leaf)
        for name, parts in columns.items():
            missing = padding_width(sum(part.shape[1] for part in parts))
            fits = name in padding and padding[name].shape[1] == missing
            parts.append(padding[name] if fits else jnp.zeros((parts[0].shape[0], missing), name))
        form = StateForm(structure, tuple((x.shape[1:], x.dtype, p) for x, p in zip(leaves, packed, strict=True)))
        return cls({k: jnp.concatenate(v, axis=1) for k, v in columns.items()}, tuple(others), form)

    def unpack(self) -> State:
        """Return the states again, leaf by leaf."""
        taken = dict.fromkeys(self.columns, 0)
        others = iter(self.others)
        leaves = []
        for shape, dtype, packed in self.form.leaves:
            if not packed:
                leaves.append(next(others))
                continue
            start = taken[dtype.name]
            taken[dtype.name] = start + math.prod(shape)
            part = self.columns[dtype.name][:, start : taken[dtype.name]]
            leaves.append(part.reshape(part.shape[0], *shape))
        return jax.tree_util.tree_unflatten(self.form.structure, leaves)


class LoopState(NamedTuple):
    """All that a round hands to the next one."""

    round: Array
    states: Mapping[str, tuple[PackedState, ...]]
    """Role -> states, bucket by bucket."""
    in_flight: tuple[InFlight | None, ...]
    """Per phase; None where messages arrive at once."""
    memories: tuple[tuple[Memory, ...] | None, ...]
    """Per phase, the memories of its sources' noise, bucket by bucket; None where draws are independent."""
    lies: tuple[Packed | None, ...] = ()
    """Per phase, what liars keep for later rounds; None where they keep nothing."""


class LinksNow(NamedTuple):
    """Links of one link set in one round, per bucket."""

    name: str
    round: Array | int
    into: tuple[Links, ...]
    out: tuple[Links, ...]
    present: Array | None
    """Of the receivers; None: all are."""
    senders_present: Array | None


class Departure(NamedTuple):
    """A bucket's messages of one phase as they leave: (slots, agents), seen from the receivers."""

    left: Array
    """Whether there was one."""
    delay: Array
    """Rounds until it arrives; -1 where it never does."""


class Entry(NamedTuple):
    """A bucket's inbox entries: (entries, agents)."""

    place: Array
    arrived: Array
    weight: Array
    complete: bool


class Entries(NamedTuple):
    """All messages that may be read in a phase, and who reads which."""

    rows: Packed
    buckets: tuple[Entry, ...]


@partial(jax.jit, static_argnums=(1, 4))
def agent_keys(root: Key, role: int, repeat: Array, agent: Array, sizes: tuple[int, ...]) -> tuple[Key, ...]:
    """Return the keys of the agents of one role, bucket by bucket of these sizes."""
    keys = jax.vmap(lambda repeat, agent: agent_key(root, role, repeat, agent))(repeat, agent)
    ends = np.cumsum(sizes)
    return tuple(keys[end - size : end] for size, end in zip(sizes, ends, strict=True))


def joined(parts: list[Any]) -> Any:
    """Concatenate pytrees along their first axis."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def slices(tree: Tree, part: slice) -> Tree:
    """Take a slice of agents of every leaf."""
    return jax.tree.map(lambda leaf: leaf[part], tree)


def where(mask: Array, new: Tree, old: Tree) -> Tree:
    """Agent by agent, the new value where the mask is set."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def fixed_weights(graph: Graph, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a graph that does not vary, reckoned in double precision."""
    assert graph.weights is not None  # `simulate` has chosen them
    ends = graph.senders, graph.receivers, graph.agents
    return evaluate_exactly(graph.weights, *ends, sources=graph.sources, dtype=dtype)
