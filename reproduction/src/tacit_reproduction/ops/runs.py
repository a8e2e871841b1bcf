"""Runs of the OPS paper: deal the samples out, choose a step on seeds of its own, run on others.

Graph, partition and order of the samples depend on the seed and the network, never on the method.
"""

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.core.contract import Algorithm
from tacit.graphs import random_digraph
from tacit.streams import Stream, from_arrays, partition
from tacit.streams.dataset import Dataset, with_bias
from tacit_reproduction.datasets.occupancy import occupancy
from tacit_reproduction.datasets.susy import susy
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Floats
from tacit_reproduction.tuning import bracket

LOADERS = {"occupancy": occupancy, "susy": susy}
OBJECTIVE = objectives.logistic(l2=1e-4)
FRACTIONS = (1.0, 0.5)  # shares of the samples that are dealt out at random; the rest goes by clusters, one per node
METHODS: Mapping[str, Callable[..., Algorithm]] = {
    "COL": algorithms.centralised_online, "OPS": algorithms.online_push_sum,
    "DOL-Symm": partial(algorithms.decentralised_symmetric, apart=True),
    "DOL-Asymm": algorithms.decentralised_asymmetric, "Local OGD": algorithms.local_online}  # fmt: skip
TUNING_OFFSET = 500  # from the first seed of a run to the first of those on which its steps are chosen


class Network(NamedTuple):  # random and strongly connected
    nodes: int
    neighbours: int
    exact: bool = False  # whether every node has so many neighbours; else their number is uniform from 1 on


class Design(NamedTuple):  # the extent of a study
    data: str
    main: Network
    sizes: tuple[int, ...]
    degrees: Mapping[tuple[int, bool], str]
    """Of the networks in the sweep over sizes: (neighbours, whether just so many) -> words."""
    dense: tuple[Network, ...]
    starts: Mapping[str, float]  # of each method's search for a step; decides its length, not its result
    seeds: int = 20
    tuning_seeds: int = 3
    ratio: float = 2.0**0.5  # of neighbouring steps on the grid
    shared: bool = False  # whether the step chosen at the first fraction serves at the others too


class Task(NamedTuple):  # one method on one network, at all fractions
    design: Design
    method: str
    network: Network
    first: int  # seed

    @property
    def rounds(self) -> int:
        """As many as give each node of the main network an even share once."""
        return len(load(self.design.data).y) // self.design.main.nodes


@functools.cache
def load(name: str) -> Dataset:
    return LOADERS[name]().standardised()


@functools.lru_cache(maxsize=256)
def deal_out(name: str, nodes: int, fraction: float, seed: int) -> NDArray[np.int32]:
    holder = np.empty(len(load(name).x), np.int32)
    for node, rows in enumerate(partition.stochastic_adversarial(load(name).x, nodes, fraction, seed=3 * seed)):
        holder[rows] = node
    return holder


def stream(task: Task, fraction: float, seed: int) -> Stream:
    """Return one sample per node and round: its own, in an order of its own, over again when they end."""
    name = task.design.data
    x, y, holder = with_bias(load(name).x), load(name).y, deal_out(name, task.network.nodes, fraction, seed)
    return from_arrays(x, y, holder, rounds=task.rounds, exhausted="cycle", shuffle_seed=3 * seed + 2, name=name)


def losses(task: Task, fraction: float, step: float, first: int, seeds: int) -> Floats:
    """Return (seeds, rounds) the loss at prediction time, averaged over the nodes."""
    nodes, neighbours, exact = task.network
    run = finished_run(
        METHODS[task.method](OBJECTIVE, step=step),
        lambda seed: random_digraph(nodes, neighbours, seed=3 * seed + 1, exact=exact),
        lambda seed: stream(task, fraction, seed), rounds=task.rounds, repeats=seeds, seed=first,
        record_every=task.rounds)  # fmt: skip
    return np.asarray(run.per_round["loss"], np.float64)


def run(task: Task) -> dict[float, dict[str, Floats]]:
    design, rounds, found = task.design, np.arange(1, task.rounds + 1), {}

    @functools.cache
    def step_at(fraction: float) -> float:
        def loss(step: float) -> float:
            return float(losses(task, fraction, step, task.first + TUNING_OFFSET, design.tuning_seeds).mean())

        return bracket(loss, design.starts[task.method], design.ratio)

    for fraction in FRACTIONS:
        step = step_at(FRACTIONS[0] if design.shared else fraction)
        running = np.cumsum(losses(task, fraction, step, task.first, design.seeds), axis=1) / rounds
        steps = np.full(design.seeds, step)
        found[fraction] = {"rounds": rounds, "running": running, "average": running[:, -1], "step": steps}
    return found
