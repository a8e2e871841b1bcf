"""The data of all rounds, held on the device and summed over in blocks by compiled programs, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Batch, Params, Tree
from tacit.core.errors import DataError

Vector = NDArray[np.float64]
Loss = Callable[[Params, Batch], Array]
Sums = TypeVar("Sums")
Chunks = Callable[[], Iterable[Tree]]
"""Gives the data anew at each call: batches with leading axes (rounds, agents), in order of the rounds."""

HOLD_BYTES = 512 * 2**20
"""Data up to this size are kept on the device; larger ones are read again for each evaluation."""
BLOCK_BYTES = 2**21


@dataclass(frozen=True)
class Vectors:
    """Between pytrees and float64 vectors, by slices: JAX's own way would take most of a solver's time.

    A value, so that a compiled program is found again.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, like: Params) -> Vectors:
        """Return those for parameters of these shapes."""
        leaves, structure = jax.tree.flatten(like)
        return cls(structure, tuple(np.shape(leaf) for leaf in leaves))

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(math.prod(shape) for shape in self.shapes)

    def vector(self, tree: Params) -> Vector:
        """Return all leaves as one vector."""
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])

    def traced(self, tree: Params) -> Array:
        """Return the same inside of a compiled program."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    def tree(self, vector: Any) -> Params:
        """Return the pytree of a vector, or that of vectors stacked along leading axes."""
        leaves, begin = [], 0
        for shape in self.shapes:
            end = begin + math.prod(shape)
            leaves.append(vector[..., begin:end].reshape((*vector.shape[:-1], *shape)))
            begin = end
        return jax.tree.unflatten(self.structure, leaves)


class Data:
    """The batches of all rounds, held on the device where they fit, cut into blocks for evaluation.

    Evaluate inside of `jax.enable_x64(True)`.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.rounds = 0
        self.agents = 0
        size = 0
        held: list[Tree] | None = []
        for chunk in chunks():
            leaves = jax.tree.leaves(chunk)
            if not leaves or any(leaf.ndim < 2 for leaf in leaves):
                raise DataError(
                    f"chunk with leaves of shapes {[leaf.shape for leaf in leaves]}: expected leading axes "
                    "(rounds, agents); stack the batches of the agents, then of the rounds"
                )
            self.rounds += leaves[0].shape[0]
            self.agents = leaves[0].shape[1]
            size += sum(leaf.nbytes for leaf in leaves)
            held = [*held, chunk] if held is not None and size <= HOLD_BYTES else None
        if self.rounds == 0 or self.agents == 0:
            raise DataError("no rounds in the data: expected at least one; check that `chunks` starts anew each call")
        self._held = None
        if held is not None:
            per_round = max(size // self.rounds, 1)
            block = min(max(BLOCK_BYTES // per_round, 1), self.rounds)
            whole = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *held)
            self._held = jax.tree.map(partial(_cut, block), whole)

    def mean(self, loss: Loss, params: Params, rounds: int) -> tuple[float, Params]:
        """Return the average over the first rounds and all agents of the loss, and its gradient."""
        value, gradient = 0.0, jax.tree.map(np.zeros_like, params)
        losses = rounds * self.agents
        for blocks, _, count in self._pieces(rounds):
            part, part_gradient = _sum(loss, params, blocks, count)
            value += float(part) / losses
            gradient = jax.tree.map(lambda own, new: own + np.asarray(new) / losses, gradient, part_gradient)
        return value, gradient

    def hessian(self, loss: Loss, vectors: Vectors, x: Vector, rounds: int) -> Vector:
        """Return the second derivatives (d, d) of the average loss."""
        parts = [_sum_hessian(loss, vectors, x, blocks, count) for blocks, _, count in self._pieces(rounds)]
        return np.asarray(sum(np.asarray(part) for part in parts) / (rounds * self.agents))

    def values(self, function: Loss, vectors: Vectors, x: Vector, rounds: int) -> Vector:
        """Return the function (rounds, agents) in each of the first rounds."""
        parts = [
            np.asarray(_each(function, vectors, x, blocks, count)).reshape(-1, self.agents)[:count]
            for blocks, _, count in self._pieces(rounds)
        ]
        return np.concatenate(parts)

    def gradients(self, function: Loss, vectors: Vectors, x: Vector, rounds: int) -> Vector:
        """Return the function's gradient (rounds, agents, d) in each of the first rounds."""
        parts = [
            np.asarray(_each_gradient(function, vectors, x, blocks, count)).reshape(-1, self.agents, x.size)[:count]
            for blocks, _, count in self._pieces(rounds)
        ]
        return np.concatenate(parts)

    def agent_gradients(self, function: Loss, vectors: Vectors, x: Vector, weight: Vector) -> Vector:
        """Return (agents, d): each agent's sum over the rounds of weight[t, i] times its function's gradient."""
        parts = []
        for blocks, first, count in self._pieces(len(weight)):
            shape = jax.tree.leaves(blocks)[0].shape[:3]
            padded = np.zeros((shape[0] * shape[1], self.agents))
            padded[:count] = weight[first : first + count]
            parts.append(_sum_agent_gradients(function, vectors, x, blocks, count, padded.reshape(shape)))
        return np.asarray(sum(np.asarray(part) for part in parts))

    def _pieces(self, rounds: int) -> Iterator[tuple[Tree, int, int]]:
        """Give blocks, the number of rounds before them, and how many of theirs are wanted."""
        if self._held is not None:
            yield self._held, 0, rounds
            return
        first = 0
        for chunk in self._chunks():
            length = jax.tree.leaves(chunk)[0].shape[0]
            yield jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], chunk), first, min(length, rounds - first)
            first += length
            if first >= rounds:
                return


def _cut(block: int, leaf: Array) -> Array:
    """Cut (rounds, ...) into (blocks, block, ...); the last block is filled with copies of the last round."""
    missing = -leaf.shape[0] % block
    # Copies, not zeros: a user's loss may be undefined at zeros, and what is masked needs a finite gradient.
    full = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)])
    return full.reshape(-1, block, *leaf.shape[1:])


def as_double(leaf: Array) -> Array:
    """Return floating numbers in double precision, and whole ones as they are."""
    return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _over_blocks(blocks: Tree, rounds: Array, start: Sums, add: Callable[[Sums, Tree, Array, Array], Sums]) -> Sums:
    """Return `add(sums, batches, wanted, index)` block after block, where `wanted` (block,) are the rounds that count.

    The loop ends with the last block that is needed, so that one compiled program serves every prefix.
    """
    block = jax.tree.leaves(blocks)[0].shape[1]

    def body(index: Array, sums: Sums) -> Sums:
        batches = jax.tree.map(lambda leaf: as_double(leaf[index]), blocks)
        return add(sums, batches, index * block + jnp.arange(block) < rounds, index)

    found: Sums = jax.lax.fori_loop(0, (rounds + block - 1) // block, body, start)
    return found


def _total(loss: Loss, params: Params, batches: Tree, wanted: Array) -> Array:
    losses = jax.vmap(jax.vmap(loss, (None, 0)), (None, 0))(params, batches)
    return jnp.sum(jnp.where(wanted[:, None], losses, 0))


@partial(jax.jit, static_argnums=0)
def _sum(loss: Loss, params: Params, blocks: Tree, rounds: Array) -> tuple[Array, Params]:
    """Return the sum of the loss over the first rounds in the blocks and all agents, and its gradient."""

    def add(sums: tuple[Array, Params], batches: Tree, wanted: Array, index: Array) -> tuple[Array, Params]:
        value, gradient = jax.value_and_grad(partial(_total, loss))(params, batches, wanted)
        return sums[0] + value, jax.tree.map(jnp.add, sums[1], gradient)

    zero = (jnp.zeros((), jnp.float64), jax.tree.map(jnp.zeros_like, params))
    return _over_blocks(blocks, rounds, zero, add)


@partial(jax.jit, static_argnums=(0, 1))
def _sum_hessian(loss: Loss, vectors: Vectors, x: Array, blocks: Tree, rounds: Array) -> Array:
    def total(x: Array, batches: Tree, wanted: Array) -> Array:
        return _total(loss, vectors.tree(x), batches, wanted)

    def add(sums: Array, batches: Tree, wanted: Array, index: Array) -> Array:
        return jnp.add(sums, jax.hessian(total)(x, batches, wanted))

    return _over_blocks(blocks, rounds, jnp.zeros((x.size, x.size)), add)


@partial(jax.jit, static_argnums=(0, 1))
def _each(function: Loss, vectors: Vectors, x: Array, blocks: Tree, rounds: Array) -> Array:
    params = vectors.tree(x)

    def add(found: Array, batches: Tree, wanted: Array, index: Array) -> Array:
        return found.at[index].set(jax.vmap(jax.vmap(function, (None, 0)), (None, 0))(params, batches))

    return _over_blocks(blocks, rounds, jnp.zeros(jax.tree.leaves(blocks)[0].shape[:3]), add)


@partial(jax.jit, static_argnums=(0, 1))
def _each_gradient(function: Loss, vectors: Vectors, x: Array, blocks: Tree, rounds: Array) -> Array:
    def one(x: Array, batch: Batch) -> Array:
        return function(vectors.tree(x), batch)

    def add(found: Array, batches: Tree, wanted: Array, index: Array) -> Array:
        return found.at[index].set(jax.vmap(jax.vmap(jax.grad(one), (None, 0)), (None, 0))(x, batches))

    return _over_blocks(blocks, rounds, jnp.zeros((*jax.tree.leaves(blocks)[0].shape[:3], x.size)), add)


@partial(jax.jit, static_argnums=(0, 1))
def _sum_agent_gradients(
    function: Loss, vectors: Vectors, x: Array, blocks: Tree, rounds: Array, weight: Array
) -> Array:
    def of_agent(x: Array, batches: Tree, weight: Array) -> Array:
        return jnp.dot(weight, jax.vmap(function, (None, 0))(vectors.tree(x), batches))

    def add(sums: Array, batches: Tree, wanted: Array, index: Array) -> Array:
        return jnp.add(sums, jax.vmap(jax.grad(of_agent), (None, 1, 1))(x, batches, weight[index]))

    return _over_blocks(blocks, rounds, jnp.zeros((weight.shape[2], x.size)), add)
