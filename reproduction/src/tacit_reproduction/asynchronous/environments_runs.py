"""Runs of `pao-environments`: pairs of methods, environments, and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tacit.algorithms.asynchronous._stability import largest_curvature
from tacit_reproduction.asynchronous.comparison import FED, FRACTION, SGD, STEP, fair
from tacit_reproduction.asynchronous.setting import (
    CLIENTS,
    COMMON_DELAYS,
    HARSH,
    ROUNDS,
    STEPS,
    USUAL,
    Curve,
    Environment,
    Task,
    closest,
    labelled,
    lowest,
    objective,
    run,
    stream,
    tuning,
)
from tacit_reproduction.workers import Crew, crew

NEAR = 0.95
""""Near its maximum value obtained in Theorem 4.2": this share of it."""
PROMPT = HARSH._replace(name="harsh, no delays", delay=0.0)
"""The harsh environment without delays, to tell the effect of delays."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    **{variant: ("pao_fed", {"variant": variant}) for variant in ("U1", "C1", "U2", "C2")},
    "U1, full download": ("pao_fed", {"variant": "U1", "download": "all"}),
    "C2, full download": ("pao_fed", {"variant": "C2", "download": "all"}),
    SGD: ("online_fedsgd", {}),
    FED: ("online_fed", {"fraction": FRACTION}),
}


class Design(NamedTuple):
    """The extent of the experiment."""

    clients: int
    rounds: int
    seeds: int
    tuning_seeds: int
    """0: the steps of PAO-Fed are used for all."""
    environments: tuple[Environment, ...]


FULL = Design(CLIENTS, ROUNDS, 20, 4, (USUAL, COMMON_DELAYS, HARSH))
QUICK = Design(64, 500, 4, 0, (USUAL, COMMON_DELAYS))
PAO = ("U1", "C2")
PAO_STEPS = (0.1, 0.2, 0.4, 0.8)
"""Of which PAO-Fed's best is chosen, besides the one near the bound."""


class Steps(NamedTuple):
    """Steps that were chosen, by method and environment."""

    near: float
    matched: Mapping[tuple[str, str], float]
    """With which a method falls like U1 with the text's step in the same environment."""
    best: Mapping[tuple[str, str], float]
    """With which it ends lowest; not in the usual environment, which `pao-vs-baselines` is about."""


class Evidence(NamedTuple):
    """All that the claims rest on."""

    design: Design
    steps: Steps
    curves: Mapping[str, Curve]

    def of(self, method: str, environment: Environment, kind: str = "") -> Curve:
        """Return a curve; kinds other than the text's step are `fair`, "best" and "near"."""
        return self.curves[label(method, environment, kind)]

    @property
    def fair(self) -> str:
        """Rule by which the other methods' steps were chosen."""
        return fair(self.design.tuning_seeds)


def label(method: str, environment: Environment, kind: str = "") -> str:
    """Return what a curve is called."""
    return f"{environment.name}: {method}{f' ({kind})' if kind else ''}"


def task(design: Design, method: str, environment: Environment, step: float, first: int, kind: str = "") -> Task:
    """Return one curve's task."""
    name, settings = METHODS[method]
    return Task(
        label(method, environment, kind),
        name,
        {**settings, "step": step},
        environment,
        rounds=design.rounds,
        seeds=design.seeds,
        seed=first,
        clients=design.clients,
    )


def near_the_bound(design: Design, first: int) -> float:
    """Return the step near the bound of Theorem 4.2 for the first seed's data, on which a run checks it."""
    batches = stream("synthetic", design.clients, design.rounds, first).chunk(0, design.rounds)
    return float(NEAR / largest_curvature(objective("synthetic"), batches).max())


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Choose the steps and run everything."""
    near = near_the_bound(design, first)
    with crew(workers) as team:
        plain = labelled(team("PAO-Fed", run, _plain(design, near, first)))
        steps = _chosen(team, design, near, plain, first)
        found = labelled(team("the others", run, _compared(design, steps, first)))
    return Evidence(design, steps, {**plain, **found})


def _plain(design: Design, near: float, first: int) -> list[Task]:
    """Return the runs of PAO-Fed with the text's steps."""
    wanted = [(method, USUAL, STEP, "") for method in ("U1", "C2", "U1, full download", "C2, full download")]
    wanted += [(method, COMMON_DELAYS, STEP, "") for method in ("U1", "C2")]
    wanted.append(("C2", COMMON_DELAYS, near, "near"))
    if HARSH in design.environments:
        wanted += [(method, HARSH, STEP, "") for method in ("U1", "C1", "U2", "C2")]
        wanted += [(method, PROMPT, STEP, "") for method in ("U1", "C1")]
    return [task(design, method, where, step, first, kind) for method, where, step, kind in wanted]


def rivals(environment: Environment) -> tuple[str, ...]:
    """Return whom PAO-Fed is compared with in an environment."""
    return (SGD, FED) if environment == HARSH else (SGD,)


def _chosen(team: Crew, design: Design, near: float, plain: Mapping[str, Curve], first: int) -> Steps:
    if not design.tuning_seeds:
        everyone = [(method, where.name) for where in design.environments for method in rivals(where)]
        return Steps(near, dict.fromkeys(everyone, STEP), {})
    grids = {
        (method, where): (*(STEPS if method in rivals(where) else PAO_STEPS), near)
        for where in design.environments
        for method in (*rivals(where), *(() if where == USUAL else PAO))
    }
    tasks = {
        cell: tuning(task(design, *cell, STEP, first), steps, design.tuning_seeds) for cell, steps in grids.items()
    }
    curves = iter(team("choosing steps", run, [one for of_cell in tasks.values() for one in of_cell]))
    tried = {cell: {step: next(curves) for step in steps} for cell, steps in grids.items()}
    return Steps(
        near,
        {
            (method, where.name): closest(found, plain[label("U1", where)])
            for (method, where), found in tried.items()
            if method in rivals(where)
        },
        {(method, where.name): lowest(found) for (method, where), found in tried.items() if where != USUAL},
    )


def _compared(design: Design, steps: Steps, first: int) -> list[Task]:
    wanted, kind = [], fair(design.tuning_seeds)
    for where in design.environments:
        wanted += [(method, where, steps.matched[method, where.name], kind) for method in rivals(where)]
        tuned = [method for method in (*rivals(where), *PAO) if (method, where.name) in steps.best]
        wanted += [(method, where, steps.best[method, where.name], "best") for method in tuned]
    return [task(design, method, where, step, first, kind) for method, where, step, kind in wanted]
