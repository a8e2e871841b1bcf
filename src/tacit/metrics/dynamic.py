"""The dynamic comparator: for every round the model that would have been best for all agents in that round.

x*_t = argmin over x in the set of the average a_t over the agents of f_it(x): one problem per round, all of them
solved side by side by projected gradient steps with momentum, restarts and a step size that each round finds for
itself. For convex losses each comes with a bound that holds whatever the solver did: at any point y, with g the
gradient of a_t there (of a smooth stand-in below it, where the loss has kinks)::

    min a_t  >=  a_t(y) + min_{v in set} <g, v - y> + (l2/2) ||v - y||^2

A small gap does not say that a point is near the optimum, which is what a path length is made of. Where the loss has an
l2 regulariser it does: a_t(x) - min a_t >= (l2/2) ||x - x*_t||^2 in the set, so that rounds are solved until
sqrt(2 gap / l2) is at most 1e-5, as far as rounding lets them, and the path length comes with what is left of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.checks import positive
from tacit.core.contract import Array, Batch, Objective, Params, Tree
from tacit.core.errors import DataError
from tacit.metrics.blocks import Chunks, Loss, Vector, Vectors, as_double
from tacit.metrics.comparator import ASSUMED_CURVATURE, shown_gap, smoothing_levels
from tacit.metrics.lower_bound import LowerBound
from tacit.objectives import ConvexSet
from tacit.objectives.losses import certified_regulariser

PIECE = 1024
"""Rounds that are solved side by side."""
FEW = 64
"""The rounds that take longest go on in groups of this many."""
FIRST_STEPS = 40
MOST_STEPS = 20_000
NEAR = 1e-5
"""How near to a round's optimum a strongly convex loss is solved."""
FINEST = 1e-12
"""Of 1 + the loss: a gap that small can be shown in double precision."""
ROUNDING = 1e-14
"""Of 1 + the loss: by how much rounding may have understated a gap."""
SMALLEST_MU = 1e-4
"""Below this, rounded kinks make for too many steps."""


class DynamicComparator(NamedTuple):
    """The best model of each round, with a certificate. Make it with `dynamic_comparator`."""

    params: Params
    """In float64, with a leading axis over the rounds."""
    loss: Vector
    """(rounds,) sum over the agents of f_it(x*_t)."""
    gap: Vector | None
    """(rounds,) certified bound on how far the average over the agents lies above the optimum; None where none can be
    given: the set has no bounds, and the loss no regulariser."""
    moves: Vector
    """(rounds,) ||x*_t - x*_(t-1)||_2; 0 for the first round. Where a round has several best models, it has one of
    them, and where the loss is flat, one within the gap."""
    off: Vector | None
    """Certified bound on the distance from each round's optimum, (rounds,); None without an l2 regulariser, since a
    round may then have several optima, or points far from it that are nearly as good."""
    converged: bool
    """Whether every round reached the tolerance."""

    def __repr__(self) -> str:
        gap = None if self.gap is None else float(np.max(self.gap))
        found = f"{len(self.loss)} rounds, total loss {np.sum(self.loss):.6g}, path length {self.path_length:.4g}"
        return f"DynamicComparator({found}, {shown_gap(gap)})"

    @property
    def path_length(self) -> float:
        """Sum over the rounds of ||x*_(t+1) - x*_t||_2."""
        return float(np.sum(self.moves))

    @property
    def move_errors(self) -> Vector | None:
        """(rounds,) certified bound on the error of each of `moves`; None: see `off`."""
        if self.off is None:
            return None
        return np.concatenate([[0.0], self.off[1:] + self.off[:-1]])


def dynamic_comparator(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    *,
    within: ConvexSet | None,
    tolerance: float = 1e-7,
) -> DynamicComparator:
    """Dynamic comparator: for every round the model that would have been best for all agents in that round.

    A loss with kinks is smoothed, by 1e-4 at least, and its gap is no smaller than that.

    Args:
      objective: Convex loss and regulariser.
      chunks: Function that iterates over the data, each chunk a pytree of arrays (rounds, agents, ...).
      spec: Shapes of one agent's batch in one round.
      within: The set; None: no bounds.
      tolerance: Wanted gap, in units of the loss averaged over the agents.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.linear_drift(agents=3, dim=2)
      >>> objective, data = tacit.objectives.squared(l2=0.1), [stream.chunk(0, 5)]
      >>> tacit.metrics.dynamic_comparator(objective, lambda: data, stream.batch_spec(), within=None).converged
      True
    """
    positive("tolerance", tolerance, "1e-7 is the default")
    known = certified_regulariser(objective)
    losses, wanted = [objective.loss], tolerance
    if objective.smoothed is not None:
        wanted = max(tolerance / 2, SMALLEST_MU)
        losses = [objective.smoothed(mu) for mu in smoothing_levels(wanted)]
    first = objective.initial(spec)
    l2 = 0.0 if known is None else known.l2
    floor = LowerBound(Vectors.of(first), within, l2)
    aim = l2 * NEAR**2 / 2 if l2 and objective.smoothed is None else wanted
    stages = [_Problem(loss, floor, wanted, min(aim, wanted)) for loss in losses]
    parts: list[tuple[Vector, Vector, Vector, bool]] = []
    agents = 0
    with jax.enable_x64(True):
        start = np.asarray(floor.nearest(floor.vectors.vector(first)))
        for chunk in chunks():
            batches = jax.tree.map(np.asarray, chunk)
            rounds, agents = jax.tree.leaves(batches)[0].shape[:2]
            for begin in range(0, rounds, PIECE):
                piece = jax.tree.map(lambda leaf, begin=begin: leaf[begin : begin + PIECE], batches)
                parts.append(_solve(objective, stages, piece, start))
    if not parts:
        raise DataError("no rounds in the data: expected at least one; check that `chunks` gives some")
    x, loss, gap = (np.concatenate([part[k] for part in parts]) for k in range(3))
    moves = np.linalg.norm(np.diff(x, axis=0, prepend=x[:1]), axis=1)
    return DynamicComparator(
        floor.vectors.tree(x),
        agents * loss,
        gap if np.isfinite(gap).all() else None,
        moves,
        np.sqrt(2 * (gap + ROUNDING * (1 + np.abs(loss))) / l2) if l2 else None,
        all(part[3] for part in parts),
    )


class _Problem(NamedTuple):
    """Settings common to all rounds. A value, so that a compiled program is found again."""

    loss: Loss
    floor: LowerBound
    wanted: float
    """The gap that is good enough."""
    aim: float
    """The gap to stop at, or what rounding leaves of it."""


class _State(NamedTuple):
    """State of the solver in one round."""

    x: Array
    y: Array
    """Where the next gradient is taken: x with momentum."""
    momentum: Array
    step: Array
    best: Array
    """The best point so far."""
    value: Array
    """The loss there."""
    lower: Array
    """No point of the set has a smaller loss than this."""
    still: Array
    """Whether the gradient was too small for a loss of the assumed curvature to fall by more than is wanted."""

    @classmethod
    def at(cls, x: Vector, lower: Vector) -> _State:
        """Return the first state of rounds that start at x (rounds, d)."""
        ones, here = jnp.ones(len(x)), jnp.asarray(x)
        return cls(here, here, ones, ones, here, jnp.inf * ones, jnp.asarray(lower), jnp.zeros(len(x), bool))

    def done(self, problem: _Problem) -> Array:
        """Return whether the best point is good enough."""
        least = jnp.minimum(problem.wanted, jnp.maximum(problem.aim, FINEST * (1 + jnp.abs(self.value))))
        return jnp.where(jnp.isfinite(self.lower), self.value - self.lower <= least, self.still)


def _solve(
    objective: Objective, stages: Sequence[_Problem], batches: Tree, start: Vector
) -> tuple[Vector, Vector, Vector, bool]:
    """Return each round's x (rounds, d), average loss and gap, and whether all of them are as wanted."""
    rounds = jax.tree.leaves(batches)[0].shape[0]
    x = np.broadcast_to(start, (rounds, start.size))
    lower = np.full(rounds, -np.inf)
    for problem in stages:
        states = _State.at(x, lower)
        states, done = jax.tree.map(np.array, _advance(problem, batches, states, FIRST_STEPS))
        left = np.flatnonzero(~done)
        few = min(FEW, rounds)
        for begin in range(0, left.size, few):
            # Filled up with copies, so that one compiled program serves all groups.
            group = np.resize(left[begin : begin + few], few)
            some_batches, some = jax.tree.map(lambda leaf, group=group: leaf[group], (batches, states))
            some, done[group] = _advance(problem, some_batches, some, MOST_STEPS)
            for every, new in zip(states, some, strict=True):
                every[group] = new
        x, lower = states.best, states.lower
    value = np.asarray(states.value)
    if objective.smoothed is not None:
        value = np.asarray(_losses(objective.loss, stages[0].floor, batches, x))
    return x, value, np.maximum(value - lower, 0), bool(np.all(done))


def _average(loss: Loss, floor: LowerBound, x: Array, batches: Tree) -> Array:
    batches = jax.tree.map(as_double, batches)
    return jnp.mean(jax.vmap(loss, (None, 0))(floor.vectors.tree(x), batches))


@partial(jax.jit, static_argnums=(0, 1))
def _losses(loss: Loss, floor: LowerBound, batches: Tree, x: Array) -> Array:
    return jax.vmap(partial(_average, loss, floor))(x, batches)


@partial(jax.jit, static_argnums=0)
def _advance(problem: _Problem, batches: Tree, states: _State, steps: int) -> tuple[_State, Array]:
    """Take steps in all rounds until every one is good enough, at most so many; say which ones are."""

    def unfinished(carry: tuple[Array, _State]) -> Array:
        return (carry[0] < steps) & ~carry[1].done(problem).all()

    def body(carry: tuple[Array, _State]) -> tuple[Array, _State]:
        return carry[0] + 1, jax.vmap(partial(_step, problem))(batches, carry[1])

    last: _State = jax.lax.while_loop(unfinished, body, (jnp.zeros((), int), states))[1]
    return last, last.done(problem)


def _step(problem: _Problem, batches: Tree, state: _State) -> _State:
    """Take one step in one round: FISTA with backtracking, and a restart where the momentum leads uphill."""
    average = partial(_average, problem.loss, problem.floor)
    at_y, slope = jax.value_and_grad(average)(state.y, batches)
    there = problem.floor.nearest(state.y - state.step * slope)
    value, move = average(there, batches), there - state.y
    # Rounding in the values must not make the steps smaller and smaller.
    model = at_y + jnp.dot(slope, move) + jnp.dot(move, move) / (2 * state.step) + 1e-15 * (1 + jnp.abs(at_y))
    uphill = jnp.dot(slope, there - state.x) > 0
    momentum = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * jnp.square(state.momentum))) / 2)
    onwards = there + jnp.where(uphill, 0.0, (state.momentum - 1) / momentum) * (there - state.x)
    small = jnp.sqrt(2 * ASSUMED_CURVATURE * problem.wanted / slope.size)
    better = value < state.value
    moved = _State(
        x=there,
        y=onwards,
        momentum=momentum,
        step=1.25 * state.step,
        best=jnp.where(better, there, state.best),
        value=jnp.minimum(value, state.value),
        lower=state.lower,
        still=jnp.max(jnp.abs(move)) <= state.step * small,
    )
    shorter = state._replace(step=state.step / 2)
    kept = value <= model
    new: _State = jax.tree.map(lambda if_kept, if_not: jnp.where(kept, if_kept, if_not), moved, shorter)
    new = new._replace(lower=jnp.maximum(state.lower, at_y + problem.floor.least(state.y, slope)))
    finished = state.done(problem)
    result: _State = jax.tree.map(lambda old, other: jnp.where(finished, old, other), state, new)
    return result
