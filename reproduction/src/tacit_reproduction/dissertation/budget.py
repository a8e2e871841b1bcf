"""Buying goods with a budget for the long run, and what both studies of it share (Dissertation, ch. 3 and 4).

The text shows plots of bounds only, so the problem is ours: goods and cash, at prices that swing with a season of
SEASON rounds, each agent at its own time. A point that keeps every window of K rounds has to keep the dearest one: the
longer the window, the larger is the set of such points, until K is the season.
"""

import functools
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms.mirror._observations import Dual
from tacit.core.contract import Algorithm, Mechanism
from tacit.graphs import random_digraph
from tacit.metrics import best_fixed_within
from tacit.objectives import Constraint, entropy, from_loss
from tacit.privacy import laplace, unprotected
from tacit.streams import Stream, from_function
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Results, Row
from tacit_reproduction.verdict import Claim, Pair, below, judged

AGENTS, LINKS, GOODS = 16, 4, 5  # everybody sends to 1 to 4 others, who need not send back
SEASON, SWING, JITTER = 100, 0.5, 0.03
"""Prices rise and fall by the share SWING in a season, and are off by up to the share JITTER besides; uniform."""
GAIN = np.array([0.0, 0.06, 0.20, 0.12, 0.30])
PRICE = np.array([0.0, 0.5, 0.5, 1.0, 1.0])  # per unit; the first is cash
TASTE, LUCK, PURSE = 0.05, 0.1, 0.5
"""A gain is off by up to TASTE for an agent's whole run and up to LUCK in a round; an agent's budget per round."""
CLIPS: dict[Dual, float] = {"private": 0.4, "released": 2.0}
"""Of the gradient of loss and weighted constraint; of both gradients and the constraint's value together."""
HORIZONS = {False: (1000, 2000, 5000, 10_000, 20_000), True: (1000, 4000, 12_000)}
"""By whether the form is the quick one."""
EPSILON = 1.0
DATA = f"""{AGENTS} agents on a one-sided digraph; every seed has its own graph, data and noise. An agent splits one
unit between cash and {GOODS - 1} goods, at prices that swing with a season of {SEASON} rounds; totals are per agent."""


class Offer(NamedTuple):  # gains and prices of all goods, per unit: one record
    gain: Any
    price: Any


OBJECTIVE = from_loss(lambda params, offer: -jnp.dot(params, offer.gain), jnp.zeros(GOODS), "gain")
BUDGET = Constraint("budget", lambda params, offer: jnp.dot(params, offer.price) - PURSE)


@functools.lru_cache(maxsize=24)
def stream(seed: int, rounds: int) -> Stream:
    """Return a seed's data; a longer horizon begins with the rounds of a shorter one."""
    goods = GAIN > 0  # cash gains nothing, whoever holds it
    usual = GAIN + goods * np.random.default_rng(seed).uniform(-TASTE, TASTE, (AGENTS, GOODS))
    turn = np.arange(SEASON)[:, None] / SEASON + np.arange(AGENTS) / AGENTS
    swing = (1 + SWING * np.sin(2 * np.pi * turn))[:, :, None]
    seasons = []
    for number in range(-(-rounds // SEASON)):
        rng = np.random.default_rng((seed, number))
        luck = goods * rng.uniform(-LUCK, LUCK, (SEASON, AGENTS, GOODS))
        seasons.append(Offer(usual + luck, PRICE * swing * rng.uniform(1 - JITTER, 1 + JITTER, luck.shape)))
    data = jax.tree.map(lambda *parts: np.concatenate(parts)[:rounds].astype(np.float32), *seasons)
    return from_function(lambda a, b: jax.tree.map(lambda leaf: leaf[a:b], data), agents=AGENTS, rounds=rounds)


class Cell(NamedTuple):  # one setting, or the best fixed point; `quick` says at which horizons
    quick: bool
    kind: str = "kept"  # "kept": with the method; "free": mirror descent without the budget; "best": the comparator
    epsilon: float = math.inf  # of each release; infinite: no noise
    dual: Dual = "private"
    knob: float = 1.0  # factor of what the method leaves open
    window: int = 0  # K: the comparator keeps every window of so many rounds

    def mechanism(self) -> Mechanism:
        """Return its noise; where the dual is released, more has to fit below the clip."""
        return laplace(self.epsilon, CLIPS[self.dual], perturbs="gradient") if self.epsilon < math.inf else unprotected


def run(task: tuple[Cell, int, int], method: Callable[[Cell, int], Algorithm], any_time: bool) -> dict[str, Any]:
    cell, seeds, first = task
    horizons = HORIZONS[cell.quick]
    if cell.kind == "best":
        found = [_best(stream(seed, horizons[-1]), horizons, cell.window) for seed in range(first, first + seeds)]
        return {"best": np.array(found) / AGENTS}
    parts = []
    for rounds in horizons[-1:] if any_time else horizons:
        algorithm = method(cell, rounds)
        run = finished_run(
            algorithm, lambda seed: random_digraph(AGENTS, LINKS, seed), lambda seed: stream(seed, horizons[-1]),
            rounds=rounds, repeats=seeds, seed=first,
            figures={} if algorithm.constraints else {BUDGET.name: BUDGET.value}, record_every=rounds)  # fmt: skip
        at = np.array(horizons if any_time else [rounds]) - 1
        parts.append([np.cumsum(np.float64(run.per_round[name]), axis=1)[:, at] for name in ("loss", BUDGET.name)])
    loss, overspent = (np.concatenate(totals, axis=1) for totals in zip(*parts, strict=True))
    booked = run.privacy.summary()["epsilon"] if run.privacy.private else math.inf
    return {"rounds": horizons, "loss": loss, "overspent": overspent, "booked": booked}


def _best(data: Stream, horizons: Sequence[int], window: int) -> list[float]:
    """Return the total loss of the best point of the simplex that keeps all such windows, at each horizon."""
    last, within = horizons[-1], {"within": entropy().within, "constraints": [BUDGET], "window": window}
    chunks = lambda: (data.chunk(at, min(at + 5000, last)) for at in range(0, last, 5000))  # noqa: E731
    found = best_fixed_within(OBJECTIVE, chunks, data.batch_spec(), horizons, **within)  # type: ignore[arg-type]
    return [point.total_loss for point in found]


def words(row: Row) -> str:
    epsilon, released = row.factors["epsilon"], ", dual released" * (row.factors["dual"] == "released")
    noise = f"eps = {epsilon:g}" if epsilon != math.inf else "no noise"
    return "without the budget" if row.factors["kind"] == "free" else noise + released


def with_regret(results: Results, window: int) -> Results:
    """Return the runs with their regret against points that keep every window, (seeds, horizons) per agent."""
    best = results.of("best", window=window)
    runs = results.keep(lambda row: row.factors["kind"] != "best")
    return Results(row._replace(measures={**row.measures, "regret": row.measures["loss"] - best}) for row in runs.rows)


def rising(claim: str, steps: Sequence[Results], measure: str, **said: str) -> Claim:
    """At the longest horizon a measure rises from each run to the next; `said` as for `judged`."""
    averages = [run.of(measure)[:, -1] / run.of("rounds")[-1] for run in steps]
    pairs = [Pair(f"step {k}", *both) for k, both in enumerate(pairwise(averages), start=1)]
    return judged(claim, pairs, below(), note="Per agent and round at the longest horizon", **said)
