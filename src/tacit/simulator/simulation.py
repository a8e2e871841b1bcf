"""A simulation: check, lay out, run chunk by chunk, collect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.attacks.crew import labels_of, told_of, validate_liars
from tacit.attacks.kinds import Attack
from tacit.attacks.parts import part_of, relabelled
from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Params, Tree
from tacit.core.errors import ConfigError, DataError, ResultError
from tacit.graphs import Channel, Graph, Topology
from tacit.graphs.edges import refuse_large
from tacit.metrics import message_bits
from tacit.privacy.spending import RunPrivacy, spent_in_run
from tacit.results.locks import writing_file
from tacit.results.run import Run, Traffic
from tacit.runtime.programs import compiled
from tacit.simulator import checkpoint as checkpoints
from tacit.simulator.data import RoundData
from tacit.simulator.data_identity import DataIdentity
from tacit.simulator.engine import Engine, Tally
from tacit.simulator.layout import lay_out
from tacit.simulator.loop_state import LoopState, Network, SendBuffers, joined
from tacit.simulator.progress import Interrupts, Progress
from tacit.simulator.readings import readings_of
from tacit.simulator.round_metrics import Noted, RoundMetrics, all_noted, consensus, private_clip
from tacit.streams import Stream
from tacit.streams.learnt import public_of, refuse_undeclared

CHECKED_ROUNDS, CHECKED_BATCHES = 512, 1 << 17
"""How much of a stream a method's `check_data` gets: so many rounds, and so many batches in all."""

Evaluate = Literal["everyone", "cohort"]
GraphSource = Graph | Topology | Callable[[int], Graph | Topology]
StreamSource = Stream | Callable[[int], Stream]
Recorder = Callable[[Params], Any]
"""The models of one repeat after a round, leading axis over the learners -> a number or an array: see `simulate`."""


@dataclass(frozen=True)
class Options:
    """Settings of a simulation, as `simulate` takes them."""

    rounds: int
    repeats: int
    seed: int
    channel: Channel
    dtype: jnp.dtype
    start: Params | Callable[[int], Params] | None
    node_loss: int | None
    figures: Noted
    evaluate: Evaluate
    record: Mapping[str, Recorder]
    record_every: int | None
    checkpoint: Path | None
    progress: bool | None
    liars: Mapping[int, Attack]

    @property
    def every(self) -> int:
        """Rounds from one recorded state to the next."""
        every = max(1, self.rounds // 50) if self.record_every is None else self.record_every
        if not isinstance(every, int) or every < 1:
            raise ConfigError(f"record_every is {self.record_every}; expected a whole number from 1 on")
        return every


class Trace(NamedTuple):
    """What is noted of each round of a chunk."""

    figures: Array
    """(rounds, figures, repeats): the loss, then the score and the node's loss where asked for."""
    messages: Array
    """(rounds or 1, phases, repeats): one row where the number never changes."""
    ratios: Array
    """(rounds, phases), as in `Tally`."""
    took_part: tuple[Array, ...]
    """Per phase that answers and is booked, (rounds, ...) as in `Tally`."""


class Programs(NamedTuple):
    """The compiled programs of a simulation, and how long it took to compile them."""

    advance: Callable[..., tuple[LoopState, Trace]]
    models: Callable[..., Params]
    seconds: float


class Simulation:
    """One algorithm over graphs and streams, all repeats at once."""

    def __init__(self, algorithm: Algorithm, graph: GraphSource, stream: StreamSource, options: Options) -> None:
        """Refuse what cannot be run, and make everything ready but the compiled program."""
        self.algorithm, self.options = algorithm, options
        repeats, dtype = options.repeats, options.dtype
        runtime.check_horizon(algorithm, options.rounds)
        parts = self._topologies(graph)
        self.streams = [stream(options.seed + r) for r in range(repeats)] if callable(stream) else [stream]
        self.graph_name = ", ".join(g.name for g in parts[0].links.values())
        self._check_streams(parts[0])
        self.liars = validate_liars(options.liars, self.streams[0].agents)
        self.honest = np.array([k not in self.liars for k in range(self.streams[0].agents)])
        self.given, self.streams = self.streams, [relabelled(s, labels_of(self.liars)) for s in self.streams]
        together = Topology.union(parts)
        runtime.check_window(algorithm, together, jax.random.key(options.seed), options.rounds, repeats)
        layout = lay_out(together, runtime.link_ends(algorithm), repeats)
        self.learners = layout.roles[algorithm.learner]
        self.data = RoundData(self.streams, self.learners, repeats, options.rounds, dtype, algorithm.prepare)
        runtime.check_preparation(algorithm, self.data.as_given)
        self.params, own = runtime.starting_points(
            algorithm, self.data.spec, dtype, options.start, self.learners.agents
        )
        models, what = repeats * self.learners.agents, f"models of {algorithm.objective.name!r}"
        limits.refuse_beyond(models * runtime.model_bytes(self.params), f"{models:,} {what}")
        self.own_params = None if own is None else jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)
        # Data that stay where they are put are prepared there, once.
        ready = algorithm._replace(prepare=None)
        self.engine = Engine(ready, layout, options.channel, dtype, self.params, self.data.spec, self.liars)
        self.answering = [k for k in range(len(algorithm.phases)) if self.engine.books_answers(k)]
        self._check_participation()
        sizes = np.concatenate([s.data_size for s in self.streams])
        self.network = self.engine.network(options.seed, np.tile(sizes, repeats) if self.data.shared else sizes)
        self.engine.forget_tables()
        noted = all_noted(algorithm.constraints, options.figures)
        self.metrics = RoundMetrics(
            algorithm.objective,
            self.learners,
            repeats,
            options.node_loss,
            noted,
            dtype,
            private_clip(algorithm),
            gaps=options.evaluate == "everyone" and getattr(self.data.spec, "weight", None) is not None,
            honest=self.honest if self.liars else None,
        )
        self._check_evaluate()
        self._diagnostics: Callable[[Network, LoopState], dict[str, Array]] = jax.jit(self.shown)

    def _topologies(self, graph: GraphSource) -> list[Topology]:
        """Return every repeat's topology, made ready; refuse repeats that are too large together before making them."""
        options = self.options
        first = runtime.prepared_topology(
            self.algorithm, graph(options.seed) if callable(graph) else graph, options.channel
        )
        agents, links = sum(first.roles.values()), sum(links.edges for links in first.links.values())
        refuse_large(options.repeats * agents, options.repeats * links, f"{options.repeats:,} repeats")
        if not callable(graph):
            return [first] * options.repeats
        others = range(options.seed + 1, options.seed + options.repeats)
        return [first, *(runtime.prepared_topology(self.algorithm, graph(s), options.channel) for s in others)]

    def _check_streams(self, topology: Topology) -> None:
        algorithm, rounds, node = self.algorithm, self.options.rounds, self.options.node_loss
        refuse_undeclared(algorithm, self.streams)
        learners = topology.roles[algorithm.learner]
        for stream in self.streams:
            if stream.agents != learners:
                raise DataError(
                    f"stream {stream.name!r} feeds {stream.agents} agents, but the graph has {learners}; "
                    "make both the same size"
                )
            if stream.rounds is not None and stream.rounds < rounds:
                raise DataError(
                    f"stream {stream.name!r} has {stream.rounds} rounds, but {rounds} were asked for; ask for "
                    f"{stream.rounds} or fewer, or have its rows read again (passes=..., or exhausted='cycle')"
                )
        if node is not None and not 0 <= node < learners:
            raise ConfigError(f"node_loss is {node}; expected an agent's number from 0 to {learners - 1}")
        if algorithm.check_data is not None:
            first = self.streams[0]
            seen = min(CHECKED_ROUNDS, first.rounds or CHECKED_ROUNDS, 1 + CHECKED_BATCHES // first.agents)
            algorithm.check_data(first.chunk(0, seen))

    def _check_participation(self) -> None:
        """Refuse records that come more often than correlated noise is fitted to; of cohorts the run has to tell."""
        releases = [spec.release for spec in self.engine.specs]
        if not self.answering and any(release.mechanism.correlation for release in releases):
            always = np.ones((self.options.rounds, len(releases)))
            spent_in_run(
                self.algorithm.privacy, releases, always, readings_of(self.streams, self.learners, [], [], always)
            )

    def _check_evaluate(self) -> None:
        evaluate = self.options.evaluate
        cohorts = self.options.node_loss is None and self.engine.cohorts.of_learners
        if evaluate not in get_args(Evaluate) or (evaluate == "cohort" and not cohorts):
            raise ConfigError(
                f"evaluate is {evaluate!r}; expected 'everyone', or 'cohort' for a method that calls some of its "
                "clients in each round, over fixed and reliable links, without node_loss"
            )

    # -- compiled ------------------------------------------------------------------------------------------------------

    def advance_rounds(
        self, network: Network, loop: LoopState, data: Tree, offset: Array, count: Array
    ) -> tuple[LoopState, Trace]:
        """Run `count` rounds; round k of them reads data[(offset + k) mod length]."""
        length, order = jax.tree.leaves(data)[0].shape[0], network.order[self.algorithm.learner]
        # The chunk length fixes the shape of one compiled program; the number of rounds to run in it is an argument.
        chunk, repeats, dtype = self.data.chunk, self.options.repeats, self.options.dtype
        vary, phases = self.engine.counts_vary, len(self.algorithm.phases)
        trace = Trace(
            jnp.zeros((chunk, len(self.metrics.names), repeats), dtype),
            jnp.zeros((chunk if vary else 1, phases, repeats), jnp.int32),
            jnp.zeros((chunk, phases), dtype),
            tuple(jnp.zeros((chunk, *a.shape), a.dtype) for a in self._taking_part(network, loop, data)),
        )

        def body(k: Array, so_far: tuple[LoopState, SendBuffers, Trace]) -> tuple[LoopState, SendBuffers, Trace]:
            before, buffers, trace = so_far
            batch = self.data.batch(data, (offset + k) % length, order)
            pick = partial(self.data.batches_of, data, (offset + k) % length, order)
            after, buffers, tally = self.engine.round(network, before, batch, buffers, pick)
            if self.options.evaluate == "everyone":
                figures = self.metrics.of_round(self.engine.models(network, before), batch, order)
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
        return loop, trace

    def _taking_part(self, network: Network, loop: LoopState, data: Tree) -> tuple[Array, ...]:
        """Return the shapes of what is noted of who took part in a round."""
        if not self.answering:
            return ()
        first = jax.eval_shape(self.data.batch, data, jnp.int32(0), network.order[self.algorithm.learner])
        tally: Tally = jax.eval_shape(self.engine.round, network, loop, first, self.engine.send_buffers())[2]
        return tally.took_part

    def learnt_models(self, network: Network, loop: LoopState) -> Params:
        """Models with leading axes (repeats, agents), in the order of the graph."""
        return self._by_repeat(network, joined(self.engine.models(network, loop)))

    def shown(self, network: Network, loop: LoopState) -> dict[str, Array]:
        """What the method shows of the learners' states, leading axes (repeats, agents)."""
        states = self.engine.states(self.algorithm.learner, loop)
        shown = self.algorithm.diagnostics.items()
        return {name: self._by_repeat(network, joined([jax.vmap(f)(state) for state in states])) for name, f in shown}

    def _by_repeat(self, network: Network, values: Tree) -> Tree:
        """Put values in internal order into the order of the graph, repeat by repeat, without those of liars."""
        place = network.position[:, self.honest] if self.liars else network.position
        return jax.tree.map(lambda m: m[place], values)

    def _recorded(self, models: Params, loop: LoopState) -> dict[str, np.ndarray]:
        """What is recorded of the state, (repeats, ...) each."""
        found = {"consensus": np.asarray(consensus(models))}
        if self.algorithm.diagnostics:
            found |= {name: np.asarray(shown) for name, shown in self._diagnostics(self.network, loop).items()}
        if self.options.record:
            each = [jax.tree.map(lambda m, r=r: m[r], models) for r in range(self.options.repeats)]
            found |= {name: np.stack([np.asarray(f(m)) for m in each]) for name, f in self.options.record.items()}
        return found

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run all rounds, from a checkpoint where there is one, which no other run writes meanwhile."""
        path = self.options.checkpoint
        with nullcontext() if path is None else writing_file(path):
            return self._run(path)

    def _run(self, path: Path | None) -> Run:
        rounds, every = self.options.rounds, self.options.every
        first = (self.network, self.params, self.own_params)
        loop = compiled(self.engine.start, *first)(*first)
        known = {} if path is None else self._fingerprint(loop)
        identity = None if path is None else DataIdentity(self.streams, rounds)
        names = ["consensus", *self.algorithm.diagnostics, *self.options.record]
        log = checkpoints.Log(known, names, len(self.answering), identity)
        if path is not None and path.exists():
            loop = checkpoints.load(path, log, loop)
            if log.rounds > rounds:
                raise ResultError(
                    f"{path} holds {log.rounds} rounds, but {rounds} were asked for; ask for more, or name another file"
                )
        resident, done = self.data.resident(), log.rounds
        programs = self._compiled(loop, resident)
        jax.block_until_ready((loop, resident))
        begun = time.perf_counter()
        with Progress(rounds, done, self.algorithm.name, self.options.progress) as bar, Interrupts() as interrupts:
            for first, count, data in self.data.pieces(done, every, resident):
                offset = np.int32(0 if self.data.period is None else first % self.data.period)
                loop, trace = programs.advance(self.network, loop, data, offset, count)
                figures, ratios = np.asarray(trace.figures)[:count], np.asarray(trace.ratios)[:count]
                took_part = [np.asarray(rounds[:count]) for rounds in trace.took_part]
                log.add(int(count), figures, np.asarray(trace.messages), ratios, took_part)
                done = first + count
                recorded = done % every == 0 or done == rounds
                if recorded:
                    log.record(done, self._recorded(programs.models(self.network, loop), loop))
                if path is not None and (recorded or interrupts.asked):
                    checkpoints.save(path, log, loop)
                bar.at(done)
                if interrupts.asked:
                    break
            jax.block_until_ready(loop)
            seconds = time.perf_counter() - begun
        models = jax.tree.map(np.asarray, programs.models(self.network, loop))
        return self.collect(models, log, seconds, programs.seconds)

    def _fingerprint(self, loop: LoopState) -> dict[str, Any]:
        """All that the figures follow from: a checkpoint goes on only where nothing of it has changed."""
        lead = (self.learners.order.size,)
        batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*lead, *s.shape), s.dtype), self.data.spec)
        program = jax.jit(self.engine.round).lower(self.network, loop, batch, self.engine.send_buffers())
        return {
            "program": checkpoints.digest(program.as_text()),
            "links": checkpoints.digest(self.network),
            "start": checkpoints.digest(loop),
            "channel": str(self.options.channel),
            "figures": self.metrics.names,
            "recorded": list(self.options.record),
            "algorithm": self.algorithm.name,
            "graph": self.graph_name,
            "stream": self.streams[0].name,
            "agents": self.learners.agents,
            "repeats": self.options.repeats,
            "seed": self.options.seed,
            "dtype": self.options.dtype.name,
        }

    def _compiled(self, loop: LoopState, resident: Tree | None) -> Programs:
        begun = time.perf_counter()
        data = resident if resident is not None else self.data.abstract_chunk()
        number = jax.ShapeDtypeStruct((), jnp.int32)
        advance = compiled(self.advance_rounds, self.network, loop, data, number, number, donate=(1,))
        models = compiled(self.learnt_models, self.network, loop)
        return Programs(advance, models, time.perf_counter() - begun)

    def collect(self, models: Params, log: checkpoints.Log, seconds: float, compile_seconds: float) -> Run:
        """Return the run of the figures that were collected."""
        figures, messages = log.figures(), log.messages().astype(np.int64)
        per_round = {name: figures[:, k].T for k, name in enumerate(self.metrics.names)}
        bits = np.array([message_bits(spec.message) for spec in self.engine.specs], np.int64)
        per_round["messages"] = messages.sum(axis=1).T
        per_round["bits"] = np.einsum("tpr,p->rt", messages, bits)
        names = np.array([phase.links for phase in self.algorithm.phases])
        traffic = {
            str(name): Traffic(
                messages[:, names == name].sum(axis=1).T,
                np.einsum("tpr,p->rt", messages[:, names == name], bits[names == name]),
            )
            for name in dict.fromkeys(names)
        }
        releases = [spec.release for spec in self.engine.specs]
        in_sequence = any(release.in_sequence for release in releases if release.from_data)
        readings = readings_of(self.streams, self.learners, self.answering, log.took_part(), log.ratios(), in_sequence)
        spent = spent_in_run(self.algorithm.privacy, releases, log.ratios(), readings)
        return Run(
            algorithm=self.algorithm.name,
            objective=self.algorithm.objective,
            agents=int(self.honest.sum()),
            rounds=log.rounds,
            repeats=self.options.repeats,
            seed=self.options.seed,
            dtype=self.options.dtype.name,
            per_round=per_round,
            recorded_rounds=np.array(log.recorded_rounds),
            recorded={
                name: np.stack(values, axis=1) if values else np.zeros((self.options.repeats, 0))
                for name, values in log.recorded.items()
            },
            models=models,
            privacy=RunPrivacy(self.algorithm.privacy, *spent, public_of(self.given)),
            streams=[part_of(s, tuple(np.flatnonzero(self.honest))) if self.liars else s for s in self.given],
            graph=self.graph_name,
            stream=told_of(self.streams[0].description, self.liars, self.learners.agents),
            seconds=seconds,
            compile_seconds=compile_seconds,
            partial=log.rounds < self.options.rounds,
            within=None if self.algorithm.domain is None else self.algorithm.domain.within,
            constraints=self.algorithm.constraints,
            evaluated=self.options.evaluate,
            traffic=traffic,
        )
