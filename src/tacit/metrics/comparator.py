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
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from tacit.core.checks import positive
from tacit.core.contract import Batch, Objective, Params
from tacit.core.errors import ConfigError
from tacit.metrics.blocks import Chunks, Data, Loss, Vector, Vectors
from tacit.objectives.losses import certified_regulariser
from tacit.objectives.regularisers import Regulariser

SMALLEST_MU = 1e-6
"""Below this, rounded kinks are too sharp for the solver to gain anything."""
ASSUMED_CURVATURE = 1e-4
"""Where no gap can be certified, the solver stops where a loss of this curvature would have the tolerance."""
ITERATIONS = 20_000
FRESH_STARTS = 5


class Comparator(NamedTuple):
    """The best fixed model on the data, with a certificate. Make it with `best_fixed`."""

    params: Params
    """In float64."""
    total_loss: float
    """Sum of f_it over all rounds and agents."""
    rounds: int
    """Over how many it is the best."""
    gap: float | None
    """Certified bound on how far the average loss lies above the optimum; None where none can be given."""
    gradient_norm: float
    """Of the average loss (of its smooth stand-in where it has kinks) at `params`."""
    iterations: int
    """That the solver took."""
    converged: bool
    """Whether the gap reached the tolerance (2e-6 at best for a loss with kinks); without a gap, whether the
    gradient fell to where a curvature of 1e-4 would make it so."""

    def __repr__(self) -> str:
        return f"Comparator(total loss {self.total_loss:.6g} in {self.rounds} rounds, {shown_gap(self.gap)})"


def best_fixed(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    *,
    tolerance: float = 1e-9,
    start: Params | None = None,
) -> Comparator:
    """Static comparator: the one model that would have been best for all agents over all rounds.

    Args:
      objective: Loss and regulariser; without a regulariser no gap is certified.
      chunks: Function that iterates over the data, each chunk a pytree of arrays (rounds, agents, ...).
      spec: Shapes of one agent's batch in one round, as ``stream.batch_spec()``.
      tolerance: Wanted gap, in units of the average loss.
      start: First parameters; None: the objective's own.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.linear_drift(agents=3, dim=2)
      >>> objective = tacit.objectives.squared(l2=0.1)
      >>> tacit.metrics.best_fixed(objective, lambda: [stream.chunk(0, 20)], stream.batch_spec()).converged
      True
    """
    data = Data(chunks)
    first = objective.initial(spec) if start is None else start
    return _solve(objective, data, data.rounds, start=first, tolerance=tolerance)


def best_fixed_prefixes(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    rounds: Sequence[int],
    *,
    tolerance: float = 1e-9,
    solved: Callable[[int], None] = lambda count: None,
) -> list[Comparator]:
    """Static comparators on the first t rounds, for regret at each of these t.

    Args:
      objective: Loss and regulariser.
      chunks: Function that iterates over the data, each chunk a pytree of arrays (rounds, agents, ...).
      spec: Shapes of one agent's batch in one round.
      rounds: The t, in rising order: each solution is the next start.
      tolerance: Wanted gap, in units of the average loss.
      solved: Function that hears after each of them how many are done, for a progress bar.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.linear_drift(agents=3, dim=2)
      >>> objective, data = tacit.objectives.squared(l2=0.1), [stream.chunk(0, 20)]
      >>> found = tacit.metrics.best_fixed_prefixes(objective, lambda: data, stream.batch_spec(), [10, 20])
      >>> [each.rounds for each in found]
      [10, 20]
    """
    data = Data(chunks)
    found: list[Comparator] = []
    for last in rounds:
        if not 1 <= last <= data.rounds:
            raise ConfigError(
                f"prefix of {last} rounds: expected 1 to {data.rounds}, which is what the data have; "
                "leave it out or give more data"
            )
        first = found[-1].params if found else objective.initial(spec)
        found.append(_solve(objective, data, last, start=first, tolerance=tolerance))
        solved(len(found))
    return found


def _solve(objective: Objective, data: Data, rounds: int, *, start: Params, tolerance: float) -> Comparator:
    positive("tolerance", tolerance, "1e-9 is the default")
    bound = _Bound(certified_regulariser(objective))
    vectors = Vectors.of(start)
    if objective.smoothed is None:
        wanted = tolerance
        stages = [(objective.loss, tolerance)]
    else:
        last = max(tolerance / 2, SMALLEST_MU)
        wanted = 2 * last
        stages = [(objective.smoothed(mu), mu) for mu in smoothing_levels(last)]

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


def shown_gap(gap: float | None) -> str:
    """Return a certified gap in words."""
    return "no certified gap" if gap is None else f"gap at most {gap:.1e}"


def smoothing_levels(last: float) -> list[float]:
    """Return 0.1, 0.01, ... down to `last`."""
    steps = max(math.ceil(math.log10(0.1 / last) - 1e-9), 0)
    return [0.1 / 10**step for step in range(steps)] + [last]


class _Bound(NamedTuple):
    """Bounds that the regulariser gives on the distance from the optimum."""

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
