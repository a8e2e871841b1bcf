"""The static comparator: the one model that would have been best for all agents over all rounds.

argmin_x of the sum over t and i of f_it(x) is found by L-BFGS in float64 on all the data. Nonsmooth losses
are replaced by smooth ones that lie below them by at most mu, with mu falling from 0.1 and each solution as
the next start. Where the loss is convex with a known regulariser, the result carries a bound on its distance
from the optimum that holds whatever the solver did (a is the average loss, a_mu <= a the smooth one that was
minimised, g its gradient at the result x)::

    a(x) - min a  <=  a(x) - a_mu(x)  +  min( ||g||_2^2 / (2 l2),  ||g||_inf (||x||_1 + a(x) / l1) )

In the brackets, the first is strong convexity; the second bounds the minimiser: l1 ||x*||_1 <= a(x*) <= a(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.contract import Array, Batch, Objective, Params, Tree
from tacit.errors import ConfigError, DataError
from tacit.objectives.losses import certified_regulariser
from tacit.objectives.regularisers import Regulariser

Vector = NDArray[np.float64]
Loss = Callable[[Params, Batch], Array]
Chunks = Callable[[], Iterable[Tree]]
"""Gives the data anew at each call: batches with leading axes (rounds, agents), in order of the rounds."""

HOLD_BYTES = 512 * 2**20
"""Data up to this size are kept on the device; larger ones are read again for each evaluation."""
BLOCK_BYTES = 2**21
SMALLEST_MU = 1e-6
"""Below this, rounded kinks are too sharp for the solver to gain anything."""
ASSUMED_CURVATURE = 1e-4
"""Where no gap can be certified, the solver stops where a loss of this curvature would have the tolerance."""
ITERATIONS = 20_000
FRESH_STARTS = 5


class Comparator(NamedTuple):
    """The best fixed model, and how sure that is."""

    params: Params
    """In float64."""
    total_loss: float
    """Sum of f_it over all rounds and agents."""
    rounds: int
    gap: float | None
    """Certified bound on how far the average loss lies above the optimum; None where none can be given."""
    gradient_norm: float
    """Of the average loss (of its smooth stand-in where it has kinks) at `params`."""
    iterations: int
    converged: bool
    """Whether the gap reached the tolerance (2e-6 at best for a loss with kinks); without a gap, whether the
    gradient fell to where a curvature of 1e-4 would make it so."""


def best_fixed(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    *,
    tolerance: float = 1e-9,
    start: Params | None = None,
) -> Comparator:
    """Return the best fixed model on all the data.

    `spec` has the shapes of one agent's batch in one round; `tolerance` is in units of the average loss.
    """
    data = _Data(chunks)
    first = objective.initial(spec) if start is None else start
    return _solve(objective, data, data.rounds, start=first, tolerance=tolerance)


def best_fixed_prefixes(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    rounds: Sequence[int],
    *,
    tolerance: float = 1e-9,
) -> list[Comparator]:
    """Return the best fixed model on the first t rounds, for each t in `rounds`: for regret at t.

    Give `rounds` in rising order: each solution is the next start.
    """
    data = _Data(chunks)
    found: list[Comparator] = []
    for last in rounds:
        if not 1 <= last <= data.rounds:
            raise ConfigError(
                f"prefix of {last} rounds: expected 1 to {data.rounds}, which is what the data have; "
                "leave it out or give more data"
            )
        first = found[-1].params if found else objective.initial(spec)
        found.append(_solve(objective, data, last, start=first, tolerance=tolerance))
    return found


class _Data:
    """The batches of all rounds, held on the device where they fit, cut into blocks for evaluation."""

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
        for blocks, count in self._pieces(rounds):
            part, part_gradient = _sum(loss, params, blocks, count)
            value += float(part) / losses
            gradient = jax.tree.map(lambda own, new: own + np.asarray(new) / losses, gradient, part_gradient)
        return value, gradient

    def _pieces(self, rounds: int) -> Iterator[tuple[Tree, int]]:
        if self._held is not None:
            yield self._held, rounds
            return
        left = rounds
        for chunk in self._chunks():
            length = jax.tree.leaves(chunk)[0].shape[0]
            yield jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], chunk), min(length, left)
            left -= length
            if left <= 0:
                return


def _cut(block: int, leaf: Array) -> Array:
    """Cut (rounds, ...) into (blocks, block, ...); the last block is filled with copies of the last round."""
    missing = -leaf.shape[0] % block
    # Copies, not zeros: a user's loss may be undefined at zeros, and what is masked needs a finite gradient.
    full = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)])
    return full.reshape(-1, block, *leaf.shape[1:])


@partial(jax.jit, static_argnums=0)
def _sum(loss: Loss, params: Params, blocks: Tree, rounds: Array) -> tuple[Array, Params]:
    """Return the sum of the loss over the first rounds in the blocks and all agents, and its gradient.

    The loop ends with the last block that is needed, so that one compiled program serves every prefix.
    """
    block = jax.tree.leaves(blocks)[0].shape[1]

    def total(params: Params, index: Array) -> Array:
        batches = jax.tree.map(lambda leaf: _as_double(leaf[index]), blocks)
        losses = jax.vmap(jax.vmap(loss, (None, 0)), (None, 0))(params, batches)
        wanted = index * block + jnp.arange(block) < rounds
        return jnp.sum(jnp.where(wanted[:, None], losses, 0))

    def add(index: Array, sums: tuple[Array, Params]) -> tuple[Array, Params]:
        value, gradient = jax.value_and_grad(total)(params, index)
        return sums[0] + value, jax.tree.map(jnp.add, sums[1], gradient)

    zero = (jnp.zeros((), jnp.float64), jax.tree.map(jnp.zeros_like, params))
    value, gradient = jax.lax.fori_loop(0, (rounds + block - 1) // block, add, zero)
    return value, gradient


def _as_double(leaf: Array) -> Array:
    return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _solve(objective: Objective, data: _Data, rounds: int, *, start: Params, tolerance: float) -> Comparator:
    if not (math.isfinite(tolerance) and tolerance > 0):
        raise ConfigError(f"tolerance = {tolerance!r}: expected a finite number > 0; 1e-9 is the default")
    bound = _Bound(certified_regulariser(objective))
    vectors = _Vectors(start)
    if objective.smoothed is None:
        wanted = tolerance
        stages = [(objective.loss, tolerance)]
    else:
        last = max(tolerance / 2, SMALLEST_MU)
        wanted = 2 * last
        stages = [(objective.smoothed(mu), mu) for mu in _falling(last)]

    def average(loss: Loss, x: Vector) -> tuple[float, Vector]:
        value, gradient = data.mean(loss, vectors.tree(x), rounds)
        return value, vectors.vector(gradient)

    x = vectors.vector(start)
    iterations, largest_entry = 0, 0.0
    with jax.enable_x64(True):
        for loss, target in stages:
            value, _ = average(loss, x)
            largest_entry = bound.largest_entry(target, value, x.size)
            x, steps = _minimise(partial(average, loss), x, largest_entry)
            iterations += steps
        smooth_value, gradient = average(stages[-1][0], x)
        value = smooth_value if objective.smoothed is None else average(objective.loss, x)[0]
    gap = bound.gap(value, x, gradient)
    if gap is None:
        converged = bool(np.max(np.abs(gradient)) <= largest_entry)
    else:
        gap += max(value - smooth_value, 0.0)
        converged = gap <= wanted
    total = value * rounds * data.agents
    norm = float(np.linalg.norm(gradient))
    return Comparator(vectors.tree(x), total, rounds, gap, norm, iterations, converged)


def _falling(last: float) -> list[float]:
    """Return 0.1, 0.01, ... down to `last`."""
    steps = max(math.ceil(math.log10(0.1 / last) - 1e-9), 0)
    return [0.1 / 10**step for step in range(steps)] + [last]


class _Vectors:
    """Between pytrees and float64 vectors, in NumPy: JAX's own way would take most of the solver's time."""

    def __init__(self, like: Params) -> None:
        leaves, self._structure = jax.tree.flatten(like)
        self._shapes = [np.shape(leaf) for leaf in leaves]
        self._ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]

    def vector(self, tree: Params) -> Vector:
        """Return all leaves as one vector."""
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])

    def tree(self, vector: Vector) -> Params:
        """Return the pytree of a vector."""
        parts = np.split(vector, self._ends)
        leaves = [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]
        return jax.tree.unflatten(self._structure, leaves)


class _Bound(NamedTuple):
    """What the regulariser says about the distance from the optimum."""

    regulariser: Regulariser | None

    def gap(self, value: float, x: Vector, gradient: Vector) -> float | None:
        """Return the largest possible suboptimality at x, or None where nothing is known."""
        known = self.regulariser
        bounds = []
        if known is not None and known.l2:
            bounds.append(float(gradient @ gradient) / (2 * known.l2))
        if known is not None and known.l1:
            reach = float(np.sum(np.abs(x))) + value / known.l1
            bounds.append(float(np.max(np.abs(gradient))) * reach)
        return min(bounds, default=None)

    def largest_entry(self, gap: float, value: float, size: int) -> float:
        """Return how small every entry of the gradient should be for that gap at a loss near `value`."""
        known = self.regulariser
        entries = []
        if known is not None and known.l2:
            entries.append(math.sqrt(2 * known.l2 * gap / size))
        if known is not None and known.l1 and value > 0:
            entries.append(gap * known.l1 / (2 * value))
        return max(entries, default=math.sqrt(2 * ASSUMED_CURVATURE * gap / size))


def _minimise(
    function: Callable[[Vector], tuple[float, Vector]], start: Vector, largest_entry: float
) -> tuple[Vector, int]:
    from scipy.optimize import minimize

    # With ftol = 0 the solver does not stop because progress is small. Close to the optimum a line search can
    # fail for rounding; a fresh start there, with no memory of curvature, sometimes gets further.
    options = {"maxcor": 30, "ftol": 0.0, "gtol": largest_entry, "maxiter": ITERATIONS, "maxfun": ITERATIONS}
    x, iterations = start, 0
    for _ in range(FRESH_STARTS):
        result = minimize(function, x, jac=True, method="L-BFGS-B", options=options)
        x, iterations = result.x, iterations + int(result.nit)
        if np.max(np.abs(result.jac)) <= largest_entry or result.nit == 0:
            break
    return x, iterations
