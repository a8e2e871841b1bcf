"""A plan of a private run: batch, rounds, clip, step, noise and averaging, from what is public.

Rows are taken to have norm 1 (`unit rows`), so that gradients are bounded by 1 and curvature is known. With T rounds,
step a and noise that leaves a standard deviation s in a prediction per unit of step, the loss above the best is about

    R^2 / (2 a T)  +  L / 2 (a s)^2,

the way left to a solution of norm R, and what noise costs where the loss curves by L. The step makes it least, and is
no larger than 2 / L. Batches are many enough to mix over the graph and few enough to be cheap: a hundred per pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from tacit.core.checks import one_of, whole_number
from tacit.core.contract import Mechanism
from tacit.privacy.conversions import rho_within
from tacit.privacy.correlated_noise import DELTA, correlated
from tacit.privacy.strategies import Strategy, inverse

Task = Literal["binary", "multiclass", "regression"]
BATCHES, PASSES = 100, 10
"""Batches of a pass, and passes, where records may be read again. Measured: benchmarks/private_learning.py."""
LARGEST_BATCH = 1024
"""Beyond it, rounding in float32 is no longer small beside what a record changes."""
TAIL = 0.25
"""Least share of the models, the last ones, that are averaged."""
CLIP = 1.0
"""Of gradients of unit rows: no logistic gradient is larger."""


class _Problem(NamedTuple):
    """What is known of a task on unit rows before any data is seen."""

    curvature: float
    """L: of the loss in a prediction."""
    radius: float
    """R: norm of a good solution, a matter of experience (benchmarks/private_learning.py)."""
    signal: float
    """What such a solution says of a row, about."""


PROBLEMS = {
    "binary": _Problem(0.25, 80.0, 8.0),
    "multiclass": _Problem(0.5, 80.0, 8.0),
    "regression": _Problem(1.0, 2.0, 0.5),
}


@dataclass(frozen=True)
class Plan:
    """Settings of a private run, and what to expect of them; made by `plan`."""

    epsilon: float
    """Loss of a record at `delta`."""
    delta: float
    rho: float
    """The same as zCDP."""
    owners: int
    records: int
    """Of each owner."""
    features: int
    task: Task
    batch: int
    """Records in a release."""
    passes: int
    """Times that each record is read."""
    rounds: int
    clip: float
    """Largest norm of a record's gradient, on rows of norm 1."""
    step: float
    strategy: Strategy
    tail: float
    """Least share of the models, the last ones, of which the mean predicts: `averaged(method, "tail", share=tail)`."""
    release_noise: float
    """Norm of the noise of a release over the clip: what a neighbour sees."""
    prediction_noise: float
    """Standard deviation of the noise in a prediction over what a good model says there."""
    participation: tuple[int, int]
    """Reads of a record, and releases between two of them."""

    def mechanism(self) -> Mechanism:
        """Return the noise, for the constructor of a method."""
        return correlated(self.rounds, self.clip, self.rho, participation=self.participation, strategy=self.strategy)

    def words(self) -> str:
        """Return the settings and what to expect, in sentences."""
        reads = "once" if self.passes == 1 else f"{self.passes} times"
        verdict = "little beside the signal" if self.prediction_noise < 0.2 else "felt, and not much"
        if self.prediction_noise > 0.7:
            verdict = "of the size of the signal: more records per owner, more owners or a larger epsilon would help"
        return (
            f"{self.rounds:,} rounds of {self.batch:,} record(s) per owner, each read {reads}; for rows of norm 1: "
            f"gradients clipped at {self.clip:g}, step {self.step:.3g}, {self.strategy} noise, "
            f"mean of the last models. A release carries noise of "
            f"{self.release_noise:.3g} times the largest gradient. In a prediction {self.prediction_noise:.2g} of the "
            f"signal is left of it, {verdict}."
        )


def plan(
    records: int,
    features: int,
    epsilon: float,
    delta: float = DELTA,
    owners: int = 1,
    task: Task = "binary",
    outputs: int = 1,
    passes: int | None = None,
    batch: int | None = None,
    strategy: Strategy = "blt",
    rounds: int | None = None,
    participation: tuple[int, int] | None = None,
) -> Plan:
    """Choose the settings of a private run from what is public, before any data is seen.

    Args:
      records: Of each owner (of the largest, where they differ), from 1 on.
      features: Columns of a row.
      epsilon: Loss of a record in the whole run at `delta`, above 0 and finite.
      delta: Above 0 and below 1.
      owners: That learn together; their noise averages out.
      task: "binary", "multiclass" or "regression".
      outputs: Numbers that a model predicts: classes of "multiclass".
      passes: Times that each record is read; None: ten. 1 for a stream.
      batch: Records in a release; None: a hundredth of what an owner has.
      strategy: Of the noise, as for `tacit.privacy.correlated`.
      rounds: Where they are given, with the `batch` and the `participation` of a stream; None: passes over all records.
      participation: Reads of a record, and releases between two, where `rounds` is given.

    Returns:
      The plan; `words()` explains it, `mechanism()` is its noise.

    Example:
      >>> from tacit.privacy.planning import plan
      >>> chosen = plan(records=3000, features=100, epsilon=1.0, owners=10)
      >>> chosen.batch, chosen.rounds, round(chosen.step, 2)
      (30, 1000, 2.17)
    """
    for name, value in (("records", records), ("features", features), ("owners", owners), ("outputs", outputs)):
        whole_number(name, value)
    one_of("task", task, get_args(Task))
    often = PASSES if passes is None else passes
    size = planned_batch(records) if batch is None else min(batch, records)
    batches = math.ceil(records / size)
    pattern = (often, batches) if participation is None else participation
    rounds, problem = often * batches if rounds is None else rounds, PROBLEMS[task]
    noise = correlated(rounds, CLIP, epsilon=epsilon, delta=delta, participation=pattern, strategy=strategy)
    assert noise.ratio is not None
    assert noise.correlation is not None
    release = 2 * CLIP / size * noise.gain / noise.ratio
    left = release * _tail_noise(noise, rounds) / math.sqrt(owners)
    best = (problem.radius**2 / (2 * rounds * problem.curvature * left**2)) ** (1 / 3)
    step = min(2 / problem.curvature, best)
    return Plan(
        epsilon=float(epsilon),
        delta=float(delta),
        rho=rho_within(epsilon, delta),
        owners=owners,
        records=records,
        features=features,
        task=task,
        batch=size,
        passes=pattern[0],
        rounds=rounds,
        clip=CLIP,
        step=step,
        strategy=strategy,
        tail=TAIL,
        release_noise=release * math.sqrt(features * outputs) / CLIP,
        prediction_noise=step * left / problem.signal,
        participation=pattern,
    )


def planned_batch(records: int) -> int:
    """Return the records in a release of an owner that has so many: a hundredth, within bounds."""
    return max(1, min(LARGEST_BATCH, round(records / BATCHES)))


def _tail_noise(noise: Mechanism, rounds: int) -> float:
    """Return the standard deviation of the mean of the last third of models, in units of a release's noise."""
    assert noise.correlation is not None
    sums = np.cumsum(inverse(noise.correlation.coefficients(rounds)))
    first = 2 * rounds // 3  # an average of the last TAIL at least covers up to TAIL (2 - TAIL)
    totals = np.concatenate([[0.0], np.cumsum(sums)])
    lag = np.arange(rounds)  # a draw of round s is in models t >= s with sums[t - s]
    inside = totals[rounds - lag] - totals[np.maximum(first - lag, 0)]
    return float(np.linalg.norm(inside / (rounds - first)))
