"""Messages on their way: what leaves in a phase, what the channel does to it, and what arrives."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Phase
from tacit.simulator.inbox import Packed
from tacit.simulator.loop_state import Departure, Entries, Entry, Flight, LinksNow, World
from tacit.simulator.setup import Stage


class Carriage(Stage):
    """The part of the engine that carries messages of all agents."""

    def _depart(
        self,
        world: World,
        index: int,
        phase: Phase,
        now: LinksNow,
        sent: Array | None,
        takes_part: Array | None,
        t: Array,
    ) -> list[Departure] | None:
        """What becomes of the messages of this phase, per target bucket; None: every live slot hears at once."""
        arrays = world.links[phase.links]
        channel = self.channel.on(phase.links)
        if sent is None and takes_part is None and not self.varying[phase.links] and channel.reliable:
            return None
        graph = self.layout.links[phase.links].graph
        if not channel.reliable:
            lost, delay = channel.draw(runtime.channel_key(world.root, index, t), graph.edges)
            own_links = graph.agents if graph.sources is None else 0
            fate = jnp.concatenate([jnp.where(lost, -1, delay), jnp.zeros(own_links + 1, jnp.int32)])
        departures = []
        for slots, links in zip(arrays.into, now.into, strict=True):
            left = links.live
            if sent is not None:
                left &= sent[slots.slot_row]
            if takes_part is not None:
                left &= takes_part[slots.row]
            delays = jnp.int32(0) if channel.reliable else fate[slots.edge]
            departures.append(Departure(left, jnp.where(left, delays, -1)))
        return departures

    def _fly(
        self,
        index: int,
        rows: Packed,
        departures: list[Departure] | None,
        flight: Flight | tuple[()],
        world: World,
        now: LinksNow,
        t: Array,
    ) -> tuple[Flight | tuple[()], Entries]:
        """Put what was sent under way and take out what arrives now."""
        spec = self.specs[index]
        arrays = world.links[self.algorithm.phases[index].links]
        buckets = []
        per_slot = spec.delivery == "per_slot"
        # Padding reads the agent's own row; between two roles it has none, so that entries must be masked.
        complete = departures is None and self.layout.links[self.algorithm.phases[index].links].graph.sources is None
        if isinstance(flight, tuple) and not isinstance(flight, Flight):
            for b, (slots, links) in enumerate(zip(arrays.into, now.into, strict=True)):
                place = slots.place(per_slot)
                arrived = links.live if departures is None else departures[b].delay == 0
                buckets.append(Entry(place, arrived, links.weight, complete))
            return (), Entries(rows, tuple(buckets))
        assert departures is not None  # a channel with delays is never reliable
        channel = self.channel.on(self.algorithm.phases[index].links)
        rounds, ages = channel.longest_delay + 1, jnp.asarray(channel.ages, jnp.int32)
        # Written in place: a round costs what is sent in it, whatever is still under way.
        note = partial(jax.lax.dynamic_update_index_in_dim, index=t % rounds, axis=0)
        count = next(iter(rows.values())).shape[0] if rows else 0
        new_rows = {
            name: jax.lax.dynamic_update_slice(flight.rows[name], value, (t % rounds * count, jnp.int32(0)))
            for name, value in rows.items()
        }
        new_delay = tuple(note(old, d.delay) for old, d in zip(flight.delay, departures, strict=True))
        new_weight = tuple(note(old, links.weight) for old, links in zip(flight.weight, now.into, strict=False))
        place_of_age = (t - ages) % rounds
        for b, (delay, slots, links) in enumerate(zip(new_delay, arrays.into, now.into, strict=True)):
            place = slots.place(per_slot)[None] + (place_of_age * count)[:, None, None]
            arrived = delay[place_of_age] == ages[:, None, None]
            weight = new_weight[b][place_of_age] if new_weight else jnp.tile(links.weight, (len(channel.ages), 1, 1))
            by_entry = (-1, slots.row.shape[1])
            buckets.append(Entry(place.reshape(by_entry), arrived.reshape(by_entry), weight.reshape(by_entry), False))
        return Flight(new_rows, new_delay, new_weight), Entries(new_rows, tuple(buckets))

    def _count_sent(self, world: World, phase: Phase, departures: list[Departure] | None) -> Array:
        """Messages that left in this phase, per repeat: what is lost on the way was sent all the same."""
        repeats = self.layout.repeats
        if departures is None:
            receivers = self.layout.links[phase.links].graph.receivers
            per_repeat = np.bincount(receivers // self.layout.roles[phase.target].agents, minlength=repeats)
            return jnp.asarray(per_repeat, jnp.int32)
        counts = jnp.zeros(repeats, jnp.int32)
        for members, departure in zip(world.members[phase.target], departures, strict=True):
            per_agent = jnp.sum(departure.left[1:], axis=0, dtype=jnp.int32)
            counts = counts.at[members.repeat].add(per_agent)
        return counts
