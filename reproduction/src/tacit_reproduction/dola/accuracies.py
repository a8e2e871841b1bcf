"""Runs behind Table 1 of Li et al.: one entry of one protocol at a time."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.algorithms.schedules import inverse
from tacit.core.contract import Algorithm, Array
from tacit.graphs import Graph
from tacit.privacy import laplace, unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.streams import Stream, from_arrays
from tacit_reproduction.dola.networks import exchanges, matchings, rounds_to_average
from tacit_reproduction.dola.protocol import noise, pegasos_radius
from tacit_reproduction.dola.samples import Samples, dealt
from tacit_reproduction.dola.table import NOISELESS_LAMBDA, PRINTED_LAMBDA, Entry, Protocol, Representation
from tacit_reproduction.finished import finished_run

MOST_BYTES = 2**28
"""Of data in one simulation; more seeds are run in several."""


class Cell(NamedTuple):
    """One entry of one protocol."""

    protocol: Protocol
    entry: Entry
    form: Representation


class Plan(NamedTuple):
    """A cell with its data."""

    cell: Cell
    training: Samples
    test: Samples
    seeds: range


class Outcome(NamedTuple):
    """Results of a cell."""

    network: NDArray[np.float64]
    """(seeds,) accuracy in per cent of the mean of all nodes' models."""
    own: NDArray[np.float64]
    """(seeds,) mean accuracy of the nodes' own models."""
    rounds: int
    signal: float
    """Length of the step that the nodes' mean makes without noise; not a number where learning takes many rounds."""
    disturbance: float
    """Root mean square length of the noise in the nodes' mean; as printed, of what would gather without projection."""
    ceiling: float
    """Accuracy of that step without noise; not a number where there is no such step."""
    privacy: RunPrivacy


class Way(NamedTuple):
    """Protocol of a cell's run."""

    algorithm: Algorithm
    graph: Graph
    rounds: int
    batch: int
    once: bool
    """Whether all of a node's rows make one batch in round 1, and later rounds only average."""


def way(cell: Cell, rows: int) -> Way:
    """Return how a cell is run on so many training rows."""
    epsilon, nodes = cell.entry
    if cell.protocol == "printed":
        objective = objectives.hinge(l2=PRINTED_LAMBDA)
        algorithm = algorithms.distributed_online(
            objective, inverse(1 / PRINTED_LAMBDA), noise(epsilon, "text"), pegasos_radius(PRINTED_LAMBDA)
        )
        return Way(algorithm, matchings(nodes), rows // nodes, 1, once=False)
    if cell.protocol == "labels" and epsilon is None:
        objective = objectives.hinge(l2=NOISELESS_LAMBDA)
        algorithm = algorithms.distributed_minibatch(
            objective, inverse(1 / NOISELESS_LAMBDA), unprotected, pegasos_radius(NOISELESS_LAMBDA)
        )
        return Way(algorithm, matchings(nodes), rows // nodes, 1, once=False)
    mechanism = unprotected if epsilon is None else laplace(epsilon, cell.form.clip, "l1", "update")
    algorithm = algorithms.distributed_online(objectives.hinge(l2=1.0), once, mechanism)
    return Way(algorithm, exchanges(nodes), rounds_to_average(nodes), -(-rows // nodes), once=True)


def once(t: Array) -> Array:
    """Return the step 1/(lambda t) with lambda = 1 in round 1, and 0 afterwards: nothing is released, only mixed."""
    return jnp.where(t == 1, 1.0, 0.0)


def stream(plan: Plan, how: Way, seed: int) -> Stream:
    """Deal the training rows out for one seed."""
    rows = plan.training
    nodes = plan.cell.entry[1]
    if not how.once:
        return dealt(rows, nodes, 1, seed, "RCV1")
    holder = np.random.default_rng([seed, nodes]).permutation(len(rows.y)) % nodes
    return from_arrays(
        rows.x, rows.y, holder, batch=how.batch, rounds=how.rounds, exhausted="mask", shuffle_seed=None, name="RCV1"
    )


def run_cell(plan: Plan) -> Outcome:
    """Run a cell over its seeds and test the models."""
    how = way(plan.cell, len(plan.training.y))
    per_seed = how.rounds * how.batch * plan.cell.entry[1] * plan.training.x[0].nbytes
    count = max(1, MOST_BYTES // per_seed)
    network, own = [], []
    for first in range(plan.seeds.start, plan.seeds.stop, count):
        run = _simulated(plan, how, range(first, min(first + count, plan.seeds.stop)))
        models = np.asarray(run.models, np.float64)
        network.append(_accuracy(models.mean(axis=1, keepdims=True), plan.test))
        own.append(_accuracy(models, plan.test))
    return Outcome(np.concatenate(network), np.concatenate(own), how.rounds, *_strengths(plan, how), run.privacy)


def _simulated(plan: Plan, how: Way, seeds: range) -> Run:
    return finished_run(
        how.algorithm,
        how.graph,
        lambda seed: stream(plan, how, seed),
        rounds=how.rounds,
        repeats=len(seeds),
        seed=seeds.start,
        record_every=how.rounds,
    )


def _accuracy(models: NDArray[np.float64], test: Samples) -> NDArray[np.float64]:
    """Return (seeds,) the share of right answers in per cent, averaged over models (seeds, nodes, columns)."""
    return np.array([100 * np.mean((test.x @ of_seed.T) * test.y[:, None] > 0) for of_seed in models])


def _strengths(plan: Plan, how: Way) -> tuple[float, float, float]:
    """Return signal, disturbance and ceiling, which tell why an accuracy is what it is."""
    epsilon, nodes = plan.cell.entry
    columns = plan.cell.form.columns
    draws = columns / nodes  # per round, in the mean of the nodes; a Laplace variable has variance 2 scale^2
    if plan.cell.protocol == "printed":
        # A step of size 1 / (lambda t) leaves the share t / T of round t's noise in round T, so that each round adds
        # 2 sqrt(d) / (lambda T eps) in scale.
        scale = 0.0 if epsilon is None else 2 * columns**0.5 / (PRINTED_LAMBDA * how.rounds * epsilon)
        return np.nan, float((2 * draws * how.rounds) ** 0.5 * scale), np.nan
    if not how.once:
        return np.nan, 0.0, np.nan
    rows = plan.training
    scale = 0.0 if epsilon is None else 2 * plan.cell.form.clip / (how.batch * epsilon)
    step = (rows.x.astype(np.float64) * rows.y[:, None]).mean(axis=0)  # minus the hinge's gradient at the zero model
    ceiling = float(_accuracy(step[None, None], plan.test)[0])
    return float(np.linalg.norm(step)), float((2 * draws) ** 0.5 * scale), ceiling
