"""Messages on their way: what leaves in a phase, what the channel does to it, and what arrives."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Memory, State, Tree
from tacit.privacy.draws import mask_draws
from tacit.privacy.noise import noise_words
from tacit.simulator.inbox import Packed
from tacit.simulator.loop_state import (
    Departure,
    Entries,
    Entry,
    InFlight,
    Masks,
    Members,
    Slots,
    fixed_weights,
    joined,
)
from tacit.simulator.setup import PhaseContext, Setup
from tacit.simulator.shards.exchange import total

Memories = tuple[Memory, ...] | None
"""Of a phase's sources, bucket by bucket; None where draws are independent."""


class Sent(NamedTuple):
    """Everything that the agents of a role sent in a phase."""

    rows: Packed
    """All messages."""
    addressed: Array | None
    """Which out-slots are sent to, by their rows; None: every live one."""
    states: tuple[State, ...]
    cost: Array
    """Of the dearest release."""
    to: Array
    """The outboxes' lists of addresses."""
    memories: Memories
    """Of the sources' noise."""
    sizes: runtime.Sizes | None
    """By the agents' positions."""
    seen: tuple[Tree, ...]
    """What was looked at, bucket by bucket; empty where nothing was."""


class Delivery:
    """Delivery of the messages of all agents."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def masked(self, at: PhaseContext, rows: Packed, masks: Masks) -> Packed:
        """Add each pair's mask to one message and take it from the other: their sum stays what it was, to the bit."""
        words = noise_words(runtime.masks_key(at.network.root), at.links.round, at.index)
        masked = {}
        for name, values in rows.items():
            draw = mask_draws(words, masks.scale[name], (masks.adds.size, values.shape[1]), values.dtype)
            masked[name] = values.at[masks.adds].add(draw, mode="drop").at[masks.subtracts].add(-draw, mode="drop")
        return masked

    def exchanged(self, at: PhaseContext, rows: Packed) -> tuple[Packed, Packed]:
        """Return the messages of a shard with those that it reads of others, and the array to write in next time."""
        per_slot, halo = self.setup.specs[at.index].delivery == "per_slot", self.setup.halo(at.index)
        read = {name: self.setup.with_halo(at.network, at.phase.links, v, per_slot) for name, v in rows.items()}
        return read, rows if halo is not None and halo.whole else read

    def told(self, at: PhaseContext, rows: Packed, kept: Packed | None) -> tuple[Packed, Packed | None]:
        """Return the messages with the lies behind them, and what liars keep for later rounds."""
        crew = self.setup.crews.get(at.phase.links)
        if crew is None:
            return rows, None
        per_slot = self.setup.specs[at.index].delivery == "per_slot"
        weights, order = [links.weight for links in at.links.into], self.setup.layout.roles[at.phase.source].order
        lies, kept = crew.lies(jnp.asarray(at.links.round), rows, kept, weights, per_slot, order)
        return {name: jnp.concatenate([values, lies[name]]) for name, values in rows.items()}, kept

    def departures(self, at: PhaseContext, addressed: Array | None, takes_part: Array | None) -> list[Departure] | None:
        """Return what leaves in this phase, per target bucket; None: every live slot hears at once.

        `addressed` are the out-slots that are sent to, by their rows, and `takes_part` the agents that send at all,
        where these are not all.
        """
        links, channel = at.phase.links, self.setup.channel.on(at.phase.links)
        if addressed is None and takes_part is None and not self.setup.varying[links] and channel.reliable:
            return None
        graph = self.setup.layout.links[links].graph
        if not channel.reliable:
            lost, delay = channel.draw(runtime.channel_key(at.network.root, at.index, at.links.round), graph.edges)
            own_links = graph.agents if graph.sources is None else 0
            fate = jnp.concatenate([jnp.where(lost, -1, delay), jnp.zeros(own_links + 1, jnp.int32)])
        if addressed is not None:
            addressed = self.setup.with_halo(at.network, links, addressed, per_slot=True)
        if takes_part is not None:
            takes_part = self.setup.with_halo(at.network, links, takes_part)
        found = []
        for slots, now in zip(at.network.links[links].into, at.links.into, strict=True):
            left = now.live
            if addressed is not None:
                left &= addressed[slots.slot_row]
            if takes_part is not None:
                left &= takes_part[slots.row]
            delays = jnp.int32(0) if channel.reliable else fate[slots.edge]
            found.append(Departure(left, jnp.where(left, delays, -1)))
        return found

    def arrivals(
        self, at: PhaseContext, rows: Packed, departures: list[Departure] | None, in_flight: InFlight | None
    ) -> tuple[InFlight | None, Entries]:
        """Put what was sent under way and take out what arrives now."""
        if in_flight is None:
            return None, self._at_once(at, rows, departures)
        assert departures is not None  # a channel with delays is never reliable
        t, channel = at.links.round, self.setup.channel.on(at.phase.links)
        rounds, ages = channel.longest_delay + 1, jnp.asarray(channel.ages, jnp.int32)
        # Written in place: a round costs what is sent in it, whatever is still under way.
        note = partial(jax.lax.dynamic_update_index_in_dim, index=t % rounds, axis=0)
        count = next(iter(rows.values())).shape[0] if rows else 0
        ring = {
            name: jax.lax.dynamic_update_slice(in_flight.rows[name], value, (t % rounds * count, jnp.int32(0)))
            for name, value in rows.items()
        }
        delays = tuple(note(old, d.delay) for old, d in zip(in_flight.delay, departures, strict=True))
        weights = None
        if in_flight.weight is not None:
            weights = tuple(note(old, now.weight) for old, now in zip(in_flight.weight, at.links.into, strict=True))
        place_of_age = (t - ages) % rounds
        buckets = []
        for b, slots in enumerate(at.network.links[at.phase.links].into):
            place = self._place(at, slots)[None] + (place_of_age * count)[:, None, None]
            arrived = delays[b][place_of_age] == ages[:, None, None]
            if weights is None:
                weight = jnp.tile(at.links.into[b].weight, (len(channel.ages), 1, 1))
            else:
                weight = weights[b][place_of_age]
            by_entry = (-1, slots.row.shape[1])
            buckets.append(Entry(place.reshape(by_entry), arrived.reshape(by_entry), weight.reshape(by_entry), False))
        return InFlight(ring, delays, weights), Entries(ring, tuple(buckets))

    def _at_once(self, at: PhaseContext, rows: Packed, departures: list[Departure] | None) -> Entries:
        """Return the entries of messages that are not delayed."""
        # Padding reads the agent's own row; between two roles it has none, so that entries must be masked.
        links = at.phase.links
        one_role = self.setup.layout.links[links].graph.sources is None
        complete = departures is None and one_role and links not in self.setup.crews
        buckets = []
        for b, (slots, now) in enumerate(zip(at.network.links[at.phase.links].into, at.links.into, strict=True)):
            arrived = now.live if departures is None else departures[b].delay == 0
            buckets.append(Entry(self._place(at, slots), arrived, now.weight, complete))
        return Entries(rows, tuple(buckets))

    def _place(self, at: PhaseContext, slots: Slots) -> Array:
        """Rows from which to read: one per sender, or one per link."""
        rows = slots.slot_row if self.setup.specs[at.index].delivery == "per_slot" else slots.row
        assert rows is not None  # put on the device where a phase needs them
        return rows if slots.lie is None else jnp.where(slots.lie < 0, rows, self.setup.row_count(at.index) + slots.lie)

    def count_sent(self, at: PhaseContext, departures: list[Departure] | None) -> Array:
        """Messages that left in this phase, per repeat: what is lost on the way was sent all the same."""
        layout = self.setup.layout
        if departures is None:
            # Links are in the order of their receivers.
            agents, receivers = layout.roles[at.phase.target].agents, layout.links[at.phase.links].graph.receivers
            per_repeat = np.diff(np.searchsorted(receivers, agents * np.arange(layout.repeats + 1)))
            return jnp.asarray(per_repeat, jnp.int32)
        counts = jnp.zeros(layout.repeats, jnp.int32)
        for members, departure in zip(at.network.members[at.phase.target], departures, strict=True):
            per_agent = jnp.sum(departure.left[1:], axis=0, dtype=jnp.int32)
            counts = counts.at[members.repeat].add(per_agent)
        return total(counts, layout.shards)

    def everyone(self, at: PhaseContext, entries: Entries) -> Packed | None:
        """Where all hear all with one weight, the mix is one sum per repeat."""
        phase, layout = at.phase, self.setup.layout.links[at.phase.links]
        if not layout.uniform or self.setup.varying[phase.links] or not entries.buckets[0].complete:
            return None
        edge, own = fixed_weights(layout.graph)
        weights = np.concatenate([edge, own])
        if np.ptp(weights) > 0 or any(s.delivery == "per_slot" for s in self.setup.specs):
            return None
        repeats, roles, _, shards = self.setup.layout
        role = roles[phase.source]
        everyone: Members = joined(list(at.network.members[phase.source]))

        def summed(rows: Array) -> Array:
            if len(role.buckets) == 1 and shards == 1:
                return jnp.sum(rows.reshape(repeats, -1, rows.shape[-1]), axis=1, dtype=rows.dtype)
            return total(jax.ops.segment_sum(everyone.counted(rows[: role.rows]), everyone.repeat, repeats), shards)

        scale = jnp.asarray(weights[0])
        return {name: scale.astype(rows.dtype) * summed(rows) for name, rows in entries.rows.items()}
