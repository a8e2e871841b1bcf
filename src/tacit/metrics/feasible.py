"""The static comparator in a convex set and under constraints: what a method that keeps both is measured against.

x*_t is the argmin over x in the set of the sum over rounds 1..t and agents of f_is(x), where every agent's every K
rounds in a row up to t keep the constraint: the sum of c_is(x) over them is at most 0. K = 1 is the benchmark of the
Dissertation, ch. 3, a longer window that of ch. 4. Losses and constraints must be convex.

Newton's method: the quadratic model of the loss is minimised in the set and under cuts, with new cuts until no window
is broken. Whatever the solver did, its multipliers lam >= 0 of cuts <row, x> <= limit prove a bound (a is the average
loss, l2 the coefficient of its regulariser, a_mu <= a stands in for a loss with kinks)::

    min a  >=  a_mu(x) + lam.(rows x - limits) + min_{v in set} <grad a_mu(x) + rows' lam, v - x> + (l2/2) ||v - x||^2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

import jax
import numpy as np

from tacit.core.checks import positive, whole_number
from tacit.core.contract import Batch, Objective, Params
from tacit.core.errors import ConfigError, DataError
from tacit.metrics.blocks import Chunks, Data, Loss, Vector, Vectors
from tacit.metrics.comparator import ASSUMED_CURVATURE, SMALLEST_MU, shown_gap, smoothing_levels
from tacit.metrics.lower_bound import LowerBound
from tacit.metrics.quadratic import Solution, minimise_quadratic, region
from tacit.metrics.windows import Windows
from tacit.objectives import Constraint, ConvexSet
from tacit.objectives.losses import certified_regulariser

Constraints = Mapping[str, Loss] | Iterable[Constraint]
"""Name -> c(params, batch), or constraints as such."""

ITERATIONS = 60
CUT_ROUNDS = 400
"""How often cuts are added to one quadratic programme at most."""
PROXIMAL = 1e-4
"""Addition to the curvature, in units of the slope over the set's extent: a linear loss has none."""
STALLED = 0.25
"""The second derivatives are computed anew where a step leaves more than this share of the gap."""
MOST_COORDINATES = 1000


class FeasibleComparator(NamedTuple):
    """The best fixed model that keeps set and constraints, with a certificate. Make it with `best_fixed_within`."""

    params: Params
    """In float64."""
    total_loss: float
    """Sum of f_it over the rounds and agents."""
    rounds: int
    """Over how many it is the best."""
    gap: float | None
    """Certified bound on how far the average loss lies above the optimum; None where none can be given: the set has no
    bounds, and the loss no regulariser."""
    violation: float
    """Largest sum over a window, per round of it; 0 where all are kept, and without constraints."""
    windows: int
    """How many cuts by windows the solver needed."""
    iterations: int
    """That the solver took."""
    converged: bool
    """Whether the gap reached the tolerance (2e-6 at best for a loss with kinks) and the violation too."""

    def __repr__(self) -> str:
        found = f"total loss {self.total_loss:.6g} in {self.rounds} rounds"
        return f"FeasibleComparator({found}, violation {self.violation:.1e}, {shown_gap(self.gap)})"


def best_fixed_within(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    rounds: Sequence[int],
    *,
    within: ConvexSet | None,
    constraints: Constraints = (),
    window: int | None = None,
    tolerance: float = 1e-7,
    solved: Callable[[int], None] = lambda count: None,
) -> list[FeasibleComparator]:
    """Static comparators in a convex set and under constraints, on the first t rounds for each t.

    Args:
      objective: Convex loss and regulariser.
      chunks: Function that iterates over the data, each chunk a pytree of arrays (rounds, agents, ...).
      spec: Shapes of one agent's batch in one round.
      rounds: The t, in rising order.
      within: The set; None: no bounds.
      constraints: Convex constraints, or name -> c(params, batch).
      window: K: every agent keeps every constraint over any K rounds in a row that end by t (none before t = K); None
        leaves the constraints out. A window that nothing in the set can keep is a DataError that names it.
      tolerance: Wanted gap, in units of the average loss, and of a constraint per round.
      solved: Function that hears after each of the t how many are done, for a progress bar.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.linear_drift(agents=3, dim=2)
      >>> objective, data = tacit.objectives.squared(l2=0.1), [stream.chunk(0, 20)]
      >>> ball = tacit.objectives.Ball(0.5)
      >>> found = tacit.metrics.best_fixed_within(objective, lambda: data, stream.batch_spec(), [20], within=ball)
      >>> found[0].converged
      True

    References:
      Dissertation, ch. 3 (K = 1) and ch. 4 (longer windows).
    """
    data = Data(chunks)
    for last in rounds:
        if not 1 <= last <= data.rounds:
            raise ConfigError(
                f"prefix of {last} rounds: expected 1 to {data.rounds}, which is what the data have; "
                "leave it out or give more data"
            )
    with jax.enable_x64(True):
        named = _by_name(constraints)
        solver = _Solver(objective, data, spec, within, named, window, tolerance, max(rounds, default=0))
        found = []
        for last in rounds:
            found.append(solver.solve(last))
            solved(len(found))
        return found


def check_feasible(
    objective: Objective,
    chunks: Chunks,
    spec: Batch,
    *,
    within: ConvexSet | None,
    constraints: Constraints,
    window: int,
    tolerance: float = 1e-7,
) -> float:
    """Value that every window of all rounds can be kept below, per round of it: <= 0, or nearly so.

    If nothing in the set keeps every window, a DataError names one. Of the objective only the parameters' shapes are
    used, so that this can be asked before a run.

    Args:
      objective: The objective.
      chunks: Function that iterates over the data, each chunk a pytree of arrays (rounds, agents, ...).
      spec: Shapes of one agent's batch in one round.
      within: The set; None: no bounds.
      constraints: Convex constraints, or name -> c(params, batch).
      window: K, the rounds of a window.
      tolerance: Precision, per round of a window.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.linear_drift(agents=3, dim=2)
      >>> limit = tacit.objectives.size_limit(1.0)
      >>> tacit.metrics.check_feasible(
      ...     tacit.objectives.squared(), lambda: [stream.chunk(0, 5)], stream.batch_spec(),
      ...     within=tacit.objectives.Ball(2.0), constraints=[limit], window=1,
      ... ) <= 0
      True
    """
    data = Data(chunks)
    with jax.enable_x64(True):
        solver = _Solver(objective, data, spec, within, _by_name(constraints), window, tolerance, data.rounds)
        while True:
            largest = solver.least_violation(data.rounds, 0.0)
            if solver.windows.confirm(solver.x, data.rounds):
                return largest / window


def _by_name(constraints: Constraints) -> dict[str, Loss]:
    if isinstance(constraints, Mapping):
        return dict(constraints)
    return {each.name: each.value for each in constraints}


class _Solver:
    """The programme for all prefixes: each solution is the next start, and cuts stay valid as windows are added."""

    def __init__(
        self,
        objective: Objective,
        data: Data,
        spec: Batch,
        within: ConvexSet | None,
        constraints: dict[str, Loss],
        window: int | None,
        tolerance: float,
        rounds: int,
    ) -> None:
        positive("tolerance", tolerance, "1e-7 is the default")
        if window is not None:
            whole_number("window", window, "rounds, or None for no limits")
        if window is not None and not constraints:
            raise ConfigError(f"window = {window} without constraints: expected at least one; leave the window out")
        if window is not None and window > data.rounds:
            raise ConfigError(
                f"window = {window} with data of {data.rounds} rounds: expected at most that; a longer one never ends"
            )
        first = objective.initial(spec)
        self.objective, self.data, self.tolerance = objective, data, tolerance
        self.vectors = Vectors.of(first)
        size = self.vectors.size
        if size > MOST_COORDINATES:
            raise ConfigError(
                f"{size} parameters: expected at most {MOST_COORDINATES} for a comparator in a set or under "
                "constraints, whose second derivatives are computed; use a smaller model"
            )
        self.inside = region(within, size)
        known = certified_regulariser(objective)
        self.floor = LowerBound(self.vectors, within, 0.0 if known is None else known.l2)
        self.x = np.asarray(self.floor.nearest(self.vectors.vector(first)))
        self.home = self.x  # where windows were kept last, with room to spare
        # Any two points tell curved constraints from planes; what two points cannot tell is checked at the solution.
        apart = np.random.default_rng(0).normal(size=size) * (self.inside.extent or 1.0)
        probes = self.x, np.asarray(self.floor.nearest(self.x + apart))
        used = constraints if window is not None else {}
        self.windows = Windows(data, self.vectors, used, window or 1, probes, rounds)
        self.most = tolerance * self.windows.length  # of the sum over a window
        self.slack = 0.0

    def solve(self, last: int) -> FeasibleComparator:
        """Return the comparator of the first rounds."""
        stages, wanted, rest = [self.objective.loss], self.tolerance, 0.0
        if self.objective.smoothed is not None:
            rest = max(self.tolerance / 2, SMALLEST_MU)
            stages, wanted = [self.objective.smoothed(mu) for mu in smoothing_levels(rest)], 2 * rest
        iterations = 0
        while True:
            self.slack = max(self.least_violation(last, self.most / 2), 0.0)
            for loss in stages:
                found = self._minimise(loss, last, wanted - rest)
                iterations += found.iterations
            largest, _ = self.windows.cut(self.x, last, np.inf)
            if self.windows.confirm(self.x, last):
                break
        value, gap = found.value, found.gap
        if self.objective.smoothed is not None:
            value, _ = self._average(self.objective.loss, self.x, last)
            gap = None if gap is None else gap + max(value - found.value, 0.0)
        reached = found.stationary if gap is None else gap <= wanted
        return FeasibleComparator(
            self.vectors.tree(self.x),
            value * last * self.data.agents,
            last,
            gap,
            max(largest, 0.0) / self.windows.length,
            len(self.windows.rows),
            iterations,
            reached and largest <= self.most,
        )

    def least_violation(self, last: int, enough: float) -> float:
        """Move x to where no window's sum is above `enough`, or to the least there is; return the largest sum.

        The sum is one more coordinate that is to be small: rows x - limits <= sum. Its multipliers add up to 1 and
        prove a bound as those of a loss do.
        """
        windows = self.windows
        largest, _ = windows.cut(self.x, last, np.inf)
        if largest <= enough:
            return largest
        room, _ = windows.cut(self.home, last, np.inf)
        if room <= 0:
            # The largest sum is convex: on the way home it is nowhere above the straight line.
            self.x = self.x + largest / (largest - room) * (self.home - self.x)
            return windows.cut(self.x, last, np.inf)[0]
        windows.cut(self.x, last, 0.0)
        tall = self.inside.with_height()
        down = np.append(np.zeros(self.x.size), 1.0)
        steepest = max(float(np.max(np.linalg.norm(windows.rows, axis=1), initial=0)), 1e-300)
        extent = self.inside.extent or 1 + float(np.linalg.norm(self.x))
        curvature = PROXIMAL * np.append(np.full(self.x.size, steepest / extent), 1 / (steepest * extent))
        flat = self.floor._replace(l2=0.0)
        share, bound = np.zeros(0), -np.inf
        for _ in range(CUT_ROUNDS):
            rows = np.hstack([windows.rows, -np.ones((len(windows.rows), 1))])
            centre = np.append(self.x, largest)
            found = minimise_quadratic(np.diag(curvature), down, centre, tall, rows, windows.limits)
            if found is None or not found.multipliers.sum() > 0:
                break
            share = found.multipliers / found.multipliers.sum()
            there = np.asarray(self.floor.nearest(found.x[:-1]))
            reached, new = windows.cut(there, last, found.x[-1] + self.most / 8)
            slope, rest = windows.rows[: len(share)].T @ share, float(share @ windows.limits[: len(share)])
            bound = max(bound, float(slope @ self.x) - rest + float(flat.least(self.x, slope)))
            moved = reached < largest
            if moved:
                self.x, largest = there, reached
            if largest <= 0 or (not new and not moved):
                break
            if largest - bound <= max(self.most / 4, 1e-9 * largest):
                break
        if largest > self.most:
            self._refuse(share, proved=bound > 0)
        self.home = self.x
        return largest

    def _refuse(self, share: Vector, proved: bool) -> NoReturn:
        worst = int(np.argmax(share)) if share.size else 0
        window = self.windows.windows[worst]
        others = len({self.windows.windows[each] for each in np.flatnonzero(share > 1e-6)} - {window})
        among = f", in conflict with {others} other window{'s' * (others > 1)}" if others > 0 else ""
        verdict = "cannot be kept" if proved else "is kept nowhere that was searched"
        raise DataError(
            f"constraint {window.constraint!r} {verdict}: agent {window.agent}, rounds {window.first} to "
            f"{window.last}: their sum is {self.windows.sum(window, self.x):.6g} at the least infeasible point{among}; "
            "expected at most 0; use a longer window, or a looser limit"
        )

    def _minimise(self, loss: Loss, last: int, wanted: float) -> _Minimum:
        """Move x, which keeps every window, to the minimum of a smooth loss over the first rounds."""
        rows = self.windows
        value, gradient = self._average(loss, self.x, last)
        if not math.isfinite(value):
            raise DataError(
                f"the average loss of rounds 1 to {last} is {value} at a point of the set: expected a number; "
                "check the data for NaN, and that the loss is finite in the set"
            )
        hessian: Vector | None = None
        lower, before, stationary, iterations = -np.inf, np.inf, False, 0
        while iterations < ITERATIONS:
            iterations += 1
            if hessian is None:
                hessian = self.data.hessian(loss, self.vectors, self.x, last)
            target = self._model_minimum(hessian, gradient, last)
            slope = gradient + rows.rows.T @ target.multipliers
            least = float(self.floor.least(self.x, slope))
            kept = float(target.multipliers @ (rows.limits - rows.rows @ self.x))
            gap = kept - least
            lower = max(lower, value - gap)
            stationary = bool(np.max(np.abs(slope)) <= math.sqrt(2 * ASSUMED_CURVATURE * wanted / slope.size))
            if gap <= wanted or (stationary and math.isinf(gap)):
                break
            moved = self._search(loss, last, value, gradient, target.x)
            if moved is None:
                break
            value, gradient, whole = moved
            if not whole or gap > STALLED * before:
                hessian = None
            before = gap
        gap = max(value - lower, 0.0)
        return _Minimum(value, gap if math.isfinite(gap) else None, stationary, iterations)

    def _model_minimum(self, hessian: Vector, gradient: Vector, last: int) -> Solution:
        """Return where the quadratic model around x is least with no window broken."""
        extent = self.inside.extent or 1 + float(np.linalg.norm(self.x))
        ridge = PROXIMAL * float(np.linalg.norm(gradient)) / extent + 1e-10 * float(np.max(np.abs(hessian))) + 1e-300
        curved = hessian + ridge * np.eye(self.x.size)
        allowed = (self.slack + self.most) / 2
        best = Solution(self.x, np.zeros(len(self.windows.rows)))
        for _ in range(CUT_ROUNDS):
            limits = self.windows.limits + self.slack
            try:
                found = minimise_quadratic(curved, gradient, self.x, self.inside, self.windows.rows, limits)
            except np.linalg.LinAlgError:
                raise ConfigError(
                    f"the loss of objective {self.objective.name!r} is not convex: expected no negative curvature; "
                    "a best model in a set or under constraints can be solved for with convex losses only"
                ) from None
            if found is None:  # x keeps all cuts, so that this is rounding
                break
            largest, new = self.windows.cut(found.x, last, allowed)
            missing = len(self.windows.rows) - len(found.multipliers)
            best = Solution(found.x, np.append(found.multipliers, np.zeros(missing)))
            if largest <= allowed or not new:
                break
        return best

    def _search(
        self, loss: Loss, last: int, value: float, gradient: Vector, target: Vector
    ) -> tuple[float, Vector, bool] | None:
        """Move x towards the target until the loss has fallen enough; None where it does not."""
        step = np.asarray(self.floor.nearest(target)) - self.x
        slope = float(gradient @ step)
        for halvings in range(30):
            there = self.x + step / 2**halvings
            new_value, new_gradient = self._average(loss, there, last)
            # Rounding in the sums must not keep the solver from a step whose slope says that it is right.
            rounding = 1e-14 * (1 + abs(value))
            if new_value <= value + 1e-4 * slope / 2**halvings + rounding and slope < 0:
                self.x = there
                return new_value, new_gradient, halvings == 0
        return None

    def _average(self, loss: Loss, x: Vector, last: int) -> tuple[float, Vector]:
        value, gradient = self.data.mean(loss, self.vectors.tree(x), last)
        return value, self.vectors.vector(gradient)


class _Minimum(NamedTuple):
    """Figures where the solver stopped, of the loss that it minimised."""

    value: float
    gap: float | None
    stationary: bool
    iterations: int
