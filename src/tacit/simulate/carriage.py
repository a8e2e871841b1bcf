"""Messages on their way: what leaves in a phase, what the channel does to it, and what arrives."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.contract import Array, Phase
from tacit.simulate.arrays import Departure, Entries, Entry, Flight, LinksNow, World, shifted
from tacit.simulate.inbox import Packed
from tacit.simulate.stage import Stage


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
        if sent is None and takes_part is None and not self.varying[phase.links] and self.channel.reliable:
            return None
        graph = self.layout.links[phase.links].graph
        if not self.channel.reliable:
            lost, delay = self.channel.draw(runtime.channel_key(world.root, index, t), graph.edges)
            own_links = graph.agents if graph.sources is None else 0
            fate = jnp.concatenate([jnp.where(lost, -1, delay), jnp.zeros(own_links + 1, jnp.int32)])
        departures = []
        for slots, links in zip(arrays.into, now.into, strict=True):
            left = links.live
            if sent is not None:
                left &= sent[slots.slot_row]
            if takes_part is not None:
                left &= takes_part[slots.row]
            delays = jnp.int32(0) if self.channel.reliable else fate[slots.edge]
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
        new_rows = {name: shifted(flight.rows[name], value) for name, value in rows.items()}
        new_delay = tuple(shifted(old, d.delay) for old, d in zip(flight.delay, departures, strict=True))
        new_weight = tuple(shifted(old, links.weight) for old, links in zip(flight.weight, now.into, strict=False))
        rounds = self.channel.longest_delay + 1
        count = next(iter(new_rows.values())).shape[1] if new_rows else 0
        for b, (delay, slots, links) in enumerate(zip(new_delay, arrays.into, now.into, strict=True)):
            place = slots.place(per_slot)
            index_all = jnp.concatenate([place + lag * count for lag in range(rounds)])
            arrived = jnp.concatenate([delay[lag] == lag for lag in range(rounds)])
            weight = jnp.concatenate(list(new_weight[b])) if new_weight else jnp.tile(links.weight, (rounds, 1))
            buckets.append(Entry(index_all, arrived, weight, False))
        flat = {name: value.reshape(rounds * count, value.shape[-1]) for name, value in new_rows.items()}
        return Flight(new_rows, new_delay, new_weight), Entries(flat, tuple(buckets))

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
