"""Local steps solved to the end: w = argmin f(w) + (mu / 2) ||w - v||^2 for losses of linear models.

With f the mean of phi(<x_i, w>, y_i) over the agent's own records plus (l2 / 2) ||w||^2, the solution is

    w = v0 - X' alpha / m,   m = mu + l2,   v0 = (mu / m) v,   alpha_i = p_i phi'(<x_i, w>),   p_i a record's share

so that as many numbers are looked for as there are records, however many coordinates a model has. Of squares that is a
linear system, of which `prepare` finds the eigenvectors once for all rounds and all mu. Of other smooth losses it is
solved by Newton steps, each as long as is best along its direction.

What makes the sensitivity true. A clip bounds every record's gradient phi' x_i, here by bounding phi': what comes of it
is still monotone in w, hence the gradient of a convex function, and the minimiser moves by at most 2 c / (D_k m) in the
l2 norm if a record is replaced (001 (5.31) and [39], whose Assumption 3 this enforces); in the l1 norm it may move
further than l1 clips say, so that these are refused. D_k is how many records the agent holds, which replacing one does
not change. The solution's own error has to be small beside that: `SLACK` of it is booked, and under noise steps are
taken until the error is within it. Without noise their number is fixed, and the `residual`, a bound on the distance to
the exact minimiser, is there to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.contract import Array, Batch, Clip, Extent, Mechanism, Objective, Params, Tree, View
from tacit.errors import ConfigError
from tacit.objectives import MeanLoss, PenalisedLoss, Regulariser, linear, squared_loss

SLACK = 1e-3
"""How much more than the exact minimiser's sensitivity is booked."""
HALVINGS = 20
"""Of the interval in which the best length of a Newton step is looked for."""
NEWTON_STEPS, MOST_STEPS = 10, 200
ASSUMPTIONS = (
    f"every local problem is solved to within {SLACK:g} of the sensitivity in at most {MOST_STEPS} Newton steps",
    "how many records an agent holds is known",
)


class Factored(NamedTuple):
    """A batch with what its local problem needs in every round."""

    x: Array
    y: Array
    weight: Array | None
    gram: Array
    """(n, n) <x_i, x_j>."""
    vectors: Array | None
    """Squares only: eigenvectors of sqrt(p_i p_j) <x_i, x_j>, and"""
    values: Array | None
    """its eigenvalues."""
    validation: Any = None
    """Records for choosing settings, where the stream has some."""


class Solution(NamedTuple):
    """The outcome of a local problem."""

    w: Params
    residual: Array
    """At most so far from the exact minimiser."""


class Proximal(NamedTuple):
    """A local step solved to the end, around a mechanism."""

    mechanism: Mechanism
    """With the sensitivity of what is released."""
    prepare: Callable[[Batch], Factored]
    solve: Callable[[Params, Array, Batch, View], Solution]
    """(mu v, mu, prepared batch, view) -> the minimiser. Not v itself: where nothing pulls, mu v and mu are both 0."""
    value: Callable[[Params, Array, Params, View], Tree]
    """(mu v, mu, minimiser, view) -> what is to be released."""
    moved: Callable[[Params, Array, Tree, View], Params]
    """(mu v, mu, what was released, view) -> the minimiser, as released."""
    l2: float
    """Of the objective: what is left of the curvature where mu is 0."""


class _Problem(NamedTuple):
    """A local problem in the records' coordinates."""

    x: Array
    gram: Array
    slope: Callable[[Array], Array]
    """Predictions -> phi', clipped where that is asked for."""
    share: Array
    """p."""
    tolerance: Array
    """Of the gradient of the local objective at a solution that may be released."""


def proximal_step(
    objective: Objective,
    mechanism: Mechanism,
    curvature: Callable[[View], Array],
    name: str,
    newton_steps: int = NEWTON_STEPS,
) -> Proximal:
    """Return the step of an objective around a mechanism; `curvature` is the mu that sensitivities count with."""
    sample, l2 = _smooth_linear(objective, name)
    clip = mechanism.clip
    if clip is not None and clip.norm != "l2":
        raise ConfigError(
            f"mechanism {mechanism.name!r} clips in the {clip.norm} norm, but {name!r} solves its local problems to "
            "the end, and what a record moves a minimiser by is bounded in the l2 norm alone; clip in l2"
        )
    if isinstance(newton_steps, bool) or not isinstance(newton_steps, int) or newton_steps < 1:
        raise ConfigError(f"newton_steps = {newton_steps!r}: expected a whole number from 1 on")
    closed = sample is squared_loss and clip is None
    first = jax.grad(sample)

    def prepare(batch: Batch) -> Factored:
        x, _, share = _records(batch, clip is not None)
        gram = x @ x.T
        vectors = values = None
        if closed:
            root = jnp.sqrt(share)
            values, vectors = jnp.linalg.eigh(root[:, None] * gram * root)
        return Factored(batch.x, batch.y, batch.weight, gram, vectors, values, getattr(batch, "validation", None))

    def problem(batch: Factored, view: View) -> _Problem:
        x, y, share = _records(batch, clip is not None)
        if clip is None:
            return _Problem(x, batch.gram, lambda z: jax.vmap(first)(z, y), share, jnp.zeros((), x.dtype))
        limit = _slope_limit(x, clip)
        present = share > 0
        records = own_records(view, x.shape[0]).astype(x.dtype)
        share = present / records
        clipped = lambda z: jnp.clip(jax.vmap(first)(z, y), -limit, limit)  # noqa: E731
        return _Problem(x, batch.gram, clipped, share, SLACK / 2 * clip.bound / records)

    def solve(pull: Params, mu: Array, batch: Factored, view: View) -> Solution:
        local = problem(batch, view)
        m = (mu + l2).astype(pull.dtype)
        v0 = _start(pull, mu, l2)
        z0 = local.x @ v0
        if closed:
            assert batch.vectors is not None  # prepared so
            assert batch.values is not None
            root = jnp.sqrt(local.share)
            inner = (batch.vectors.T @ (root * local.slope(z0))) / (1 + jnp.maximum(batch.values, 0) / m)
            alpha = root * (batch.vectors @ inner)
        else:
            # Without a clip there is no sensitivity to be within.
            bounded = mechanism.distribution is not None and clip is not None
            alpha = _newton(local, z0, m, newton_steps, bounded)
        w = v0 - (local.x.T @ alpha) / m
        gap = local.x.T @ (local.share * local.slope(local.x @ w) - alpha)
        return Solution(w, jnp.sqrt(jnp.sum(jnp.square(gap))) / m)

    def value(pull: Params, mu: Array, w: Params, view: View) -> Tree:
        if mechanism.perturbs == "model":
            return w
        update = _start(pull, mu, l2) - w
        return update if mechanism.perturbs == "update" else (mu + l2).astype(pull.dtype) * update

    def moved(pull: Params, mu: Array, released: Tree, view: View) -> Params:
        if mechanism.perturbs == "model":
            return released
        update = released if mechanism.perturbs == "update" else released / (mu + l2).astype(pull.dtype)
        return _start(pull, mu, l2) - update

    def gain(view: View) -> Array:
        in_steps = jnp.ones(()) if mechanism.perturbs == "gradient" else 1 / (curvature(view) + l2)
        return (1 + SLACK) * in_steps

    return Proximal(of_own_records(mechanism).amplified(gain), prepare, solve, value, moved, l2)


def noted(mechanism: Mechanism, before: Array, solution: Solution) -> Array:
    """Return the residual to keep; under noise the one before: what a state keeps of data, later messages tell."""
    return solution.residual if mechanism.distribution is None else before


def own_records(view: View, places: int) -> Array:
    """Return over how many records an agent's mean is: its data set where a batch holds that, else the batch."""
    return jnp.where(view.data_size > 0, jnp.minimum(view.data_size, places), places)


def of_own_records(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism for a mean over an agent's own records instead of the places of a batch."""
    sensitivity = mechanism.sensitivity
    if sensitivity is None or mechanism.adjacency == "dataset":
        return mechanism

    def of_mean(view: View, extent: Extent) -> Array:
        return sensitivity(view, extent._replace(records=1)) / own_records(view, extent.records)

    return mechanism._replace(sensitivity=of_mean)


def _smooth_linear(objective: Objective, name: str) -> tuple[Callable[[Array, Array], Array], float]:
    """Return the loss of one prediction and the l2 coefficient, or say why the step cannot be solved to the end."""
    loss = objective.loss
    known = isinstance(loss, PenalisedLoss) and isinstance(loss.data, MeanLoss) and loss.data.predict is linear
    if not known:
        raise ConfigError(
            f"objective {objective.name!r}: {name!r} solves its local problems to the end, which it can for losses of "
            "a linear model (squared, logistic); use zcdp_admm, which needs a gradient only"
        )
    assert isinstance(loss, PenalisedLoss)
    assert isinstance(loss.data, MeanLoss)
    penalty = loss.regulariser
    if loss.data.smooth is not None or not isinstance(penalty, Regulariser) or penalty.l1 > 0:
        raise ConfigError(
            f"objective {objective.name!r} is not smooth (l1 = {getattr(penalty, 'l1', '?')}), but {name!r} solves its "
            "local problems by Newton steps; leave out l1, or use zcdp_admm, which takes any subgradient"
        )
    return loss.data.sample, penalty.l2


def _records(batch: Batch, bounded: bool) -> tuple[Array, Array, Array]:
    """Return x (n, d), y (n,) and each record's share of the mean; zeros where there is no record.

    `bounded`: nor where one is not finite, or so large that it would drown the others in rounding. Such a record says
    nothing, as a gradient that is not finite says nothing to `privacy.clip`: that is within its bound.
    """
    x, y = jnp.atleast_2d(batch.x), jnp.atleast_1d(batch.y)
    weight = jnp.ones(()) if batch.weight is None else batch.weight
    weight = jnp.broadcast_to(weight, y.shape).astype(x.dtype)
    there = weight > 0
    if bounded:
        size = jnp.max(jnp.abs(x), axis=1, initial=0)
        there &= (size < float(np.finfo(x.dtype).max) ** 0.25) & jnp.isfinite(y)
    total = jnp.sum(jnp.where(there, weight, 0))
    share = jnp.where(there, weight, 0) / jnp.where(total > 0, total, 1)
    return jnp.where(there[:, None], x, 0), jnp.where(there, y, 0).astype(x.dtype), share


def _start(pull: Params, mu: Array, l2: float) -> Params:
    """Return the minimiser of the problem without data."""
    return pull / (mu + l2).astype(pull.dtype)


def _slope_limit(x: Array, clip: Clip) -> Array:
    """Return the bound on each record's phi' that keeps its gradient phi' x within the clip."""
    size = jnp.sqrt(jnp.sum(jnp.square(x), axis=1))
    return jnp.where(size > 0, clip.bound / jnp.where(size > 0, size, 1), 0)


def _newton(local: _Problem, z0: Array, m: Array, steps: int, released: bool) -> Array:
    """Return alpha after Newton steps, each as long as is best along its direction: a fixed number of them.

    What is `released` with noise has to be solved, whatever the data: then as many as that takes, of which there are
    finitely many, as the objective is strongly convex and its gradient is piecewise smooth.

    From w the step leads by -X' d / m to predictions z - t u / m with u = X X' d. The derivative of the objective along
    it is <alpha + t d - p phi'(z - t u / m), u> / m, which rises with t: it is zero where the step should end.
    """
    slope, share, gram = local.slope, local.share, local.gram

    def step(alpha: Array) -> Array:
        z = z0 - gram @ alpha / m
        at, bend = jax.jvp(slope, (z,), (jnp.ones_like(z),))  # each slope is its own prediction's
        bend = share * bend
        matrix = jnp.eye(z.size, dtype=z.dtype) + bend[:, None] * gram / m
        d = jnp.linalg.solve(matrix, share * at + bend * (z0 - z)) - alpha
        u = gram @ d

        def too_long(t: Array) -> Array:
            slack: Array = alpha + t * d - share * slope(z - t * u / m)
            return jnp.dot(slack, u) > 0

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2
            beyond = too_long(middle)
            return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

        one = jnp.ones((), z.dtype)
        low, _ = jax.lax.fori_loop(0, HALVINGS, halve, (0 * one, one))
        longer: Array = alpha + jnp.where(too_long(one), low, one) * d
        return longer

    def unsolved(state: tuple[Array, Array]) -> Array:
        count, alpha = state
        gap = share * slope(z0 - gram @ alpha / m) - alpha
        error: Array = jnp.dot(gap, gram @ gap)
        return jnp.logical_and(count < MOST_STEPS, error > jnp.square(local.tolerance))

    start = share * slope(z0)
    if released:
        _, solved = jax.lax.while_loop(unsolved, lambda s: (s[0] + 1, step(s[1])), (jnp.zeros((), jnp.int32), start))
    else:
        solved = jax.lax.fori_loop(0, steps, lambda _, alpha: step(alpha), start)
    return jnp.asarray(solved)
