"""Methods, noise schemes, networks and sampling of Rizk (2023), sec. 4.4, and several settings in one program.

Settings are side by side as repeats, or one after the other as stretches of rounds: a run that has settled under one
settles under the next from there, and what is judged is the second half of each stretch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import networkx
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, graphs
from tacit.core.contract import Algorithm, Array, Mechanism, Tree
from tacit.privacy import graph_homomorphic, local_graph_homomorphic, on_grid, per_edge, unprotected
from tacit.streams import Batch, Stream
from tacit.streams.stream import leaf_spec
from tacit_reproduction.table import Floats
from tacit_reproduction.verdict import Claim, Pair, Rule, judged

PER_TEXT_STEP = 2
"""Our squared loss is half of the text's: its step mu counts twice, and its gradients are twice ours."""


def piecewise(values: Sequence[float], lengths: Sequence[int]) -> Callable[[Array], Array]:
    """Return the function of the round that has each value for so many rounds; the last one also after them."""
    last = np.cumsum(lengths)[:-1]

    def at(t: Array) -> Array:
        place = jnp.sum(t > jnp.asarray(last, jnp.int32)) if len(last) else jnp.zeros((), jnp.int32)
        return jnp.asarray(values, jnp.result_type(float))[place]

    return at


def noise_by_round(mechanism: Mechanism, sizes: Sequence[float], lengths: Sequence[int]) -> Mechanism:
    """Return Laplace noise whose standard deviation has each size for so many rounds."""
    scale = piecewise([size / math.sqrt(2) for size in sizes], lengths)
    return mechanism._replace(scale=lambda view, sensitivity: scale(view.round), ratio=None)


def stretches(
    rounds: NDArray[np.int64], values: Floats, lengths: Sequence[int]
) -> list[tuple[NDArray[np.int64], Floats]]:
    """Cut values (seeds, points) that were recorded at these rounds: per stretch its own rounds, from 1, and values."""
    found = []
    for length, end in zip(lengths, np.cumsum(lengths), strict=True):
        inside = (rounds > end - length) & (rounds <= end)
        found.append((rounds[inside] - (end - length), values[:, inside]))
    return found


def deviations(models: Any, best: Floats) -> tuple[Floats, Floats]:
    """Return (seeds, points) squared distances of the mean model and, on average, of each from w^o (seeds, columns).

    Models are (seeds, points, agents, columns).
    """
    apart = np.asarray(models, np.float64) - best[:, None, None]
    centroid = np.square(apart.mean(axis=2)).sum(axis=-1)
    return centroid, np.square(apart).sum(axis=-1).mean(axis=-1)


def climb(name: str, of: Callable[[float], Floats], levels: Sequence[float]) -> list[Pair]:
    return [Pair(f"{name} {high:g} over {low:g}", of(high), of(low)) for low, high in pairwise(levels)]


def held(swept: Mapping[str, Sequence[Claim]]) -> str:
    """Say at how many settings all claims hold."""
    count = sum(all(claim.holds for claim in claims) for claims in swept.values())
    return f"holds at {count} of {len(swept)} settings"


def in_decibels(claim: str, pairs: Sequence[Pair] | Pair, rule: Rule, text: str = "", seen_in: str = "") -> Claim:
    return judged(claim, pairs, rule, unit=" dB", text=text, seen_in=seen_in)


METHODS: Mapping[str, Callable[..., Algorithm]] = {
    "consensus": algorithms.consensus, "CTA": algorithms.combine_then_adapt, "ATC": algorithms.adapt_then_combine,
}  # fmt: skip
WORDS = {
    "none": "no noise", "random": "random", "homomorphic": "graph-homomorphic",
    "local": "local graph-homomorphic", "grid": "no noise, on the grid"}  # fmt: skip
NEIGHBOURS, REWIRED = 6, 0.3
"""Of small worlds, another one for each seed: the text shows its network as a picture only."""


def mechanism(noise: str, size: float) -> Mechanism:
    """Return the mechanism of a scheme whose Laplace noise has standard deviation `size`; nothing is clipped."""
    made: Any = {"random": per_edge, "homomorphic": graph_homomorphic, "local": local_graph_homomorphic}
    return made[noise](size) if noise in made else on_grid() if noise == "grid" else unprotected


def network(agents: int, seed: int, kind: str = "small world", neighbours: int = NEIGHBOURS) -> graphs.Graph:
    """Return the network of one seed, with Metropolis weights: its centroid is the plain mean."""
    if kind == "small world":
        links = graphs.small_world(agents, neighbours, REWIRED, seed)
    elif kind == "ring":
        links = graphs.ring(agents)
    else:  # a random tree, all of them as likely
        code = np.random.default_rng([seed, agents]).integers(0, agents, agents - 2)
        links = graphs.from_networkx(networkx.from_prufer_sequence(code.tolist()), name="tree")
    return links.with_weights("metropolis")


class Draws(Stream):
    """In each round every agent reads one or more of its own samples, drawn at random and with repetition.

    The stochastic gradients of Rizk (2023) are of this kind. Passes through shuffled samples are not: their gradient
    noise cancels over a pass, which at small steps leaves less of it than the theory counts with.
    """

    def __init__(
        self, x: NDArray[Any], y: NDArray[Any], own: Sequence[NDArray[np.int64]], rounds: int, seed: int,
        name: str, batch: int = 1,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng([seed, len(own), rounds])
        shape = rounds if batch == 1 else (rounds, batch)
        self._x, self._y = x, y
        self._row = np.stack([rng.choice(rows, shape).astype(np.int32) for rows in own], axis=1)
        self.agents, self.rounds, self.period = len(own), rounds, rounds
        self.data_size = np.array([len(rows) for rows in own], np.int32)
        self.name, self.description = name, f"{name}: {batch} of an agent's own samples, at random, in each round"

    def batch_spec(self) -> Tree:
        """Return the shapes and types of what an agent reads in a round."""
        batch = self._row.shape[2:]
        return Batch(leaf_spec((*batch, *self._x.shape[1:]), self._x.dtype), leaf_spec(batch, self._y.dtype))

    def chunk(self, start: int, stop: int) -> Tree:
        """Gather what was drawn for rounds start..stop-1."""
        self.refuse_outside(start, stop)
        rows = self._row[start:stop]
        return Batch(self._x[rows], self._y[rows])

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return (rounds, batch) which samples were drawn."""
        return self._row[start:stop, agent].reshape(stop - start, -1).astype(np.int64)
