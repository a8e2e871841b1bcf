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
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.linear_records import Factored, factored, records_of, slope_limit, smooth_linear
from tacit.algorithms.newton import MOST_STEPS, LocalProblem, newton
from tacit.algorithms.records import of_own_records, own_records
from tacit.algorithms.settings import whole_number
from tacit.contract import Array, Batch, Mechanism, Objective, Params, Tree, View
from tacit.errors import ConfigError
from tacit.objectives import squared_loss

NEWTON_STEPS = 10
SLACK = 1e-3
"""How much more than the exact minimiser's sensitivity is booked."""
ASSUMPTIONS = (
    f"every local problem is solved to within {SLACK:g} of the sensitivity in at most {MOST_STEPS} Newton steps",
    "how many records an agent holds is known",
)


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


def proximal_step(
    objective: Objective,
    mechanism: Mechanism,
    curvature: Callable[[View], Array],
    name: str,
    newton_steps: int = NEWTON_STEPS,
) -> Proximal:
    """Return the step of an objective around a mechanism; `curvature` is the mu that sensitivities count with."""
    sample, l2 = smooth_linear(objective, name)
    clip = mechanism.clip
    if clip is not None and clip.norm != "l2":
        raise ConfigError(
            f"mechanism {mechanism.name!r} clips in the {clip.norm} norm, but {name!r} solves its local problems to "
            "the end, and what a record moves a minimiser by is bounded in the l2 norm alone; clip in l2"
        )
    whole_number("newton_steps", newton_steps, "how many a local problem is solved in")
    closed = sample is squared_loss and clip is None
    first = jax.grad(sample)

    def prepare(batch: Batch) -> Factored:
        x, _, share = records_of(batch, clip is not None)
        return factored(batch, x @ x.T, share if closed else None)

    def problem(batch: Factored, view: View) -> LocalProblem:
        x, y, share = records_of(batch, clip is not None)
        if clip is None:
            return LocalProblem(x, batch.gram, lambda z: jax.vmap(first)(z, y), share, jnp.zeros((), x.dtype))
        limit = slope_limit(x, clip)
        present = share > 0
        records = own_records(view, x.shape[0]).astype(x.dtype)
        share = present / records
        clipped = lambda z: jnp.clip(jax.vmap(first)(z, y), -limit, limit)  # noqa: E731
        return LocalProblem(x, batch.gram, clipped, share, SLACK / 2 * clip.bound / records)

    def solve(pull: Params, mu: Array, batch: Factored, view: View) -> Solution:
        local = problem(batch, view)
        m = (mu + l2).astype(pull.dtype)
        v0 = _start(pull, mu, l2)
        z0 = local.x @ v0
        if closed:
            alpha = batch.solved(local, z0, m)
        else:
            # Without a clip there is no sensitivity to be within.
            bounded = mechanism.distribution is not None and clip is not None
            alpha = newton(local, z0, m, newton_steps, bounded)
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


def _start(pull: Params, mu: Array, l2: float) -> Params:
    """Return the minimiser of the problem without data."""
    return pull / (mu + l2).astype(pull.dtype)
