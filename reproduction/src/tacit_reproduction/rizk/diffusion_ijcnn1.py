"""Study `diffusion-ijcnn1`: test error of ATC diffusion under noise (Rizk 2023, sec. 4.4.2, on other data)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.streams import partition
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.ijcnn1_rows import Samples, load
from tacit_reproduction.rizk.diffusion import METHODS, WORDS, Draws, mechanism, network
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results, Row, late
from tacit_reproduction.verdict import Pair, below, fact, headline, judged, not_worse, within

AGENTS, STEP, RHO = 50, 0.5, 0.001
NOISE_SIZE = 0.8**0.5
"""sigma_g: the text's variance is 0.8."""
DATA_NOISE = 0.5
"""An agent's features get Gaussian noise of its own standard deviation, uniform from 0 to this; columns have 1."""
LOSS = objectives.logistic(l2=2 * RHO)
"""The text's penalty is rho ||w||^2."""
POINTS = 50
UNTOUCHED = 0.1
"""Percentage points that a grid may cost."""
SHOWN = ("none", "homomorphic", "random", "local")
PLACE = "figure 4.5"


class Cell(NamedTuple):
    """One scheme of noise."""

    noise: str
    rounds: int


def cells(quick: bool) -> list[Cell]:
    """Return all schemes; the text gives no number of rounds."""
    return [Cell(noise, 400 if quick else 1000) for noise in WORDS]


def shared_out(samples: Samples, rounds: int, seed: int) -> Draws:
    """Return one seed's stream: as many rows of each class, dealt out evenly, and noise of each agent's own size."""
    rng = np.random.default_rng([seed, AGENTS])
    rare = np.flatnonzero(samples.y > 0)
    rows = np.concatenate([rare, rng.choice(np.flatnonzero(samples.y < 0), len(rare), replace=False)])
    own = partition.iid(len(rows), AGENTS, seed)
    x = samples.x[rows]
    for held, size in zip(own, rng.uniform(0, DATA_NOISE, AGENTS), strict=True):
        noise = size * rng.standard_normal((len(held), x.shape[1] - 1))
        x[held, :-1] += noise.astype(x.dtype)  # the last column is the constant
    return Draws(x, samples.y[rows], own, rounds, seed, "ijcnn1")


def balanced_error(weights: Floats, samples: Samples) -> Floats:
    """Return (models,) the mean of the two classes' test errors in per cent; a margin of 0 is wrong."""
    wrong = samples.test_y[:, None] * (samples.test_x @ weights.T.astype(np.float32)) <= 0
    positive = samples.test_y > 0
    return np.asarray(50 * (wrong[positive].mean(axis=0) + wrong[~positive].mean(axis=0)), np.float64)


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    """Run ATC under one scheme; guessing has an error of 50."""
    cell, seeds, first = task
    samples = load()
    run = finished_run(
        METHODS["ATC"](LOSS, STEP, mechanism(cell.noise, NOISE_SIZE)),
        lambda seed: network(AGENTS, seed),
        lambda seed: shared_out(samples, cell.rounds, seed),
        rounds=cell.rounds,
        repeats=seeds,
        seed=first,
        record={"models": lambda models: models},
        record_every=max(1, cell.rounds // POINTS),
    )
    models = run.recorded["models"]  # (seeds, points, agents, columns)
    centroid = np.stack([balanced_error(of_seed.mean(axis=1), samples) for of_seed in models])
    return {
        "rounds": run.recorded_rounds,
        "centroid": centroid,
        "settled": late(centroid),
        "individual": np.array([balanced_error(of_seed[-1], samples).mean() for of_seed in models]),
        "digest": np.frombuffer(hashlib.sha256(models.tobytes()).digest(), np.uint8),
    }


def facts() -> dict[str, Any]:
    """Describe the data."""
    samples = load()
    rows = 2 * int((samples.y > 0).sum())
    return {"data": f"{samples.description}: {rows:,} of {len(samples.y):,} training rows, all test rows."}


def judge(results: Results) -> Judgement:
    """Return claims, headlines and figures."""
    settled = {noise: results.of("settled", noise=noise) for noise in WORDS}
    own = {noise: results.of("individual", noise=noise) for noise in WORDS}
    same = bool(np.array_equal(results.of("digest", noise="local"), results.of("digest", noise="grid")))
    said = f"{PLACE}, on Avazu: local noise does not change the error, graph-homomorphic noise does not hinder it"
    words = {"unit": " %", "seen_in": "rounds", "text": said}
    exact = fact(
        "Local graph-homomorphic noise leaves the run as it is to the bit",
        same,
        f"recorded models of all agents are {'' if same else 'not '}those of the same grid without masks",
        said,
        "rounds",
    )
    untouched = judged(
        f"Local graph-homomorphic noise moves the centroid's test error by less than {UNTOUCHED:g} points",
        Pair("", settled["local"], settled["none"]),
        within(UNTOUCHED),
        **words,
    )
    near = not_worse(
        "The centroid's test error under graph-homomorphic noise is no worse than without noise",
        Pair("", settled["homomorphic"], settled["none"]),
        **words,
    )
    random = judged(
        "The centroid's test error is lower without noise, and under graph-homomorphic noise, than under random noise",
        [Pair(WORDS[noise], settled[noise], settled["random"]) for noise in ("none", "homomorphic")],
        below(),
        **words,
    )
    individual = judged(
        "The agents' own models have a lower test error under graph-homomorphic than under random noise",
        Pair("", own["homomorphic"], own["random"]),
        below(),
        unit=" %",
        seen_in="schemes",
    )
    percent = {noise: f"{WORDS[noise]} {settled[noise].mean():.1f} %" for noise in SHOWN}
    headlines = [
        headline(
            "Noise that cancels over the graph costs no test error, random noise does",
            place=PLACE,
            text="curves on Avazu: graph-homomorphic beside no noise, random above both",
            ours=", ".join(percent.values()),
            why="Noise that sums to nothing is not seen by the centroid of all models; on ijcnn1, as Avazu is not here.",
            claims=[exact, untouched, near, random],
            seen_in="rounds",
        )
    ]
    both = Results(
        Row({"noise": noise, "model": whose}, {"error": values[noise]})
        for whose, values in (("centroid", settled), ("agents' own, mean", own))
        for noise in SHOWN
    )
    figures = [
        curves(
            Results(row for row in results.rows if row.factors["noise"] in SHOWN),
            "rounds",
            "Test error of the centroid",
            "Drawn like figure 4.5: ATC diffusion, mean of both classes' errors.",
            "centroid",
            lines="noise",
            y="test error (%)",
            words=WORDS,
        ),
        dots(
            both,
            "schemes",
            "Test error by scheme",
            "Of the centroid over the second half of a run, and of the agents' own models at its end.",
            "error",
            x="model",
            lines="noise",
            y="test error (%)",
            words=WORDS,
        ),
    ]
    return Judgement([exact, untouched, near, random, individual], headlines, figures)


STUDY = Study(
    name="diffusion-ijcnn1",
    title="Decentralised classification under noise that knows the graph",
    source="Rizk (2023), sec. 4.4.2, figure 4.5, on other data",
    minutes=1,
    measure=over(cells, run, seeds=(20, 5), facts=facts),
    judge=judge,
    tabled=("settled", "individual"),
    method=f"""
The text's data are click-through data with a million columns (Avazu); ijcnn1, which the text uses in another chapter,
takes their place. {AGENTS} agents, logistic loss with {RHO:g} ||w||^2, mu = {STEP:g}, Laplace noise of variance 0.8,
adapt then combine, gradients of one sample drawn with repetition, small worlds with Metropolis weights.

Always saying no is wrong on 10 % of the rows, which hides what noise does: each seed takes all positive rows and as
many negative ones, and test error is the mean of both classes' errors. As in the text agents differ by Gaussian noise
on their features, of a standard deviation uniform from 0 to {DATA_NOISE:g}. Nothing is clipped, as in the text, and so
nothing is promised per record.""",
)
