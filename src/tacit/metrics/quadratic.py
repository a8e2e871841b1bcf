"""Quadratic programmes of few coordinates: a convex set of parameters, and linear cuts.

The programme is turned into the search for the point of a polyhedron that lies nearest to 0, and that into
non-negative least squares (Lawson and Hanson 1974, ch. 23: least distance programming). It is exact up to rounding,
gives multipliers, and says where the polyhedron is empty. A ball is a multiplier of ||x||^2, found by its norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit.core.errors import ConfigError
from tacit.metrics.blocks import Vector
from tacit.objectives import Ball, Box, ConvexSet, Simplex

EMPTY = 1e-7
"""A polyhedron counts as empty if it lies farther away than the inverse of this, in units of the programme."""
LARGEST_MULTIPLIER = 1e12
"""Of a ball, relative to the programme's curvature: there the nearest point of the cuts to 0 is what is left."""


class Region(NamedTuple):
    """A convex set in terms of a solver: x = start + basis w, rows x <= limits, ||x[:balled]|| <= radius."""

    basis: Vector
    rows: Vector
    limits: Vector
    radius: float | None
    balled: int
    extent: float | None
    """How far apart its points are, roughly; None: without bound."""

    def with_height(self) -> Region:
        """Return the region with one more coordinate, which is free."""
        size, moves = self.basis.shape
        basis = np.zeros((size + 1, moves + 1))
        basis[:size, :moves], basis[size, moves] = self.basis, 1
        return self._replace(basis=basis, rows=np.hstack([self.rows, np.zeros((len(self.rows), 1))]))


def region(within: ConvexSet | None, size: int) -> Region:
    """Return a set of `size` coordinates in terms of the solver."""
    one, none = np.eye(size), np.zeros((0, size))
    if within is None:
        return Region(one, none, np.zeros(0), None, size, None)
    if isinstance(within, Ball):
        return Region(one, none, np.zeros(0), within.radius, size, within.radius)
    if isinstance(within, Box):
        ends = [(sign, end) for sign, end in ((-1, -within.low), (1, within.high)) if np.isfinite(end)]
        rows = np.vstack([none, *(sign * one for sign, _ in ends)])
        limits = np.repeat([end for _, end in ends], size)
        return Region(one, rows, limits, None, size, within.high - within.low if len(ends) == 2 else None)
    if isinstance(within, Simplex):
        # Moves keep the sum: an orthonormal basis of the vectors that sum to 0.
        moves = np.linalg.svd(np.ones((1, size)))[2][1:].T
        return Region(moves, -one, np.zeros(size), None, size, within.total)
    raise ConfigError(
        f"within = {within!r}: expected a Ball, Box, Simplex or None, among whose points a comparator can be solved for"
    )


class Solution(NamedTuple):
    """Where a programme has its minimum."""

    x: Vector
    multipliers: Vector
    """(cuts,) >= 0."""


def minimise_quadratic(
    hessian: Vector, gradient: Vector, start: Vector, inside: Region, rows: Vector, limits: Vector
) -> Solution | None:
    """Return argmin of <gradient, x - start> + (x - start)' hessian (x - start) / 2 in the region and rows x <= limits.

    The start must lie in the region but may break the cuts; the hessian must be positive definite. None: no point of
    the region keeps all cuts.
    """
    basis = inside.basis
    every = np.vstack([inside.rows, rows])
    room = np.concatenate([inside.limits, limits]) - every @ start
    reduced = every @ basis
    own = len(inside.rows)

    def solve(ball: float) -> Solution | None:
        curved, slope = hessian, gradient
        if ball:
            in_ball = np.arange(start.size) < inside.balled
            curved = hessian + ball * np.diag(in_ball.astype(float))
            slope = gradient + ball * np.where(in_ball, start, 0)
        found = _in_polyhedron(basis.T @ curved @ basis, basis.T @ slope, reduced, room)
        return None if found is None else Solution(start + basis @ found.x, found.multipliers[own:])

    if inside.radius is None:
        return solve(0.0)
    return _in_ball(solve, inside.radius, inside.balled, float(np.max(np.diag(hessian))))


def _in_ball(solve: Callable[[float], Solution | None], radius: float, balled: int, unit: float) -> Solution | None:
    """Return the solution at the multiplier of the ball at which ||x|| is the radius, or at 0 where it is shorter."""
    from scipy.optimize import brentq

    def excess(multiplier: float) -> float:
        found = solve(multiplier)
        # The inverse of the norm is nearly straight as a function of the multiplier.
        return 1 / radius - 1 / max(_norm(found, balled), 1e-300) if found is not None else np.inf

    free = solve(0.0)
    if free is None or _norm(free, balled) <= radius:
        return free
    low, high = 0.0, unit
    while (above := excess(high)) > 0:
        if high > LARGEST_MULTIPLIER * unit:
            return solve(high) if above * radius < 1e-9 else None
        low, high = high, 10 * high
    root = brentq(excess, low, high, xtol=1e-15 * high, rtol=1e-14, maxiter=200)
    return solve(root)


def _norm(solution: Solution | None, balled: int) -> float:
    return np.inf if solution is None else float(np.linalg.norm(solution.x[:balled]))


def _in_polyhedron(hessian: Vector, gradient: Vector, rows: Vector, room: Vector) -> Solution | None:
    """Return argmin of <gradient, w> + w' hessian w / 2 with rows w <= room, with the multipliers of all rows."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    # With hessian = L L' and z = L' w + L^-1 gradient, it is the z nearest to 0 with rows L'^-1 z <= room + ...
    lower = cholesky(hessian, lower=True)
    centre = solve_triangular(lower, gradient, lower=True)
    if not len(rows):
        return Solution(-solve_triangular(lower, centre, lower=True, trans="T"), np.zeros(0))
    sides = solve_triangular(lower, rows.T, lower=True).T
    length = np.linalg.norm(sides, axis=1)
    length = np.where(length > 0, length, 1)
    sides, gaps = sides / length[:, None], room / length
    # In units in which the nearest point is about 1 away: far ones would drown in rounding.
    unit = max(float(np.linalg.norm(centre)), float(np.max(-gaps)), 1e-300)
    distances = (gaps + sides @ centre) / unit
    system = -np.vstack([sides.T, distances])
    target = np.zeros(len(system))
    target[-1] = 1
    weight, residual = nnls(system, target, maxiter=100 * len(rows))
    if residual < EMPTY:
        return None
    rest = system @ weight - target
    z = -rest[:-1] / rest[-1]
    w = solve_triangular(lower, unit * z - centre, lower=True, trans="T")
    return Solution(w, -weight / rest[-1] * unit / length)
