"""Study `diffusion-regression`: four noise schemes under three recursions (Rizk 2023, sec. 4.4.1)."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.streams import LinearRegression, linear_regression
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.rizk import diffusion
from tacit_reproduction.rizk.diffusion import METHODS, PER_TEXT_STEP, WORDS, Draws, held, in_decibels
from tacit_reproduction.rizk.ijcnn1 import digest
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Factor, Results, Row, decibels, late, parted
from tacit_reproduction.verdict import Claim, Pair, above, fact, headline, within

AGENTS, SAMPLES, DIMENSIONS, RIDGE, STEP, ROUNDS = 30, 100, 2, 0.01, 0.4, 1000
NOISE_SIZE = 0.1  # sigma_g: the text's variance is 0.01
DATA_NOISE = (0.01, 0.1)  # range of the agents' noise variances, which the text does not give
COVARIANCES = {f"{a:g} to {b:g}": (a, b) for a, b in ((0.2, 0.5), (0.06, 0.2), (0.02, 0.06), (0.005, 0.02))}
"""Ranges of the eigenvalues of R_u, which is "randomly set". From 0.5 to 1.5 consensus diverges at the text's step."""
PLACES = tuple(product(COVARIANCES, ("small world", "ring", "random tree")))
FIRST, SPARSE = PLACES[0], ("0.005 to 0.02", "ring")  # covariances and network of which curves are kept
BATCHES = {1: "one sample", 10: "ten samples"}
LOSS = objectives.squared(l2=RIDGE)
EVERY = 5
NOISES = ("none", "homomorphic", "random")
CLOSE, FAR, UNTOUCHED = 1.0, 3.0, 0.1  # dB: "close" and "significantly higher", and what a grid may cost
FIGURE = "figure 4.4"


class Task(NamedTuple):  # one program; places stand side by side
    method: str
    noise: str
    batch: int = 1
    places: tuple[tuple[str, str], ...] = (FIRST,)


def tasks(quick: bool) -> list[Task]:
    wide = ["ATC"] if quick else list(METHODS)
    found = [Task(m, noise, batch, PLACES) for batch in (10, 1) for m in wide for noise in NOISES]
    found += [Task(m, noise) for m in METHODS if m not in wide for noise in NOISES]
    return found + [Task(m, noise) for m in wide for noise in ("local", "grid")]


def data(covariance: str, seed: int) -> LinearRegression:
    sizes: dict[str, Any] = {"feature_variance": COVARIANCES[covariance], "noise_variance": DATA_NOISE}
    return linear_regression(AGENTS, SAMPLES, DIMENSIONS, seed, common_features=True, **sizes)


def run(given: tuple[Task, int, int]) -> list[Row]:
    task, seeds, first = given
    places = [(*place, seed) for place in task.places for seed in range(first, first + seeds)]
    drawn = [data(covariance, seed) for covariance, _, seed in places]

    def stream(k: int) -> Draws:
        own, held = np.split(np.arange(AGENTS * SAMPLES), AGENTS), drawn[k - first]
        x, y, seed = held.x.reshape(-1, DIMENSIONS), held.y.ravel(), places[k - first][2]
        return Draws(x, y, own, ROUNDS, seed, "regression", task.batch)

    masked = task.noise in ("local", "grid")
    outcome = finished_run(
        METHODS[task.method](LOSS, PER_TEXT_STEP * STEP, diffusion.mechanism(task.noise, NOISE_SIZE)),
        lambda k: diffusion.network(AGENTS, places[k - first][2], places[k - first][1]), stream, rounds=ROUNDS,
        repeats=len(places), seed=first, record={"models": lambda models: models},
        record_every=1 if masked else EVERY)  # fmt: skip
    models, rounds = outcome.recorded["models"], outcome.recorded_rounds
    bits = digest(models)
    if masked:  # all rounds are compared; deviations are of the rounds that other runs record
        models, rounds = models[:, EVERY - 1 :: EVERY], rounds[EVERY - 1 :: EVERY]
    centroid, own = diffusion.deviations(models, np.stack([each.optima(RIDGE)[0] for each in drawn]))
    measures = {"rounds": rounds[::4], "centroid": centroid[:, ::4]}
    measures |= {"settled": decibels(late(centroid)), "individual": decibels(late(own))}
    measures |= {"digest": np.tile(bits, (seeds, 1))} if masked else {}
    common: dict[str, Factor] = {"method": task.method, "noise": task.noise, "batch": task.batch}
    return parted(common, ({"R_u": r_u, "network": name} for r_u, name in task.places), seeds, measures)


def pairs(here: Results, measure: str, *links: tuple[str, str]) -> list[Pair]:
    return [
        Pair(f"{method}, {WORDS[one]} over {WORDS[other]}", *(found.of(measure, noise=noise) for noise in (one, other)))
        for method in here.where(noise="homomorphic").levels("method")
        for found in [here.where(method=method)]
        for one, other in links
    ]


def of_centroid(here: Results, where: str) -> list[Claim]:
    near = f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: {where}"
    far = f"Centroid MSD is at least {FAR:g} dB higher under random than under graph-homomorphic noise: {where}"
    said = f"{FIGURE}: close to no noise; random is significantly higher"
    return [
        in_decibels(near, pairs(here, "settled", ("homomorphic", "none")), within(CLOSE), said, "rounds"),
        in_decibels(far, pairs(here, "settled", ("random", "homomorphic")), above(FAR), said, "rounds"),
    ]


def of_agents(here: Results, where: str) -> list[Claim]:
    claim = f"Mean individual MSD rises from no noise over graph-homomorphic to random noise: {where}"
    links = pairs(here, "individual", ("homomorphic", "none"), ("random", "homomorphic"))
    said = f"{FIGURE}: individual models suffer, but not as much as under random noise"
    return [in_decibels(claim, links, above(), said, "individual")]


def of_masks(here: Results) -> list[Claim]:
    said, methods = f"{FIGURE}: follows that without noise", here.where(noise="local").levels("method")
    digests = [[here.of("digest", method=m, noise=n) for n in ("local", "grid")] for m in methods]
    same = [np.array_equal(local, grid) for local, grid in digests]
    figure = f"{sum(same)} of {len(same)} methods ({', '.join(methods)}) have all bits of the same run without masks"
    exact = "Local graph-homomorphic noise leaves the run as it is to the bit, in every round, at every agent"
    apart = [Pair(m, *(here.of("settled", method=m, noise=noise) for noise in ("local", "none"))) for m in methods]
    near = f"Centroid MSD under local graph-homomorphic noise is that of the plain run, within {UNTOUCHED:g} dB"
    return [fact(exact, all(same), figure, said, "rounds"), in_decibels(near, apart, within(UNTOUCHED), said, "rounds")]


def judge(results: Results) -> Judgement:
    swept = {
        f"R_u {r_u}, {network}, {samples}": results.where(batch=batch, R_u=r_u, network=network)
        for (r_u, network), (batch, samples) in product(PLACES, BATCHES.items())}  # fmt: skip
    ends = {name: swept[name] for name in (", ".join((f"R_u {r_u}", net, BATCHES[1])) for r_u, net in (FIRST, SPARSE))}
    masks = of_masks(next(iter(ends.values())))
    claims = [*masks, *(c for of in (of_centroid, of_agents) for name, here in ends.items() for c in of(here, name))]

    centroid, single = ({name: of(here, name) for name, here in swept.items()} for of in (of_centroid, of_agents))

    def levels(measure: str) -> str:
        means = {w: {n: here.of(measure, method="ATC", noise=n).mean() for n in NOISES} for w, here in ends.items()}
        said = (f"{w}: " + ", ".join(f"{WORDS[n]} {value:.1f}" for n, value in of.items()) for w, of in means.items())
        return f"ATC, in dB, {'; '.join(said)}"

    headlines = [
        headline(
            "Local graph-homomorphic noise does not change what is learnt", place=FIGURE,
            text="one curve with and without noise", ours=masks[0].figure,
            why="The masks of a neighbourhood cancel in its receiver's sum, on a fixed-point grid exactly.",
            claims=masks, seen_in="rounds"),
        headline(
            "Graph-homomorphic noise costs the centroid next to nothing and single models less than random noise does, "
            "which costs both far more",
            place=FIGURE, text="curves: centroid close to no noise, random significantly higher; individual models not "
            "as much as for random perturbations",
            ours=f"{levels('settled')}, {held(centroid)}; individual models {levels('individual')}, {held(single)}",
            why="Random noise leaves the centroid an error like 1 / (mu R_u), the gradients' own noise one like mu: "
            "the first is seen where regressors are small or batches large. As for single models, what an agent keeps "
            "makes up for the noise that it sends, which drives models apart: further than random noise does where an "
            "agent has many neighbours, less far on a tree or a ring with small regressors.",
            sweep={name: [*centroid[name], *single[name]] for name in swept}, seen_in="centroid")]  # fmt: skip
    y: dict[str, Any] = {"lines": "noise", "y": "MSD (dB)", "words": WORDS}
    seen = Results(row for here in ends.values() for row in here.rows if row.factors["noise"] != "grid")
    of: dict[str, Any] = {"panels": "{method}, {R_u}, {network}", "change": decibels, **y}
    figures = [curves(seen, "rounds", "MSD of the centroid", f"As {FIGURE}.", "centroid", **of)]
    y["panels"] = lambda row: f"{row.factors['network']}, {BATCHES[row.factors['batch']]}"
    for name, measure in (("centroid", "settled"), ("individual", "individual")):
        title = f"Settled MSD by what the text leaves open: {name}"
        figures.append(dots(results.where(method="ATC", noise=NOISES), name, title, "ATC.", measure, x="R_u", **y))
    return Judgement(claims, headlines, figures)


STUDY = Study(
    name="diffusion-regression", title="Decentralised regression under noise that knows the graph",
    source="Rizk (2023), sec. 4.4.1, figure 4.4", minutes=3, measure=over(tasks, run, seeds=(20, 10)),
    judge=judge, tabled=("settled", "individual"),
    method=f"""
{AGENTS} agents, {SAMPLES} samples each, the loss of (4.62) with its factor 2, mu = {STEP:g}, Laplace noise of variance
0.01 on every coordinate of a message, Metropolis weights, gradients of samples drawn with repetition; data noise has
variances from {DATA_NOISE[0]:g} to {DATA_NOISE[1]:g} by agent. MSD is against w^o of (4.63), over the second half of
a run. Nothing is clipped, as in the text, and so nothing is promised per record.

The text gives neither R_u nor its network nor the batch: all combinations of four ranges of R_u's eigenvalues, three
networks (small worlds of 6 neighbours with 30 % rewired, a ring, uniformly random trees) and two batches are run with
the same seeds. "Close" is within {CLOSE:g} dB, "significantly higher" at least {FAR:g} dB, for all methods at once; the
quick form sweeps ATC only. Local noise works on a fixed-point grid.""")  # fmt: skip
