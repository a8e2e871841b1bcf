"""The demonstration: online push-sum against its baselines, on data that any machine can make.

Twenty agents over one-sided links learn a logistic regression together. They are not alike: the truth of
each is off the common one by a fifth (`heterogeneity`). The setting was fixed first. Then every method got
the best constant step of one grid, judged by its average loss on data and graphs with other seeds than those
of the demonstration (`tune`).

One row more is push-sum with correlated noise and an averaged model, which none of the others has: it shows what
privacy costs here, where one example a round gives nothing to hide among.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tacit.config.experiment import Config, parse
from tacit.experiments.build import build

GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
TUNING_SEED = 1000
TUNING_REPEATS = 4
METHODS: Mapping[str, str] = {
    "Online push-sum (OPS)": "online_push_sum",
    "Central, all data pooled (COL)": "centralised_online",
    "Mutual links only (DOL-Symm)": "decentralised_symmetric",
    "Push without mass (DOL-Asymm)": "decentralised_asymmetric",
    "Each agent alone (Local OGD)": "local_online",
    "Private online push-sum (OPS)": "online_push_sum",
}
"""Label -> algorithm."""
STEPS: Mapping[str, float] = {
    "Online push-sum (OPS)": 3.0,
    "Central, all data pooled (COL)": 3.0,
    "Mutual links only (DOL-Symm)": 1.0,
    "Push without mass (DOL-Asymm)": 3.0,
    "Each agent alone (Local OGD)": 1.0,
    "Private online push-sum (OPS)": 1.0,
}
"""Label -> best constant step, found by `tune`."""
ALSO: Mapping[str, str] = {
    # Mutual links leave agents alone, which is what the demonstration shows.
    "Mutual links only (DOL-Symm)": "apart = true\n",
    "Private online push-sum (OPS)": """average = "tail"
[algorithm.mechanism]
kind = "correlated"
rounds = {rounds}
epsilon = 3.0
delta = 1e-5
clip = 1.0
""",
}
"""Label -> further settings; a method without noise here has none. A record is read once, so that a run costs it
epsilon."""
ROUNDS = 1000
PROBLEM = """
[run]
name = "Online push-sum over one-sided links"
rounds = {rounds}
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
        f'[[algorithm]]\nname = "{METHODS[label]}"\nlabel = "{label}"\nstep = {step}\n{ALSO.get(label, "")}'
        for label, step in steps.items()
    ]
    text = "\n".join([PROBLEM, *tables]).replace("{rounds}", str(ROUNDS if rounds is None else rounds))
    return parse(text, Path("demo.toml"), seed=seed)


def tune(
    labels: Sequence[str] = tuple(STEPS),
    grid: Sequence[float] = GRID,
    rounds: int | None = None,
    tried: Callable[[str, float, float], None] = lambda label, step, loss: None,
) -> dict[str, float]:
    """Return each method's best step of the grid; `tried` is told label, step and average loss."""
    best = {}
    for label in labels:
        losses = {}
        for step in grid:
            config = demo({label: step}, rounds, TUNING_SEED)
            settings = config.run.model_copy(
                update={"repeats": TUNING_REPEATS, "regret_points": 0, "references": False}
            )
            (run,) = build(replace(config, run=settings)).runs(progress=False)
            losses[step] = float(run.average_loss().mean())
            tried(label, step, losses[step])
        best[label] = min(losses, key=lambda step: losses[step])
    return best
