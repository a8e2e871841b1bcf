"""The compiled programs of a simulation, on one device or on several."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Algorithm, Array, Params, Tree
from tacit.runtime.programs import compiled
from tacit.simulator.cohorts import Tally
from tacit.simulator.data import RoundData
from tacit.simulator.engine import Engine
from tacit.simulator.loop_state import LoopState, Network, SendBuffers, joined
from tacit.simulator.round_metrics import RoundMetrics, consensus
from tacit.simulator.shards.devices import AGENTS, EVERYWHERE, SLOTS, Devices, Spec, loop_specs, network_specs
from tacit.simulator.shards.exchange import largest
from tacit.simulator.shards.split import Split


class Trace(NamedTuple):
    """What is noted of each round of a chunk."""

    figures: Any
    """(rounds, figures, repeats): the loss, then the score and the node's loss where asked for."""
    messages: Any
    """(rounds or 1, phases, repeats): one row where the number never changes."""
    ratios: Any
    """(rounds, phases), as in `Tally`, by any agent."""
    took_part: tuple[Any, ...]
    """Per phase that answers and is booked, (rounds, ...) as in `Tally`."""


class Programs:
    """Programs of one simulation: what they take and give lies on its devices."""

    def __init__(
        self,
        engine: Engine,
        data: RoundData,
        metrics: RoundMetrics,
        devices: Devices,
        split: Split | None,
        honest: np.ndarray,
        evaluate: str,
    ) -> None:
        """Take the parts of a simulation."""
        self.engine, self.data, self.metrics, self.devices, self.split = engine, data, metrics, devices, split
        self.answering = [k for k in range(len(engine.algorithm.phases)) if engine.books_answers(k)]
        self._honest, self.evaluate = honest, evaluate
        self._models_here: Callable[..., Params] | None = None
        self._advance: Callable[..., tuple[LoopState, Trace]] | None = None
        self._others: dict[str, Callable[..., Any]] = {}
        self.seconds = 0.0
        """That compiling took."""

    def network(self, seed: int, data_size: np.ndarray) -> Network:
        """Put agents and links on the devices."""
        return self.engine.network(seed, data_size, lambda made: self.devices.put(made, network_specs(made)))

    def start(self, network: Network, params: Params, own: Params | None) -> LoopState:
        """Return the first states."""
        params, own = (self.devices.put(tree, EVERYWHERE) for tree in (params, own))
        first = self.engine.start
        form = jax.eval_shape(first, network, params, own) if self.devices.count > 1 else None
        gives: Spec = None if form is None else loop_specs(form)
        takes = (network_specs(network), EVERYWHERE, EVERYWHERE)
        loop: LoopState = compiled(self.devices.program(first, takes, gives), network, params, own)(
            network, params, own
        )
        return loop

    def compile(self, network: Network, loop: LoopState, resident: Tree | None) -> None:
        """Compile what rounds and records need."""
        begun = time.perf_counter()
        data = resident if resident is not None else self.data.abstract_chunk()
        number = self.devices.shapes(jax.ShapeDtypeStruct((), jnp.int32), EVERYWHERE)
        here, state = network_specs(network), loop_specs(loop)
        trace = Trace(EVERYWHERE, EVERYWHERE, EVERYWHERE, (SLOTS,) * len(self.answering))
        takes = (here, state, self.data.where, EVERYWHERE, EVERYWHERE)
        advance = self.devices.program(self.advance_shard, takes, (state, trace))
        self._advance = compiled(advance, network, loop, data, number, number, donate=(1,))
        models = self.devices.program(self.models_of_shard, (here, state), AGENTS)
        self._models_here = compiled(models, network, loop)
        self.seconds = time.perf_counter() - begun

    def advance(
        self, network: Network, loop: LoopState, data: Tree, offset: Any, count: Any
    ) -> tuple[LoopState, Trace]:
        """Run `count` rounds; round k of them reads data[(offset + k) mod length]."""
        assert self._advance is not None
        numbers = (self.devices.put(np.int32(number), EVERYWHERE) for number in (offset, count))
        loop, trace = self._advance(network, loop, data, *numbers)
        found: Trace = self.devices.fetch(trace)
        cut = Trace(found.figures[:count], found.messages, found.ratios[:count], self._who(found.took_part, count))
        return loop, cut

    def _who(self, took_part: tuple[Any, ...], count: Any) -> tuple[Any, ...]:
        """Return who took part, by positions on one device."""
        place = None if self.split is None else self.split.roles[self.engine.algorithm.learner].place
        return tuple(part[:count] if place is None else part[:count, place] for part in took_part)

    def models(self, network: Network, loop: LoopState) -> Params:
        """Return models with leading axes (repeats, agents), in the order of the graph."""
        assert self._models_here is not None
        found = self._models_here(network, loop)
        return found if self.split is None else self._together(found)

    def consensus(self, network: Network, loop: LoopState, models: Params | None) -> np.ndarray:
        """Return (repeats,) the learners' distance from consensus."""
        if self.split is None:
            return np.asarray(consensus(models))

        def apart(network: Network, loop: LoopState) -> Array:
            learners = network.members[self.engine.algorithm.learner]
            return self.metrics.consensus(joined(self.engine.models(network, loop)), learners)

        found: np.ndarray = self.devices.fetch(self._other("consensus", apart, EVERYWHERE, network, loop))
        return found

    def shown(self, network: Network, loop: LoopState) -> dict[str, np.ndarray]:
        """Return what the method shows of the learners' states, leading axes (repeats, agents)."""
        found = self._other("shown", self.shown_of_shard, AGENTS, network, loop)
        placed: dict[str, np.ndarray] = jax.tree.map(np.asarray, found if self.split is None else self._together(found))
        return placed

    def _other(self, name: str, function: Callable[..., Any], gives: Spec, network: Network, loop: LoopState) -> Any:
        if name not in self._others:
            takes = (network_specs(network), loop_specs(loop))
            self._others[name] = jax.jit(self.devices.program(function, takes, gives))
        return self._others[name](network, loop)

    def _together(self, found: Tree) -> Tree:
        """Put values of all shards' learners into the order of the graph, repeat by repeat, on the host."""
        position = self.metrics.learners.position.reshape(self.metrics.repeats, -1)
        return self._by_repeat(self.devices.fetch(found), position)

    def _by_repeat(self, values: Tree, position: Any) -> Tree:
        """Put values in internal order into the order of the graph, repeat by repeat, without those of liars."""
        place = position if self._honest.all() else position[:, self._honest]
        return jax.tree.map(lambda m: m[place], values)

    # -- of a shard ----------------------------------------------------------------------------------------------------

    def of_method(self, algorithm: Algorithm) -> Programs:
        """Return the programs of a method that differs from this one's in numbers alone."""
        made = copy.copy(self)
        made.engine, made.metrics = self.engine.of(algorithm), copy.copy(self.metrics)
        made.metrics.objective = algorithm.objective
        return made

    def models_of_shard(self, network: Network, loop: LoopState) -> Params:
        """Return the models of a shard's learners; of one device as `models` does."""
        found = joined(self.engine.models(network, loop))
        return found if self.split is not None else self._by_repeat(found, network.position)

    def shown_of_shard(self, network: Network, loop: LoopState) -> dict[str, Array]:
        """Return what the method shows of their states."""
        states, looks = self.engine.states(self.engine.algorithm.learner, loop), self.engine.algorithm.diagnostics
        found = {name: joined([jax.vmap(f)(state) for state in states]) for name, f in looks.items()}
        return found if self.split is not None else self._by_repeat(found, network.position)

    def advance_shard(
        self, network: Network, loop: LoopState, data: Tree, offset: Array, count: Array
    ) -> tuple[LoopState, Trace]:
        """Run `count` rounds of a shard's agents, as `advance` does."""
        length = jax.tree.leaves(data)[0].shape[0]
        # The chunk length fixes the shape of one compiled program; the number of rounds to run in it is an argument.
        chunk, repeats, dtype = self.data.chunk, self.metrics.repeats, self.metrics.dtype
        vary, phases = self.engine.counts_vary, len(self.engine.algorithm.phases)
        learners = network.members[self.engine.algorithm.learner]
        agent = joined([members.agent for members in learners])
        trace = Trace(
            jnp.zeros((chunk, len(self.metrics.names), repeats), dtype),
            jnp.zeros((chunk if vary else 1, phases, repeats), jnp.int32),
            jnp.zeros((chunk, phases), dtype),
            tuple(jnp.zeros((chunk, *a.shape), a.dtype) for a in self._taking_part(network, loop, data, agent)),
        )

        def body(k: Array, so_far: tuple[LoopState, SendBuffers, Trace]) -> tuple[LoopState, SendBuffers, Trace]:
            before, buffers, trace = so_far
            batch = self.data.batch(data, (offset + k) % length, agent)
            pick = partial(self.data.batches_of, data, (offset + k) % length, agent)
            look = self.metrics.of_agent if self.evaluate == "everyone" and self.engine.looks else None
            after, buffers, tally = self.engine.round(network, before, batch, buffers, pick, look)
            if self.evaluate == "everyone":
                figures = self.metrics.of_round(self.engine.models(network, before), batch, learners, tally.seen)
            else:
                assert tally.cohort is not None  # checked before the run
                models = self.engine.models_of(network, before, tally.cohort)
                figures = self.metrics.of_cohort(models, pick(tally.cohort.position), tally.cohort)
            note = jax.lax.dynamic_update_index_in_dim
            trace = Trace(
                note(trace.figures, self.metrics.with_noise(figures, tally.sizes), k, 0),
                note(trace.messages, tally.messages, k if vary else 0, 0),
                note(trace.ratios, tally.ratios, k, 0),
                tuple(note(all_, now, k, 0) for all_, now in zip(trace.took_part, tally.took_part, strict=True)),
            )
            return after, buffers, trace

        loop, _, trace = jax.lax.fori_loop(0, count, body, (loop, self.engine.send_buffers(), trace))
        return loop, trace._replace(ratios=largest(trace.ratios, self.devices.count))  # once, and not round by round

    def _taking_part(self, network: Network, loop: LoopState, data: Tree, agent: Array) -> tuple[Array, ...]:
        """Return the shapes of what is noted of who took part in a round."""
        if not self.answering:
            return ()
        first = jax.eval_shape(lambda data: self.data.batch(data, jnp.int32(0), agent), data)
        tally: Tally = jax.eval_shape(self.engine.round, network, loop, first, self.engine.send_buffers())[2]
        return tally.took_part
