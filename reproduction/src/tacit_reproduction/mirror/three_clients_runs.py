"""Runs of `omd-three-clients`: three clients, their data, and the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import inverse, mirror_descent
from tacit.core.contract import Mechanism, Schedule
from tacit.graphs import Graph, from_matrix, perron
from tacit.metrics import best_fixed_within
from tacit.privacy import bounded_laplace, laplace, unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.streams import Batch, Stream, from_function
from tacit_reproduction.finished import finished_run

Floats = NDArray[np.float64]
NoiseName = Literal["none", "bounded", "laplace"]
StartName = Literal["uniform", "own"]
StepName = Literal["text", "matched"]
DataName = Literal["text", "apart"]

CLIENTS, DIMENSIONS, GAMMA, EPSILON = 3, 5, 0.1, 0.1
WEIGHTS = np.array([[0.2, 0.5, 0.3], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]])
"""Row i: what client i hears; the text prints the transpose."""
OWN_STARTS = np.array([[0.5, 0, 0, 0.25, 0.25], [0.25, 0.125, 0.125, 0.25, 0.25], [0.2, 0.1, 0.4, 0.2, 0.1]])
UNIFORM = np.full((CLIENTS, DIMENSIONS), 1 / DIMENSIONS)
"""The text prints [1/5, 1/5, 1/5, 1/5, 2/5] for client 3, which is no distribution."""
MATCHED = 2 * DIMENSIONS / GAMMA
"""At the uniform vector the regulariser curves by gamma / d in units of the entropy's curvature, and 2 d / (gamma t) is
the step of a loss that is strongly convex by so much. It begins at 1, as the text's does: a first step of 100 would
throw everybody into a corner."""
STEPS: dict[StepName, Schedule] = {"text": inverse(1.0), "matched": lambda t: MATCHED / (t + (MATCHED - 1))}
STEPS_IN_WORDS: dict[StepName, str] = {
    "text": "eta_t = 1/t",
    "matched": f"eta_t = {MATCHED:g}/(t + {MATCHED - 1:g})",
}
MEANS_APART = 2.0
"""Of clients that differ: client i's labels show in coordinate i alone, where features have mean 2 y."""
OBJECTIVE = objectives.logistic(l2=GAMMA)
ENTROPY = objectives.entropy()
SEEDS_APART = 1000


class _Counted(NamedTuple):
    """A batch, and how much its client counts."""

    x: Any
    y: Any
    share: Any
    weight: Any = None


def _counted_loss(params: Any, batch: Any) -> Any:
    return batch.share * OBJECTIVE.loss(params, batch)


COUNTED = objectives.from_loss(_counted_loss, np.zeros(DIMENSIONS, np.float32))


class Design(NamedTuple):
    """The extent of the experiment."""

    horizons: tuple[int, ...]
    seeds: int
    points: int
    """Rounds at which the regret is taken, each against the best vector of that prefix."""
    limit_rounds: int
    """Of the runs that show where biased and unbiased weights lead."""


FULL = Design(horizons=(50, 500, 5000), seeds=50, points=7, limit_rounds=20_000)
QUICK = Design(horizons=(50, 2000), seeds=10, points=5, limit_rounds=4000)
RECORDED = 50
"""Recorded rounds of a run: at T = 50, every one."""


class Cell(NamedTuple):
    """One setting of the text's experiment."""

    rounds: int
    noise: NoiseName
    start: StartName
    step: StepName


class Outcome(NamedTuple):
    """Results of a cell."""

    at: NDArray[np.int64]
    """(k,) recorded rounds; the first is 0, the start."""
    models: Floats
    """(seeds, k, clients, d)."""
    regret_rounds: NDArray[np.int64]
    regret: Floats
    """(seeds, points) per client and round."""
    certified: float
    """The comparator's average loss is above the optimum by no more than this."""
    best: Floats
    """(seeds, d) the best vector of the whole run."""
    privacy: RunPrivacy


class Limit(NamedTuple):
    """Results of one form of the weights: distances of the clients' last models, mean over clients, (seeds,) each."""

    to_true: Floats
    """From the optimum of the plain sum of all clients' losses."""
    to_weighted: Floats
    """From that of the sum in which each client counts as the Perron vector has it."""
    apart: Floats
    """Distance of the two optima."""
    begun: Floats
    """Distance of the start from the plain optimum."""
    privacy: RunPrivacy


class LimitCell(NamedTuple):
    """One setting of the comparison of limits."""

    data: DataName
    noise: NoiseName
    unbiased: bool


class Evidence(NamedTuple):
    """All that was measured."""

    cells: Mapping[Cell, Outcome]
    limits: Mapping[LimitCell, Limit]
    record_level: Mapping[int, RunPrivacy]
    """Horizon -> what the text's bounded noise promises where a whole record may differ."""


def text_stream(rounds: int, seed: int) -> Stream:
    """Labels +-1, features N(y + t/2, 1) brought to length 1."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], (rounds, CLIENTS))
    drift = 0.5 * np.arange(1, rounds + 1)[:, None, None]
    return _stream(y[..., None] + drift + rng.standard_normal((rounds, CLIENTS, DIMENSIONS)), y, "three clients")


def apart_stream(rounds: int, seed: int) -> Stream:
    """Clients that differ and do not drift: the label shows in a coordinate of the client's own."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], (rounds, CLIENTS))
    means = MEANS_APART * np.eye(CLIENTS, DIMENSIONS)
    features = y[..., None] * means + rng.standard_normal((rounds, CLIENTS, DIMENSIONS))
    return _stream(features, y, "three clients that differ")


def _stream(features: Floats, y: Floats, name: str) -> Stream:
    x = (features / np.linalg.norm(features, axis=-1, keepdims=True)).astype(np.float32)
    labels = y.astype(np.float32)
    return from_function(lambda a, b: Batch(x[a:b], labels[a:b]), agents=CLIENTS, rounds=len(x), name=name)


def network(unbiased: bool = False) -> Graph:
    """Return the text's digraph; the unbiased form takes its printed matrix, whose columns sum to 1, as it stands."""
    return from_matrix(WEIGHTS.T if unbiased else WEIGHTS)


def mechanism(noise: NoiseName, rounds: int) -> Mechanism:
    """Return the text's bounded noise, Laplace noise for whole records, or none."""
    if noise == "bounded":
        return bounded_laplace(EPSILON, rounds)
    return laplace(EPSILON, 1.0, perturbs="gradient") if noise == "laplace" else unprotected


def cells(design: Design, rounds: int) -> list[Cell]:
    """Return the settings of one horizon; the matched step is for the longest alone."""
    steps: list[StepName] = ["text", "matched"] if rounds == max(design.horizons) else ["text"]
    noises: tuple[NoiseName, ...] = ("none", "bounded", "laplace")
    starts: tuple[StartName, ...] = ("uniform", "own")
    return [Cell(rounds, noise, start, step) for step in steps for noise in noises for start in starts]


def run_horizon(task: tuple[Design, int, int]) -> tuple[dict[Cell, Outcome], RunPrivacy]:
    """Run all settings of one horizon on the same streams; also book the text's noise for whole records."""
    design, rounds, first = task
    streams = {seed: text_stream(rounds, seed) for seed in range(first, first + design.seeds)}
    best = np.stack([_best(stream, rounds) for stream in streams.values()])
    found = {cell: _run(cell, design, streams, best) for cell in cells(design, rounds)}
    return found, _booked_for_records(rounds, streams[first])


def _run(cell: Cell, design: Design, streams: Mapping[int, Stream], best: Floats) -> Outcome:
    starts = UNIFORM if cell.start == "uniform" else OWN_STARTS
    method = mirror_descent(OBJECTIVE, STEPS[cell.step], mechanism(cell.noise, cell.rounds), ENTROPY)
    run = finished_run(
        method,
        network(),
        lambda seed: streams[seed],
        rounds=cell.rounds,
        repeats=len(streams),
        seed=min(streams),
        start=lambda client: starts[client],
        record={"models": lambda models: models},
        record_every=max(1, cell.rounds // RECORDED),
    )
    curve = run.regret(design.points)
    models = np.asarray(run.recorded["models"], np.float64)
    begun = np.broadcast_to(starts, (len(models), 1, *starts.shape))
    return Outcome(
        np.concatenate([[0], run.recorded_rounds]),
        np.concatenate([begun, models], axis=1),
        curve.rounds,
        curve.per_agent_round,
        np.inf if curve.gap is None else curve.gap,
        best,
        run.privacy,
    )


def _booked_for_records(rounds: int, stream: Stream) -> RunPrivacy:
    """The same noise, asked for what it does for a record: d components may move by 1 each, hence d times eps."""
    same = bounded_laplace(DIMENSIONS * EPSILON, rounds, adjacency="record")
    method = mirror_descent(OBJECTIVE, STEPS["text"], same, ENTROPY)
    return finished_run(method, network(), stream, rounds=rounds).privacy


def run_limits(task: tuple[Design, DataName, int]) -> dict[LimitCell, Limit]:
    """Run both forms of the weights on the same streams, and solve for both optima."""
    design, data, first = task
    rounds, seeds = design.limit_rounds, range(first, first + design.seeds)
    streams = {seed: (text_stream if data == "text" else apart_stream)(rounds, seed) for seed in seeds}
    shares = CLIENTS * np.asarray(perron(network()).left, np.float64)
    plain = np.stack([_best(stream, rounds) for stream in streams.values()])
    weighted = np.stack([_best(stream, rounds, shares) for stream in streams.values()])
    wanted = [LimitCell(data, "none", False), LimitCell(data, "none", True)]
    if data == "apart":
        wanted += [LimitCell(data, "bounded", False), LimitCell(data, "laplace", False)]
    return {cell: _limit(cell, streams, plain, weighted) for cell in wanted}


def _limit(cell: LimitCell, streams: Mapping[int, Stream], plain: Floats, weighted: Floats) -> Limit:
    rounds = next(iter(streams.values())).rounds or 0
    noise = mechanism(cell.noise, rounds)
    run = finished_run(
        mirror_descent(OBJECTIVE, STEPS["matched"], noise, ENTROPY, unbiased=cell.unbiased),
        network(cell.unbiased),
        lambda seed: streams[seed],
        rounds=rounds,
        repeats=len(streams),
        seed=min(streams),
        record_every=rounds,
    )
    models = np.asarray(run.models, np.float64)

    def distance(points: Floats) -> Floats:
        return np.asarray(np.linalg.norm(models - points[:, None], axis=-1).mean(axis=1))

    return Limit(
        distance(plain),
        distance(weighted),
        np.linalg.norm(plain - weighted, axis=-1),
        np.linalg.norm(plain - UNIFORM[0], axis=-1),
        run.privacy,
    )


def _best(stream: Stream, rounds: int, shares: Floats | None = None) -> Floats:
    """Return the vector of the simplex that is best for all rounds, clients counted by their shares."""
    whole, spec = stream.chunk(0, rounds), stream.batch_spec()
    if shares is None:
        found = best_fixed_within(OBJECTIVE, lambda: iter([whole]), spec, [rounds], within=ENTROPY.within)
    else:
        counted = _Counted(whole.x, whole.y, np.broadcast_to(shares, whole.y.shape).astype(np.float32))
        of_one = _Counted(spec.x, spec.y, spec.y)
        found = best_fixed_within(COUNTED, lambda: iter([counted]), of_one, [rounds], within=ENTROPY.within)
    return np.asarray(found[0].params, np.float64)
