"""References of private runs: the same method without noise, alone with the same noise, alone without, and a constant.

"Alone" is the method itself on a network without links: every agent hears nobody, and where there are servers each
agent has one of its own. Noise, clip, steps and data are those of the private run, and so is the privacy of a record.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit import runtime
from tacit.config.choices import Choice
from tacit.config.experiment import Config
from tacit.config.methods import make_method
from tacit.core.contract import Algorithm, Mechanism, Objective, Requirement, unprotected
from tacit.core.errors import ConfigError, TacitError, TacitWarning
from tacit.experiments.constant import constant_run
from tacit.graphs import Graph, Topology
from tacit.results import Comparison, Run
from tacit.results.references import ALONE, ALONE_WITHOUT_NOISE, CONSTANT, WITHOUT_NOISE

if TYPE_CHECKING:
    from tacit.simulator.simulation import GraphSource, StreamSource

OF_LINKS: frozenset[Requirement] = frozenset({"strongly_connected", "connected_over_time", "several_senders"})
"""Requirements that speak of others, and mean nothing to an agent that is alone."""
SENT_NOWHERE = "not private: nothing is sent, but whoever gets to see a model sees what it has learnt"


class Reference(NamedTuple):
    """A run to compare private ones with."""

    label: str
    """Name in tables."""
    choice: Choice
    """Its settings."""
    algorithm: Algorithm


class References(NamedTuple):
    """The references of an experiment."""

    runs: list[Reference]
    """Those that the file does not have already, each once."""
    of: dict[str, dict[str, str]]
    """Label of a private run -> what it is compared with -> label of that run."""
    left_out: list[str]
    """References that cannot be run, and why; a run that is refused is added when it is tried."""

    def leave_out(self, label: str, error: TacitError) -> None:
        """Note a reference that cannot be run: its absence stops nothing else."""
        self.left_out.append(f"{label}: left out, since it cannot be run ({error})")


def alone(algorithm: Algorithm) -> Algorithm:
    """Return a method whose agents hear nobody: what each would learn by itself, with the same noise and steps.

    Args:
      algorithm: Any method. The servers of one that has servers are copied: each learner gets one of its own.

    Returns:
      The method, with a topology that drops all links between learners, and without what it required of those.

    Example:
      >>> import tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
      >>> "strongly_connected" in ops.requires, "strongly_connected" in tacit.experiments.alone(ops).requires
      (True, False)
    """

    def apart(given: Topology) -> Topology:
        made = given if algorithm.topology is None else algorithm.topology(given)
        learners = made.roles[algorithm.learner]
        return Topology(
            dict.fromkeys(made.roles, learners),
            {name: _apart(made.links[name], learners) for name in runtime.link_ends(algorithm) if name in made.links},
            {role: labels for role, labels in made.clusters.items() if role == algorithm.learner},
            {role: there for role, there in made.availability.items() if role == algorithm.learner},
        )

    statement = algorithm.privacy
    return algorithm._replace(
        name=f"{algorithm.name}, alone",
        requires=algorithm.requires - OF_LINKS,
        topology=apart,
        window=None,
        privacy=statement if statement.private else statement._replace(holds=SENT_NOWHERE),
    )


def _apart(links: Graph, agents: int) -> Graph:
    if links.sources is not None:
        every = np.arange(agents)
        return Graph.from_edges(agents, every, every, sources=agents, name=links.name)
    return links.disconnected() if links.agents == agents else Graph.from_edges(agents, [], [], name=links.name)


def made(choice: Choice, objective: Objective) -> Algorithm:
    """Return the method that an [[algorithm]] asks for."""
    algorithm = make_method(choice, objective)
    return alone(algorithm) if getattr(choice.values, "alone", False) else algorithm


def references_of(
    config: Config, objective: Objective, algorithms: tuple[Algorithm, ...], check: Callable[[Algorithm], object]
) -> References:
    """Return the references of an experiment's private methods, those with equal settings once.

    Args:
      config: The experiment.
      objective: Its objective.
      algorithms: Its methods, in order.
      check: Raises where a method cannot run on the experiment's graph.
    """
    known = {_key(choice): label for choice, label in zip(config.algorithms, config.labels, strict=True)}
    planned = References([], {}, [])
    several = sum(algorithm.privacy.private for algorithm in algorithms) > 1
    for choice, label, algorithm in zip(config.algorithms, config.labels, algorithms, strict=True):
        if not algorithm.privacy.private:
            continue
        planned.of[label] = {}
        for kind, wanted in _wanted(choice, algorithm).items():
            key = _key(wanted)
            if key not in known:
                name = _free(f"{label}: {kind}" if several else kind, set(known.values()))
                named = wanted._replace(values=wanted.values.model_copy(update={"label": name}))
                try:
                    reference = Reference(name, named, made(named, objective))
                    check(reference.algorithm)
                except TacitError as error:
                    planned.leave_out(name, error)
                    continue
                planned.runs.append(reference)
                known[key] = name
            planned.of[label][kind] = known[key]
    return planned


def _wanted(choice: Choice, algorithm: Algorithm) -> dict[str, Choice]:
    noises = [key for key, table in choice.tables.items() if isinstance(table.made, Mechanism)]
    quiet = choice._replace(
        values=choice.values.model_copy(update=dict.fromkeys(noises)),
        tables={key: table for key, table in choice.tables.items() if key not in noises},
    )
    if getattr(choice.values, "alone", False):
        return {ALONE_WITHOUT_NOISE: quiet}
    apart = {ALONE: choice, ALONE_WITHOUT_NOISE: quiet}
    if _cancels(algorithm):
        del apart[ALONE]
    by_itself = {
        kind: each._replace(values=each.values.model_copy(update={"alone": True})) for kind, each in apart.items()
    }
    return {WITHOUT_NOISE: quiet, **by_itself}


def _cancels(algorithm: Algorithm) -> bool:
    """Whether noise is made to cancel over the links: an agent that is alone would have none."""
    return any(phase.mechanism.spread == "homomorphic" for phase in algorithm.phases)


def _key(choice: Choice) -> str:
    settings = {key: value for key, value in choice.settings("name").items() if key != "label"}
    return json.dumps(settings, sort_keys=True, default=repr)


def _free(label: str, taken: set[str]) -> str:
    number, name = 2, label
    while name in taken:
        number, name = number + 1, f"{label} {number}"
    return name


def compare(
    method: Callable[[Mechanism], Algorithm],
    mechanism: Mechanism,
    graph: GraphSource,
    stream: StreamSource,
    **settings: Any,
) -> Comparison:
    """Run a private method beside its references: without noise, alone, alone without noise, and a constant.

    A `TacitWarning` says where the private run is worse than a constant or than staying alone.

    Args:
      method: Mechanism -> the method with it, e.g. ``lambda noise: online_push_sum(objective, mechanism=noise)``.
      mechanism: Noise of the private run.
      graph: Links of the agents, as for `tacit.simulate`.
      stream: Data, as for `tacit.simulate`.
      **settings: Further arguments of `tacit.simulate`: ``rounds``, ``repeats``, ``seed`` and so on.

    Returns:
      All runs in one table; `Comparison.sentences` says who won, and `save` writes the report.

    Example:
      >>> import tacit
      >>> objective = tacit.objectives.logistic()
      >>> both = tacit.compare(
      ...     lambda noise: tacit.algorithms.online_push_sum(objective, step=0.3, mechanism=noise),
      ...     tacit.privacy.laplace(50.0, clip=1.0),
      ...     tacit.graphs.ring(4),
      ...     tacit.streams.logistic_drift(4, 3, batch=16),
      ...     rounds=20,
      ... )
      >>> [record.label for record in both.records]
      ['private', 'without noise', 'alone, same noise', 'alone, without noise', 'a constant']
    """
    private, quiet = method(mechanism), method(unprotected)
    if not private.privacy.private or quiet.privacy.private:
        raise ConfigError(
            f"mechanism {mechanism!r}: expected one with which {private.name!r} promises privacy, and a method that "
            "takes its noise from its argument; give a mechanism with a clip, and a function of it"
        )
    methods = {"private": private, WITHOUT_NOISE: quiet, ALONE: alone(private), ALONE_WITHOUT_NOISE: alone(quiet)}
    if _cancels(private):
        del methods[ALONE]
    from tacit.simulator import simulate

    runs = {label: simulate(each, graph, stream, **settings) for label, each in methods.items()}
    for label, run in runs.items():
        run.label, run.is_reference = label, label != "private"
    of = {"private": {kind: kind for kind in methods if kind != "private"}}
    return _told(with_constant(list(runs.values()), of), 3)


def warn_of_constant(run: Run) -> None:
    """Warn of a private run, made by a call of the caller's, that is worse than a constant on the same data."""
    run.label = run.label or run.algorithm
    if run.privacy.private:
        _told(with_constant([run], {run.label: {}}), 4)


def _told(runs: list[Run], level: int) -> Comparison:
    """Return the comparison of runs, having warned of what the private one should not be worse than."""
    comparison = Comparison(tuple(run.record() for run in runs), runs[0].label)
    for words in comparison.cautions():
        warnings.warn(words, TacitWarning, stacklevel=level)
    return comparison


def with_constant(runs: list[Run], of: Mapping[str, Mapping[str, str]]) -> list[Run]:
    """Return the runs, the private ones told what to be compared with, and the constant where there is one."""
    private = [run for run in runs if run.label in of]
    if not private:
        return runs
    constant = constant_run(private[0])
    if constant is not None:
        constant.label = _free(constant.label, {run.label for run in runs})
    for run in private:
        run.references = {**of[run.label], **({} if constant is None else {CONSTANT: constant.label})}
    return runs if constant is None else [*runs, constant]
