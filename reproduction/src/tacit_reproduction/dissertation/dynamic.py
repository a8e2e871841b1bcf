"""Study `omd-dynamic`: mirror descent after a moving target, clients away at will (Dissertation, ch. 5).

Round t's target w*(t) goes around a circle. Every client has a batch of noisy readings y = <x, w*(t)> + e of it, with
the noise of each round made orthogonal to its features (e <- e - X (X'X)^-1 X'e over all clients' readings). So the
best model of the round is w*(t) itself: with plain noise it would jump from round to round, and add a term that grows
with T to every path length.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.algorithms import dynamic_mirror_descent
from tacit.graphs import Graph, OptOut, random_digraph
from tacit.objectives import MirrorMap
from tacit.privacy import laplace, unprotected
from tacit.streams import Batch, Stream, from_function
from tacit_reproduction.dissertation.growth import jackknife
from tacit_reproduction.figures import curves
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged

CLIENTS, DIMENSIONS, BATCH, LINKS = 16, 5, 4, 4
"""Links: out-degrees of the random digraph are 1 to 4."""
SPEEDS = (0.0, 0.003, 0.01, 0.03, 0.1)
"""By how many radians the target turns in a round."""
MOST_AWAY, PRIVATE = 0.6, 8.0
WINDOW = 150
"""B: the links of any 150 rounds in a row connect all clients; every run is checked for it."""
SPARE = 0.1
"""By which share of it a ratio may be above another and still not be called larger."""


class Geometry(NamedTuple):
    """Set of models, and the circle on which the target moves."""

    words: str
    mirror: MirrorMap
    centre: float
    """Of every coordinate; also where runs start."""
    radius: float
    noise: float
    """Standard deviation of a reading's noise; gradients of records are clipped to the same length."""
    step: float
    """c of eta = c / sqrt(T)."""


GEOMETRIES = {
    "ball": Geometry("Euclidean ball", objectives.euclidean_ball(2.0), 0.0, 1.0, 2.0, 8.0),
    "simplex": Geometry("simplex, negative entropy", objectives.entropy(), 1 / DIMENSIONS, 0.19, 0.5, 40.0),
}


class Cell(NamedTuple):
    """One setting; all speeds are run at once."""

    geometry: str
    rounds: int
    away: float = 0.0
    """Probability with which a client stays away from a round."""
    epsilon: float = math.inf
    """Of Laplace noise for whole records; infinite: none."""


def cells(quick: bool) -> list[Cell]:
    """Return all settings; clients stay away, and noise is added, at the last horizon alone."""
    horizons = (1000, 500, 250) if quick else (2000, 1000, 500)
    last = ((0.0, math.inf), (MOST_AWAY, math.inf), (MOST_AWAY, PRIVATE))
    main = [Cell(name, horizons[0], *setting) for name in GEOMETRIES for setting in last]
    return [*main, *(Cell(name, rounds) for name in GEOMETRIES for rounds in horizons[1:])]


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


def loss(stream: Stream, models: Floats) -> float:
    """Return the loss per client of one model for each round, (rounds, d), in sum over the rounds."""
    whole = stream.chunk(0, len(models))
    short = np.float64(whole.y) - np.einsum("tabd,td->tab", np.float64(whole.x), models)
    return float(0.5 * np.square(short).mean(axis=(1, 2)).sum())


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    """Run one setting at all speeds: dynamic regret per client, also of never learning, and path lengths."""
    cell, seeds, first = task
    geometry = GEOMETRIES[cell.geometry]
    # One repeat for each speed and seed, speed by speed: the simulator runs them all at once.
    places = [(speed, seed) for speed in SPEEDS for seed in range(first, first + seeds)]
    streams = [drifting(geometry, speed, cell.rounds, seed) for speed, seed in places]
    noise = unprotected if math.isinf(cell.epsilon) else laplace(cell.epsilon, geometry.noise, perturbs="gradient")
    step = geometry.step / cell.rounds**0.5
    run = finished_run(
        dynamic_mirror_descent(objectives.squared(), step, noise, geometry.mirror, window=WINDOW),
        lambda seed: network(places[seed - first][1], cell.away),
        lambda seed: streams[seed - first],
        rounds=cell.rounds,
        repeats=len(places),
        seed=first,
        record_every=cell.rounds,
    )
    paths = [target(geometry, speed, cell.rounds, seed) for speed, seed in places]
    best = np.array([loss(*each) for each in zip(streams, paths, strict=True)])
    begun = np.full((cell.rounds, DIMENSIONS), geometry.centre)
    idle = np.array([loss(stream, begun) for stream in streams])
    found = {
        "regret": np.float64(run.per_round["loss"]).sum(axis=1) - best,
        "idle": idle - best,
        "length": np.array([np.linalg.norm(np.diff(path, axis=0), axis=1).sum() for path in paths]),
    }
    by_speed = {name: values.reshape(len(SPEEDS), seeds).T for name, values in found.items()}  # (seeds, speeds)
    order = math.sqrt(cell.rounds) * (1 + by_speed["length"])
    return {**by_speed, "ratio": by_speed["regret"] / order, "speeds": SPEEDS, "path": by_speed["length"].mean(axis=0)}


def judge(results: Results) -> Judgement:
    """Return claims, headlines and figures."""
    horizons = sorted(results.levels("rounds"))
    last = horizons[-1]
    words = {name: geometry.words for name, geometry in GEOMETRIES.items()}
    present = results.where(away=0.0)

    def follows(names: list[str]) -> list[Claim]:
        regret = {name: [present.of("regret", geometry=name, rounds=t) for t in horizons] for name in names}
        ratio = {name: np.stack([present.of("ratio", geometry=name, rounds=t) for t in horizons], 1) for name in names}
        flat = {name: found.reshape(len(found), -1) for name, found in ratio.items()}
        return [
            judged(
                "Dynamic regret grows with the path length",
                [Pair(f"{words[name]}, {slow:g} under {fast:g} rad per round", low, high)
                 for name in names
                 for (slow, low), (fast, high) in pairwise(zip(SPEEDS, regret[name][-1].T, strict=True))],
                below(),
                text="(5.25): the bound has the term M V A_T / eta, linear in the path length; nothing was run",
                seen_in="path",
            ),
            judged(
                "Regret / (sqrt(T) (1 + A_T)) is at no speed and horizon above that of the shortest run without drift by "
                f"more than {SPARE:.0%}",
                [Pair(f"{words[name]}, largest", found[:, 1:].max(axis=1), (1 + SPARE) * found[:, 0])
                 for name, found in flat.items()],
                below(),
                text="(5.25): order sqrt(T) (1 + A_T) for eta = c / sqrt(T), as we read it; nothing was run",
                seen_in="order",
            ),
            judged(
                "Without drift dynamic regret grows more slowly than T",
                [Pair(f"{words[name]}, slope", jackknife(horizons, np.stack([total[:, 0] for total in found], 1)), 1.0)
                 for name, found in regret.items()],
                below(),
                text="remark after (5.25): regret is sublinear; nothing was run",
                seen_in="order",
            ),
        ]  # fmt: skip

    claims = follows(list(GEOMETRIES))
    away = {name: {e: results.of("regret", geometry=name, away=MOST_AWAY, epsilon=e) for e in (math.inf, PRIVATE)}
            for name in GEOMETRIES}  # fmt: skip
    idle = {name: present.of("idle", geometry=name, rounds=last) for name in GEOMETRIES}
    learns = judged(
        f"With {MOST_AWAY:.0%} of the clients away regret stays below that of never learning, up to {SPEEDS[-2]:g} rad",
        [Pair(f"{words[n]}, {v:g} rad", away[n][math.inf][:, k], idle[n][:, k])
         for n in GEOMETRIES for k, v in enumerate(SPEEDS[:-1])],
        below(),
        seen_in="path",
    )  # fmt: skip
    private = judged(
        f"So it does with eps = {PRIVATE:g} per record besides, at {SPEEDS[2]:g} rad",
        [Pair(words[name], away[name][PRIVATE][:, 2], idle[name][:, 2]) for name in GEOMETRIES],
        below(),
        seen_in="path",
    )
    ours = [
        f"{words[str(row.factors['geometry'])]} {listed(row.measures['regret'].mean(axis=0))} at A_T = "
        f"{listed(row.measures['path'])}"
        for row in present.where(rounds=last).rows
    ]
    headlines = [
        headline(
            "Dynamic regret follows the path length of a moving target",
            place="(5.25)",
            text="a bound of order sqrt(T) (1 + A_T) for eta = c / sqrt(T); nothing was run",
            ours=f"regret per client, T = {last:,}: {'; '.join(ours)}",
            why="Both geometries that the text names are run. Of fast targets the bound says little: for A_T beyond "
            "sqrt(T) it is more than any model can lose. Its term 2 T L^2 V eta_0 (...) is linear in T unless eta_0 "
            "falls with T.",
            claims=claims,
            sweep={words[name]: follows([name]) for name in GEOMETRIES},
            seen_in="path",
        )
    ]
    figures = [
        curves(_moving(results.where(rounds=last)), "path", f"Dynamic regret and path length, T = {last:,}",
               "Per client. The text has a bound and no figure; who stands still has no place on this axis.", "regret",
               lines="called", panels="geometry", at="path", x="path length A_T", y="dynamic regret", log_x=True,
               log_y=True, words=words),
        curves(present, "order", "Regret in units of the bound's order", "Regret per client / (sqrt(T) (1 + A_T)).",
               "ratio", lines="rounds", panels="geometry", at="speeds", x="radians per round",
               y="regret / (sqrt(T) (1 + A_T))", log_y=True, words=words),
    ]  # fmt: skip
    return Judgement([*claims, learns, private], headlines, figures)


def listed(values: Floats) -> str:
    """Return "1.2, 3.4"."""
    return ", ".join(f"{value:.3g}" for value in values)


def _moving(results: Results) -> Results:
    """The rows without the target that stands still, with their names, and never learning as a line."""
    shown = [(row, row.measures["idle"], "never learning") for row in results.where(away=0.0).rows]
    for row in results.rows:
        private = f", eps = {PRIVATE:g}" if row.factors["epsilon"] == PRIVATE else ""
        called = f"{MOST_AWAY:.0%} away{private}" if row.factors["away"] else "everybody present"
        shown.append((row, row.measures["regret"], called))
    return Results(
        Row({**row.factors, "called": called}, {"regret": values[:, 1:], "path": row.measures["path"][1:]})
        for row, values, called in shown
    )


STUDY = Study(
    name="omd-dynamic",
    title="Mirror descent after a moving target",
    source="Dissertation, ch. 5, bound (5.25)",
    minutes=2,
    measure=over(cells, run, seeds=(20, 10)),
    judge=judge,
    method=f"""
{CLIENTS} clients on a random strongly connected digraph; in each round every client stays away with the given
probability, the weights are rebuilt from who is present, and the absent keep their models. Losses of the absent count.
Every run declares B = {WINDOW} and is checked for it on its very rounds. Squared loss of {BATCH} readings per client
and round; eta = c / sqrt(T), c = 8 on the ball and 40 on the simplex. Dynamic regret is the loss of all clients at
prediction time minus that of the target, which is the best model of every round, in sum over the rounds, per client.
All settings of a seed meet the same features, noise of readings and links.

Not run any more, as the bound does not ask it: clients alone, further shares of absent clients and epsilons, and the
exponent with which regret grows with A_T.""",
)
