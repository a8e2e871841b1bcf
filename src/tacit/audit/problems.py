"""Problems of an audit, for the command and for the tests alike, and which of them fit a method.

The charge to a record depends on the kind of method, and so does the problem on which a record does as much as is
charged. A problem fits if the method takes its settings and runs on its network; others are left out, and the report
says why. A fault that none of these can show is not found: docs/privacy.md says what that leaves.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from tacit import runtime
from tacit.algorithms import Entry
from tacit.audit.problem import (
    BEYOND_CLIP,
    TRIALS,
    Method,
    Problem,
    echo,
    in_leaves,
    linear,
    odd_records,
    regularised,
    turned,
)
from tacit.core.contract import Algorithm, Array, Batch, Params
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Delay, Graph, Topology, as_topology, complete, federation, star_roles
from tacit.objectives import Constraint

_QUICK = 10_000
"""Trials where what is looked for shows at once."""
_FEWER = 20_000
"""Trials where power is not what it is run for."""
_MANY = 320_000
"""Trials where the most telling event is rare: as many signs must agree as there are links."""
_DUAL = ("constraints", "dual")


def method_of(constructor: Callable[..., Algorithm] | Entry) -> Method:
    """Return a method by its constructor; what `functools.partial` has settled is not for a problem to choose."""
    if isinstance(constructor, Entry):
        return Method(constructor.example, frozenset(inspect.signature(constructor.constructor).parameters))
    settled = constructor.keywords if isinstance(constructor, functools.partial) else {}
    parameters = inspect.signature(constructor).parameters.values()
    return Method(constructor, frozenset(p.name for p in parameters if p.kind != p.VAR_KEYWORD) - set(settled))


def smallest_network(algorithm: Algorithm) -> Graph | Topology:
    """Return three agents that all hear each other, three clients of one server, or the nearest to it."""
    if algorithm.learner == "peer":
        clustered = "cluster" in runtime.link_ends(algorithm)
        return complete(4).with_clusters([0, 0, 1, 1]) if clustered else complete(3)
    between_servers = any(phase.source == phase.target for phase in algorithm.phases)
    return federation(complete(2), 2) if between_servers else star_roles(3)


def named(names: Sequence[str] | None) -> tuple[Problem, ...]:
    """Return the problems of these names, or all."""
    if names is None:
        return tuple(PROBLEMS.values())
    unknown = [name for name in names if name not in PROBLEMS]
    if unknown:
        raise ConfigError(f"problem {unknown[0]!r}: expected one of {', '.join(PROBLEMS)}")
    return tuple(PROBLEMS[name] for name in names)


def _any(method: Method, algorithm: Algorithm) -> bool:
    return True


def _keeps_data(method: Method, algorithm: Algorithm) -> bool:
    """Whether every release is charged to every record: a record's mark on a private state shows in later ones."""
    return algorithm.privacy.private and algorithm.privacy.composition != "parallel" and not _has_duals(method)


def _has_duals(method: Method) -> bool:
    return set(_DUAL) <= method.takes


def _comes_again(method: Method, algorithm: Algorithm) -> bool:
    """Whether noise is fitted to records that come again, and every round is a release."""
    fitted = [phase.mechanism.correlation for phase in algorithm.phases if phase.mechanism.correlation is not None]
    return any(each.reads > 1 for each in fitted) and all(phase.answers is None for phase in algorithm.phases)


def _noise_per_link(method: Method, algorithm: Algorithm) -> bool:
    return any(phase.mechanism.spread == "per_edge" for phase in algorithm.phases)


def _for_duals(dual: str, constraint: Callable[[float], Constraint]) -> Callable[[float, int], Mapping[str, Any]]:
    return lambda bound, rounds: {"constraints": constraint(bound), "dual": dual, "damping": 0.0, "rounds": rounds}


def _switch(bound: float) -> Constraint:
    """Below 0 on the victim's data and far above on the neighbour's, whose records sum to less.

    The multiplier is then 0, or so large that the constraint's slope drowns the loss's gradient, which points the
    other way: every clipped gradient from there on turns round.
    """

    def value(params: Params, batch: Batch) -> Array:
        third = BEYOND_CLIP / 3  # of three records two cancel
        return jnp.asarray(100 * (0.975 * third * bound - jnp.mean(batch.y * batch.x[..., 0])) - 0.1 * params[0])

    return Constraint("switch", value)


def _telling(bound: float) -> Constraint:
    """Value and slope are the record itself, as the loss's gradient is: nothing tells more within the clip."""
    return Constraint("telling", lambda params, batch: jnp.mean(batch.y * (batch.x @ (1 + params))))


def _now_and_then(algorithm: Algorithm, smallest: Graph | Topology) -> Topology:
    return as_topology(smallest).available(algorithm.learner, 0.5)


def _five(algorithm: Algorithm, smallest: Graph | Topology) -> Graph | Topology:
    """Four links: the agent's own copy, which is charged and which no attacker sees, is then one of five."""
    return complete(5) if isinstance(smallest, Graph) and smallest.clusters is None else smallest


_quiet = functools.partial(turned, quiet=True)

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("linear", "too little noise, a clip that does not hold, a missing charge", turned, linear, _any),
        Problem(
            "switch", "a private multiplier that is charged too little", turned, linear, _any,
            rounds=3, records=1, positions=(1,), settings=_for_duals("private", _switch), needs=_DUAL,
        ),
        Problem(
            "telling", "constraints that leave without their noise", turned, linear, _any,
            settings=_for_duals("released", _telling), needs=_DUAL,
        ),
        Problem(
            "echo", "a private state that is charged too little", _quiet, echo, _keeps_data,
            rounds=2, records=1, positions=(1,), trials=2 * TRIALS,
        ),
        Problem(
            "links", "links that are charged too little together", turned, linear, _noise_per_link,
            rounds=1, records=1, trials=_MANY, graph=_five,
        ),
        Problem(
            "late", "faults that begin after some rounds, records that come again", turned, linear, _any,
            rounds=9, records=1, positions=(1, 6, 9),
        ),
        Problem(
            "again", "correlated noise that is fitted to fewer reads of a record", turned, linear, _comes_again,
            rounds=9, records=1, positions=(1,), again=True,
        ),
        Problem(
            "several", "clip, noise or regulariser of some coordinates", turned, regularised, _any,
            rounds=2, records=2, coordinates=3, trials=_FEWER,
        ),
        Problem(
            "leaves", "clip or noise of a part of the parameters", turned, in_leaves, _any,
            rounds=2, records=1, coordinates=2, trials=_FEWER,
        ),
        Problem(
            "odd records", "records of a huge weight, or not finite", odd_records, linear, _any,
            rounds=2, trials=_QUICK,
        ),
        Problem(
            "called", "clients that are sampled, and their local steps", turned, linear, _any,
            records=1, settings=lambda bound, rounds: {"cohort": 1, "local_steps": 2}, needs=("cohort",), trials=_FEWER,
        ),
        Problem(
            "away", "agents that come and go", turned, linear, _any, records=1, graph=_now_and_then, trials=_FEWER,
        ),
        Problem(
            "delayed", "messages that are lost or late", turned, linear, _any,
            records=1, channel=Channel(loss=0.2, delay=Delay(0.4, longest=2)), trials=_FEWER,
        ),
    )
}  # fmt: skip
"""Name -> problem, in the order in which they are run."""
