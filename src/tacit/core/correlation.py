"""Noise with a memory: draws correlated over one agent's own releases."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.mechanism import Memory
from tacit.core.messages import Array, Tree

LARGEST_UNIT = 40.0
"""No unit Gaussian is larger: a chance of 1e-349."""


class Correlation(NamedTuple):
    """Noise C^-1 Z over an agent's own releases, Z being independent and C lower-triangular Toeplitz with c_0 = 1.

    An agent releases G + scale C^-1 Z, which is the Gaussian mechanism on C G followed by C^-1. A block of `rounds`
    releases has one C; then the next block begins with an empty memory. What a block costs a record follows from
    `norm`, whatever the method makes of what was released (docs/privacy.md).

    Args:
      strategy: Name of the choice of C, for tables.
      rounds: Releases T of a block.
      reads: Releases k of a block that one record takes part in at most.
      apart: Least distance b between two of them, in releases.
      norm: Largest l2 norm of C G, if one record's part of each row of G has norm 1.
      weights: Of the vectors in memory: c_k = sum_j weights_j decays_j^(k - 1) for k >= 1.
      decays: By which a vector in memory fades; empty: the memory holds the last draws, and c_k = weights_(k - 1).
    """

    strategy: str
    rounds: int
    reads: int
    apart: int
    norm: float
    weights: tuple[float, ...] = ()
    decays: tuple[float, ...] = ()

    def __repr__(self) -> str:
        return f"Correlation({self.strategy}, {self.rounds} rounds, {len(self.weights)} vectors kept)"

    def coefficients(self, rounds: int) -> NDArray[np.float64]:
        """Return the first column of C.

        Args:
          rounds: How many entries.
        """
        return coefficients(self.weights, self.decays, rounds)

    def start(self, value: Tree, wide: bool = False) -> Memory:
        """Return an empty memory.

        Args:
          value: What is released, or its shapes.
          wide: In NumPy's float64, as a peer keeps it.
        """
        size = len(self.weights)
        if wide:
            kept = jax.tree.map(lambda leaf: np.zeros((size, *leaf.shape)), value)
            return Memory(np.zeros((), np.int64), kept)  # type: ignore[arg-type]
        return Memory(jnp.int32(0), jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), value))

    def recalled(self, memory: Memory, xp: ModuleType = jnp) -> Tree:
        """Return what past noise takes from the next draw, in units of the scale.

        Args:
          memory: The agent's.
          xp: `jax.numpy`, or `numpy` for a wide memory.
        """
        begins, asarray = self._begins(memory), xp.asarray

        def of(kept: Array) -> Any:
            total: Array = sum((w * kept[j] for j, w in enumerate(self.weights)), start=xp.zeros(kept.shape[1:]))
            return asarray(xp.where(begins, 0, total), kept.dtype)

        return jax.tree.map(of, memory.kept)

    def after(self, memory: Memory, noise: Tree, xp: ModuleType = jnp) -> Memory:
        """Return the memory after a release.

        Args:
          memory: The agent's, before it.
          noise: What was added, in units of the scale.
          xp: As for `recalled`.
        """
        begins = self._begins(memory)

        def of(kept: Array, added: Array) -> Any:
            old = xp.where(begins, 0, kept).astype(kept.dtype)
            if not self.weights:
                return old
            if not self.decays:
                return xp.concatenate([added[None].astype(kept.dtype), old[:-1]])
            # In one piece: a stack of vectors would be drawn again for each of them.
            decays = np.asarray(self.decays, kept.dtype).reshape(-1, *(1,) * added.ndim)
            return (decays * old + added).astype(kept.dtype)

        return Memory(memory.releases + 1, jax.tree.map(of, memory.kept, noise))

    def rounding(self, coordinates: int) -> float:
        """Bound the change that a wide memory's rounding makes between neighbours, over a block and in scales.

        A sum rounds by u of its size, and an error in a vector fades as the vector does (docs/privacy.md).

        Args:
          coordinates: Numbers in a release.
        """
        faded = self.decays or (0.0,) * len(self.weights)
        each = sum(abs(w) / (1 - decay) ** 2 for w, decay in zip(self.weights, faded, strict=True))
        return 8 * LARGEST_UNIT * float(np.finfo(np.float64).eps) / 2 * each * math.sqrt(coordinates * self.rounds)

    def _begins(self, memory: Memory) -> Array:
        return memory.releases % self.rounds == 0


def coefficients(weights: tuple[float, ...], decays: tuple[float, ...], rounds: int) -> NDArray[np.float64]:
    """Return the first column of the C of these weights and decays, see `Correlation`."""
    column = np.zeros(rounds)
    column[:1] = 1
    if not decays:
        column[1 : len(weights) + 1] = weights[: rounds - 1]
        return column
    power = np.arange(max(0, rounds - 1))
    column[1:] = sum(w * np.asarray(decay) ** power for w, decay in zip(weights, decays, strict=True))
    return column
