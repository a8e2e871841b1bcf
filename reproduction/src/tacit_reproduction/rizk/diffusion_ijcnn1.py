"""Study `diffusion-ijcnn1`: test error of ATC diffusion under noise (Rizk 2023, sec. 4.4.2, on other data)."""

from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.streams import partition
from tacit_reproduction.rizk import ijcnn1
from tacit_reproduction.rizk.diffusion import METHODS, WORDS, Draws, mechanism, network
from tacit_reproduction.rizk.ijcnn1 import DATA_NOISE, Samples, balanced_rows, load
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Results
from tacit_reproduction.verdict import Pair, fact, judged, within

AGENTS, STEP, RHO = 50, 0.5, 0.001
NOISE_SIZE = 0.8**0.5  # sigma_g: the text's variance is 0.8
LOSS = objectives.logistic(l2=2 * RHO)  # the text's penalty is rho ||w||^2
POINTS, PLACE = 50, "figure 4.5"
UNTOUCHED = 0.1  # percentage points that a grid may cost


class Cell(NamedTuple):  # one scheme of noise
    noise: str
    rounds: int


def cells(quick: bool) -> list[Cell]:
    """Return all schemes; the text gives no number of rounds."""
    return [Cell(noise, 400 if quick else 1000) for noise in WORDS]


def shared_out(samples: Samples, rounds: int, seed: int) -> Draws:
    """Return one seed's stream: as many rows of each class, dealt out evenly, and noise of each agent's own size."""
    rng = np.random.default_rng([seed, AGENTS])
    rows = balanced_rows(samples, rng)
    own, x = partition.iid(len(rows), AGENTS, seed), samples.x[rows]
    ijcnn1.noisier(x, own, rng)
    return Draws(x, samples.y[rows], own, rounds, seed, "ijcnn1")


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    cell, seeds, first = task
    samples = load()
    run = finished_run(
        METHODS["ATC"](LOSS, STEP, mechanism(cell.noise, NOISE_SIZE)), lambda seed: network(AGENTS, seed),
        lambda seed: shared_out(samples, cell.rounds, seed), rounds=cell.rounds, repeats=seeds, seed=first,
        record={"models": lambda models: models}, record_every=max(1, cell.rounds // POINTS))  # fmt: skip
    models = run.recorded["models"]  # (seeds, points, agents, columns)
    return {**ijcnn1.errors(run.recorded_rounds, models, 1, samples), "digest": ijcnn1.digest(models)}


def judge(results: Results) -> Judgement:
    same = bool(np.array_equal(results.of("digest", noise="local"), results.of("digest", noise="grid")))
    said, local = f"{PLACE}, on Avazu: local noise does not change the test error", "Local graph-homomorphic noise"
    figure = f"recorded models of all agents are {'' if same else 'not '}those of the same grid without masks"
    apart = Pair("", *(results.of("settled", noise=noise) for noise in ("local", "none")))
    near = f"{local} moves the centroid's test error by less than {UNTOUCHED:g} points"
    exact = fact(f"{local} leaves the run as it is to the bit", same, figure, said, "rounds")
    untouched = judged(near, apart, within(UNTOUCHED), unit=" %", text=said, seen_in="rounds")
    return ijcnn1.schemes(results, PLACE, "agents' own models", [exact, untouched])


STUDY = Study(
    name="diffusion-ijcnn1", title="Decentralised classification under noise that knows the graph",
    source="Rizk (2023), sec. 4.4.2, figure 4.5, on other data", minutes=1,
    measure=over(cells, run, seeds=(20, 5), facts=ijcnn1.facts), judge=judge, tabled=("settled", "individual"),
    method=f"""
The text's data are click-through data with a million columns (Avazu); ijcnn1, which the text uses in another chapter,
takes their place. {AGENTS} agents, logistic loss with {RHO:g} ||w||^2, mu = {STEP:g}, Laplace noise of variance 0.8,
adapt then combine, gradients of one sample drawn with repetition, small worlds with Metropolis weights.

Always saying no is wrong on 10 % of the rows, which hides what noise does: each seed takes all positive rows and as
many negative ones, and test error is the mean of both classes' errors. As in the text agents differ by Gaussian noise
on their features, of a standard deviation uniform from 0 to {DATA_NOISE:g}. Nothing is clipped, as in the text, and so
nothing is promised per record.""")  # fmt: skip
