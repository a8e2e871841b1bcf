"""Study `gfl-classification`: test error of the servers' centroid (Rizk 2023, sec. 3.5.2, on other data).

Here is too what all studies on ijcnn1 have in common.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.streams import Stream, partition, whole
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.ijcnn1_rows import Samples, load
from tacit_reproduction.rizk.diffusion import WORDS, mechanism
from tacit_reproduction.rizk.settings import only
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results, Row, late
from tacit_reproduction.verdict import Pair, below, judged, not_worse

SERVERS, CLIENTS, COHORT = 5, 10, 3
"""The text does not say how many clients a server calls, nor how servers are linked: a ring."""
STEP, RHO = 0.5, 0.03
NOISE_SIZE = 0.6**0.5
"""sigma_g: the text's variance is 0.6."""
SIZES, LOCAL_STEPS, BATCH_SIZES = (50, 250), (1, 10), (5, 10)
"""Ranges by client: the text shares 5,101 rows among 50 clients unequally."""
LOSS = objectives.logistic(l2=2 * RHO)
"""The text's penalty is rho ||w||^2."""
RECORD_EVERY, LAST = 5, 10
"""Servers' own errors are averaged over the last of the recorded rounds."""
SHOWN = ("none", "homomorphic", "random", "local")
AT_ONCE = 100
"""Models that are judged together, so that their scores fit into memory."""
DATA_NOISE = 0.5
"""An agent's features get Gaussian noise of its own standard deviation, uniform from 0 to this; columns have 1."""


class Cell(NamedTuple):
    """One scheme of noise."""

    noise: str
    rounds: int


def cells(quick: bool) -> list[Cell]:
    """Return all schemes; the text gives no number of rounds."""
    return [Cell(noise, 200 if quick else 400) for noise in ("none", "homomorphic", "random")]


def shared_out(samples: Samples, seed: int) -> Stream:
    """Return one seed's clients; how many rows they have is the same for all seeds, which run in one program."""
    count = SERVERS * CLIENTS
    rng = np.random.default_rng([seed, count])
    rows = rng.permutation(balanced_rows(samples, rng))
    sizes = partition.random_sizes(len(rows), count, *SIZES)
    own, rows = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1]), rows[: sizes.sum()]
    x = samples.x[rows]
    for held, size in zip(own, rng.uniform(0, DATA_NOISE, count), strict=True):
        noisier(x, held, size, rng)
    return whole(x, samples.y[rows], own, name="ijcnn1")


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    """Run one scheme; a server's model speaks for its clients."""
    cell, seeds, first = task
    samples, rng = load(), np.random.default_rng(SERVERS * CLIENTS)
    local, batch = (rng.integers(low, high + 1, SERVERS * CLIENTS).tolist() for low, high in (LOCAL_STEPS, BATCH_SIZES))
    noise = mechanism(cell.noise, NOISE_SIZE)
    run = finished_run(
        algorithms.graph_federated(
            LOSS, STEP, server_mechanism=noise, cohort=COHORT, local_steps=local, batch_size=batch
        ),
        graphs.federation(graphs.ring(SERVERS).with_weights("metropolis"), CLIENTS),
        lambda seed: shared_out(samples, seed),
        rounds=cell.rounds,
        repeats=seeds,
        seed=first,
        evaluate="cohort",
        record={"servers": lambda models: models[::CLIENTS]},
        record_every=RECORD_EVERY,
    )
    models = np.asarray(run.recorded["servers"], np.float64)
    centroid = balanced_error(models.mean(axis=2), samples)
    individual = balanced_error(models[:, -LAST:], samples).mean(axis=(1, 2))
    return {"rounds": run.recorded_rounds, "centroid": centroid, "settled": late(centroid), "individual": individual}


def balanced_rows(samples: Samples, rng: np.random.Generator) -> Any:
    """Return all positive rows, and as many others at random: always saying no is then wrong on half of them."""
    rare = np.flatnonzero(samples.y > 0)
    return np.concatenate([rare, rng.choice(np.flatnonzero(samples.y < 0), len(rare), replace=False)])


def balanced_error(weights: Any, samples: Samples) -> Floats:
    """Return the mean of the two classes' test errors of models (..., columns) in per cent; a margin of 0 is wrong."""
    flat = np.asarray(weights, np.float32).reshape(-1, weights.shape[-1])
    positive = samples.test_y > 0
    found = []
    for begin in range(0, len(flat), AT_ONCE):
        wrong = samples.test_y[:, None] * (samples.test_x @ flat[begin : begin + AT_ONCE].T) <= 0
        found.append(50 * (wrong[positive].mean(axis=0) + wrong[~positive].mean(axis=0)))
    return np.asarray(np.concatenate(found).reshape(weights.shape[:-1]), np.float64)


def noisier(x: Any, held: Any, size: float, rng: np.random.Generator) -> None:
    """Add an agent's noise to the features of its rows; the last column is the constant."""
    x[held, :-1] += (size * rng.standard_normal((len(held), x.shape[1] - 1))).astype(x.dtype)


def schemes(results: Results, place: str, whose: str) -> tuple[Judgement, str]:
    """Judge schemes of noise by "settled" errors of the centroid and "individual" ones: the last claim is our own."""
    shown = only(results, lambda row: row.factors["noise"] in SHOWN)
    settled, own = ({n: shown.of(name, noise=n) for n in shown.levels("noise")} for name in ("settled", "individual"))
    text = f"{place}, on Avazu: graph-homomorphic noise does not hinder the test error, random noise does"
    near = "The centroid's test error under graph-homomorphic noise is no worse than without noise"
    low = "The centroid's test error is lower without noise, and under graph-homomorphic noise, than under random noise"
    order = f"The {whose} have a lower test error under graph-homomorphic than under random noise"
    apart = [Pair(WORDS[noise], settled[noise], settled["random"]) for noise in ("none", "homomorphic")]
    models = (("centroid", settled), (f"{whose}, mean", own))
    both = Results(Row({"noise": n, "model": name}, {"error": of[n]}) for name, of in models for n in of)
    close, words = Pair("", settled["homomorphic"], settled["none"]), {"unit": " %", "text": text, "seen_in": "rounds"}
    claims = [
        not_worse(near, close, **words),
        judged(low, apart, below(), **words),
        judged(order, Pair("", own["homomorphic"], own["random"]), below(), unit=" %", seen_in="schemes"),
    ]
    y: dict[str, Any] = {"lines": "noise", "y": "test error (%)", "words": WORDS}
    figures = [
        curves(shown, "rounds", "Test error of the centroid", f"As {place}: mean of both classes.", "centroid", **y),
        dots(both, "schemes", "Test error by scheme", "At the end of the runs.", "error", x="model", **y),
    ]
    ours = ", ".join(f"{WORDS[noise]} {values.mean():.1f} %" for noise, values in settled.items())
    return Judgement(claims, [], figures), ours


def facts() -> dict[str, Any]:
    """Describe the data."""
    samples = load()
    rows = 2 * int((samples.y > 0).sum())
    return {"data": f"{samples.description}: {rows:,} of {len(samples.y):,} training rows, all test rows."}


def judge(results: Results) -> Judgement:
    """Return claims and figures."""
    return schemes(results, "figure 3.5", "servers' own models")[0]


STUDY = Study(
    name="gfl-classification",
    title="Graph federated learning: test error under noise between servers",
    source="Rizk (2023), sec. 3.5.2, figure 3.5, on other data",
    minutes=1,
    measure=over(cells, run, seeds=(20, 6), facts=facts),
    judge=judge,
    tabled=("settled", "individual"),
    method=f"""
ijcnn1 in place of Avazu, with as many rows of both classes, {SIZES[0]} to {SIZES[1]} per client, and noise of each
client's own size on its features, as in diffusion-ijcnn1. {SERVERS} servers on a ring with {CLIENTS} clients each call
{COHORT} of them in a round, who take 1 to 10 local steps on 5 to 10 rows. Logistic loss, rho = {RHO:g}, mu = {STEP:g},
Laplace noise of variance 0.6 between servers, none below them.""",
)
