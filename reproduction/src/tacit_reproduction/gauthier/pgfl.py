"""Data, methods and noise of both studies on the regression of Gauthier (2023), sec. 5.4.1.

A penalty and a clip are in units of the data: features times b and responses times a are a penalty of rho / b^2 and a
clip of C / (a b). So one compiled program runs problems with different penalties and clips side by side.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import clustered_federated, personalised_graph_federated
from tacit.core.contract import Algorithm, Array, Mechanism, View, unprotected
from tacit.graphs import Graph, Topology, complete, federation, is_strongly_connected
from tacit.metrics import normalised_deviation
from tacit.privacy import decaying_gaussian
from tacit.results import Run
from tacit.streams import Stream, whole
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Floats, Results, Row, decibels, parted
from tacit_reproduction.verdict import Pair

SERVERS, CLIENTS, DIMENSIONS, CLUSTERS, RECORDS, COHORT = 10, 15, 60, 3, (2, 9), 3
LINKS = 3 * SERVERS // 2
RIDGE, PENALTY, CLIP = 1e-4, 3.0, 10.0
"""PENALTY is of our half of the text's loss, so that its rho is twice this. The text gives none: of 1, 3, 10 and 30 it
is the one with the lowest NMSD of PGFL with tau = 0 after 50 rounds with everybody called."""
ROUNDS, EVERY = 300, 10
PHI, ZETA = 0.001, 0.99
NEWTON_STEPS = 4  # squares that are clipped have straight pieces, on which a step is exact


class Problem(NamedTuple):  # properties of the data, and their units
    spread: float = 0.15  # gamma is uniform between minus and plus this
    gamma: str = "per cluster"  # one gamma for all coordinates of a cluster's model, or one "per coordinate"
    snr: float = 20.0  # power of <x, w> over that of the noise in y, in dB
    penalty: float = PENALTY
    clip: float = CLIP  # C of our loss, half of the text's, for models of size 1
    servers: str = "random"

    @property
    def units(self) -> str:
        """In figures."""
        return f"C = {self.clip:g}, rho = {self.penalty:g}"

    @property
    def scales(self) -> tuple[float, float]:
        """Factors on features and responses that make this penalty and clip of `PENALTY` and `CLIP`."""
        features = math.sqrt(PENALTY / self.penalty)
        return features, CLIP / (self.clip * features)


USUAL = Problem()


class Setting(NamedTuple):  # one compiled program
    method: str = "PGFL"
    tau: float = 0.0
    fade: float = 1.0  # tau shrinks by this factor per round
    called: bool = False  # whether a server calls 3 of its 15 clients in a round; else all
    noise: str = "none"
    """"clipped": gradients are clipped to C, which the promise needs; "assumed": C is assumed, as in the text."""
    phi: float = PHI  # of round 1
    zeta: float = ZETA  # ratio of the variances of consecutive rounds
    exact: bool = False

    @property
    def name(self) -> str:
        """In figures."""
        fade = "" if self.fade == 1 else f" * {self.fade:g}^t"
        return f"PGFL {self.tau:g}{fade}" if self.method == "PGFL" else self.method

    def algorithm(self) -> Algorithm:
        """Return the method."""
        tau = self.tau if self.fade == 1 else (lambda t: self.tau * self.fade**t)
        common: dict[str, Any] = {"penalty": PENALTY, "newton_steps": NEWTON_STEPS, "mechanism": self.mechanism()}
        common["cohort"], loss = COHORT if self.called else None, objectives.squared(l2=RIDGE)
        if self.method == "ClusterFL":
            return clustered_federated(loss, clusters=CLUSTERS, tau=tau, **common)
        if self.method == "GFL":  # one cluster, which tau has nothing to mix with
            return personalised_graph_federated(loss, clusters=1, exact=self.exact, **common)
        return personalised_graph_federated(loss, clusters=CLUSTERS, tau=tau, exact=self.exact, **common)

    def mechanism(self) -> Mechanism:
        """Return the Gaussian noise on models whose first round is to cost phi."""
        if self.noise == "assumed":
            return assumed(2 * CLIP / PENALTY, self.phi, self.zeta)
        ratio = (2 * self.phi) ** -0.5
        return decaying_gaussian(ratio, self.zeta, CLIP, perturbs="model") if self.noise == "clipped" else unprotected


def assumed(bound: float, phi: float, zeta: float) -> Mechanism:
    """Return the text's noise on models of clients whose gradients nothing bounds: it has a size, and no promise.

    `bound` is 2 C / rho, of which a client's sensitivity (5.31) is the share 1 / D_k.
    """

    def scale(view: View, sensitivity: Array) -> Array:
        fallen = jnp.exp(math.log(zeta) / 2 * (view.round - 1).astype(jnp.result_type(float)))
        return bound / math.sqrt(2 * phi) * fallen / view.data_size

    return Mechanism("assumed", "gaussian", lambda view, extent: jnp.asarray(math.inf), scale, perturbs="model")


def total(phi: float, zeta: float, rounds: int) -> float:
    """Return the sum of phi_n by (5.32): phi_n grows as the noise shrinks."""
    return math.fsum(phi * zeta**-n for n in range(rounds))


class World(NamedTuple):  # one repeat of a problem
    topology: Topology
    stream: Stream
    clusters: NDArray[np.int64]
    targets: Floats  # (clients, d) each client's own w*


def server_graph(seed: int, kind: str = "random") -> Graph:
    """Draw links between pairs of servers, as many as the mean degree takes, until all are connected."""
    if kind == "complete":
        return complete(SERVERS)
    draws = np.random.default_rng([seed, 501])
    first, second = np.triu_indices(SERVERS, 1)
    while True:
        links = draws.choice(len(first), LINKS, replace=False)
        ends = np.concatenate([first[links], second[links]]), np.concatenate([second[links], first[links]])
        graph = Graph.from_edges(SERVERS, *ends, name="servers")
        if is_strongly_connected(graph):
            return graph


def world_of(problem: Problem, seed: int, records: tuple[int, int] = RECORDS) -> World:
    """Draw one repeat; all that a problem does not change is the same for all problems."""
    draws, count = np.random.default_rng([seed, 502]), SERVERS * CLIENTS
    base = draws.normal(size=DIMENSIONS) / math.sqrt(DIMENSIONS)
    gamma = draws.uniform(-1, 1, (CLUSTERS, 1))
    if problem.gamma == "per coordinate":
        gamma = np.random.default_rng([seed, 503]).uniform(-1, 1, (CLUSTERS, DIMENSIONS))
    models = base * (1 + problem.spread * gamma)
    clusters = draws.integers(CLUSTERS, size=count)
    sizes = draws.integers(records[0], records[1] + 1, count)
    sizes[draws.integers(count)] = records[1]  # batches of all repeats have as many places as the largest has records
    owner = np.repeat(np.arange(count), sizes)
    x = draws.normal(size=(len(owner), DIMENSIONS))
    noise = 10 ** (-problem.snr / 20) * draws.normal(size=len(owner))
    y = np.sum(x * models[clusters[owner]], axis=1) + noise
    features, responses = problem.scales
    return World(
        federation(server_graph(seed, problem.servers), CLIENTS, clusters=clusters),
        whole((features * x).astype(np.float32), (responses * y).astype(np.float32), owner, task="regression"),
        clusters, models[clusters] * responses / features)  # fmt: skip


def simulated(
    setting: Setting, worlds: Sequence[World], seed: int, rounds: int, every: int = EVERY, dtype: str = "float32"
) -> Run:
    return finished_run(
        setting.algorithm(), lambda s: worlds[s - seed].topology, lambda s: worlds[s - seed].stream,
        rounds=rounds, repeats=len(worlds), seed=seed, dtype=dtype, record={"models": np.asarray}, record_every=every,
        evaluate="cohort" if setting.called else "everyone")  # fmt: skip


Task = tuple[Setting, Sequence[Problem], int, int, int]  # setting, problems, seeds, first seed, rounds


def run(task: Task) -> list[Row]:
    setting, problems, seeds, first, rounds = task
    worlds = [world_of(problem, seed) for problem in problems for seed in range(first, first + seeds)]
    found = simulated(setting, worlds, first, rounds, min(EVERY, rounds))
    own = normalised_deviation(found.recorded["models"], np.stack([each.targets for each in worlds])[:, None])
    rho = found.privacy.summary()["rho"]
    measured = {"rounds": found.recorded_rounds, "nmsd": own.mean(axis=2), "end": own[:, -1].mean(axis=1)}
    measured["rho"] = np.full(len(worlds), math.inf if rho is None else rho)
    of, name = setting._asdict(), {"name": setting.name}
    places = ({**of, **problem._asdict(), **name, "units": problem.units} for problem in problems)
    return parted({}, places, seeds, measured)


def excess(name: str, first: Floats, second: Floats) -> Pair:
    """Return two samples of deviations in per cent of the second's mean, as the text averages before it takes dB."""
    share = 100 / float(np.mean(second))
    return Pair(name, share * first, share * second)


class Found:
    """NMSDs by setting and problem."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __call__(self, setting: Setting, problem: Problem = USUAL, after: int = ROUNDS) -> Floats:
        """(seeds,) after so many rounds."""
        key = {**setting._asdict(), **problem._asdict()}
        return self.results.of("nmsd", **key)[:, int(np.searchsorted(self.results.of("rounds", **key), after))]

    def db(self, *what: Any) -> str:
        """Return 10 log10 of the mean over seeds; a mean of dB would be that of clusters that lie close by chance."""
        return f"{decibels(np.asarray(self(*what).mean())):.1f}"

    def over(self, worse: Setting, better: Setting, problem: Problem = USUAL, after: int = ROUNDS) -> Pair:
        """By how much one is above another."""
        names = " over ".join(setting.name + (" (few called)" if setting.called else "") for setting in (worse, better))
        return excess(f"{names}, {after} rounds", self(worse, problem, after), self(better, problem, after))
