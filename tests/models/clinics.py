"""A table of three clinics as a CSV file, and runs on it: words, gaps, numbers; labels of every kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tacit
from tacit.core.contract import Objective

ROWS = 90
LABELS = {"binary": "outcome", "multiclass": "ward", "regression": "days"}
OBJECTIVES = {
    "binary": tacit.objectives.logistic(l2=1e-3),
    "multiclass": tacit.objectives.softmax(3, l2=1e-3),
    "regression": tacit.objectives.squared(l2=1e-3),
}


def write(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(18, 90, ROWS).round(1), rng.normal(5, 2, ROWS).round(3)
    sex, clinic = rng.choice(["f", "m"], ROWS), rng.choice(["north", "south", "west"], ROWS)
    ill = (age - 50) / 20 + (sex == "f") + rng.normal(size=ROWS)
    outcome = np.where(ill > 0, "ill", "well")
    ward = np.array(["1", "2", "3"])[np.digitize(ill, [-0.5, 0.8])]
    lines = ["id,age,sex,dose,clinic,outcome,ward,days"]
    for k in range(ROWS):
        gap = "" if k % 11 == 0 else dose[k]
        lines.append(f"{k:03},{age[k]},{sex[k]},{gap},{clinic[k]},{outcome[k]},{ward[k]},{3 + 2 * ill[k]:.3f}")
    path = folder / "clinics.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def table(file: Path, task: str, **settings: object) -> tacit.streams.Table:
    read = tacit.streams.read_table(
        file, LABELS[task], ["age", "sex", "dose"], task=task, owner="clinic", missing=["dose"]
    )
    return tacit.streams.scaled(read, **{"bias": True, **settings})


def run(file: Path, task: str, objective: Objective | None = None, **settings: object) -> tacit.Run:
    stream = tacit.streams.from_table(table(file, task, **settings), batch=4, exhausted="cycle")
    step = 0.05 if task == "regression" else 0.3
    method = tacit.algorithms.online_push_sum(objective or OBJECTIVES[task], step=step)
    return tacit.simulate(method, tacit.graphs.directed_ring(3), stream, rounds=30)
