"""`simulate`: check, lay out, run chunk by chunk, collect."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Params, Tree
from tacit.core.errors import ConfigError, DataError, ResultError
from tacit.graphs import Channel, Graph, Topology
from tacit.graphs.edges import refuse_large
from tacit.metrics import consensus_distance, message_bits
from tacit.privacy.spending import RunPrivacy, spent_in_run
from tacit.results.locks import writing_file
from tacit.results.run import Run, Traffic
from tacit.simulator import checkpoint as checkpoints
from tacit.simulator.data import RoundData
from tacit.simulator.data_identity import DataIdentity
from tacit.simulator.engine import Engine, Tally
from tacit.simulator.layout import lay_out
from tacit.simulator.loop_state import Carry, Desks, World, joined
from tacit.simulator.progress import Interrupts, Progress
from tacit.simulator.readings import readings_of
from tacit.simulator.round_metrics import Figures, Noted, all_noted
from tacit.streams import Stream
from tacit.streams.learnt import public_of, refuse_undeclared

CHECKED_ROUNDS, CHECKED_BATCHES = 512, 1 << 17
"""How much of a stream a method's `check_data` gets: so many rounds, and so many batches in all."""
NOTED_BYTES = 32
"""Of a round and repeat, for each phase and figure: its value, messages and bits, and the links' share of them."""
REPEAT_BYTES = 4096
"""Of a repeat, however small: its graph and its stream."""
FEW_AGENTS = 4096
"""Up to this many agents one thread is faster than two on the CPU (docs/performance.md)."""

Evaluate = Literal["everyone", "cohort"]
GraphSource = Graph | Topology | Callable[[int], Graph | Topology]
StreamSource = Stream | Callable[[int], Stream]
Recorder = Callable[[Params], Any]
"""The models of one repeat after a round, leading axis over the learners -> a number or an array: see `simulate`."""
NOTHING: Mapping[str, Any] = {}


def simulate(
    algorithm: Algorithm,
    graph: GraphSource,
    stream: StreamSource,
    *,
    rounds: int,
    repeats: int = 1,
    seed: int = 0,
    channel: Channel | None = None,
    dtype: str = "float32",
    start: Params | Callable[[int], Params] | None = None,
    node_loss: int | None = None,
    figures: Noted = NOTHING,
    evaluate: Evaluate = "everyone",
    record: Mapping[str, Recorder] = NOTHING,
    record_every: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Run:
    """Run an algorithm over a graph and a stream, all agents and repeats at once.

    `graph` and `stream` may be functions of a seed: repeat r then gets `seed + r`, its own graph and its own data.
    `start` replaces the objective's first parameters: the same for all, or a function from an agent's number to its
    own. `node_loss=j` also evaluates agent j's model on everyone's batch in every round (one-node regret). `figures`
    are functions of an agent's model and batch, noted in every round as means over the agents (`run.per_round`);
    `evaluate="cohort"` takes these means and the loss over the agents that a round called, so that what a round costs
    goes with the cohort and not with the number of clients (no regret can be told then);
    `record` are functions of the models of one repeat, called outside of compiled code after every `record_every`-th
    round (`run.recorded`): for every learner the model with which it would predict the data of the next round, at which
    that round's loss is taken, and the last of which are `run.models`. Leaves have a leading axis over the learners, in
    the order of the graph; where a server predicts, its model stands for each of its clients. `checkpoint` is a file to
    which the state is saved on the way; a run that finds it goes on from there and ends with the same figures as one
    that was never stopped; it is refused for another run or other data. `progress=None` shows a bar on a terminal.

    Ctrl-C ends the run after the current chunk with `partial=True`; what was done so far is valid.
    """
    _check_numbers(rounds, repeats, dtype, len(algorithm.phases) + len(figures))
    for name in sorted(record.keys() & {"consensus", *algorithm.diagnostics}):
        raise ConfigError(f"a record named {name!r} is asked for, but every such run has one: give it another name")
    with jax.enable_x64(dtype == "float64"):
        return _Simulation(
            algorithm,
            graph,
            stream,
            rounds,
            repeats,
            seed,
            channel or Channel(),
            dtype,
            start,
            node_loss,
            figures,
            record,
            evaluate,
        ).run(record_every, None if checkpoint is None else Path(checkpoint), progress)


def _check_numbers(rounds: int, repeats: int, dtype: str, noted: int) -> None:
    for name, value in (("rounds", rounds), ("repeats", repeats)):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} is {value!r}; expected a whole number from 1 on")
        if value > limits.MOST_ROUNDS:
            raise ConfigError(f"{name} is {value:,}; expected at most {limits.MOST_ROUNDS:,}")
    wanted = repeats * (REPEAT_BYTES + rounds * NOTED_BYTES * (1 + noted))
    limits.refuse_beyond(wanted, f"curves of {rounds:,} rounds x {repeats:,} repeats")
    if dtype not in ("float32", "float64"):
        raise ConfigError(f"dtype is {dtype!r}; expected 'float32' or 'float64'")


@contextmanager
def _one_thread_if_small(agents: int) -> Iterator[None]:
    """Let JAX start its CPU client with one thread where that is faster.

    The client is made once per process, on the first use of a device: later runs keep its threads. A user's own
    PJRT_NPROC wins.
    """
    small = agents <= FEW_AGENTS and not {"PJRT_NPROC", "NPROC"} & os.environ.keys()
    if small:
        os.environ["PJRT_NPROC"] = "1"
    try:
        jax.devices()
        yield
    finally:
        if small:
            del os.environ["PJRT_NPROC"]


class _Trace(NamedTuple):
    """What is noted of each round of a chunk."""

    figures: Array
    """(rounds, figures, repeats): the loss, then the score and the node's loss where asked for."""
    messages: Array
    """(rounds or 1, phases, repeats): one row where the number never changes."""
    ratios: Array
    """(rounds, phases), as in `Tally`."""
    took_part: tuple[Array, ...]
    """Per phase that answers and is booked, (rounds, ...) as in `Tally`."""


class _Simulation:
    def __init__(
        self,
        algorithm: Algorithm,
        graph: GraphSource,
        stream: StreamSource,
        rounds: int,
        repeats: int,
        seed: int,
        channel: Channel,
        dtype: str,
        start: Params | Callable[[int], Params] | None,
        node: int | None,
        figures: Noted,
        record: Mapping[str, Recorder],
        evaluate: Evaluate,
    ) -> None:
        self.algorithm, self.rounds, self.repeats, self.seed = algorithm, rounds, repeats, seed
        runtime.check_horizon(algorithm, rounds)
        self.dtype, self.node = jnp.dtype(dtype), node
        seeds = range(seed, seed + repeats)
        first_part = runtime.prepared_topology(algorithm, graph(seed) if callable(graph) else graph, channel)
        self._refuse_large(first_part)
        parts = [first_part] * repeats
        if callable(graph):
            parts[1:] = [runtime.prepared_topology(algorithm, graph(s), channel) for s in seeds[1:]]
        self.streams = [stream(s) for s in seeds] if callable(stream) else [stream]
        self.graph_name = ", ".join(g.name for g in parts[0].links.values())
        self._check_streams(parts[0])
        if algorithm.check_data is not None:
            first = self.streams[0]
            seen = min(CHECKED_ROUNDS, first.rounds or CHECKED_ROUNDS, 1 + CHECKED_BATCHES // first.agents)
            algorithm.check_data(first.chunk(0, seen))
        with _one_thread_if_small(repeats * parts[0].roles[algorithm.learner]):
            together = Topology.union(parts)
            runtime.check_window(algorithm, together, jax.random.key(seed), rounds, repeats)
            layout = lay_out(together, runtime.link_ends(algorithm), repeats)
        # Data that stay where they are put are prepared there, once.
        self.engine = Engine(algorithm._replace(prepare=None), layout, channel, self.dtype)
        self.learners = layout.roles[algorithm.learner]
        self.data = RoundData(self.streams, self.learners, repeats, rounds, self.dtype, algorithm.prepare)
        runtime.check_preparation(algorithm, self.data.as_given)
        self.spec = self.data.spec
        self.params, own = runtime.starting_points(algorithm, self.spec, self.dtype, start, self.learners.agents)
        models = repeats * self.learners.agents
        what = f"{models:,} models of {algorithm.objective.name!r}"
        limits.refuse_beyond(models * runtime.model_bytes(self.params), what)
        self.own_params = None if own is None else jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)
        self.engine.settle(self.params, self.spec)
        self.answering = [k for k in range(len(algorithm.phases)) if self.engine.books_answers(k)]
        sizes = np.concatenate([s.data_size for s in self.streams])
        self.world = self.engine.world(seed, np.tile(sizes, repeats) if self.data.shared else sizes)
        noted = all_noted(algorithm.constraints, figures)
        self.figures = Figures(algorithm.objective, self.learners, repeats, node, noted, self.dtype)
        self.evaluate = evaluate
        if evaluate not in get_args(Evaluate) or (
            evaluate == "cohort" and (node is not None or not self.engine.has_cohorts)
        ):
            raise ConfigError(
                f"evaluate is {evaluate!r}; expected 'everyone', or 'cohort' for a method that calls some of its "
                "clients in each round, over fixed and reliable links, without node_loss"
            )
        self.recorders = dict(record)
        # The chunk length fixes the shape of one compiled program; the number of rounds to run in it is an argument.
        self.chunk = self.data.chunk
        self.advance: Callable[..., tuple[Carry, _Trace]] = self._advance
        self.models: Callable[..., Params] = self._models
        self.diagnostics: Callable[[Carry], dict[str, Array]] = jax.jit(self._diagnostics)
        self.consensus: Callable[[Params], Array] = jax.jit(jax.vmap(consensus_distance))

    def _refuse_large(self, part: Topology) -> None:
        """Refuse repeats of a topology that are too large together, before they are made."""
        agents, links = sum(part.roles.values()), sum(graph.edges for graph in part.links.values())
        refuse_large(self.repeats * agents, self.repeats * links, f"{self.repeats:,} repeats")

    def _check_streams(self, topology: Topology) -> None:
        refuse_undeclared(self.algorithm, self.streams)
        learners = topology.roles[self.algorithm.learner]
        for stream in self.streams:
            if stream.agents != learners:
                raise DataError(
                    f"stream {stream.name!r} feeds {stream.agents} agents, but the graph has {learners}; "
                    "make both the same size"
                )
            if stream.rounds is not None and stream.rounds < self.rounds:
                raise DataError(
                    f"stream {stream.name!r} has {stream.rounds} rounds, but {self.rounds} were asked for; ask for "
                    "fewer, or let the stream start over (exhausted='cycle')"
                )
        if self.node is not None and not 0 <= self.node < learners:
            raise ConfigError(f"node_loss is {self.node}; expected an agent's number from 0 to {learners - 1}")

    # -- compiled ------------------------------------------------------------------------------------------------------

    def _advance(self, world: World, carry: Carry, data: Tree, offset: Array, count: Array) -> tuple[Carry, _Trace]:
        """Run `count` rounds; round k of them reads data[(offset + k) mod length]."""
        length = jax.tree.leaves(data)[0].shape[0]
        vary = self.engine.counts_vary
        phases = len(self.algorithm.phases)
        trace = _Trace(
            jnp.zeros((self.chunk, len(self.figures.names), self.repeats), self.dtype),
            jnp.zeros((self.chunk if vary else 1, phases, self.repeats), jnp.int32),
            jnp.zeros((self.chunk, phases), self.dtype),
            tuple(jnp.zeros((self.chunk, *a.shape), a.dtype) for a in self._answering(world, carry, data)),
        )

        def body(k: Array, loop: tuple[Carry, Desks, _Trace]) -> tuple[Carry, Desks, _Trace]:
            before, desks, trace = loop
            batch = self.data.batch(data, (offset + k) % length)
            pick = partial(self.data.batches_of, data, (offset + k) % length)
            carry, desks, tally = self.engine.round(world, before, batch, desks, pick)
            if self.evaluate == "everyone":
                figures = self.figures.of_round(self.engine.models(world, before), batch)
            else:
                assert tally.cohort is not None  # checked before the run
                figures = self.figures.of_cohort(
                    self.engine.models_of(world, before, tally.cohort), pick(tally.cohort.position), tally.cohort
                )
            note = jax.lax.dynamic_update_index_in_dim
            trace = _Trace(
                note(trace.figures, figures, k, 0),
                note(trace.messages, tally.messages, k if vary else 0, 0),
                note(trace.ratios, tally.ratios, k, 0),
                tuple(note(all_, now, k, 0) for all_, now in zip(trace.took_part, tally.took_part, strict=True)),
            )
            return carry, desks, trace

        carry, _, trace = jax.lax.fori_loop(0, count, body, (carry, self.engine.desks(), trace))
        return carry, trace

    def _answering(self, world: World, carry: Carry, data: Tree) -> tuple[Array, ...]:
        """Return what is noted of who took part in a round."""
        if not self.answering:
            return ()
        first = jax.eval_shape(lambda data: self.data.batch(data, jnp.int32(0)), data)
        tally: Tally = jax.eval_shape(self.engine.round, world, carry, first, self.engine.desks())[2]
        return tally.took_part

    def _models(self, world: World, carry: Carry) -> Params:
        """Models with leading axes (repeats, agents), in the order of the graph."""
        return self._by_repeat(joined(self.engine.models(world, carry)))

    def _diagnostics(self, carry: Carry) -> dict[str, Array]:
        """What the method shows of the learners' states, leading axes (repeats, agents)."""
        states = self.engine.states(self.algorithm.learner, carry)
        shown = self.algorithm.diagnostics.items()
        return {name: self._by_repeat(joined([jax.vmap(f)(state) for state in states])) for name, f in shown}

    def _by_repeat(self, values: Tree) -> Tree:
        """Put values in internal order into the order of the graph, repeat by repeat."""
        return jax.tree.map(
            lambda m: m[self.learners.position].reshape(self.repeats, self.learners.agents, *m.shape[1:]), values
        )

    def _recorded_names(self) -> list[str]:
        return ["consensus", *self.algorithm.diagnostics, *self.recorders]

    def _recorded(self, carry: Carry) -> dict[str, np.ndarray]:
        """What is recorded of the state, (repeats, ...) each."""
        models = self.models(self.world, carry)
        found = {"consensus": np.asarray(self.consensus(models))}
        if self.algorithm.diagnostics:
            found |= {name: np.asarray(shown) for name, shown in self.diagnostics(carry).items()}
        if self.recorders:
            each = [jax.tree.map(lambda m, r=r: m[r], models) for r in range(self.repeats)]
            found |= {name: np.stack([np.asarray(f(m)) for m in each]) for name, f in self.recorders.items()}
        return found

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, record_every: int | None, path: Path | None, progress: bool | None) -> Run:
        """Run all rounds, from a checkpoint where there is one, which nobody else writes meanwhile."""
        with nullcontext() if path is None else writing_file(path):
            return self._run(record_every, path, progress)

    def _run(self, record_every: int | None, path: Path | None, progress: bool | None) -> Run:
        every = max(1, self.rounds // 50) if record_every is None else record_every
        if not isinstance(every, int) or every < 1:
            raise ConfigError(f"record_every is {record_every}; expected a whole number from 1 on")
        carry = jax.jit(self.engine.start)(self.world, self.params, self.own_params)
        known = {} if path is None else self._fingerprint(carry)
        data = None if path is None else DataIdentity(self.streams, self.rounds)
        log = checkpoints.Log(known, self._recorded_names(), len(self.answering), data)
        if path is not None and path.exists():
            carry = checkpoints.load(path, log, carry)
            if log.rounds > self.rounds:
                raise ResultError(
                    f"{path} holds {log.rounds} rounds, but {self.rounds} were asked for; ask for more, or name "
                    "another file"
                )
        resident = self.data.resident()
        done = log.rounds
        compile_seconds = self._compile(carry, resident)
        jax.block_until_ready((carry, resident))
        begun = time.perf_counter()
        with Progress(self.rounds, done, self.algorithm.name, progress) as bar, Interrupts() as interrupts:
            for first, count, data in self.data.pieces(done, every, resident):
                offset = np.int32(0 if self.data.period is None else first % self.data.period)
                carry, trace = self.advance(self.world, carry, data, offset, count)
                figures, ratios = np.asarray(trace.figures[:count]), np.asarray(trace.ratios[:count])
                took_part = [np.asarray(rounds[:count]) for rounds in trace.took_part]
                log.add(int(count), figures, np.asarray(trace.messages), ratios, took_part)
                done = first + count
                recorded = done % every == 0 or done == self.rounds
                if recorded:
                    log.record(done, self._recorded(carry))
                if path is not None and (recorded or interrupts.asked):
                    checkpoints.save(path, log, carry)
                bar.at(done)
                if interrupts.asked:
                    break
            jax.block_until_ready(carry)
            seconds = time.perf_counter() - begun
        return self._collect(carry, log, seconds, compile_seconds)

    def _fingerprint(self, carry: Carry) -> dict[str, Any]:
        """All that the figures follow from: a checkpoint goes on only where nothing of it has changed."""
        batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((self.learners.order.size, *s.shape), s.dtype), self.spec)
        program = jax.jit(self.engine.round).lower(self.world, carry, batch, self.engine.desks())
        return {
            "program": checkpoints.digest(program.as_text()),
            "links": checkpoints.digest(self.world),
            "start": checkpoints.digest(carry),
            "channel": str(self.engine.channel),
            "figures": self.figures.names,
            "recorded": list(self.recorders),
            "algorithm": self.algorithm.name,
            "graph": self.graph_name,
            "stream": self.streams[0].name,
            "agents": self.learners.agents,
            "repeats": self.repeats,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }

    def _compile(self, carry: Carry, resident: Tree | None) -> float:
        begun = time.perf_counter()
        data = resident if resident is not None else self.data.abstract_chunk()
        number = jax.ShapeDtypeStruct((), jnp.int32)
        self.advance = jax.jit(self._advance, donate_argnums=1).lower(self.world, carry, data, number, number).compile()
        self.models = jax.jit(self._models).lower(self.world, carry).compile()
        return time.perf_counter() - begun

    def _collect(self, carry: Carry, log: checkpoints.Log, seconds: float, compile_seconds: float) -> Run:
        figures, messages = log.figures(), log.messages().astype(np.int64)
        per_round = {name: figures[:, k].T for k, name in enumerate(self.figures.names)}
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
        models = jax.tree.map(np.asarray, self.models(self.world, carry))
        streams: Sequence[Stream] = self.streams
        releases = [spec.release for spec in self.engine.specs]
        in_sequence = any(release.in_sequence for release in releases if release.from_data)
        readings = readings_of(streams, self.learners, self.answering, log.took_part(), log.ratios(), in_sequence)
        spent = spent_in_run(self.algorithm.privacy, releases, log.ratios(), readings)
        return Run(
            algorithm=self.algorithm.name,
            objective=self.algorithm.objective,
            agents=self.learners.agents,
            rounds=log.rounds,
            repeats=self.repeats,
            seed=self.seed,
            dtype=self.dtype.name,
            per_round=per_round,
            recorded_rounds=np.array(log.recorded_rounds),
            recorded={
                name: np.stack(values, axis=1) if values else np.zeros((self.repeats, 0))
                for name, values in log.recorded.items()
            },
            models=models,
            privacy=RunPrivacy(self.algorithm.privacy, *spent, public_of(streams)),
            streams=streams,
            graph=self.graph_name,
            stream=self.streams[0].description,
            seconds=seconds,
            compile_seconds=compile_seconds,
            partial=log.rounds < self.rounds,
            within=None if self.algorithm.domain is None else self.algorithm.domain.within,
            constraints=self.algorithm.constraints,
            evaluated=self.evaluate,
            traffic=traffic,
        )
