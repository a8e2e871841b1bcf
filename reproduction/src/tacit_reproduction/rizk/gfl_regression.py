"""Study `gfl-regression`: servers on a graph and noise between them (Rizk 2023, sec. 3.5.1)."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.streams import LinearRegression, linear_regression
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.rizk import diffusion
from tacit_reproduction.rizk.diffusion import PER_TEXT_STEP, WORDS, climb, held, in_decibels
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Factor, Floats, Results, Row, decibels, late, parted
from tacit_reproduction.verdict import Claim, Pair, above, below, fact, headline, within

SERVERS, CLIENTS, COHORT, SAMPLES, DIMENSIONS = 10, 100, 11, 100, 2
RIDGE, STEP, VARIANCE = 0.1, 0.7, 0.1
LOCAL_STEPS, BATCH_SIZES = (1, 10), (5, 10)
LOSS = objectives.squared(l2=RIDGE)
COVARIANCES = {f"{a:g} to {b:g}": (a, b) for a, b in ((0.2, 0.5), (0.5, 1.5), (0.06, 0.2), (0.02, 0.1))}
"""Ranges of the eigenvalues of the clients' covariances, which are "randomly generated"."""
PLACES = tuple(product(COVARIANCES, ("small world", "ring", "random tree")))
"""Covariances and network of the servers; the text gives none."""
NOISES, CLOSE, FAR = ("none", "homomorphic", "random"), 1.0, 6.0
"""dB: "a good job at tracking", and "lower performance"."""


class Task(NamedTuple):
    """One scheme of noise: the text's setting on several data and networks, or one after the other on the first."""

    noise: str
    places: tuple[tuple[str, str], ...]  # covariances and network
    settings: tuple[tuple[float, float], ...] = ((STEP, VARIANCE),)  # steps and variances
    rounds: int = 200  # of a setting at least


def tasks(quick: bool) -> list[Task]:
    steps = (0.1, 5.0) if quick else (0.02, 0.1, 0.5, 1.0, 5.0)
    variances = (0.001, 10.0) if quick else (0.001, 0.01, 1.0, 2.0, 10.0)
    swept = ((STEP, VARIANCE), *((STEP, v) for v in variances), *((step, VARIANCE) for step in steps))
    wide = [Task(noise, PLACES, rounds=200 if quick else 400) for noise in NOISES]
    return [*(Task(noise, PLACES[:1], swept) for noise in NOISES), *wide]


def data(covariance: str, seed: int) -> LinearRegression:
    return linear_regression(SERVERS * CLIENTS, SAMPLES, DIMENSIONS, seed, feature_variance=COVARIANCES[covariance])


def run(given: tuple[Task, int, int]) -> list[Row]:
    task, seeds, first = given
    places = [(*place, seed) for place in task.places for seed in range(first, first + seeds)]
    drawn = [data(covariance, seed) for covariance, _, seed in places]
    own = np.random.default_rng(SERVERS * CLIENTS)
    local, batch = (own.integers(low, high + 1, SERVERS * CLIENTS).tolist() for low, high in (LOCAL_STEPS, BATCH_SIZES))
    lengths = [max(task.rounds, round(30 / step)) for step, _ in task.settings]  # long enough at small steps to settle
    sizes = [math.sqrt(variance) for _, variance in task.settings]
    noise, steps = diffusion.mechanism(task.noise, sizes[0]), [PER_TEXT_STEP * step for step, _ in task.settings]
    outcome = finished_run(
        algorithms.graph_federated(
            LOSS, diffusion.piecewise(steps, lengths),
            server_mechanism=noise if task.noise == "none" else diffusion.noise_by_round(noise, sizes, lengths),
            cohort=COHORT, local_steps=local, batch_size=batch),
        lambda k: graphs.federation(diffusion.network(SERVERS, places[k - first][2], places[k - first][1], 4), CLIENTS),
        lambda k: drawn[k - first].stream(), rounds=sum(lengths), repeats=len(places), seed=first,
        evaluate="cohort", record={"servers": lambda models: models[::CLIENTS]}, record_every=2)  # fmt: skip
    both = diffusion.deviations(outcome.recorded["servers"], np.stack([each.optima(RIDGE)[0] for each in drawn]))
    cut = zip(*(diffusion.stretches(outcome.recorded_rounds, values, lengths) for values in both), strict=True)
    kind, rows = "places" if len(task.places) > 1 else "settings", []
    for (step, variance), ((rounds, centroid), (_, own)) in zip(task.settings, cut, strict=True):
        settled = {"settled": decibels(late(centroid)), "individual": decibels(late(own))}
        common: dict[str, Factor] = {"kind": kind, "noise": task.noise, "step": step, "variance": variance}
        where = ({"covariance": c, "network": n} for c, n in task.places)
        rows += parted(common, where, seeds, {"rounds": rounds, "centroid": centroid, **settled})
    return rows


def tracked(here: Results, where: str) -> list[Claim]:
    none, homomorphic, random = (here.of("settled", noise=noise) for noise in NOISES)
    near = f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: {where}"
    far = f"Centroid MSD under random noise is at least {FAR:g} dB above that without and under homomorphic: {where}"
    links = [Pair("none", random, none), Pair("homomorphic", random, homomorphic)]
    said = "figure 3.2: random noise is worse, graph-homomorphic noise tracks none"
    close = in_decibels(near, Pair("", homomorphic, none), within(CLOSE), said, "learning")
    return [close, in_decibels(far, links, above(FAR), said, "learning")]


def own(here: Results, where: str) -> list[Claim]:
    claim = f"Mean individual MSD is lower under graph-homomorphic than under random noise: {where}"
    pair, said = Pair("", *(here.of("individual", noise=noise) for noise in NOISES[1:])), "figure 3.3 (b): better"
    return [in_decibels(claim, pair, below(), said, "individual")]


def of_sweeps(swept: Results) -> list[Claim]:
    steps = sorted(swept.where(variance=VARIANCE).levels("step"))
    variances = sorted(swept.where(step=STEP).levels("variance"))

    def by(noise: str, factor: str, measure: str = "settled") -> Callable[[float], Floats]:
        fixed = {"step": STEP, "variance": VARIANCE}
        return lambda at: swept.of(measure, noise=noise, **(fixed | {factor: at}))

    random = by("random", "step")
    individual = [p for n in NOISES[1:] for p in climb(WORDS[n], by(n, "variance", "individual"), variances)]
    levels = {n: [10 ** (by(n, "variance")(variances[end]) / 10) for end in (0, -1)] for n in NOISES[1:]}
    rise = Pair("", *(decibels(levels[n][1] - levels[n][0]) for n in ("random", "homomorphic")))
    lowest = min(steps[1:-1], key=lambda step: float(random(step).mean()))
    ends = [Pair(f"mu {end:g} over {lowest:g}", random(end), random(lowest)) for end in (steps[0], steps[-1])]
    cost = climb("mu", lambda at: random(at) - by("none", "step")(at), [at for at in reversed(steps) if at <= STEP])
    growing = climb("mu", by("homomorphic", "step"), steps)
    gone = sum(int((~np.isfinite(row.measures["individual"])).sum()) for row in swept.rows)
    figure = f"{gone} runs leave all bounds, sigma_g^2 to {variances[-1]:g}, mu to {steps[-1]:g}"
    said = "figure 3.3 (a): random noise increases MSD significantly, unlike homomorphic noise"
    return [
        in_decibels(f"Noise adds {FAR:g} dB more if it is random", rise, above(FAR), said, "variances"),
        in_decibels("Mean individual MSD grows with sigma_g^2", individual, above(), "figure 3.3 (b): it does"),
        fact("Under random noise it breaks down at some variance", gone > 0, figure, "sec. 3.5.1: so it does"),
        in_decibels("The smaller mu, the more random noise costs", cost, above(), "Theorem 3.1: O(1 / mu)", "steps"),
        in_decibels("Under homomorphic noise MSD grows with mu", growing, above(), "figure 3.4: it does", "steps"),
        in_decibels("Under random noise a middle mu is best", ends, above(), "figure 3.4: a trade-off", "steps"),
    ]


def judge(results: Results) -> Judgement:
    places, swept = results.where(kind="places"), results.where(kind="settings")
    here = {f"covariances {c}, {n}": places.where(covariance=c, network=n) for c, n in PLACES}
    main = next(iter(here))

    centroid, single = ({name: of(rows, name) for name, rows in here.items()} for of in (tracked, own))

    def levels(measure: str) -> str:
        return ", ".join(f"{WORDS[n]} {here[main].of(measure, noise=n).mean():.1f} dB" for n in NOISES) + f" ({main})"

    headlines = [
        headline(
            "Graph-homomorphic noise between servers tracks no noise, random noise is far worse, also for servers' own "
            "models",
            place="figures 3.2 and 3.3 (b)", text="curves; for own models better for a fixed variance, though it does "
            "not seem significant",
            ours=f"centroid: {levels('settled')}, {held(centroid)}; own models: {levels('individual')}, {held(single)}",
            why="Noise cancels in the mean of the models but drives them apart, and gradients at models that differ "
            "do not average to the mean's: their difference goes with the square of the features, so that the larger "
            "these are, the more of the noise is seen in the centroid. The text gives neither covariances nor its "
            "graph. At the servers themselves, what one keeps makes up for the noise that it sent, -(1 - W[p, p]) / "
            "W[p, p] times it. Random noise is worse there where it piles up, with few neighbours and small curvature; "
            "the ridge of 0.1 limits that.",
            sweep={name: [*centroid[name], *single[name]] for name in here}, seen_in="centroid")]  # fmt: skip
    y: dict[str, Any] = {"lines": "noise", "words": WORDS, "y": "MSD (dB)"}
    louder, steps, seen = swept.where(step=STEP), swept.where(variance=VARIANCE), places.where(network="small world")
    drawn: dict[str, Any] = {"x": "covariance", "panels": "network", **y}
    figures = [
        curves(seen, "learning", "MSD", "As figure 3.2.", "centroid", panels="covariance", change=decibels, **y),
        dots(places, "centroid", "MSD of the centroid", "What the text leaves open.", "settled", **drawn),
        dots(places, "individual", "MSD of the servers", "What the text leaves open.", "individual", **drawn),
        dots(louder, "variances", "MSD by sigma_g^2", "As figure 3.3 (a).", "settled", x="variance", log_x=True, **y),
        dots(steps, "steps", "Settled MSD by mu", "As figure 3.4.", "settled", x="step", log_x=True, **y),
    ]
    return Judgement([*centroid[main], *single[main], *of_sweeps(swept)], headlines, figures)


STUDY = Study(
    name="gfl-regression", title="Graph federated learning: noise between servers",
    source="Rizk (2023), sec. 3.5.1, figures 3.2 to 3.4", minutes=5, measure=over(tasks, run, seeds=(20, 5)),
    judge=judge, tabled=("settled", "individual"),
    method=f"""
{SERVERS} servers call {COHORT} of {CLIENTS} clients each, who take 1 to 10 local steps with mu / E on 5 to 10 of their
{SAMPLES} samples; servers mix with Metropolis weights. rho = {RIDGE:g}, mu = {STEP:g}, Laplace noise of variance
{VARIANCE:g} between servers. MSD is (3.64) and (3.65), over the second half of each setting's rounds.

The text gives neither its graph nor its covariances: four ranges of eigenvalues, and small worlds (4 neighbours, 30 %
rewired), a ring and random trees. "Tracks" is within {CLOSE:g} dB, "worse" at least {FAR:g} dB. Steps and variances are
swept with the first of these, one after the other in one run.""")  # fmt: skip
