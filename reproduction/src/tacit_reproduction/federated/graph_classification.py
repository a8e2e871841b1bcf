"""Experiment `gfl-classification`: test error of the centroid's model (Rizk 2023, sec. 3.5.2, on other data).

The text uses click-through data (Avazu); here it is ijcnn1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, graphs, objectives
from tacit.core.contract import Mechanism
from tacit.metrics import paired_difference
from tacit.privacy import graph_homomorphic, per_edge, unprotected
from tacit.results.record import figure
from tacit.streams import Stream, partition, whole
from tacit_reproduction.charts import mean_points, points
from tacit_reproduction.drawing import IN_WORDS, Panel, draw_curves, means_of
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, Table, reproducible, seen_in
from tacit_reproduction.federated.graph_moments import Floats
from tacit_reproduction.federated.graph_runs import BATCH_SIZES, LOCAL_STEPS, WORDS, Noise
from tacit_reproduction.federated.private_segments import second_half
from tacit_reproduction.finished import finished_run
from tacit_reproduction.ijcnn1_rows import Samples, load
from tacit_reproduction.judging import shown
from tacit_reproduction.verdicts import difference_in_words, lower
from tacit_reproduction.workers import crew

SERVERS, CLIENTS = 5, 10
COHORT = 3
"""The text does not say how many clients a server calls."""
STEP, RHO = 0.5, 0.03
NOISE_SIZE = 0.6**0.5
"""sigma_g: the text's variance is 0.6."""
SIZES = (50, 250)
"""Range of the clients' rows: the text shares 5,101 among 50 clients unequally."""
DATA_NOISE = 0.5
"""A client's features get Gaussian noise of its own standard deviation, uniform from 0 to this; columns have 1."""
LOSS = objectives.logistic(l2=2 * RHO)
"""The text's penalty is rho ||w||^2."""
RECORD_EVERY = 5
LAST = 10
"""Recorded rounds at the end over which the servers' own errors are averaged."""
AT_ONCE = 100
"""Models that are judged together, so that their scores fit into memory."""
CLOSE = 0.5
"""Percentage points within which an error is as good."""
SEEDS_APART = 1000
LEARNING, ERRORS = "learning", "errors"
"""Names of figures."""
IN_PERCENT = "test error (%)"


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    rounds: int


FULL = Design(seeds=20, rounds=400)
QUICK = Design(seeds=6, rounds=200)


class Outcome(NamedTuple):
    """Test errors in per cent, the mean of both classes' errors: guessing has 50."""

    centroid: Floats
    """(seeds, points), evenly over the rounds."""
    individual: Floats
    """(seeds,) mean over the servers and the last rounds."""

    @property
    def settled(self) -> Floats:
        """(seeds,) of the centroid, averaged over the second half."""
        return second_half(self.centroid)


Evidence = Mapping[Noise, Outcome]


def shared_out(samples: Samples, seed: int) -> Stream:
    """Return one seed's clients: as many rows of each class, unequally many each, and noise of each one's own size.

    How many rows a client has is the same for all seeds, which run in one program.
    """
    count = SERVERS * CLIENTS
    rng = np.random.default_rng([seed, count])
    rare = np.flatnonzero(samples.y > 0)
    rows = rng.permutation(np.concatenate([rare, rng.choice(np.flatnonzero(samples.y < 0), len(rare), replace=False)]))
    sizes = partition.random_sizes(len(rows), count, *SIZES)
    own = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    x, y = samples.x[rows[: sizes.sum()]], samples.y[rows[: sizes.sum()]]
    for held, size in zip(own, rng.uniform(0, DATA_NOISE, count), strict=True):
        x[held, :-1] += (size * rng.standard_normal((len(held), x.shape[1] - 1))).astype(x.dtype)  # not the constant
    return whole(x, y, own, name="ijcnn1")


def errors(models: Floats, x: NDArray[np.float32], y: NDArray[np.float32]) -> Floats:
    """Return the mean of both classes' errors of models (..., columns), in per cent."""
    flat = models.reshape(-1, models.shape[-1]).astype(np.float32)
    found = []
    for begin in range(0, len(flat), AT_ONCE):
        wrong = (x @ flat[begin : begin + AT_ONCE].T > 0) != (y > 0)[:, None]
        found.append(50 * (wrong[y > 0].mean(axis=0) + wrong[y < 0].mean(axis=0)))
    return np.asarray(np.concatenate(found).reshape(models.shape[:-1]), np.float64)


def run_noise(task: tuple[Design, Noise, int, Samples | None]) -> Outcome:
    """Run one scheme with seeds from the first one on; samples default to ijcnn1."""
    design, noise, first, given = task
    samples = load() if given is None else given
    rng = np.random.default_rng(SERVERS * CLIENTS)
    local, batch = (rng.integers(low, high + 1, SERVERS * CLIENTS).tolist() for low, high in (LOCAL_STEPS, BATCH_SIZES))
    schemes: Mapping[Noise, Mechanism] = {
        "none": unprotected,
        "random": per_edge(NOISE_SIZE),
        "homomorphic": graph_homomorphic(NOISE_SIZE),
    }
    run = finished_run(
        algorithms.graph_federated(
            LOSS, STEP, server_mechanism=schemes[noise], cohort=COHORT, local_steps=local, batch_size=batch
        ),
        graphs.federation(graphs.ring(SERVERS).with_weights("metropolis"), CLIENTS),
        lambda seed: shared_out(samples, seed),
        rounds=design.rounds,
        repeats=design.seeds,
        seed=first,
        evaluate="cohort",
        record={"servers": lambda models: models[::CLIENTS]},  # a server's model speaks for its clients
        record_every=RECORD_EVERY,
    )
    models = np.asarray(run.recorded["servers"], np.float64)
    test = samples.test_x, samples.test_y
    return Outcome(errors(models.mean(axis=2), *test), errors(models[:, -LAST:], *test).mean(axis=(1, 2)))


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    plain, random, homomorphic = (("no noise", evidence["none"].settled), *_noisy(evidence))
    gap = paired_difference(homomorphic[1], plain[1])
    figures = difference_in_words(homomorphic, plain)
    unhindered = Claim(
        f"Graph-homomorphic noise does not hinder: test error of the centroid's model within {CLOSE:g} points of "
        "that without noise (figure 3.5)",
        gap.low > -CLOSE and gap.high < CLOSE,
        figures,
    )
    below = lower(
        "Test error of the centroid's model is lower under graph-homomorphic than under random noise",
        homomorphic,
        random,
    )
    raised = lower("Random noise raises the test error of the centroid's model", plain, random)
    claims = [
        *seen_in(LEARNING, unhindered, text="figure 3.5, Avazu: homomorphic noise does not hinder the performance"),
        *seen_in(LEARNING, below, raised, text="figure 3.5, Avazu: random noise reduces the utility significantly"),
    ]
    own = [(words, evidence[noise].individual) for noise, words in WORDS.items() if noise != "none"]
    verdict = lower("Mean test error of the servers' own models is lower under graph-homomorphic noise", own[1], own[0])
    if not verdict.holds:
        why = (
            "Why: graph-homomorphic noise spares the centroid, not the single models. What a server keeps makes up for "
            "the noise that it sent out, and that drives them apart"
        )
        verdict = verdict._replace(figure=f"{verdict.figure}. {why}")
    return [*claims, *seen_in(ERRORS, verdict)]


def _noisy(evidence: Evidence) -> list[tuple[str, Floats]]:
    return [(WORDS[noise], evidence[noise].settled) for noise in ("random", "homomorphic")]


def investigate(design: Design, seed: int, workers: int | None = None, given: Samples | None = None) -> Findings:
    """Run everything and judge the claims; samples default to ijcnn1."""
    samples = load() if given is None else given
    with crew(workers) as team:
        outcomes = team("running", run_noise, [(design, noise, SEEDS_APART * seed, given) for noise in WORDS])
    return findings(dict(zip(WORDS, outcomes, strict=True)), design, samples)


def findings(evidence: Evidence, design: Design, samples: Samples) -> Findings:
    """Judge what was measured and present it."""
    return Findings(
        judge(evidence),
        {
            noise: {"centroid_error": figure(outcome.settled), "individual_error": figure(outcome.individual)}
            for noise, outcome in evidence.items()
        },
        {
            "name": "ijcnn1",
            "description": f"{samples.description}; as many of both classes to learn from, all {len(samples.test_y):,} "
            "rows of the test part to judge",
            "rows": len(samples.y) + len(samples.test_y),
            "complete": True,
        },
        _method(design),
        [_table(evidence)],
        [_learning(evidence), _ends(evidence)],
    )


def _method(design: Design) -> list[str]:
    return [
        "The text learns from click-through data (Avazu); here it is ijcnn1, with columns of mean 0 and deviation 1 "
        f"and a constant. Its rare class is a tenth: clients get as many rows of both, {SIZES[0]} to {SIZES[1]} each, "
        "and errors are means of both classes' errors, so that guessing has 50 %. As in the text clients' features "
        f"carry noise of each one's own size (deviation 0 to {DATA_NOISE:g}), test rows carry none.",
        f"{SERVERS} servers on a ring with Metropolis weights (the text gives no graph), {CLIENTS} clients each, of "
        f"whom {COHORT} are called in a round (the text gives no number) and take {LOCAL_STEPS[0]} to "
        f"{LOCAL_STEPS[1]} local steps on {BATCH_SIZES[0]} to {BATCH_SIZES[1]} of their rows. Logistic loss, rho = "
        f"{RHO:g}, mu = {STEP:g}, noise of variance {NOISE_SIZE**2:g} between servers, none between clients and "
        f"servers. {design.seeds} seeds, each with its own rows, noise and draws; {design.rounds} rounds, errors are "
        "averages over the second half.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = [(WORDS[noise], shown(o.settled), shown(o.individual)) for noise, o in evidence.items()]
    columns = ("noise", "centroid, second half", "servers' own, last rounds")
    return Table("Test errors in per cent", "± is half of the 95 % interval of the mean.", columns, rows)


def _learning(evidence: Evidence) -> Figure:
    curves = {WORDS[noise]: np.repeat(o.centroid, RECORD_EVERY, axis=1) for noise, o in evidence.items()}
    caption = f"As figure 3.5: the centroid's model on the test part. {means_of(curves.values())} {IN_WORDS}"
    return draw_curves(LEARNING, "Test error round by round", caption, [Panel("", curves)], IN_PERCENT)


def _ends(evidence: Evidence) -> Figure:
    panels = {
        "": {
            "centroid, second half of the rounds": mean_points([o.settled for o in evidence.values()]),
            "mean of the servers, last rounds": mean_points([o.individual for o in evidence.values()]),
        }
    }
    caption = f"{means_of(o.settled for o in evidence.values())} The text has the centroid's error only."
    places = [WORDS[noise] for noise in evidence]
    return points(ERRORS, "Test errors", caption, panels, places, "noise between servers", IN_PERCENT)


CLASSIFICATION: Experiment = reproducible(
    "gfl-classification",
    "Graph federated learning: test error under noise between servers",
    "Rizk (2023), sec. 3.5.2, figure 3.5",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
