"""From a checked experiment to graphs, streams and algorithms, and to runs of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tacit import runtime
from tacit.config.choices import Choice, task_of
from tacit.config.experiment import SYNTHETIC, Config
from tacit.config.schedule import availability_of_agents, shifts_of
from tacit.config.sections import Place, in_words_of_a_file, located
from tacit.core import limits
from tacit.core.contract import Algorithm, Objective
from tacit.core.errors import DataError, RequirementError, TacitError
from tacit.experiments.choosing import Choosing, apart
from tacit.experiments.private import planned
from tacit.experiments.references import References, made, references_of, with_constant
from tacit.experiments.tables import Tabular, seeded
from tacit.graphs import Channel, Delay, Graph, Topology, as_topology
from tacit.metrics.held_out import HeldOut
from tacit.privacy.planning import Plan
from tacit.results import Run
from tacit.results.live.parts import Watch
from tacit.results.record import Refusal
from tacit.streams import Stream
from tacit.streams.learnt import refuse_undeclared

if TYPE_CHECKING:
    from tacit.attacks.kinds import Attack


WatchOf = Callable[[str, dict[str, Any]], Watch]
"""Label and settings of a run -> who is told of it."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An experiment made of objects: arguments of `tacit.simulate`, algorithm by algorithm; `build` makes it."""

    config: Config
    """The settings that it was made of."""
    graph: Callable[[int], Graph | Topology]
    """Seed of a repeat -> its graph."""
    stream: Callable[[int], Stream]
    """Seed of a repeat -> its data; the same object each time, so that algorithms share its comparator."""
    objective: Objective
    """Loss and regulariser."""
    algorithms: tuple[Algorithm, ...]
    """The methods to compare, in order."""
    channel: Channel
    """Losses and delays of messages."""
    plan: Plan | None = None
    """What [privacy] was made into, where there is one."""
    refused: list[Refusal] | None = None
    """Methods of the file that are left out, and why: a run that is refused is added when it is tried. None: the first
    one that cannot run stops everything."""
    held_out: HeldOut | None = None
    """Rows that final models are judged by."""
    choosing: Choosing | None = None
    """Rows that choose the best models of each run, which are then its final ones; None: the last are."""

    def liars_of(self, seed: int) -> dict[int, Attack]:
        """Return the agents that lie, by number, and how.

        Args:
          seed: Of a repeat; it is the same agents in all of them.
        """
        asked = self.config.liars
        if asked is None:
            return {}
        from tacit.attacks.crew import validate_liars

        agents = self.stream(seed).agents
        with located(asked.place):
            return validate_liars(dict.fromkeys(asked.settings.numbers(agents), asked.attack), agents)

    def check(self, choice: Choice, algorithm: Algorithm) -> None:
        """Refuse a method that cannot run, before any has begun.

        Args:
          choice: Its settings, which say where in the file it stands.
          algorithm: The method.
        """
        graph = self.graph(self.config.run.seed)
        with located(self.config.stream.place):
            refuse_undeclared(algorithm, [self.stream(self.config.run.seed)])
        with located(choice.place):
            runtime.prepared_topology(algorithm, graph, self.channel)

    @functools.cached_property
    def references(self) -> References:
        """Runs that the private methods are compared with; none where the file says `references = false`."""
        if not self.config.run.references:
            return References([], {}, [])
        graph = self.graph(self.config.run.seed)
        check = functools.partial(runtime.prepared_topology, graph=graph, channel=self.channel)
        return references_of(self.config, self.objective, self.algorithms, check)

    def runs(
        self, progress: bool | None = None, watch: Sequence[WatchOf] = (), bar: bool | None = None
    ) -> Iterator[Run]:
        """Run one algorithm after the other, then the references of private ones; an interrupted one is the last.

        Ctrl-C while regret is computed gives the run without it, and is raised afterwards.

        Args:
          progress: Whether bars show the rounds, and the solver of the regret; None: where there is a terminal.
          watch: Functions of a run's label and settings that return who is told of its rounds, e.g. a
            ``tacit.results.live.LiveFolder``.
          bar: Whether a bar shows the rounds; None: as `progress` says. One of the watchers may show them instead.

        Returns:
          An iterator of finished runs, in the order of the file.
        """
        of = self.references.of
        finished: list[Run] = []
        for algorithm, label, described in self._listed():
            needed = {name for run in finished for name in of.get(run.label, {}).values()}
            if label not in self.config.labels and label not in needed:
                continue  # the private method that it is a reference of was refused
            try:
                run = self._run(
                    algorithm, progress if bar is None else bar, tuple(watcher(label, described) for watcher in watch)
                )
            except TacitError as error:
                if label not in self.config.labels:
                    self.references.leave_out(label, error)
                elif self.refused is None:
                    raise
                else:
                    self.refused.append(Refusal(label, str(error)))
                continue
            run.label, run.settings, run.references = label, described, of.get(label, {})
            run.is_reference = label not in self.config.labels
            stopped: KeyboardInterrupt | None = None
            try:
                self.judge(run, progress)
            except KeyboardInterrupt as error:
                stopped = error
            finished.append(run)
            yield run
            if stopped is not None:
                raise stopped
            if run.partial:
                return
        yield from with_constant(finished, of)[len(finished) :]

    def judge(self, run: Run, progress: bool | None = None) -> None:
        """Give a finished run its figures on held-out rows and its regret, as far as the experiment asks for them.

        Args:
          run: A run of one of its methods.
          progress: Whether a bar shows the solver of the regret; None: where there is a terminal.
        """
        if self.held_out is not None:
            run.evaluate_on([self.held_out], task_of(self.config.objective)[0])
        settings = self.config.run
        if not settings.regret_points or run.partial:
            return
        from tacit.simulator.progress import Progress

        with Progress(settings.regret_points * len(run.streams), 0, f"regret of {run.label}", progress) as bar:
            told = functools.partial(bar.of, hint="(regret_points = 0: none)")
            run.regret(settings.regret_points, settings.regret_window if run.constraints else None, told=told)

    def _run(self, algorithm: Algorithm, progress: bool | None, watch: Sequence[Watch]) -> Run:
        from tacit.simulator import simulate

        settings = self.config.run
        best = None if self.choosing is None else self.choosing.best(algorithm.objective)
        with limits.memory(settings.memory), in_words_of_a_file():
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
                record={} if best is None else {"held_out": best},
                record_every=settings.record_every,
                progress=progress,
                devices=settings.devices,
                liars=self.liars_of(settings.seed),
                watch=watch,
            )
        return run if best is None or best.models is None else best.of(run)

    def _listed(self) -> list[tuple[Algorithm, str, dict[str, Any]]]:
        """Return what is run: method, label and settings as they would stand in a file."""
        config = self.config
        asked = zip(self.algorithms, config.labels, strict=True)
        return [
            *((algorithm, label, config.settings(only=k)) for k, (algorithm, label) in enumerate(asked)),
            *(
                (
                    reference.algorithm,
                    reference.label,
                    config.settings() | {"algorithm": [reference.choice.settings("name")]},
                )
                for reference in self.references.runs
            ),
        ]


def build(config: Config, *, strict: bool = True) -> Problem:
    """Make the objects of an experiment; nothing is run yet.

    Args:
      config: A checked experiment, of `tacit.experiments.load` or `parse`.
      strict: Whether the first method that cannot run on this graph and these data stops everything. Otherwise it is
        left out of `Problem.config` and listed in `Problem.refused`, as long as another one can run.

    Returns:
      Graphs, streams and algorithms; `Problem.runs` runs them.

    Example:
      >>> from pathlib import Path
      >>> from tacit.experiments import build, parse
      >>> text = '''
      ... [run]
      ... rounds = 5
      ... [graph]
      ... kind = "ring"
      ... agents = 4
      ... [stream]
      ... kind = "logistic_drift"
      ... dim = 3
      ... [objective]
      ... kind = "logistic"
      ... [[algorithm]]
      ... name = "online_push_sum"
      ... '''
      >>> problem = build(parse(text, Path("small.toml"), rounds=3))
      >>> list(problem.runs(progress=False))
      [Run(online_push_sum, 4 agents, 3 rounds, loss ..., not private)]
    """
    with limits.memory(config.run.memory):
        return _built(config, strict or len(config.algorithms) == 1)


def _built(config: Config, strict: bool) -> Problem:
    delay = config.run.channel.delay
    links = config.run.channel.links
    channel = Channel(
        config.run.channel.loss,
        None if delay is None else Delay(delay.p, delay.longest, delay.step),
        None if links is None else tuple(links),
    )
    graph = graph_maker(config.graph, config.dynamics)
    stream, tabular = _stream_maker(config, graph)
    with located(config.objective.place):
        weights = {} if tabular is None else tabular.class_weights(config.objective)
        objective = config.objective.function(**{**config.objective.arguments(), **weights})
    _check_length(config, stream(config.run.seed))
    plan = None
    if config.privacy is not None:
        config, plan = planned(config, config.privacy, stream(config.run.seed))
    held = apart(config.evaluate, None if tabular is None else tabular.held_out, config.run.seed)
    bare = Problem(config, _there(config.graph, graph, stream), stream, objective, (), channel, plan, None, *held)
    for common in (bare.graph, bare.stream, bare.liars_of):  # whose faults are no method's
        common(config.run.seed)
    kept: list[tuple[Choice, str, Algorithm]] = []
    refused: list[Refusal] = []
    for choice, label in zip(config.algorithms, config.labels, strict=True):
        try:
            algorithm = made(choice, objective)
            bare.check(choice, algorithm)
        except TacitError as error:
            if strict:
                raise
            refused.append(Refusal(label, str(error)))
        else:
            kept.append((choice, label, algorithm))
    if not kept:
        raise none_ran(refused)
    choices, labels, algorithms = zip(*kept, strict=True)
    left = replace(config, algorithms=choices, labels=labels)
    return replace(bare, config=left, algorithms=algorithms, refused=None if strict else refused)


def none_ran(refused: Sequence[Refusal]) -> TacitError:
    """Return the error of an experiment in which no method could run."""
    reasons = {each.reason: each.label for each in refused}
    if len(reasons) == 1:
        return RequirementError(refused[0].reason)
    told: dict[str, list[str]] = {}  # what they have in common, below their first lines -> these
    for reason, label in reasons.items():
        first, _, rest = reason.partition("\n")
        told.setdefault(rest or first, []).append(f"{label}: {first}")
    listed = ["\n".join([*firsts, *([] if firsts[0].endswith(rest) else [rest])]) for rest, firsts in told.items()]
    return RequirementError("\n".join([f"none of the {len(refused)} algorithms can run:", *listed]))


def _check_length(config: Config, stream: Stream) -> None:
    """Refuse more rounds than a stream has, in the words of a file."""
    if stream.rounds is None or stream.rounds >= config.run.rounds:
        return
    words = f"{config.file}: [run] rounds = {config.run.rounds:,}, but [stream] lasts for {stream.rounds:,}"
    if config.stream.kind in SYNTHETIC:
        raise DataError(f"{words}; say rounds = {stream.rounds}")
    settings: Any = config.stream.values
    stops, sizes = settings.exhausted == "stop", stream.data_size
    once, largest = stream.rounds // settings.passes, int(sizes.min() if stops else sizes.max())
    raise DataError(
        f"{words}: {'the smallest' if stops else 'the largest'} owner has {largest:,} rows, and each is read "
        f"{'once' if settings.passes == 1 else f'{settings.passes} times'}. Say rounds = {stream.rounds}, or have rows "
        f"read again by [stream] passes = {-(-config.run.rounds // once)} (everybody's equally often) or "
        'exhausted = "cycle" (whoever has few reads them more often); figures of the rounds are then training figures'
    )


def graph_maker(choice: Choice, dynamics: Choice | None) -> Callable[[int], Graph]:
    """Return the function from a repeat's seed to its graph."""

    @functools.cache
    def graph(seed: int) -> Graph:
        given = seeded(choice, seed)
        with located(choice.place):
            made: Graph = choice.function(**choice.arguments(), **given)
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

    place = Place(choice.place.file, "[[graph.availability]]")
    tables = availability_of_agents(probability, place) if isinstance(probability, list) else None

    @functools.cache
    def topology(seed: int) -> Topology:
        if tables is not None:
            given = as_topology(graph(seed))
            rules = [(table.agents, table) for table in tables]
            return replace(given, availability={"peer": shifts_of(rules, given.roles["peer"], place)})
        given, arrivals = as_topology(graph(seed)), stream(seed).arrivals
        with located(choice.place):
            return given.available("peer", probability, arrivals)

    return topology


def _stream_maker(config: Config, graph: Callable[[int], Graph]) -> tuple[Callable[[int], Stream], Tabular | None]:
    """Return the function from a repeat's seed to its stream, and the table that it is over, where there is one."""
    choice = config.stream
    if choice.kind in SYNTHETIC:
        # A stream whose data come spread over the rounds has to know how many there are; others have no end.
        default = inspect.signature(choice.function).parameters["rounds"].default
        lasts = {} if default is None else {"rounds": config.run.rounds}

        @functools.cache
        def synthetic(seed: int) -> Stream:
            with located(choice.place):
                settings = {**lasts, **choice.arguments(), **seeded(choice, seed)}
                made: Stream = choice.function(agents=graph(seed).agents, **settings)
                return made

        return synthetic, None
    table = Tabular(config, graph)
    return table.stream, table
