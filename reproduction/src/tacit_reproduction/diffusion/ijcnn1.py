"""Experiment `diffusion-ijcnn1`: test error of ATC diffusion under noise (Rizk 2023, sec. 4.4.2, on other data).

The text uses click-through data (Avazu); here it is ijcnn1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tacit import objectives
from tacit.metrics import paired_difference
from tacit.results import Run
from tacit.results.record import figure
from tacit.streams import partition
from tacit_reproduction.charts import Points, mean_points, points
from tacit_reproduction.diffusion.protocol import (
    METHODS,
    SEEDS_APART,
    WORDS,
    Draws,
    Floats,
    Noise,
    mechanism,
    network,
)
from tacit_reproduction.drawing import Panel, draw_curves
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, Table, reproducible, seen_in
from tacit_reproduction.finished import finished_run
from tacit_reproduction.ijcnn1_rows import Samples, load
from tacit_reproduction.judging import shown
from tacit_reproduction.verdicts import lower, not_worse
from tacit_reproduction.workers import crew

AGENTS = 50
STEP, RHO = 0.5, 0.001
NOISE_SIZE = 0.8**0.5
"""sigma_g: the text's variance is 0.8."""
DATA_NOISE = 0.5
"""An agent's features get Gaussian noise of its own standard deviation, uniform from 0 to this; columns have 1."""
LOSS = objectives.logistic(l2=2 * RHO)
"""The text's penalty is rho ||w||^2."""
POINTS = 50
"""At which models are recorded, evenly over the rounds."""
UNTOUCHED = 0.1
"""Percentage points that a grid may cost."""

ROUNDS, SCHEMES = "rounds", "schemes"
"""Our figures."""
OF_LOCAL = "figure 4.5, on Avazu: local graph-homomorphic noise does not change the test error (curves, no numbers)"
OF_NETWORK = (
    "figure 4.5, on Avazu: graph-homomorphic noise does not hinder the test error as random noise does (curves, no "
    "numbers)"
)
OF_INDIVIDUAL = f"{OF_NETWORK}; whose model is tested is not said"
DRIVEN_APART = (
    "Why: what an agent keeps makes up for the noise that it sends out, and that drives models apart; random noise is "
    "averaged over a neighbourhood instead."
)


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    rounds: int
    """The text gives no number."""


FULL = Design(seeds=20, rounds=1000)
QUICK = Design(seeds=5, rounds=400)


class Outcome(NamedTuple):
    """Test errors in per cent, the mean of both classes' errors: guessing has 50."""

    centroid: Floats
    """(seeds, points), evenly over the rounds."""
    individual: Floats
    """(seeds,) mean over the agents at the end."""
    trace: bytes
    """All recorded models, to compare runs bit by bit."""

    @property
    def settled(self) -> Floats:
        """(seeds,) of the centroid, averaged over the second half."""
        return np.asarray(self.centroid[:, self.centroid.shape[1] // 2 :].mean(axis=1))


Evidence = Mapping[Noise, Outcome]


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


def run_noise(task: tuple[Design, Noise, int, Samples | None]) -> Outcome:
    """Run ATC under one scheme."""
    design, noise, first, given = task
    samples = load() if given is None else given
    run = finished_run(
        METHODS["ATC"](LOSS, STEP, mechanism(noise, NOISE_SIZE)),
        lambda seed: network(AGENTS, seed),
        lambda seed: shared_out(samples, design.rounds, seed),
        rounds=design.rounds,
        repeats=design.seeds,
        seed=first,
        record={"models": lambda models: models},
        record_every=max(1, design.rounds // POINTS),
    )
    return _outcome(run, samples)


def _outcome(run: Run, samples: Samples) -> Outcome:
    models = run.recorded["models"]  # (seeds, points, agents, columns)
    centroid = np.stack([balanced_error(of_seed.mean(axis=1), samples) for of_seed in models])
    last = np.array([balanced_error(of_seed[-1], samples).mean() for of_seed in models])
    return Outcome(centroid, last, models.tobytes())


# -- verdicts ----------------------------------------------------------------------------------------------------------


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    none, random, homomorphic, local = (evidence[n] for n in ("none", "random", "homomorphic", "local"))
    same = local.trace == evidence["grid"].trace
    off = paired_difference(local.settled, none.settled)
    individual = lower(
        "Mean test error of the agents' own models is lower under graph-homomorphic than under random noise",
        ("graph-homomorphic", homomorphic.individual),
        ("random", random.individual),
    )
    if not individual.holds:
        individual = individual._replace(figure=f"{individual.figure}. {DRIVEN_APART}")
    unchanged = [
        Claim(
            "Local graph-homomorphic noise leaves the run as it is to the bit",
            same,
            f"models of all agents and recorded rounds beside those of the same run on the same grid without masks: "
            f"{'all' if same else 'not all'} the same; {len(local.trace) // 4:,} numbers",
        ),
        Claim(
            f"Test error of the centroid under local graph-homomorphic noise is within {UNTOUCHED:g} points of that "
            "without noise",
            off.low > -UNTOUCHED and off.high < UNTOUCHED,
            f"{local.settled.mean():.3f} against {none.settled.mean():.3f} %; difference {off.mean:+.4f} "
            f"[{off.low:+.4f}, {off.high:+.4f}] (95 %, paired over {off.n} seeds)",
        ),
    ]
    of_centroid = [
        not_worse(
            "Test error of the centroid under graph-homomorphic noise is no worse than without noise",
            ("graph-homomorphic", homomorphic.settled),
            ("no noise", none.settled),
        ),
        lower(
            "Test error of the centroid is higher under random noise than without noise",
            ("no noise", none.settled),
            ("random", random.settled),
        ),
        lower(
            "Test error of the centroid is lower under graph-homomorphic than under random noise",
            ("graph-homomorphic", homomorphic.settled),
            ("random", random.settled),
        ),
    ]
    return [
        *seen_in(ROUNDS, *unchanged, text=OF_LOCAL),
        *seen_in(ROUNDS, *of_centroid, text=OF_NETWORK),
        *seen_in(SCHEMES, individual, text=OF_INDIVIDUAL),
    ]


# -- the page ----------------------------------------------------------------------------------------------------------


def investigate(design: Design, seed: int, workers: int | None = None, given: Samples | None = None) -> Findings:
    """Run everything and judge the claims; `given` stands in for ijcnn1."""
    samples = load() if given is None else given  # where there are no data, say so before anything is started
    with crew(workers) as team:
        tasks = [(design, noise, SEEDS_APART * seed, given) for noise in WORDS]
        evidence = dict(zip(WORDS, team("running", run_noise, tasks), strict=True))
    positive = int((samples.y > 0).sum())
    return Findings(
        judge(evidence),
        {
            noise: {"centroid_error": figure(found.settled), "individual_error": figure(found.individual)}
            for noise, found in evidence.items()
        },
        {
            "name": "ijcnn1",
            "description": (
                f"{samples.description}: {2 * positive:,} of {len(samples.y):,} training rows, {len(samples.test_y):,} "
                "test rows"
            ),
            "rows": 2 * positive,
            "complete": True,
        },
        _method(design, samples),
        [_table(evidence)],
        _figures(evidence, design.rounds),
    )


def _method(design: Design, samples: Samples) -> list[str]:
    share = 100 * float((samples.y > 0).mean())
    return [
        "The text's data are click-through data with a million columns (Avazu); ijcnn1, which the text uses in another "
        f"chapter, takes their place. {AGENTS} agents, logistic loss with {RHO:g} ||w||^2, mu = {STEP:g}, Laplace "
        f"noise of variance {NOISE_SIZE**2:g}, adapt then combine, gradients of one sample drawn at random with "
        f"repetition, {design.rounds:,} rounds (the text gives no number), small worlds with Metropolis weights.",
        f"Of the training rows {share:.1f} % are positive: always saying no is wrong on no more than that, which hides "
        "what noise does. Each seed therefore takes all positive rows and as many negative ones, and test error is the "
        "mean of both classes' errors on all test rows, 50 % for guessing. Columns are standardised by the training "
        "rows, with a constant one added. "
        "As in the text agents differ by Gaussian noise on their features: the standard deviation is each agent's own, "
        f"uniform from 0 to {DATA_NOISE:g}.",
        f"{design.seeds} seeds, each with its own rows, partition, noise, network and draws, which all schemes share. "
        "The centroid's error is averaged over the second half of a run; that of the agents' own models is at the end.",
        "Nothing is clipped, as in the text, and so nothing is promised per record.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = [(WORDS[noise], shown(found.settled), shown(found.individual)) for noise, found in evidence.items()]
    note = "Mean of both classes' errors; ± is half of the 95 % interval of the mean over seeds."
    return Table("Test error in per cent", note, ("noise", "centroid", "agents' own, mean"), rows)


def _figures(evidence: Evidence, rounds: int) -> list[Figure]:
    drawn: tuple[Noise, ...] = ("none", "homomorphic", "random", "local")

    def over_rounds(values: Floats) -> Floats:
        return np.repeat(values, rounds // values.shape[1], axis=1)

    def both(outcome: Outcome) -> Points:
        return mean_points((outcome.settled, outcome.individual))

    seeds = len(evidence["none"].settled)
    unit = "test error, mean of both classes (%)"
    return [
        draw_curves(
            ROUNDS,
            "Test error of the centroid",
            f"As the text's figure 4.5. Lines are means over {seeds} seeds, bands their 95 % intervals.",
            [Panel("ATC diffusion", {WORDS[noise]: over_rounds(evidence[noise].centroid) for noise in drawn})],
            unit,
        ),
        points(
            SCHEMES,
            "Test error by scheme of noise",
            "Of the centroid, averaged over the second half of a run, and of the agents' own models at its end. Points "
            f"are means over {seeds} seeds, bars their 95 % intervals.",
            {"ATC diffusion": {WORDS[noise]: both(evidence[noise]) for noise in drawn}},
            ["centroid", "agents' own, mean"],
            "whose model",
            unit,
        ),
    ]


IJCNN1: Experiment = reproducible(
    "diffusion-ijcnn1",
    "Decentralised classification under noise that knows the graph",
    "Rizk (2023), sec. 4.4.2, figure 4.5, on other data",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
