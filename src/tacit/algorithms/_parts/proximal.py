"""Local steps solved to the end: w = argmin f(w) + (mu / 2) ||w - v||^2 for losses of linear models.

With f the mean of phi(<x_i, w>, y_i) over the agent's own records plus (l2 / 2) ||w||^2, the solution is

    w = v0 - g / m,   g = X' alpha,   m = mu + l2,   v0 = (mu / m) v,   alpha_i = p_i phi'(<x_i, w>)

with p_i a record's share, so that as many numbers are looked for as there are records, however many coordinates a model
has. Of squares that is a linear system, of which `prepare` finds the eigenvectors once for all rounds and all mu. Of
other smooth losses it is solved by Newton steps, each as long as is best along its direction.

What makes the sensitivity true. A clip bounds every record's gradient phi' x_i, here by bounding phi': what comes of it
is still monotone in w, hence the gradient of a convex function, and the minimiser moves by at most 2 c / (D_k m) in the
l2 norm if a record is replaced (Gauthier (2023), (5.31) and its [39], whose Assumption 3 this enforces); in the l1 norm
it may move further than l1 clips say, so that these are refused. D_k is how many records the agent holds, which
replacing one does not change. What is released is g / m, or g, never a difference of models, which would be rounded to
the last place of v0: neighbours have v0 in their hands. How far from the exact minimiser g may be, in floating point
and for any v0, is in `contraction`, and is booked on top. Without noise the number of steps is fixed, and the
`residual`, a bound on the distance to the exact minimiser, is there to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from tacit.algorithms._parts import contraction
from tacit.algorithms._parts.batches import of_own_records, own_records
from tacit.algorithms._parts.contraction import SLACK, pulled
from tacit.algorithms._parts.linear_records import Factored, smooth_linear
from tacit.algorithms._parts.local_problems import Bounded, LocalProblems
from tacit.algorithms._parts.newton import newton
from tacit.algorithms._parts.perturbation import perturbation
from tacit.core.checks import whole_number
from tacit.core.contract import Array, Batch, Extent, Mechanism, Objective, Params, Tree, View
from tacit.core.errors import ConfigError
from tacit.objectives import linear
from tacit.privacy.clipping import clip as clipped

NEWTON_STEPS = 10
ASSUMPTIONS = ("how many records an agent holds is known",)


class Solution(NamedTuple):
    """The outcome of a local problem."""

    gradient: Params
    """g: m times the way from v0 to the minimiser."""
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
    value: Callable[[Array, Solution], Tree]
    """(mu, solution) -> what is to be released."""
    moved: Callable[[Params, Array, Tree], Params]
    """(mu v, mu, what was released) -> the minimiser, as released."""
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
    if clip is not None and clip.of == "agent":
        raise ConfigError(
            f"mechanism {mechanism.name!r} clips an agent's contribution as a whole (adjacency = 'agent'), but "
            f"{name!r} solves its local problems to the end, and what bounds a minimiser is a bound on each record's "
            "slope; say adjacency = 'dataset', which protects the same by a clip of each record"
        )
    whole_number("newton_steps", newton_steps, "how many a local problem is solved in")
    place = perturbation(mechanism)
    local_problems = LocalProblems(objective, sample, clip, name)

    def gradient(found: Bounded, batch: Factored, m: Array) -> Params:
        local, z0, bounds = found
        if local_problems.closed:
            return pulled(local.x, batch.solved(local, z0, m))
        # Without a clip there is no sensitivity to be within.
        if bounds is None or clip is None or mechanism.distribution is None:
            return pulled(local.x, newton(local, z0, m, newton_steps))
        alpha = newton(local, z0, m, newton_steps, partial(contraction.balanced, local, bounds, z0, m))
        return clipped(contraction.contracted(local, bounds, z0, m, alpha), clip)

    def solve(pull: Params, mu: Array, batch: Factored, view: View) -> Solution:
        m, v0 = _whole(pull, mu, l2)
        found = local_problems.around(batch, v0, m, view)
        g = gradient(found, batch, m)
        local = found.local
        gap = pulled(local.x, local.share * local.slope(found.z0 - linear(g, local.x) / m)) - g
        return Solution(g, v0 - g / m, jnp.sqrt(jnp.sum(jnp.square(gap))) / m)

    def value(mu: Array, solution: Solution) -> Tree:
        return place.value(solution.gradient, lambda g: g / (mu + l2).astype(g.dtype), lambda: solution.w)

    def moved(pull: Params, mu: Array, released: Tree) -> Params:
        m, v0 = _whole(pull, mu, l2)
        return place.model(released, lambda g: v0 - g / m, lambda update: v0 - update)

    noisy = _solved(place.scaled(of_own_records(mechanism), lambda view: 1 / (curvature(view) + l2)))
    return Proximal(noisy, local_problems.prepared, solve, value, moved, l2)


def residual_to_store(mechanism: Mechanism, before: Array, solution: Solution) -> Array:
    """Return the solver's residual as a diagnostic; under noise the one before, or the state would leak data."""
    return solution.residual if mechanism.distribution is None else before


def _solved(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism for a minimiser as it is found, of a mechanism for the exact one."""
    exact = mechanism.sensitivity
    if exact is None:
        return mechanism

    def sensitivity(view: View, extent: Extent) -> Array:
        records = own_records(view, extent.records).astype(jnp.result_type(float))
        rounding = contraction.rounding(records, extent.coordinates, contraction.unit(records.dtype))
        return (1 + SLACK + rounding) * exact(view, extent)

    return mechanism._replace(sensitivity=sensitivity)


def _whole(pull: Params, mu: Array, l2: float) -> tuple[Array, Params]:
    """Return m, and v0: the minimiser of the problem without data."""
    m = (mu + l2).astype(pull.dtype)
    return m, pull / m
