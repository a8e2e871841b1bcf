"""Runs of `omd-dynamic`: a target that turns at some speed, clients that stay away at will, and the measurements.

Round t's target w*(t) goes around a circle. Every client has a batch of noisy readings y = <x, w*(t)> + e of it, with
the noise of each round made orthogonal to its features (e <- e - X (X'X)^-1 X'e over all clients' readings). So the
least-squares optimum of the round's total loss is w*(t) itself: the path length is that of the target alone, where
plain noise would make the optimum jump from round to round and add a term that grows with T to every path length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import dynamic_mirror_descent, local_online
from tacit.core.contract import Algorithm
from tacit.core.errors import RequirementError
from tacit.graphs import Attendance, Graph, OptOut, random_digraph
from tacit.objectives import MirrorMap
from tacit.privacy import laplace, unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.streams import Batch, Stream, from_function
from tacit_reproduction.finished import finished_run

Floats = NDArray[np.float64]
GeometryName = Literal["ball", "simplex"]
CLIENTS, DIMENSIONS, BATCH, LINKS = 16, 5, 4, 4
"""Links: out-degrees of the random digraph are 1 to 4."""
SPEEDS = (0.0, 0.003, 0.01, 0.03, 0.1)
"""By how many radians the target turns in a round."""
MOST_AWAY = 0.6
PRIVATE = 8.0
"""The epsilon at which clients stay away as well."""
COMPARED = 0.01
"""The speed at which privacy is compared."""
WINDOW = 150
"""B: the links of any 150 rounds in a row connect all clients; every run is checked for it."""
ALONE = (1.0, 0.5, 0.25)
"""Steps of a client alone, in units of the others' step; the best of them counts."""
OBJECTIVE = objectives.squared()
SEEDS_APART = 1000


class Geometry(NamedTuple):
    """Set of models, and the circle on which the target moves."""

    mirror: MirrorMap
    centre: float
    """Of every coordinate; also where runs start."""
    radius: float
    noise: float
    """Standard deviation of a reading's noise; gradients of records are clipped to the same length."""
    step: float
    """c of eta = c / sqrt(T)."""


GEOMETRIES: dict[GeometryName, Geometry] = {
    "ball": Geometry(objectives.euclidean_ball(2.0), 0.0, 1.0, 2.0, 8.0),
    "simplex": Geometry(objectives.entropy(), 1 / DIMENSIONS, 0.19, 0.5, 40.0),
}


class Design(NamedTuple):
    """The extent of the experiment."""

    horizons: tuple[int, ...]
    """Clients stay away, and noise is added, at the last one alone."""
    seeds: int
    away: tuple[float, ...]
    """With which probability a client stays away from a round."""
    epsilons: tuple[float, ...]
    """Of Laplace noise for whole records."""


FULL = Design((500, 1000, 2000), 20, (0.0, 0.2, 0.4, MOST_AWAY), (PRIVATE, 4.0, 2.0, 1.0))
QUICK = Design((250, 500, 1000), 10, (0.0, MOST_AWAY), (PRIVATE, 1.0))


class Cell(NamedTuple):
    """One setting; all speeds are run at once."""

    geometry: GeometryName
    rounds: int
    away: float = 0.0
    epsilon: float | None = None


class Outcome(NamedTuple):
    """Results of a cell."""

    regret: Floats
    """(speeds, seeds) total dynamic regret per client."""
    privacy: RunPrivacy


class Ground(NamedTuple):
    """Values that all cells of a geometry and a horizon share, (speeds, seeds) each."""

    path_length: Floats
    idle: Floats
    """Total dynamic regret per client of never learning: the model in which runs start."""
    certified: float
    """In no round is the comparator's average loss above the optimum by more than this."""
    off_target: float
    """By how much the path length differs from the target's own, at most, as a share of it."""
    alone: Floats | None
    """That of clients alone, for each the best of three steps; only on the ball, at the last horizon."""


class Refusal(NamedTuple):
    """Result of a run whose clients stay away for too long."""

    window: int
    first: int
    last: int
    """Rounds from which half of the clients stay away."""
    message: str | None
    """None: it was not refused."""
    longer: int
    longer_runs: bool
    """Whether the same run goes through where a longer window is declared."""


class Evidence(NamedTuple):
    """All that was measured."""

    cells: Mapping[Cell, Outcome]
    grounds: Mapping[tuple[GeometryName, int], Ground]
    refusal: Refusal


def target(geometry: Geometry, speed: float, rounds: int, seed: int) -> Floats:
    """Return (rounds, d) where the target is: on a circle in a random plane, orthogonal to (1, ..., 1)."""
    rng = np.random.default_rng((seed, 0))
    plane, _ = np.linalg.qr(np.column_stack([np.ones(DIMENSIONS), rng.standard_normal((DIMENSIONS, 2))]))
    angle = speed * np.arange(rounds)[:, None]
    around = np.cos(angle) * plane[:, 1] + np.sin(angle) * plane[:, 2]
    return np.asarray(geometry.centre + geometry.radius * around)


def drifting(geometry: Geometry, speed: float, rounds: int, seed: int) -> Stream:
    """Return readings of a target; features and noise of a seed are the same at every speed."""
    rng = np.random.default_rng((seed, 1))
    x = rng.standard_normal((rounds, CLIENTS * BATCH, DIMENSIONS)) / np.sqrt(DIMENSIONS)
    noise = geometry.noise * rng.standard_normal((rounds, CLIENTS * BATCH))
    moment = np.einsum("tmd,tm->td", x, noise)
    fitted = np.linalg.solve(np.einsum("tmd,tmk->tdk", x, x), moment[..., None])[..., 0]
    truth = target(geometry, speed, rounds, seed)
    y = noise + np.einsum("tmd,td->tm", x, truth - fitted)
    features = x.reshape(rounds, CLIENTS, BATCH, DIMENSIONS).astype(np.float32)
    labels = y.reshape(rounds, CLIENTS, BATCH).astype(np.float32)
    return from_function(lambda a, b: Batch(features[a:b], labels[a:b]), agents=CLIENTS, rounds=rounds, name="drifting")


def network(seed: int, away: float) -> Graph:
    """Return a strongly connected digraph whose members stay away at will."""
    graph = random_digraph(CLIENTS, LINKS, seed)
    return graph.with_dynamics(OptOut(away)) if away else graph


def method(geometry: Geometry, rounds: int, epsilon: float | None) -> Algorithm:
    """Return the text's method with eta = c / sqrt(T), private for whole records or not."""
    noise = unprotected if epsilon is None else laplace(epsilon, geometry.noise, perturbs="gradient")
    step = geometry.step / rounds**0.5
    return dynamic_mirror_descent(OBJECTIVE, step, noise, geometry.mirror, window=WINDOW)


def cells(design: Design, name: GeometryName, rounds: int) -> list[Cell]:
    """Return the settings of one geometry and horizon."""
    if rounds != max(design.horizons):
        return [Cell(name, rounds)]
    staying_away = [Cell(name, rounds, away) for away in design.away]
    private = [Cell(name, rounds, 0.0, epsilon) for epsilon in design.epsilons]
    return [*staying_away, *private, Cell(name, rounds, MOST_AWAY, PRIVATE)]


def run_ground(task: tuple[Design, GeometryName, int, int]) -> tuple[dict[Cell, Outcome], Ground]:
    """Run all settings of one geometry and horizon on the same streams."""
    design, name, rounds, first = task
    geometry, seeds = GEOMETRIES[name], range(first, first + design.seeds)
    # One repeat for each speed and seed, speed by speed: the simulator runs them all at once.
    places = [(speed, seed) for speed in SPEEDS for seed in seeds]
    streams = [drifting(geometry, speed, rounds, seed) for speed, seed in places]

    def shaped(values: Floats) -> Floats:
        return np.asarray(values, np.float64).reshape(len(SPEEDS), design.seeds)

    def run(algorithm: Algorithm, away: float = 0.0) -> Run:
        return finished_run(
            algorithm,
            lambda seed: network(places[seed - first][1], away),
            lambda seed: streams[seed - first],
            rounds=rounds,
            repeats=len(places),
            seed=first,
            record_every=rounds,
        )

    base = run(method(geometry, rounds, None))
    curve = base.dynamic_regret()
    regret = shaped(curve.total[:, -1] / CLIENTS)
    best = shaped(base.per_round["loss"].sum(axis=1, dtype=np.float64)) - regret

    def regret_of(other: Run) -> Floats:
        return shaped(other.per_round["loss"].sum(axis=1, dtype=np.float64)) - best

    found = {Cell(name, rounds): Outcome(regret, base.privacy)}
    for cell in cells(design, name, rounds)[1:]:
        other = run(method(geometry, rounds, cell.epsilon), cell.away)
        found[cell] = Outcome(regret_of(other), other.privacy)
    alone = None
    if name == "ball" and rounds == max(design.horizons):
        step = geometry.step / rounds**0.5
        alone = np.min([regret_of(run(local_online(OBJECTIVE, share * step))) for share in ALONE], axis=0)
    moved = shaped(curve.path_length[:, -1])
    own = np.array([[_length(target(geometry, v, rounds, seed)) for seed in seeds] for v in SPEEDS])
    off = float(np.max(np.abs(moved - own)[own > 0] / own[own > 0]))
    idle = shaped(np.array([_idle(geometry, stream, rounds) for stream in streams])) - best
    return found, Ground(moved, idle, np.inf if curve.gap is None else curve.gap, off, alone)


def _length(path: Floats) -> float:
    return float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))


def _idle(geometry: Geometry, stream: Stream, rounds: int) -> float:
    """Return the loss per client of the first model, kept throughout."""
    whole = stream.chunk(0, rounds)
    short = whole.y - geometry.centre * whole.x.sum(axis=-1)
    return float(0.5 * np.mean(np.square(short, dtype=np.float64)) * rounds)


def refused(window: int = 20, first: int = 31, last: int = 70, rounds: int = 100) -> Refusal:
    """Let half of the clients stay away for longer than the declared window, and see what becomes of the run."""
    geometry = GEOMETRIES["ball"]
    present = np.ones((rounds, CLIENTS), bool)
    present[first - 1 : last, : CLIENTS // 2] = False
    graph = random_digraph(CLIENTS, LINKS, 0).with_dynamics(Attendance(present))
    stream = drifting(geometry, COMPARED, rounds, 0)

    def attempt(declared: int) -> str | None:
        algorithm = method(geometry, rounds, None)._replace(window=declared)
        try:
            finished_run(algorithm, graph, stream, rounds=rounds)
        except RequirementError as refusal:
            return str(refusal)
        return None

    longer = last - first + 2
    return Refusal(window, first, last, attempt(window), longer, attempt(longer) is None)
