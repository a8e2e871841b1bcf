"""Links of a simulation in one round, for those who watch it: late, lost, down, or of a sender that is not believed.

Nothing is kept of this while a run goes on: what the channel did to a message, and which links were there, is drawn
again from the run's keys, and quarantines stand in the receivers' states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.core.contract import Array
from tacit.core.standing import standings
from tacit.results.live.parts import Drawing, LinksSeen, LinkState
from tacit.simulator.engine import Engine
from tacit.simulator.loop_state import LoopState, Network

CODES: tuple[LinkState, ...] = ("late", "lost", "dead", "quarantined")
"""A state is its place here, from 1 on; of several the last one is told."""
LATE, LOST, DEAD, HELD = range(1, 5)
Coded = dict[str, tuple[tuple[Array, Array], ...]]
"""Link set -> bucket by bucket (slots, agents): states and delays."""


def numbered(sizes: Mapping[str, int], learner: str) -> tuple[dict[str, int], int]:
    """Return the number of the first node of each role in a drawing, where learners come first, and of all nodes.

    Args:
      sizes: Role -> agents.
      learner: The role that learns.
    """
    first, total = {}, 0
    for role in [learner, *(role for role in sizes if role != learner)]:
        first[role], total = total, total + sizes[role]
    return first, total


class LinkStates:
    """What became of the links of the first repeat in a round."""

    def __init__(self, drawing: Drawing, engine: Engine, network: Network, loop: LoopState) -> None:
        """Take what stays the same.

        Args:
          drawing: The network of the first repeat.
          engine: Of the simulation.
          network: Its arrays.
          loop: Any state of it.
        """
        self._drawing, self._engine, self._network = drawing, engine, network
        setup = engine.setup
        forms = {role: jax.eval_shape(partial(engine.states, role), loop)[0] for role in loop.states}
        judged = {name for name, (_, target) in setup.ends.items() if name in standings(forms[target])}
        delayed = [setup.channel.on(name) for name in setup.ends if self._channel_shows(name)]
        late = any(channel.delay is not None and channel.delay.p > 0 for channel in delayed)
        down = {name for name in setup.ends if self._comes_and_goes(name)}
        can = {"late": late, "lost": late or any(channel.loss > 0 for channel in delayed), "dead": bool(down)}
        self.possible: tuple[LinkState, ...] = tuple(state for state in CODES if can.get(state))
        """States besides open that are known before the run; whether somebody gets into quarantine is not."""
        self._sets = [name for name in setup.ends if self._channel_shows(name) or name in down | judged]

    def _channel_shows(self, name: str) -> bool:
        """Whether a channel does something to a link set, all of whose links carry a message in every round."""
        engine = self._engine
        return not engine.setup.channel.on(name).reliable and not any(
            phase.links == name and (spec.addressed or phase.answers is not None)
            for phase, spec in zip(engine.algorithm.phases, engine.specs, strict=True)
        )

    def _comes_and_goes(self, name: str) -> bool:
        layout, ends = self._engine.setup.layout, self._engine.setup.ends[name]
        away = any(layout.roles[role].availability is not None for role in ends)
        return away or layout.links[name].graph.dynamics is not None

    def after(self, loop: LoopState) -> LinksSeen:
        """Return the states in the last round.

        Args:
          loop: The state after it.
        """
        if not self._sets:
            return LinksSeen({})
        state = np.zeros(self._drawing.senders.size, np.int8)
        delay = np.zeros(state.size, np.int32)
        for name, buckets in self._program(self._network, loop).items():
            for place, (codes, delays) in zip(self._places[name], buckets, strict=True):
                drawn = place >= 0
                np.maximum.at(state, place[drawn], np.asarray(codes, np.int8)[drawn])
                np.maximum.at(delay, place[drawn], np.asarray(delays)[drawn])
        found = {name: np.flatnonzero(state == code) for code, name in enumerate(CODES, 1)}
        delay = np.where(state == LATE, delay, 0)
        slowest = (int(delay.argmax()), int(delay.max())) if delay.any() else None
        return LinksSeen({name: places for name, places in found.items() if places.size}, slowest)

    @cached_property
    def _places(self) -> dict[str, list[NDArray[np.int64]]]:
        """Link set -> bucket by bucket (slots, agents): place of each link in the drawing, -1 where it has none."""
        setup, drawing = self._engine.setup, self._drawing
        first, total = numbered({r: one.agents for r, one in setup.layout.roles.items()}, setup.algorithm.learner)
        keys = drawing.senders * total + drawing.receivers
        order = np.argsort(keys)
        found: dict[str, list[NDArray[np.int64]]] = {}
        for name in self._sets:
            (source, target), found[name] = setup.ends[name], []
            for slots, members in zip(self._network.links[name].into, self._network.members[target], strict=True):
                agent, live = np.asarray(slots.links.agent, np.int64), np.asarray(slots.links.live)
                mine = first[target] + np.asarray(members.agent, np.int64)
                here = live & (np.asarray(members.repeat) == 0)
                key = np.where(here, (first[source] + agent) * total + mine, -1)
                at = np.minimum(np.searchsorted(keys, key, sorter=order), max(0, keys.size - 1))
                place = order[at] if keys.size else np.full(key.shape, -1)
                found[name].append(np.where(here & (keys[place] == key), place, -1) if keys.size else place)
        return found

    @cached_property
    def _program(self) -> Callable[[Network, LoopState], Coded]:
        return jax.jit(self._coded)

    def _coded(self, network: Network, loop: LoopState) -> Coded:
        engine, setup = self._engine, self._engine.setup
        found: Coded = {}
        for name in self._sets:
            now, fate = setup.links_now(network, name, loop.round), self._fate(network, loop.round, name)
            target = setup.ends[name][1]
            buckets = []
            for slots, links, state in zip(
                network.links[name].into, now.into, engine.states(target, loop), strict=True
            ):
                delay = jnp.zeros(links.live.shape, jnp.int32) if fate is None else fate[slots.edge]
                code = jnp.where(delay < 0, LOST, jnp.where(delay > 0, LATE, 0))
                code = jnp.where(links.live, code, DEAD)
                standing = standings(state).get(name)
                if standing is not None:
                    code = jnp.where(loop.round < standing.until.T, HELD, code)
                buckets.append((code.astype(jnp.int8), jnp.maximum(delay, 0)))
            found[name] = tuple(buckets)
        return found

    def _fate(self, network: Network, t: Array, name: str) -> Array | None:
        """Return the rounds that messages on each link take, -1 where one is lost; None: that is not told."""
        if not self._channel_shows(name):
            return None
        channel = self._engine.setup.channel.on(name)
        graph = self._engine.setup.layout.links[name].graph
        own = graph.agents if graph.sources is None else 0
        fates = []
        for index, phase in enumerate(self._engine.algorithm.phases):
            if phase.links == name:
                lost, delay = channel.draw(runtime.channel_key(network.root, index, t), graph.edges)
                fates.append(jnp.where(lost, -1, delay))
        lost = jnp.any(jnp.stack([fate < 0 for fate in fates]), axis=0)
        fate = jnp.where(lost, -1, jnp.max(jnp.stack(fates), axis=0))
        return jnp.concatenate([fate, jnp.zeros(own + 1, jnp.int32)])
