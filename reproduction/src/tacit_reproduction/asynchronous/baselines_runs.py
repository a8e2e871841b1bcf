"""Runs of `pao-vs-baselines`: every method at steps that make it start like PAO-Fed, and at its own best step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tacit_reproduction.asynchronous.curves import steady_error
from tacit_reproduction.asynchronous.setting import (
    CLIENTS,
    IDEAL,
    ROUNDS,
    USUAL,
    Curve,
    Environment,
    Task,
    closest,
    labelled,
    lowest,
    run,
    tuning,
)
from tacit_reproduction.gaps import decibels
from tacit_reproduction.workers import Crew, crew

STEP, SHARE = 0.4, 4
"""PAO-Fed's, as in the text."""
CALLED, WIDER = 0.25, 16
"""Of PSO-Fed: 25 % of the clients that are there share 16 of 200 coordinates each, 2 % of everything."""
GRID = (0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8)
PAO_GRID, IDEAL_GRID = GRID[3:], GRID[1:-1]
SIGN_GRID = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03)
FEDSGD, PSO, SIGN, LONELY = "Online-FedSGD", "PSO-Fed", "SignSGD", "PSO-Fed, nobody learns alone"
PAO = ("U1", "U2", "C2")


def sized(variant: str, share: int) -> str:
    """Return the label of a variant of PAO-Fed with so many coordinates in a message."""
    return variant if share == SHARE else f"{variant}, m = {share}"


def called(fraction: float) -> str:
    """Return the label of Online-Fed that calls so many of the clients that are there."""
    return f"Online-Fed {100 * fraction:g} %" if fraction < 1 else FEDSGD


def own_best(label: str) -> str:
    """Return the label of a method at its own best step."""
    return f"{label}, best step"


def ideal(label: str) -> str:
    """Return the label of a method among clients that are always there and never late."""
    return f"{label}, ideal"


FED, HALF = called(0.02), called(0.5)


class Method(NamedTuple):
    """One method, but for its step."""

    label: str
    name: str
    settings: Mapping[str, Any]
    environment: Environment = USUAL


class Design(NamedTuple):
    """Extent of the experiment."""

    clients: int
    rounds: int
    seeds: int
    tuning_seeds: int
    """Seeds of their own on which steps are chosen; 0: they are `known`."""
    known: Mapping[str, float]
    """Steps that an earlier run matched."""
    sizes: tuple[int, ...]
    """Coordinates in a message of PAO-Fed, other than 4."""
    fractions: tuple[float, ...]
    """Of clients that Online-Fed calls, other than 0.02, 0.5 and 1."""
    ideal: bool
    """Whether clients that are always there are run as well."""


FULL = Design(CLIENTS, ROUNDS, 20, 2, {}, (1, 32, 200), (0.1,), ideal=True)
QUICK = Design(
    64, 500, 4, 0, {FEDSGD: 0.14, FED: 0.56, PSO: 0.28, HALF: 0.14, SIGN: 0.004}, sizes=(), fractions=(), ideal=False
)


class Chosen(NamedTuple):
    """Steps of a method, and what they were chosen by."""

    matched: float
    best: float
    tried: Mapping[float, float]
    """Step -> mean steady error in dB on the tuning seeds; empty where the step was known."""


class Evidence(NamedTuple):
    """Everything that was measured."""

    design: Design
    curves: Mapping[str, Curve]
    steps: Mapping[str, Chosen]


def baselines(design: Design) -> list[Method]:
    """Return the methods whose steps are to be matched."""
    fed = [Method(called(f), "online_fed", {"fraction": f}) for f in (0.02, *design.fractions, 0.5)]
    return [
        Method(FEDSGD, "online_fedsgd", {}),
        *fed,
        Method(PSO, "pso_fed", {"fraction": CALLED, "share": WIDER}),
        Method(SIGN, "sign_sgd", {}),
        *([Method(ideal(FEDSGD), "online_fedsgd", {}, IDEAL)] if design.ideal else []),
    ]


def pao(variant: str, share: int = SHARE, environment: Environment = USUAL) -> Method:
    """Return PAO-Fed."""
    label = sized(variant, share)
    label = ideal(label) if environment == IDEAL else label
    return Method(label, "pao_fed", {"variant": variant, "share": share}, environment)


def reference(method: Method) -> Method:
    """Return whom a baseline shall fall like at first."""
    return pao("U1") if method.environment == USUAL else pao("C2", SHARE, method.environment)


def task(design: Design, first: int, method: Method, step: float = STEP, label: str | None = None) -> Task:
    """Return a method with a step, on the seeds that are reported."""
    return Task(
        label or method.label,
        method.name,
        {**method.settings, "step": step},
        method.environment,
        rounds=design.rounds,
        seeds=design.seeds,
        seed=first,
        clients=design.clients,
    )


def chosen_steps(design: Design, first: int, team: Crew) -> dict[str, Chosen]:
    """Choose every baseline's steps, and the best ones of U1 and C2."""
    methods = baselines(design)
    if not design.tuning_seeds:
        return {method.label: Chosen(design.known[method.label], design.known[method.label], {}) for method in methods}
    paos = [pao("U1"), pao("C2")]
    cells = [(m, step) for m in (*methods, *paos) for step in _grid(m)]
    cells += [(pao("C2", SHARE, IDEAL), STEP)] if design.ideal else []
    runs = [tuning(task(design, first, m), (step,), design.tuning_seeds)[0] for m, step in cells]
    tried: dict[str, dict[float, Curve]] = {}
    for (method, step), curve in zip(cells, team("choosing steps", run, runs), strict=True):
        tried.setdefault(method.label, {})[step] = curve
    return {
        m.label: Chosen(
            closest(tried[m.label], tried[reference(m).label][STEP]) if m in methods else STEP,
            lowest(tried[m.label]),
            {step: float(decibels(steady_error(curve)).mean()) for step, curve in tried[m.label].items()},
        )
        for m in (*methods, *paos)
    }


def _grid(method: Method) -> tuple[float, ...]:
    """Return the steps among which a method's are chosen."""
    if method.name == "pao_fed":
        return PAO_GRID
    if method.name == "sign_sgd":
        return SIGN_GRID
    return IDEAL_GRID if method.environment == IDEAL else GRID


def tasks_of(design: Design, first: int, steps: Mapping[str, Chosen]) -> list[Task]:
    """Return everything that is reported."""
    paos = [*map(pao, PAO), *(pao(v, m) for m in reversed(design.sizes) for v in ("U1", "C2"))]
    if design.ideal:
        paos += [pao(v, SHARE, IDEAL) for v in ("U1", "C2")]
    everyone = {method.label: method for method in (*paos, *baselines(design))}
    matched = [task(design, first, m, steps[m.label].matched if m.label in steps else STEP) for m in everyone.values()]
    best = [
        task(design, first, everyone[label], chosen.best, own_best(label))
        for label, chosen in steps.items()
        if chosen.tried and chosen.best != chosen.matched and everyone[label].environment == USUAL
    ]
    return [*matched, *best, *([_lonely(design, first, steps)] if design.tuning_seeds else [])]


def _lonely(design: Design, first: int, steps: Mapping[str, Chosen]) -> Task:
    """Return PSO-Fed whose clients learn only when they are called: PAO-Fed where fewer of them are there."""
    fewer = USUAL._replace(name="fewer", availability=tuple(CALLED * chance for chance in USUAL.availability))
    settings = {"variant": "U1", "share": WIDER, "autonomous": False}
    return task(design, first, Method(LONELY, "pao_fed", settings, fewer), steps[PSO].matched)


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Choose steps and run everything, with seeds from `first` on."""
    with crew(workers) as team:
        steps = chosen_steps(design, first, team)
        curves = team("running", run, tasks_of(design, first, steps))
    return Evidence(design, labelled(curves), steps)


def swept(evidence: Evidence, variant: str) -> list[tuple[int, Curve]]:
    """Return a variant's curves by m."""
    sizes = sorted({SHARE, *evidence.design.sizes})
    return [(m, evidence.curves[sized(variant, m)]) for m in sizes]


def by_fraction(evidence: Evidence) -> list[Curve]:
    """Return Online-Fed's curves from the fewest called clients to all of them."""
    return [evidence.curves[called(f)] for f in sorted({0.02, *evidence.design.fractions, 0.5, 1.0})]
