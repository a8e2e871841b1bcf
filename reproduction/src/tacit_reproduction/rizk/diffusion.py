"""Methods, noise schemes, networks and sampling of both studies on Rizk (2023), sec. 4.4."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, graphs
from tacit.core.contract import Algorithm, Mechanism, Tree
from tacit.privacy import graph_homomorphic, local_graph_homomorphic, on_grid, per_edge, unprotected
from tacit.streams import Batch, Stream
from tacit.streams.stream import leaf_spec

METHODS: Mapping[str, Callable[..., Algorithm]] = {
    "consensus": algorithms.consensus, "CTA": algorithms.combine_then_adapt, "ATC": algorithms.adapt_then_combine,
}  # fmt: skip
WORDS = {
    "none": "no noise", "random": "random", "homomorphic": "graph-homomorphic",
    "local": "local graph-homomorphic", "grid": "no noise, on the grid",
}  # fmt: skip
NEIGHBOURS, REWIRED = 6, 0.3
"""Of small worlds, another one for each seed: the text shows its network as a picture only."""


def mechanism(noise: str, size: float) -> Mechanism:
    """Return the mechanism of a scheme whose Laplace noise has standard deviation `size`; nothing is clipped."""
    made = {"random": per_edge, "homomorphic": graph_homomorphic, "local": local_graph_homomorphic}
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
