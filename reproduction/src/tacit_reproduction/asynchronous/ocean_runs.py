"""Runs of `pao-calcofi`: clients that hold bottles of one place each, or of all places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit.objectives import FourierFeatures
from tacit_reproduction.asynchronous.comparison import FED, FRACTION, SGD, STEP, fair
from tacit_reproduction.asynchronous.setting import (
    BANDWIDTHS,
    CLIENTS,
    FEATURES,
    INITIAL,
    ROUNDS,
    STEPS,
    TEST_SAMPLES,
    Curve,
    Data,
    Task,
    closest,
    labelled,
    lowest,
    run,
    stream,
    tuning,
)
from tacit_reproduction.datasets.calcofi import CalcofiStream
from tacit_reproduction.workers import Crew, crew

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "U1": ("pao_fed", {"variant": "U1"}),
    "C2": ("pao_fed", {"variant": "C2"}),
    SGD: ("online_fedsgd", {}),
    FED: ("online_fed", {"fraction": FRACTION}),
}
PAO, RIVALS = ("U1", "C2"), (SGD, FED)
NAMES: dict[Data, str] = {
    "calcofi": "by place",
    "calcofi, dealt": "dealt by chance",
    "calcofi, one oxygen": "by place, without O2Sat",
}
RIDGE = 1e-6
"""Of pooled least squares, whose features are nearly collinear."""


class Design(NamedTuple):
    """The extent of the experiment."""

    clients: int
    rounds: int
    seeds: int
    tuning_seeds: int
    """0: all methods have the step of PAO-Fed."""
    data: tuple[Data, ...]
    steps: tuple[float, ...]
    """Among which the best of each method is chosen, by place."""


FULL = Design(CLIENTS, ROUNDS, 20, 4, ("calcofi", "calcofi, dealt", "calcofi, one oxygen"), (0.05, 0.1, 0.2, 0.4, 0.8))
QUICK = Design(64, 1000, 4, 0, ("calcofi", "calcofi, dealt"), ())
MATCHED: tuple[Data, ...] = ("calcofi", "calcofi, dealt")
"""Data on which steps are matched; without a column those of the first are used."""


class Steps(NamedTuple):
    """Steps that were chosen, by data and method."""

    matched: Mapping[tuple[Data, str], float]
    """With which a method falls like U1."""
    best: Mapping[tuple[Data, str], float]
    """With which it ends lowest."""


class Evidence(NamedTuple):
    """All that the claims rest on."""

    design: Design
    steps: Steps
    curves: Mapping[str, Curve]
    pooled: Mapping[Data, float]
    """Test error in dB of least squares on all bottles that clients hold, of the first seed."""
    deviation: float
    """One unit of standardised salinity on the practical scale."""
    rates: tuple[float, float]
    """Lowest and highest share of the rounds that bring a client data."""

    def of(self, method: str, data: Data, kind: str = "") -> Curve:
        """Return a curve; kinds are "" for PAO-Fed with the text's step, `fair` and "best"."""
        return self.curves[label(method, data, kind)]

    @property
    def fair(self) -> str:
        """Rule by which the other methods' steps were chosen."""
        return fair(self.design.tuning_seeds)


def label(method: str, data: Data, kind: str = "") -> str:
    """Return what a curve is called."""
    return f"{NAMES[data]}: {method}{f' ({kind})' if kind else ''}"


def task(design: Design, method: str, data: Data, step: float, first: int, kind: str = "") -> Task:
    """Return one curve's task."""
    name, settings = METHODS[method]
    return Task(
        label(method, data, kind),
        name,
        {**settings, "step": step},
        data=data,
        rounds=design.rounds,
        seeds=design.seeds,
        seed=first,
        clients=design.clients,
    )


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Choose the steps and run everything; without the data it says where they are to be had."""
    own = stream("calcofi", design.clients, design.rounds, first)
    assert isinstance(own, CalcofiStream)
    assert own.arrivals is not None
    rates = own.arrivals.mean(axis=0)
    with crew(workers) as team:
        plain = labelled(
            team("PAO-Fed", run, [task(design, method, data, STEP, first) for data in design.data for method in PAO])
        )
        steps = _chosen(team, design, plain, first)
        found = labelled(team("the others", run, _compared(design, steps, first)))
    return Evidence(
        design,
        steps,
        {**plain, **found},
        {data: pooled(design, data, first) for data in design.data if data != "calcofi, dealt"},
        own.salinity_deviation,
        (float(rates.min()), float(rates.max())),
    )


def _chosen(team: Crew, design: Design, plain: Mapping[str, Curve], first: int) -> Steps:
    if not design.tuning_seeds:
        return Steps({(data, method): STEP for data in design.data for method in RIVALS}, {})
    begun = design._replace(rounds=int(INITIAL * design.rounds))
    falls: list[tuple[Data, str]] = [(data, method) for data in MATCHED for method in RIVALS]
    ends: list[tuple[Data, str]] = [("calcofi", method) for method in METHODS]
    tasks = [
        one
        for cells, extent, steps in ((falls, begun, STEPS), (ends, design, design.steps))
        for data, method in cells
        for one in tuning(task(extent, method, data, STEP, first), steps, design.tuning_seeds)
    ]
    curves = iter(team("choosing steps", run, tasks))
    fallen = {cell: {step: next(curves) for step in STEPS} for cell in falls}
    ended = {cell: {step: next(curves) for step in design.steps} for cell in ends}
    matched = {cell: closest(found, plain[label("U1", cell[0])]) for cell, found in fallen.items()}
    taken_over: dict[tuple[Data, str], float] = {
        ("calcofi, one oxygen", method): matched["calcofi", method] for method in RIVALS
    }
    return Steps({**matched, **taken_over}, {cell: lowest(found) for cell, found in ended.items()})


def _compared(design: Design, steps: Steps, first: int) -> list[Task]:
    kind = fair(design.tuning_seeds)
    rivals = [task(design, m, d, steps.matched[d, m], first, kind) for d in design.data for m in RIVALS]
    return [*rivals, *(task(design, m, d, step, first, "best") for (d, m), step in steps.best.items())]


def pooled(design: Design, data: Data, seed: int) -> float:
    """Return the test error in dB of least squares on everything that clients hold."""
    source = stream(data, design.clients, design.rounds, seed)
    held, test = source.chunk(0, design.rounds), source.test(TEST_SAMPLES)
    features = FourierFeatures(FEATURES, BANDWIDTHS[data], 0)
    z, unseen = (np.asarray(features(x), np.float64) for x in (held.x[held.weight > 0], test.x))
    moments = z.T @ z / len(z) + RIDGE * np.eye(FEATURES)
    w = np.linalg.solve(moments, z.T @ held.y[held.weight > 0] / len(z))
    return float(10 * np.log10(np.mean((unseen @ w - test.y) ** 2)))
