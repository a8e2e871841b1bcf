"""The demonstration: online push-sum against its baselines, on data that any machine can make.

Twenty agents over one-sided links learn a logistic regression together. They are not alike: the truth of
each is off the common one by a fifth (`heterogeneity`). The setting was fixed first. Then every method got
the best constant step of one grid, judged by its average loss on data and graphs with other seeds than those
of the demonstration (`tune`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tacit.experiments.build import build
from tacit.experiments.config import Config, parse

GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
TUNING_SEED = 1000
TUNING_REPEATS = 4
STEPS: Mapping[str, float] = {
    "online_push_sum": 3.0,
    "centralised_online": 3.0,
    "decentralised_symmetric": 1.0,
    "decentralised_asymmetric": 3.0,
    "local_online": 1.0,
}
"""What `tune` found."""
LABELS: Mapping[str, str] = {
    "online_push_sum": "OPS",
    "centralised_online": "COL",
    "decentralised_symmetric": "DOL-Symm",
    "decentralised_asymmetric": "DOL-Asymm",
    "local_online": "Local OGD",
}
PROBLEM = """
[run]
name = "Online push-sum over one-sided links"
rounds = 1000
repeats = 8
seed = 0

[graph]
kind = "random_digraph"
agents = 20
out_degree = 5

[stream]
kind = "logistic_drift"
dim = 20
noise = 0.3
heterogeneity = 0.2

[objective]
kind = "logistic"
l2 = 1e-4
"""


def demo(steps: Mapping[str, float] = STEPS, rounds: int | None = None, seed: int | None = None) -> Config:
    """Return the demonstration as an experiment."""
    tables = [
        f'[[algorithm]]\nname = "{name}"\nlabel = "{LABELS[name]}"\nstep = {step}\n' for name, step in steps.items()
    ]
    return parse("\n".join([PROBLEM, *tables]), Path("demo.toml"), rounds=rounds, seed=seed)


def tune(
    names: Sequence[str] = tuple(STEPS),
    grid: Sequence[float] = GRID,
    rounds: int | None = None,
    tried: Callable[[str, float, float], None] = lambda name, step, loss: None,
) -> dict[str, float]:
    """Return each method's best step of the grid; `tried` is told method, step and average loss."""
    best = {}
    for name in names:
        losses = {}
        for step in grid:
            config = demo({name: step}, rounds, TUNING_SEED)
            settings = config.run.model_copy(update={"repeats": TUNING_REPEATS, "regret_points": 0})
            (run,) = build(replace(config, run=settings)).runs(progress=False)
            losses[step] = float(run.average_loss().mean())
            tried(name, step, losses[step])
        best[name] = min(losses, key=lambda step: losses[step])
    return best
