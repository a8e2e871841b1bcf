"""Local problems under noise: a bound on the change of the released value in floating point, whatever was heard.

In units of the clip c, with u the unit roundoff, D records of d coordinates, m the curvature around v0 and
g = m (v0 - w), of which g or g / m is released, a local problem is to find

    g = sum_i p_i psi_i(z_i - <x_i, g> / m) x_i,   p_i = 1 / D,   psi_i: rising, |psi_i| ||x_i|| <= c

1. Any numbers z_i will do. g / m is the minimiser of a function of curvature m to which each record gives a convex term
   of slope c / D at most, so that replacing one moves g by 2 c / D at most: whatever the z_i and psi_i are, as long as
   each is a function of its own record and of what is public. So z_i = <x_i, v0> may be rounded as it likes, be cut
   off, or be 0 where it is no number: a hostile v0 changes the problem, not what a record can do to its solution. Of
   squares z_i is <x_i, v0> - y_i, rounded once. From there on v0 is out of it, and all numbers are bounded by c.
2. Steepness. kappa_i = max psi_i' ||x_i||^2 / m is how rounding of <x_i, g> is amplified. Where it is above `steepest`
   psi_i is flattened, by a factor that is the record's own: see 1.
3. Rounding. <x_i, g> / m is off by e_i <= delta ||x_i|| c / m, delta = (d + 4) u. A slope at a wrong place is an
   eps-subgradient at the right one, eps_i = e_i^2 max psi_i' <= kappa delta^2 c^2 / m. By strong convexity, where
   slopes within 2 e_i of the right places balance g up to a rest r, g is within r + 2 sqrt(kappa) delta c of the
   minimiser's.
4. Steps. What Newton steps end in is tested so (`balanced`). Where they failed nothing is known of it, and g goes on as

       g <- g + rate (sum_i p_i psi_i x_i - g),   rate = 1 / (1 + 2 kappa),   kappa = sum_i p_i kappa_i

   Each step minimises an upper bound of the function that is too high by eps at most, so that the squared distance to
   the minimiser shrinks by kappa / (1 + kappa), down to kappa delta^2 c^2. How many steps that takes is known before,
   from wherever it starts. g is kept as a sum of two numbers, or a short step would drown.
5. What is left: sums of D terms, slopes (within 180 u of their bound) and a last clip, together (2 D + 768) u c; and
   norms of records, off by delta.

So g is within SLACK / 2 + `rounding`, times c / D, of the exact minimiser's, for either data set: that is booked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.newton import LocalProblem
from tacit.algorithms._parts.running_totals import two_sum
from tacit.core.contract import Array
from tacit.objectives import linear

SLACK = 1e-3
"""How much more than the exact minimiser's sensitivity is booked, rounding apart."""
_FLATTEST, _STEEPEST = 25.0, 1e4
_AIM = 0.01
"""The share of the sensitivity that rounding may take before slopes are flattened."""


def steepest(records: Array, delta: float) -> Array:
    """Return the largest kappa_i: 10^4, and less where rounding would cost more than a hundredth; at least 25."""
    return jnp.clip(jnp.square(_AIM / (2 * records * delta)), _FLATTEST, _STEEPEST)


def unit(dtype: Any) -> float:
    """Return u."""
    return float(np.finfo(dtype).eps) / 2


def blur(coordinates: int, u: float) -> float:
    """Return delta."""
    return (coordinates + 4) * u


def rounding(records: Array, coordinates: int, u: float) -> Array:
    """Return by which share of the sensitivity rounding may move the solutions of two neighbouring problems apart."""
    delta = blur(coordinates, u)
    return delta + records * (2 * jnp.sqrt(steepest(records, delta)) * delta + (2 * records + 768) * u)


class Bounds(NamedTuple):
    """Bounds of a clipped local problem, known before it is solved."""

    limit: Array
    """(n,) of each record's slope."""
    off: Array
    """(n,) e_i."""
    kappa: Array
    """Of all records together."""
    tolerance: Array
    """Of g."""
    steps: Array
    """After so many g is there, from wherever it started."""


def flattened(curvature: Array, size: Array, records: Array, m: Array, delta: float) -> tuple[Array, Array]:
    """Return the factor of each record's slope that keeps it from being too steep, and the kappa_i that are left."""
    steep, most = curvature * jnp.square(size) / m, steepest(records, delta).astype(size.dtype)
    return jnp.where(steep > most, most / jnp.where(steep > most, steep, 1), 1), jnp.minimum(steep, most)


def bounds(share: Array, size: Array, limit: Array, kappa: Array, bound: float, records: Array, off: Array) -> Bounds:
    """Return the bounds of a problem whose records have these sizes, slopes at most, and steepness."""
    total = jnp.sum(share * kappa)
    steps = jnp.ceil(2 * (1 + total) * jnp.log(4 * records / SLACK)).astype(jnp.int32)
    return Bounds(limit, off * size, total, SLACK / 2 * bound / records, steps)


def pulled(x: Array, alpha: Array) -> Array:
    """Return sum_i alpha_i x_i, in the run's own precision on any device."""
    return jnp.sum(alpha[:, None] * x, axis=0)


def balanced(local: LocalProblem, limits: Bounds, z0: Array, m: Array, alpha: Array) -> Array:
    """Return whether alpha is, up to the tolerance, made of slopes that are met within 2 e_i of where it leads."""
    z = z0 - linear(pulled(local.x, alpha), local.x) / m
    low, high = local.share * local.slope(z - limits.off), local.share * local.slope(z + limits.off)
    return _norm(pulled(local.x, alpha - jnp.clip(alpha, low, high))) <= limits.tolerance


def contracted(local: LocalProblem, limits: Bounds, z0: Array, m: Array, alpha: Array) -> Array:
    """Return g of alpha as it is where that is balanced, and from anywhere else by steps of which each leads nearer."""
    most = local.share * limits.limit
    alpha = jnp.where(jnp.isfinite(alpha), jnp.clip(alpha, -most, most), 0)
    rate = 1 / (1 + 2 * limits.kappa)

    def missing(g: Array) -> Array:
        return pulled(local.x, local.share * local.slope(z0 - linear(g, local.x) / m)) - g

    def unsolved(state: tuple[Array, Array, Array]) -> Array:
        left, g, _ = state
        return (left > 0) & ~(_norm(missing(g)) <= limits.tolerance)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        left, g, low = state
        return (left - 1, *two_sum(g, low, rate * (missing(g) - low)))

    left = jnp.where(balanced(local, limits, z0, m, alpha), 0, limits.steps)
    start = pulled(local.x, alpha)
    _, g, _ = jax.lax.while_loop(unsolved, step, (left, start, jnp.zeros_like(start)))
    return jnp.asarray(g)


def _norm(vector: Array) -> Array:
    return jnp.sqrt(jnp.sum(jnp.square(vector)))
