"""Study `omd-dynamic`: mirror descent after a moving target, clients away at will (Dissertation, ch. 5).

Round t's target w*(t) goes around a circle. Every client has a batch of noisy readings y = <x, w*(t)> + e of it, with
the noise of each round made orthogonal to its features (e <- e - X (X'X)^-1 X'e over all clients' readings). So the
best model of the round is w*(t) itself: with plain noise it would jump from round to round, and add a term that grows
with T to every path length.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.algorithms import dynamic_mirror_descent
from tacit.graphs import OptOut, random_digraph
from tacit.objectives import MirrorMap
from tacit.streams import Batch, Stream, from_function
from tacit_reproduction.dissertation.growth import jackknife
from tacit_reproduction.figures import curves
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged

CLIENTS, DIMENSIONS, BATCH, LINKS = 16, 5, 4, 4  # links: out-degrees of the random digraph are 1 to 4
SPEEDS = (0.0, 0.003, 0.01, 0.03, 0.1)  # by how many radians the target turns in a round
MOST_AWAY = 0.6
WINDOW = 150  # B: the links of any 150 rounds in a row connect all clients; every run is checked for it
SPARE = 0.1  # by which share of it a ratio may be above another and still not be called larger


class Geometry(NamedTuple):  # set of models, and the circle on which the target moves
    mirror: MirrorMap
    centre: float  # of every coordinate; also where runs start
    radius: float
    noise: float  # standard deviation of a reading's noise
    step: float  # c of eta = c / sqrt(T)


GEOMETRIES = {
    "Euclidean ball": Geometry(objectives.euclidean_ball(2.0), 0.0, 1.0, 2.0, 8.0),
    "simplex, negative entropy": Geometry(objectives.entropy(), 1 / DIMENSIONS, 0.19, 0.5, 40.0),
}


class Cell(NamedTuple):  # one setting; all speeds are run at once
    geometry: str
    rounds: int
    away: float = 0.0  # probability with which a client stays away from a round


def cells(quick: bool) -> list[Cell]:
    horizons = (1000, 500, 250) if quick else (2000, 1000, 500)
    away = [Cell(name, horizons[0], MOST_AWAY) for name in GEOMETRIES]
    return [*away, *(Cell(name, rounds) for rounds in horizons for name in GEOMETRIES)]


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


def loss(stream: Stream, models: Floats) -> float:
    """Return the loss per client of one model for each round, (rounds, d), in sum over the rounds."""
    whole = stream.chunk(0, len(models))
    short = np.float64(whole.y) - np.einsum("tabd,td->tab", np.float64(whole.x), models)
    return float(0.5 * np.square(short).mean(axis=(1, 2)).sum())


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    cell, seeds, first = task
    geometry = GEOMETRIES[cell.geometry]
    # One repeat for each speed and seed, speed by speed: the simulator runs them all at once.
    places = [(speed, seed) for speed in SPEEDS for seed in range(first, first + seeds)]
    streams = [drifting(geometry, speed, cell.rounds, seed) for speed, seed in places]

    graphs = [random_digraph(CLIENTS, LINKS, seed) for _, seed in places]
    step = geometry.step / cell.rounds**0.5
    run = finished_run(
        dynamic_mirror_descent(objectives.squared(), step, mirror=geometry.mirror, window=WINDOW),
        lambda repeat: graphs[repeat - first].with_dynamics(OptOut(cell.away)) if cell.away else graphs[repeat - first],
        lambda repeat: streams[repeat - first], rounds=cell.rounds, repeats=len(places), seed=first,
        record_every=cell.rounds)  # fmt: skip
    paths = [target(geometry, speed, cell.rounds, seed) for speed, seed in places]
    best = np.array([loss(*each) for each in zip(streams, paths, strict=True)])
    begun = np.full((cell.rounds, DIMENSIONS), geometry.centre)
    lost = np.float64(run.per_round["loss"]).sum(axis=1) - best
    never = [loss(stream, begun) for stream in streams] - best
    lengths = [np.linalg.norm(np.diff(path, axis=0), axis=1).sum() for path in paths]
    regret, idle, length = (np.reshape(each, (len(SPEEDS), seeds)).T for each in (lost, never, lengths))
    ratio = regret / (math.sqrt(cell.rounds) * (1 + length))
    moving = {"moving": regret[:, 1:], "path": length.mean(axis=0)[1:]}  # who stands still has no logarithm
    return {"regret": regret, "idle": idle, "length": length, "ratio": ratio, "speeds": SPEEDS, **moving}


def judge(results: Results) -> Judgement:
    horizons = sorted(results.levels("rounds"))
    present, last = results.where(away=0.0), results.where(rounds=horizons[-1])

    def over_horizons(measure: str, name: str) -> Floats:
        """(seeds, horizons, speeds)."""
        return np.stack([present.of(measure, geometry=name, rounds=rounds) for rounds in horizons], axis=1)

    def follows(names: list[str]) -> list[Claim]:
        regret, ratio = ({name: over_horizons(measure, name) for name in names} for measure in ("regret", "ratio"))
        flat = {name: found.reshape(len(found), -1) for name, found in ratio.items()}
        return [
            judged(
                "Dynamic regret grows with the path length",
                [Pair(f"{name}, {slow:g} under {fast:g} rad per round", low, high) for name in names
                 for (slow, low), (fast, high) in pairwise(zip(SPEEDS, regret[name][:, -1].T, strict=True))],
                below(), seen_in="path",
                text="(5.25): the bound has the term M V A_T / eta, linear in the path length; nothing was run"),
            judged(
                "Regret / (sqrt(T) (1 + A_T)) is at no speed and horizon above that of the shortest run without drift "
                f"by more than {SPARE:.0%}",
                [Pair(f"{name}, largest", found[:, 1:].max(axis=1), (1 + SPARE) * found[:, 0])
                 for name, found in flat.items()],
                below(), seen_in="order",
                text="(5.25): order sqrt(T) (1 + A_T) for eta = c / sqrt(T), as we read it; nothing was run"),
            judged(
                "Without drift dynamic regret grows more slowly than T",
                [Pair(f"{name}, slope", jackknife(horizons, found[:, :, 0]), 1.0) for name, found in regret.items()],
                below(), seen_in="order", text="remark after (5.25): regret is sublinear; nothing was run"),
        ]  # fmt: skip

    claims = follows(list(GEOMETRIES))
    learns = judged(
        f"With {MOST_AWAY:.0%} of the clients away regret stays below that of never learning, up to {SPEEDS[-2]:g} rad",
        [Pair(f"{name}, {SPEEDS[k]:g} rad", last.of("regret", geometry=name, away=MOST_AWAY)[:, k],
              last.of("idle", geometry=name, away=0.0)[:, k]) for name in GEOMETRIES for k in range(len(SPEEDS) - 1)],
        below(), seen_in="path")  # fmt: skip

    def listed(measure: str, name: str) -> str:
        return ", ".join(f"{value:.3g}" for value in last.of(measure, geometry=name, away=0.0).mean(axis=0))

    ours = [f"{name} {listed('regret', name)} at A_T = {listed('length', name)}" for name in GEOMETRIES]
    headlines = [
        headline(
            "Dynamic regret follows the path length of a moving target", place="(5.25)",
            text="a bound of order sqrt(T) (1 + A_T) for eta = c / sqrt(T); nothing was run",
            ours=f"regret per client, T = {horizons[-1]:,}: {'; '.join(ours)}",
            why="Both geometries that the text names are run. For A_T beyond sqrt(T) the bound is more than any model "
            "can lose, and its term 2 T L^2 V eta_0 (...) is linear in T unless eta_0 falls with T.",
            claims=claims, sweep={name: follows([name]) for name in GEOMETRIES}, seen_in="path")]  # fmt: skip
    words = {0.0: "everybody present", MOST_AWAY: f"{MOST_AWAY:.0%} away"}
    axes: dict[str, Any] = {"panels": "geometry", "log_y": True, "words": words}
    figures = [
        curves(last, "path", "Dynamic regret and path length", "Longest horizon. The text has a bound only.",
               "moving", lines="away", at="path", x="path length A_T", y="dynamic regret", log_x=True, **axes),
        curves(present, "order", "Regret in units of the bound's order", "Regret per client / (sqrt(T) (1 + A_T)).",
               "ratio", lines="rounds", at="speeds", x="radians per round", **axes)]  # fmt: skip
    return Judgement([*claims, learns], headlines, figures)


STUDY = Study(
    name="omd-dynamic", title="Mirror descent after a moving target", source="Dissertation, ch. 5, bound (5.25)",
    minutes=2, measure=over(cells, run, seeds=(20, 10)), judge=judge,
    method=f"""
{CLIENTS} clients on a random strongly connected digraph; in each round every client stays away with the given
probability, the weights are rebuilt from who is present, and the absent keep their models. Losses of the absent count.
Every run declares B = {WINDOW} and is checked for it on its very rounds. Squared loss of {BATCH} readings per client
and round; eta = c / sqrt(T), c = 8 on the ball and 40 on the simplex. Dynamic regret is the loss of all clients at
prediction time minus that of the target, which is the best model of every round, in sum over the rounds, per client.
All settings of a seed meet the same features, noise of readings and links.""")  # fmt: skip
