"""A simulation: check, lay out, run chunk by chunk, collect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.attacks.crew import labels_of, told_of, validate_liars
from tacit.attacks.kinds import Attack
from tacit.attacks.parts import part_of, relabelled
from tacit.core import limits
from tacit.core.checks import whole_number
from tacit.core.contract import Algorithm, Params
from tacit.core.errors import ConfigError, DataError, ResultError
from tacit.graphs import Channel, Graph, Topology
from tacit.graphs.edges import refuse_large
from tacit.privacy.spending import RunPrivacy, spent_in_run
from tacit.results.live.parts import About, Watch
from tacit.results.locks import writing_file
from tacit.results.run import Run, Traffic
from tacit.simulator import checkpoint as checkpoints
from tacit.simulator.data import RoundData
from tacit.simulator.data_identity import DataIdentity
from tacit.simulator.engine import Engine
from tacit.simulator.layout import Layout, lay_out
from tacit.simulator.loop_state import LoopState
from tacit.simulator.progress import Interrupts, Progress, satisfied
from tacit.simulator.readings import Charged, readings_of
from tacit.simulator.round_metrics import Noted, RoundMetrics, all_noted, private_clip, sent_bits
from tacit.simulator.shards.devices import devices_asked, loop_specs
from tacit.simulator.shards.hosts import is_first, of_all
from tacit.simulator.shards.partition import homes, refuse_liars
from tacit.simulator.shards.programs import Programs
from tacit.simulator.shards.split import Split, split
from tacit.simulator.watching.sights import Seen, drawn
from tacit.simulator.watching.told import Told
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
    devices: int | None = None
    watch: tuple[Watch, ...] = ()

    @property
    def every(self) -> int:
        """Rounds from one recorded state to the next."""
        every = max(1, self.rounds // 50) if self.record_every is None else self.record_every
        return whole_number("record_every", every)


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
        self.drawing = drawn(parts[0], algorithm, self.liars) if options.watch else None
        self.honest = np.array([k not in self.liars for k in range(self.streams[0].agents)])
        self.given, self.streams = self.streams, [relabelled(s, labels_of(self.liars)) for s in self.streams]
        together = Topology.union(parts)
        runtime.check_window(algorithm, together, jax.random.key(options.seed), options.rounds, repeats)
        ends, devices = runtime.link_ends(algorithm), devices_asked(options.devices)
        whole = layout = lay_out(together, ends, repeats)
        self.learners = layout.roles[algorithm.learner]
        self.split: Split | None = None
        if devices.count > 1:
            refuse_liars(self.liars)
            self.split = split(layout, homes(layout, ends, devices.count), ends, devices.count)
            layout = self.split.layout
        learners = layout.roles[algorithm.learner]
        self.data = RoundData(self.streams, learners, repeats, options.rounds, dtype, algorithm.prepare, devices)
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
        noted = all_noted(algorithm.constraints, options.figures)
        self.metrics = RoundMetrics(
            algorithm.objective,
            learners,
            repeats,
            options.node_loss,
            noted,
            dtype,
            private_clip(algorithm),
            gaps=options.evaluate == "everyone" and getattr(self.data.spec, "weight", None) is not None,
            honest=self.honest if self.liars else None,
            in_turn=self.engine.setup.in_turn,
        )
        self._check_evaluate()
        self.programs = Programs(
            self.engine,
            self.data,
            self.metrics,
            devices,
            self.split,
            self.honest,
            options.evaluate,
        )
        self.answering = self.programs.answering
        self._check_participation()
        self.network = self.programs.network(options.seed, self._data_size)
        self.engine.forget_tables()
        if self.split is not None:
            self.split = self.programs.split = self.split._replace(layout=self.engine.layout)
        self.known: dict[str, Any] = {}
        self.form: LoopState | None = None
        if options.checkpoint is not None:
            self.known, self.form = self._on_one_device(whole)

    @property
    def _data_size(self) -> np.ndarray:
        """Samples of each learner, by id in the union."""
        sizes = np.concatenate([s.data_size for s in self.streams])
        return np.tile(sizes, self.options.repeats) if self.data.shared else sizes

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
        evaluate, why = self.options.evaluate, ""
        if evaluate == "cohort" and self.split is not None:
            why = (
                ", but several devices run all clients and mask those that were not called, so that nothing would be "
                "saved: take 'everyone', or leave out devices"
            )
        elif evaluate == "cohort" and (self.options.node_loss is not None or not self.engine.cohorts.of_learners):
            why = ", which is for methods that call some clients, over fixed and reliable links, without node_loss"
        if why or evaluate not in get_args(Evaluate):
            raise ConfigError(f"evaluate is {evaluate!r}{why or '; expected everyone or cohort'}")

    def _recorded(self, loop: LoopState) -> dict[str, np.ndarray]:
        """What is recorded of the state, (repeats, ...) each."""
        needed = self.split is None or self.options.record
        models = self.programs.models(self.network, loop) if needed else None
        found = {"consensus": self.programs.consensus(self.network, loop, models)}
        if self.algorithm.diagnostics:
            found |= self.programs.shown(self.network, loop)
        if self.options.record:
            each = [jax.tree.map(lambda m, r=r: m[r], models) for r in range(self.options.repeats)]
            found |= {name: np.stack([np.asarray(f(m)) for m in each]) for name, f in self.options.record.items()}
        return found

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run all rounds, from a checkpoint where there is one, which no other run writes meanwhile."""
        path = self.options.checkpoint
        with nullcontext() if path is None or not is_first() else writing_file(path):
            return self._run(path)

    def _run(self, path: Path | None) -> Run:
        rounds, programs = self.options.rounds, self.programs
        loop = programs.start(self.network, self.params, self.own_params)
        identity = None if path is None else DataIdentity(self.streams, rounds)
        recorded = ["consensus", *self.algorithm.diagnostics, *self.options.record]
        log = checkpoints.Log(self.known, recorded, len(self.answering), identity)
        if path is not None and self.form is not None and checkpoints.is_there(path):
            loop = self._apart(checkpoints.load(path, log, self.form))
            if log.rounds > rounds:
                raise ResultError(
                    f"{path} holds {log.rounds} rounds, but {rounds} were asked for; ask for more, or name another file"
                )
        resident = self.data.resident()
        done = log.rounds
        seen = Seen(self.drawing, programs, self.network, self.honest, self._charged, loop) if self.drawing else None
        with Told(self.options.watch, self._about, done, seen, cuts=not self.answering) as told:
            programs.compile(self.network, loop, resident)
            jax.block_until_ready((loop, resident))
            return self._rounds(path, loop, resident, log, told)

    def _rounds(self, path: Path | None, loop: LoopState, resident: Any, log: checkpoints.Log, told: Told) -> Run:
        """Run the rounds that a log lacks, and tell of them."""
        rounds, every, programs, done = self.options.rounds, self.options.every, self.programs, log.rounds
        begun = told.start()
        shown = self.options.progress if is_first() else False
        with Progress(rounds, done, self.algorithm.name, shown) as bar, Interrupts() as interrupts:
            for first, skipped, count, data in told.pieces(self.data.pieces(done, every, resident)):
                offset = skipped if self.data.period is None else np.int32(first % self.data.period)
                loop, trace = programs.advance(self.network, loop, data, offset, count)
                log.add(int(count), trace.figures, trace.messages, trace.ratios, trace.took_part)
                done = int(first + count)
                recorded = self._recorded(loop) if done % every == 0 or done == rounds else None
                if recorded is not None:
                    log.record(done, recorded)
                if told.watchers:
                    told.rounds(done, self._noted(trace.figures, trace.messages), recorded)
                    told.now(loop, data, int(offset + count - 1), log)
                if path is not None and (recorded is not None or any(of_all(interrupts.asked))):
                    whole = self._together(loop)
                    if is_first():
                        checkpoints.save(path, log, whole)
                bar.at(done)
                if any(of_all(interrupts.asked)) or satisfied(self.options.record.values()):
                    break
            jax.block_until_ready(loop)
            seconds = time.perf_counter() - begun
        told.end(interrupted=done < rounds)
        models = jax.tree.map(np.asarray, programs.models(self.network, loop))
        return self.collect(models, log, seconds, programs.seconds)

    def _on_one_device(self, layout: Layout) -> tuple[dict[str, Any], LoopState]:
        """Return by what a checkpoint knows this run, and its state's form: those of one device, whatever wrote it."""
        engine, network = self.engine, self.network
        if self.split is not None:
            ready, options = self.algorithm._replace(prepare=None), self.options
            engine = Engine(ready, layout, options.channel, options.dtype, self.params, self.data.spec)
            network = engine.network(options.seed, self._data_size, lambda made: made)
        lead = (self.learners.order.size,)
        batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*lead, *s.shape), s.dtype), self.data.spec)
        known, form = checkpoints.identity(engine, network, self.params, self.own_params, batch)
        return {**known, **self._fingerprint}, form

    def _together(self, loop: LoopState) -> LoopState:
        """Return a state as one device holds it."""
        if self.split is None:
            return loop
        per_slot = tuple(spec.delivery == "per_slot" for spec in self.engine.specs)
        return self.split.together(self.programs.devices.fetch(loop), self.algorithm.phases, per_slot)

    def _apart(self, loop: LoopState) -> LoopState:
        """Put the state of one device, which is on the host, on those of this run."""
        if self.split is not None:
            per_slot = tuple(spec.delivery == "per_slot" for spec in self.engine.specs)
            loop = self.split.apart(loop, self.algorithm.phases, per_slot)
        placed: LoopState = self.programs.devices.put(loop, loop_specs(loop))
        return placed

    @property
    def _fingerprint(self) -> dict[str, Any]:
        """Settings that the figures follow from: a checkpoint goes on only where nothing of them has changed."""
        return {
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

    @property
    def _bits(self) -> np.ndarray:
        """Bits of a message of each phase."""
        return np.array([sent_bits(spec) for spec in self.engine.specs], np.int64)

    def _noted(self, figures: np.ndarray, messages: np.ndarray) -> dict[str, np.ndarray]:
        """Return figures of some rounds by name, (rounds, repeats) each."""
        found = {name: figures[:, k] for k, name in enumerate(self.metrics.names)}
        sent = np.broadcast_to(messages[: len(figures)], (len(figures), *messages.shape[1:])).astype(np.int64)
        return {**found, "messages": sent.sum(axis=1), "bits": np.einsum("tpr,p->tr", sent, self._bits)}

    @property
    def _charged(self) -> Charged:
        releases = [spec.release for spec in self.engine.specs]
        return Charged(self.algorithm.privacy, releases, self.streams, self.learners, self.answering)

    @property
    def _about(self) -> About:
        options, algorithm, promise = self.options, self.algorithm, self.algorithm.privacy
        stream = told_of(self.streams[0].description, self.liars, self.learners.agents)
        return About(
            algorithm.name, int(self.honest.sum()), options.repeats, options.rounds, options.seed, options.dtype.name,
            self.graph_name, stream, algorithm.objective.score_name, promise.private, promise.holds,
        )  # fmt: skip

    def collect(self, models: Params, log: checkpoints.Log, seconds: float, compile_seconds: float) -> Run:
        """Return the run of the figures that were collected."""
        messages, bits = log.messages().astype(np.int64), self._bits
        per_round = {name: values.T for name, values in self._noted(log.figures(), messages).items()}
        names = np.array([phase.links for phase in self.algorithm.phases])
        traffic = {
            str(name): Traffic(
                messages[:, names == name].sum(axis=1).T,
                np.einsum("tpr,p->rt", messages[:, names == name], bits[names == name]),
            )
            for name in dict.fromkeys(names)
        }
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
            privacy=RunPrivacy(self.algorithm.privacy, *self._charged.spent(log), public_of(self.given)),
            streams=[part_of(s, tuple(np.flatnonzero(self.honest))) if self.liars else s for s in self.given],
            graph=self.graph_name,
            stream=self._about.stream,
            seconds=seconds,
            compile_seconds=compile_seconds,
            partial=log.rounds < self.options.rounds,
            within=None if self.algorithm.domain is None else self.algorithm.domain.within,
            constraints=self.algorithm.constraints,
            evaluated=self.options.evaluate,
            traffic=traffic,
        )
