"""From a checked experiment to graphs, streams and algorithms, and to runs of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from tacit import runtime, streams
from tacit.contract import Algorithm, Objective
from tacit.errors import DataError
from tacit.experiments.config import DATASETS, SYNTHETIC, Config, Seed
from tacit.experiments.sections import Choice, located
from tacit.graphs import Channel, Delay, Graph, Topology, as_topology
from tacit.results import Run
from tacit.simulate import simulate
from tacit.streams import Stream
from tacit.streams.datasets import Dataset, with_bias


@dataclass(frozen=True, eq=False)
class Problem:
    """An experiment made of objects: what `simulate` is given, algorithm by algorithm."""

    config: Config
    graph: Callable[[int], Graph | Topology]
    """Seed of a repeat -> its graph."""
    stream: Callable[[int], Stream]
    """Seed of a repeat -> its data; the same object each time, so that algorithms share its comparator."""
    objective: Objective
    algorithms: tuple[Algorithm, ...]
    channel: Channel

    def check(self) -> None:
        """Refuse what cannot run, before any algorithm has begun."""
        graph = self.graph(self.config.run.seed)
        self.stream(self.config.run.seed)
        for choice, algorithm in zip(self.config.algorithms, self.algorithms, strict=True):
            with located(choice.place):
                runtime.prepared_topology(algorithm, graph, self.channel)

    def runs(self, progress: bool | None = None) -> Iterator[Run]:
        """Run one algorithm after the other; an interrupted one is the last.

        Ctrl-C while regret is computed gives the run without it, and is raised afterwards.
        """
        settings = self.config.run
        for k, algorithm in enumerate(self.algorithms):
            run = simulate(
                algorithm,
                self.graph,
                self.stream,
                rounds=settings.rounds,
                repeats=settings.repeats,
                seed=settings.seed,
                channel=self.channel,
                dtype=settings.dtype,
                node_loss=settings.node_loss,
                record_every=settings.record_every,
                progress=progress,
            )
            run.label = self.config.labels[k]
            run.settings = self.config.settings(only=k)
            stopped: KeyboardInterrupt | None = None
            if settings.regret_points and not run.partial:
                try:
                    run.regret(settings.regret_points, settings.regret_window if run.constraints else None)
                except KeyboardInterrupt as error:
                    stopped = error
            yield run
            if stopped is not None:
                raise stopped
            if run.partial:
                return


def build(config: Config) -> Problem:
    """Make the objects of an experiment; nothing is run yet."""
    delay = config.run.channel.delay
    links = config.run.channel.links
    channel = Channel(
        config.run.channel.loss,
        None if delay is None else Delay(delay.p, delay.longest, delay.step),
        None if links is None else tuple(links),
    )
    graph = graph_maker(config.graph, config.dynamics)
    stream = _stream_maker(config, graph)
    with located(config.objective.place):
        objective = config.objective.function(**config.objective.arguments())
    algorithms = []
    for choice in config.algorithms:
        with located(choice.place):
            algorithms.append(choice.function(objective, **choice.arguments()))
    problem = Problem(config, _there(config.graph, graph, stream), stream, objective, tuple(algorithms), channel)
    problem.check()
    return problem


def graph_maker(choice: Choice, dynamics: Choice | None) -> Callable[[int], Graph]:
    """Return the function from a repeat's seed to its graph."""

    @functools.cache
    def graph(seed: int) -> Graph:
        seeded = _seeded(choice, seed)
        with located(choice.place):
            made: Graph = choice.function(**choice.arguments(), **seeded)
            if dynamics is not None:
                made = made.with_dynamics(dynamics.function(**dynamics.arguments()))
            weights, clusters = (getattr(choice.values, name, None) for name in ("weights", "clusters"))
            made = made if weights is None else made.with_weights(weights)
            return made if clusters is None else made.with_clusters(clusters)

    return graph


def _there(
    choice: Choice, graph: Callable[[int], Graph], stream: Callable[[int], Stream]
) -> Callable[[int], Graph | Topology]:
    """Return the function from a repeat's seed to its graph, with agents that are there by chance where asked for."""
    probability = getattr(choice.values, "availability", None)
    if probability is None:
        return graph

    @functools.cache
    def topology(seed: int) -> Topology:
        given, arrivals = as_topology(graph(seed)), stream(seed).arrivals
        with located(choice.place):
            return given.available("peer", probability, arrivals)

    return topology


def _seeded(choice: Choice, seed: int) -> dict[str, int]:
    """Return the seed for a function that takes one: the repeat's, or the fixed one."""
    chosen: Seed | None = getattr(choice.values, "seed", None)
    if chosen is None:
        return {}
    return {"seed": seed if chosen == "repeat" else chosen}


def _stream_maker(config: Config, graph: Callable[[int], Graph]) -> Callable[[int], Stream]:
    choice = config.stream
    if choice.kind in SYNTHETIC:
        # A stream whose data come spread over the rounds has to know how many there are; others have no end.
        default = inspect.signature(choice.function).parameters["rounds"].default
        lasts = {} if default is None else {"rounds": config.run.rounds}

        @functools.cache
        def synthetic(seed: int) -> Stream:
            with located(choice.place):
                settings = {**lasts, **choice.arguments(), **_seeded(choice, seed)}
                made: Stream = choice.function(agents=graph(seed).agents, **settings)
                return made

        return synthetic
    return _Tabular(config, graph).stream


class _Tabular:
    """Streams over one table, which is read once."""

    def __init__(self, config: Config, graph: Callable[[int], Graph]) -> None:
        self.choice, self.partition, self.graph = config.stream, config.partition, graph
        self.settings = cast(Any, config.stream.values)
        with located(self.choice.place):
            found, self.owner = self._read()
            data = found.standardised() if self.settings.standardise else found
        self.x = with_bias(data.x) if self.settings.bias else data.x
        self.y, self.task = data.y, getattr(self.settings, "task", data.task)
        self.name, self.description = data.name, data.description
        self.stream = functools.cache(self._stream)

    def _read(self) -> tuple[Dataset, Any]:
        if self.choice.kind in DATASETS:
            return self.choice.function(), None
        table = self.choice.function(**self.choice.arguments())
        description = f"{len(table.x):,} rows of {self.settings.path}"
        data = Dataset(self.choice.kind, table.x, table.y, table.columns, description, complete=True, parts={})
        return data, table.owner

    def _stream(self, seed: int) -> Stream:
        agents = self.graph(seed).agents
        seed = _seeded(self.choice, seed)["seed"]
        shares, words = self._shares(agents, seed)
        with located(self.choice.place):
            return streams.from_arrays(
                self.x,
                self.y,
                shares,
                batch=self.settings.batch,
                exhausted=self.settings.exhausted,
                shuffle_seed=seed if self.settings.shuffle else None,
                task=self.task,
                name=self.name,
                description=f"{self.description}, {words}",
            )

    def _shares(self, agents: int, seed: int) -> tuple[Any, str]:
        if self.partition is None:
            owners = int(self.owner.max()) + 1
            if owners != agents:
                raise DataError(
                    f"{self.choice.place} owner = {self.settings.owner!r}: the file has {owners} owners, but "
                    f"the graph {agents} agents; give [graph] agents = {owners}"
                )
            return self.owner, "each owner's rows with its own agent"
        wanted = self.partition.function.__annotations__
        data = {name: found for name, found in (("rows", len(self.x)), ("x", self.x), ("y", self.y)) if name in wanted}
        own = self.partition.arguments()
        with located(self.partition.place):
            shares = self.partition.function(**data, agents=agents, seed=seed, **own)
        given = "".join(f", {name} {value:g}" for name, value in own.items())
        return shares, f"shared out by {self.partition.kind}{given}"
