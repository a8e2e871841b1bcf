"""`audit`: an attack on a method on every problem that fits it, of which the strongest is reported.

The attacker may choose: of every problem it looks at some trials, and takes the problem and the test that promise the
largest share of the claim. That one test is then judged on the other trials of that problem, so that the confidence is
that of one test however many were tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tacit.algorithms import Entry
from tacit.audit.attacked import Attacked, Setting, attacked, made
from tacit.audit.bounds import tried
from tacit.audit.problem import Method, Problem
from tacit.audit.problems import method_of, named
from tacit.audit.report import Audit, Outcome, limit_of
from tacit.core.checks import whole_number
from tacit.core.contract import Algorithm, Mechanism
from tacit.core.errors import ConfigError, ContractError, GraphError, RequirementError
from tacit.graphs import Graph, Topology
from tacit.privacy.spending import DELTA

CONFIDENCE = 0.999
_FEWEST_TRIALS = 100
_DOES_NOT_FIT = (ConfigError, RequirementError, GraphError, TypeError, ValueError, AttributeError, KeyError, IndexError)
"""Errors by which a method declines a problem, after the first one."""


def audit(
    constructor: Callable[..., Algorithm] | Entry,
    mechanism: Mechanism,
    *,
    trials: int | None = None,
    rounds: int | None = None,
    coordinates: int | None = None,
    records: int | None = None,
    graph: Graph | Topology | None = None,
    one_link: bool = False,
    delta: float = DELTA,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    problems: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda problem: None,
) -> Audit:
    """Attack a method's privacy claim: `constructor(objective, mechanism=mechanism)`, run many times under watch.

    Args:
      constructor: Makes the method from an objective and a mechanism; a registered `Entry` brings example settings. A
        problem chooses the settings that it needs (constraints, a cohort), unless `functools.partial` has.
      mechanism: The noise whose claim is attacked; masks are for `audit_masks`.
      trials: Runs per problem, from 100 on; None: each problem's own number, 40,000 for most. More show more.
      rounds: Rounds of each run, from 1 on; None: each problem's own number, and so for the next two.
      coordinates: Parameters of the model.
      records: Records per round and agent.
      graph: The network; None: the smallest on which the method runs. Agent 0 is the victim.
      one_link: Whether the attacker sees the victim's messages to one neighbour, not to all; the claim stays that of
        the whole.
      delta: Above 0 and below 1, where claims made by Gaussian noise are compared.
      confidence: Probability with which the lower bound holds, from 0.5 to below 1.
      seed: Of the runs.
      problems: Names of `tacit.audit.PROBLEMS`; None: all that fit.
      seconds: No further problem is begun after this time; None: no limit.
      progress: Gets the name of each problem as it begins.

    Returns:
      The strongest attack, with a verdict.

    Example:
      A quick attack on one problem, and the problems that there are::

        audit(tacit.algorithms.online_push_sum, tacit.privacy.laplace(epsilon=1.0, clip=1.0), trials=2000,
              rounds=1, problems=["linear"])
        # Audit(online_push_sum with laplace: holds, epsilon >= 0.59 of 1 claimed)

      >>> from tacit.audit import PROBLEMS
      >>> PROBLEMS["linear"].finds
      'too little noise, a clip that does not hold, a missing charge'

    References: Jagielski, Ullman and Oprea (2020) on lower bounds by attack; docs/privacy.md describes the attacker.
    """
    begun = time.perf_counter()
    sizes = {"trials": trials, "rounds": rounds, "coordinates": coordinates, "records": records}
    _check(mechanism, sizes, confidence)
    method = method_of(constructor)
    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    chosen = [problem._replace(**given) for problem in named(problems)]
    setting = Setting(mechanism, graph, one_link, delta, 1 - confidence, seed)
    outcomes: list[Outcome] = []
    best: Attacked | None = None
    for number, problem in enumerate(chosen):
        if not set(problem.needs) <= method.takes:
            continue
        if number and seconds is not None and time.perf_counter() - begun > seconds:
            outcomes.append(Outcome(problem.name, skipped="there was no time for it"))
            continue
        progress(problem.name)
        try:
            found = _on(method, problem, setting)
        except ContractError as error:
            outcomes.append(Outcome(problem.name, refused=str(error)))
            break
        except _DOES_NOT_FIT as error:
            if number == 0:
                raise
            outcomes.append(Outcome(problem.name, skipped=f"it does not fit: {error}".splitlines()[0]))
            continue
        if found is None:
            continue
        outcomes.append(Outcome.of(found))
        if best is None or found.share > best.share:
            best = found
        if found.claim is None or not found.claim.private or found.promised > found.claim.epsilon:
            break  # nothing is claimed, or the claim is about to fall: other problems have nothing to add
    return _report(best, outcomes, method, setting, confidence, time.perf_counter() - begun)


def _on(method: Method, problem: Problem, setting: Setting) -> Attacked | None:
    """Attack on one problem; None where it is not for such a method."""
    algorithm = made(method, setting.mechanism, problem)
    return attacked(algorithm, problem, setting) if problem.fits(method, algorithm) else None


def _report(
    best: Attacked | None,
    outcomes: Sequence[Outcome],
    method: Method,
    setting: Setting,
    confidence: float,
    seconds: float,
) -> Audit:
    refused = next((outcome.refused for outcome in outcomes if outcome.refused is not None), None)
    name = getattr(method.make, "__name__", "method") if best is None else best.algorithm
    finding = None if best is None else tried(best.test, best.trials, delta=best.delta, alpha=setting.alpha)
    return Audit(
        algorithm=name,
        mechanism=setting.mechanism.name,
        claim=None if best is None else best.claim,
        finding=finding,
        confidence=confidence,
        problem=None if best is None else best.problem,
        limit="" if best is None or finding is None else limit_of(best, finding),
        tried=tuple(outcomes),
        refused=refused,
        seed=setting.seed,
        seconds=seconds,
        sees="what the victim sends to one neighbour" if setting.one_link else "every message of the victim",
    )


def _check(mechanism: Mechanism, sizes: Mapping[str, int | None], confidence: float) -> None:
    for name, value in sizes.items():
        least = _FEWEST_TRIALS if name == "trials" else 1
        if value is not None:
            whole_number(name, value, least=least)
    if not 0.5 <= confidence < 1:
        raise ConfigError(f"confidence = {confidence!r}: expected a number from 0.5 to below 1")
    if mechanism.spread == "masked":
        raise ConfigError(f"mechanism {mechanism.name!r} adds masks, not noise of its own; use audit_masks")
    if mechanism.finish is not None or mechanism.distribution == "bounded_laplace":
        raise ConfigError(
            f"mechanism {mechanism.name!r} changes the value after its noise, so that the noise cannot be read off "
            "what is released; audit laplace or gaussian"
        )
