"""Study `gfl-classification`: test error of the servers' centroid (Rizk 2023, sec. 3.5.2, on other data)."""

from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.streams import Stream, partition, whole
from tacit_reproduction.rizk.diffusion import mechanism
from tacit_reproduction.rizk.ijcnn1 import Samples, balanced_rows, errors, facts, load, noisier, schemes
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Results

SERVERS, CLIENTS, COHORT = 5, 10, 3
"""The text does not say how many clients a server calls, nor how servers are linked: a ring."""
STEP, RHO = 0.5, 0.03
NOISE_SIZE = 0.6**0.5  # sigma_g: the text's variance is 0.6
SIZES, LOCAL_STEPS, BATCH_SIZES = (50, 250), (1, 10), (5, 10)
"""Ranges by client: the text shares 5,101 rows among 50 clients unequally."""
LOSS = objectives.logistic(l2=2 * RHO)  # the text's penalty is rho ||w||^2
RECORD_EVERY, LAST = 5, 10  # Servers' own errors are averaged over the last of the recorded rounds


class Cell(NamedTuple):  # one scheme of noise
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
    noisier(x, own, rng)
    return whole(x, samples.y[rows], own, name="ijcnn1")


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    cell, seeds, first = task
    samples, rng = load(), np.random.default_rng(SERVERS * CLIENTS)
    local, batch = (rng.integers(low, high + 1, SERVERS * CLIENTS).tolist() for low, high in (LOCAL_STEPS, BATCH_SIZES))
    clients: dict[str, Any] = {"cohort": COHORT, "local_steps": local, "batch_size": batch}
    run = finished_run(
        algorithms.graph_federated(LOSS, STEP, server_mechanism=mechanism(cell.noise, NOISE_SIZE), **clients),
        graphs.federation(graphs.ring(SERVERS).with_weights("metropolis"), CLIENTS),
        lambda seed: shared_out(samples, seed), rounds=cell.rounds, repeats=seeds, seed=first, evaluate="cohort",
        record={"servers": lambda models: models[::CLIENTS]}, record_every=RECORD_EVERY)  # fmt: skip
    return errors(run.recorded_rounds, np.asarray(run.recorded["servers"], np.float64), LAST, samples)


def judge(results: Results) -> Judgement:
    return schemes(results, "figure 3.5", "servers' own models")


STUDY = Study(
    name="gfl-classification", title="Graph federated learning: test error under noise between servers",
    source="Rizk (2023), sec. 3.5.2, figure 3.5, on other data", minutes=1,
    measure=over(cells, run, seeds=(20, 6), facts=facts), judge=judge, tabled=("settled", "individual"),
    method=f"""
ijcnn1 in place of Avazu, with as many rows of both classes, {SIZES[0]} to {SIZES[1]} per client, and noise of each
client's own size on its features, as in diffusion-ijcnn1. {SERVERS} servers on a ring with {CLIENTS} clients each call
{COHORT} of them in a round, who take 1 to 10 local steps on 5 to 10 rows. Logistic loss, rho = {RHO:g}, mu = {STEP:g},
Laplace noise of variance 0.6 between servers, none below them.""")  # fmt: skip
