"""DOLA as the studies of Li et al. run it: data, networks, noise, and the regret of the plain hinge.

The text measures max(1 - y <w, x>, 0), in (6) of a node's own w before noise; a node of tacit predicts with b, the
mixture of released values. Both are judged, and neither with the penalty lambda/2 ||w||^2 that the step 1/(lambda t)
goes with.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.algorithms.schedules import inverse
from tacit.core.contract import Algorithm, Batch, Key, Params, Tree, View, unprotected
from tacit.graphs import Graph, RandomMatching, complete
from tacit.privacy import laplace
from tacit.results import Run
from tacit.results.regret import regret_curve
from tacit.streams import Stream, from_arrays
from tacit_reproduction.before_noise import before_noise
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Floats, Row

DIMENSIONS = 10
FLIPPED = 0.05
"""Share of labels that are wrong: the text does not say how it drew them, and without any the problem is too easy."""
LIPSCHITZ = 1.0
"""L: rows of length 1 at most have hinge gradients of length 1 at most, so that the clip changes nothing."""
HINGE = objectives.hinge()
NOISELESS = 0.0  # level of epsilon in the tables that stands for no noise
LAMBDAS = (0.1, 1.0, 10.0)

JUDGED = {"own": "at w, before noise", "mixture": "at b, the mixture", "average": "at the average of b"}
MIXING = {"pairs": "random pairs", "all": "all nodes average"}


class Samples(NamedTuple):  # rows of length 1 at most with labels -1 and +1
    x: NDArray[np.float32]
    y: NDArray[np.float32]


def unit_ball(examples: int, seed: int) -> Samples:
    """Draw points uniformly from the ball; the label tells the side of a random plane through 0, some are flipped."""
    rng = np.random.default_rng([seed, examples])
    normal = rng.standard_normal(DIMENSIONS)
    x = rng.standard_normal((examples, DIMENSIONS))
    # Rounding to single precision must not lift a length above 1.
    x *= rng.random((examples, 1)) ** (1 / DIMENSIONS) * (1 - 1e-6) / np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(x @ normal >= 0, 1, -1)
    y[rng.random(examples) < FLIPPED] *= -1
    return Samples(x.astype(np.float32), y.astype(np.float32))


def dealt(samples: Samples, nodes: int, batch: int, seed: int, name: str) -> Stream:
    """Deal samples out evenly at random; each is read in one round by one node. What makes no whole round is left."""
    order = np.random.default_rng([seed, nodes]).permutation(len(samples.y))
    holder = np.empty(len(order), np.int32)
    holder[order] = np.arange(len(order)) % nodes
    return from_arrays(
        samples.x, samples.y, holder, batch=batch, exhausted="stop", shuffle_seed=seed, name=name, description=name
    )


def network(nodes: int, mixing: str) -> Graph:
    """Return doubly stochastic weights over time: random pairs talk in each round, or all nodes average."""
    return complete(nodes) if nodes == 1 or mixing == "all" else complete(nodes).with_dynamics(RandomMatching())


def level(epsilon: float) -> str:
    return "no noise" if epsilon == NOISELESS else f"eps = {epsilon:g}"


def in_words(nodes: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def learner(l2: float, epsilon: float, judged: str = "mixture") -> Algorithm:
    """Return DOLA with a_t = 1/(lambda t) in the ball of radius 1/sqrt(lambda), judged where `JUDGED` says.

    The best model of a hinge loss with this penalty is never longer than the radius. Noise is Laplace's of scale
    S(t) / eps on the projected model, S(t) = 2 a_t sqrt(d) L / h (Lemmas 1 and 7).
    """
    given, radius = (objectives.hinge(l2=l2), inverse(1 / l2)), l2**-0.5
    noise = unprotected if epsilon == NOISELESS else laplace(epsilon, LIPSCHITZ, "l2", "model")
    if judged == "average":
        return algorithms.distributed_minibatch(*given, noise, radius)
    noisy = algorithms.distributed_online(*given, noise, radius)
    if judged == "mixture":
        return noisy
    (exact,) = algorithms.distributed_online(*given, radius=radius).phases

    def w(key: Key, mixed: Params, value: Tree, batch: Batch, view: View) -> Params:
        return exact.emit(mixed, exact.compute(key, mixed, batch, view)[1], view)[1].message.private

    return before_noise(noisy, w)


def simulated(algorithm: Algorithm, graph: Graph, streams: Mapping[int, Stream]) -> Run:
    """Run over all seeds until the samples are read; the plain hinge is noted in every round."""
    rounds = next(iter(streams.values())).rounds
    assert rounds is not None  # streams end with their samples
    return finished_run(
        algorithm, graph, lambda seed: streams[seed], rounds=rounds, repeats=len(streams), seed=min(streams),
        record_every=rounds, figures={"hinge": HINGE.loss})  # fmt: skip


def measured(run: Run, points: int = 1) -> dict[str, Floats]:
    """Return the regret of the plain hinge per node and round so far, at some rounds, against the ball's best model."""
    curve = regret_curve(HINGE, run.streams, run.per_round["hinge"], None, points, within=run.within)
    regret, average = curve.per_agent_round, np.asarray(run.per_round["hinge"], np.float64).mean(axis=1)
    idle = 1 - (average - regret[:, -1])  # of the zero model, whose loss is 1
    examples = np.asarray(curve.rounds * run.agents, np.float64)
    return {"examples": examples, "regret": regret, "final": regret[:, -1], "idle": idle}


def streams_of(draw: Callable[[int], Stream], seeds: int, first: int) -> dict[int, Stream]:
    return {seed: draw(seed) for seed in range(first, first + seeds)}


def of_noise(row: Row) -> str:
    return level(float(row.factors["epsilon"]))
