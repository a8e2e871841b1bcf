"""What the simulator keeps: the world on the device, what a round hands on, and what is under way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Key, Links, State, Tree
from tacit.graphs import Availability, Graph
from tacit.graphs.weights import evaluate_exactly
from tacit.simulator.inbox import Packed, padding


class Slots(NamedTuple):
    """A bucket's slot table on the device; what a run does not need is empty."""

    links: Links
    """As at round 0; weights are 0 where the graph varies."""
    row: Array
    edge: Array | tuple[()]
    slot_row: Array | tuple[()]

    def place(self, per_slot: bool) -> Array:
        """Rows from which to read: one per sender, or one per link."""
        rows = self.slot_row if per_slot else self.row
        assert not isinstance(rows, tuple)  # put on the device where a phase needs them
        return rows


class LinkArrays(NamedTuple):
    """A link set on the device."""

    into: tuple[Slots, ...]
    out: tuple[Slots, ...]
    graph: Graph | tuple[()]
    """Only where it varies over the rounds."""


class Members(NamedTuple):
    """Agents of one bucket."""

    key: Key
    agent: Array
    repeat: Array
    data_size: Array
    cluster: Array


class Masks(NamedTuple):
    """Rows of the per-slot messages that carry the same mask, one entry per pair of senders."""

    adds: Array
    subtracts: Array
    scale: Mapping[str, Array]
    """Integer type -> scale of a mask in steps of the grid. An argument of the compiled round, not a constant of it: a
    masked run and one without masks are then one program, and the same to the bit wherever masks cancel."""


class World(NamedTuple):
    """Everything that stays the same through a run, as device arrays."""

    root: Key
    members: Mapping[str, tuple[Members, ...]]
    links: Mapping[str, LinkArrays]
    masks: tuple[Masks | tuple[()], ...]
    """Per phase, where its mechanism masks messages."""
    called: tuple[Any, ...]
    """Per phase that calls a cohort, its tables (`calls.Called`)."""
    served_by: Array | tuple[()]
    """Position of the predictor that speaks for each learner, where these are different roles."""
    availability: Mapping[str, Availability]
    """Role -> who of it is there in a round, where not all are."""


class Flight(NamedTuple):
    """Messages of one phase that may still be under way: a ring of delay + 1 rounds, in which round t has place t."""

    rows: Packed
    """(rounds * senders, width) each."""
    delay: tuple[Array, ...]
    """Per target bucket (rounds, slots, agents): delay of each message, -1 where none was sent or it was lost."""
    weight: tuple[Array, ...]
    """Per target bucket: the weight at the time of sending; empty where weights never change."""


Desks = tuple[Packed, ...]
"""Per phase, the array from which neighbours' messages are read."""


class Carry(NamedTuple):
    """What a round hands to the next one."""

    round: Array
    states: Mapping[str, tuple[PackedState, ...]]
    flights: tuple[Flight | tuple[()], ...]


class PackedState(NamedTuple):
    """States of a bucket between two rounds: vectors and numbers of one type side by side in one array.

    A mix that lands in several leaves is then written once, as one array; XLA would otherwise gather the neighbours'
    rows once per leaf, or copy every link's row to share it. The array has as many padding columns as a message; what
    they hold is never read, and taking them from the mix lets XLA see that state and mix are one array.
    """

    columns: Mapping[str, Array]
    """Element type -> (agents, width)."""
    others: tuple[Array, ...]
    """Leaves with more axes, one per slot for instance, as they are."""


class StatePacking:
    """From states to their packed form and back."""

    def __init__(self, state: State) -> None:
        """Settle it for a state with a leading axis of agents, or its shapes."""
        leaves, self._structure = jax.tree_util.tree_flatten(state)
        self._shapes = [(leaf.shape[1:], leaf.dtype) for leaf in leaves]

    def pack(self, state: State, tail: Packed) -> PackedState:
        """Put vectors and numbers side by side, padded with `tail` where it fits."""
        columns: dict[str, list[Array]] = {}
        others = []
        for leaf, (shape, dtype) in zip(jax.tree.leaves(state), self._shapes, strict=True):
            if len(shape) <= 1:
                columns.setdefault(dtype.name, []).append(leaf.reshape(leaf.shape[0], -1))
            else:
                others.append(leaf)
        for name, parts in columns.items():
            missing = padding(sum(part.shape[1] for part in parts))
            fits = name in tail and tail[name].shape[1] == missing
            parts.append(tail[name] if fits else jnp.zeros((parts[0].shape[0], missing), name))
        return PackedState({k: jnp.concatenate(v, axis=1) for k, v in columns.items()}, tuple(others))

    def unpack(self, packed: PackedState) -> State:
        """Take it apart again."""
        taken = dict.fromkeys(packed.columns, 0)
        others = iter(packed.others)
        leaves = []
        for shape, dtype in self._shapes:
            if len(shape) > 1:
                leaves.append(next(others))
                continue
            start = taken[dtype.name]
            taken[dtype.name] = start + math.prod(shape)
            part = packed.columns[dtype.name][:, start : taken[dtype.name]]
            leaves.append(part.reshape(part.shape[0], *shape))
        return jax.tree_util.tree_unflatten(self._structure, leaves)


class LinksNow(NamedTuple):
    """Links of one link set in one round, per bucket."""

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


def fixed_weights(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a graph that does not vary, in double precision."""
    assert graph.weights is not None  # `simulate` has chosen them
    return evaluate_exactly(graph.weights, graph.senders, graph.receivers, graph.agents, sources=graph.sources)
