"""Distances of PGFL to each cluster's centralised optimum (Gauthier 2023, Theorem 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit_reproduction.experiment import Claim
from tacit_reproduction.judging import brief
from tacit_reproduction.personalised.regression_runs import (
    CLIENTS,
    CLUSTERS,
    RIDGE,
    SERVERS,
    Floats,
    Problem,
    Setting,
    World,
    simulated,
    worlds_of,
)

REACHED = 1e-5
"""So near, as a share of the optimum's size, a client has come to it."""


class Arrival(NamedTuple):
    """Final distances of clients to their optima."""

    exact: bool
    problem: Problem
    distance: Floats
    """(seeds,) of the client farthest away, as a share of the size of its cluster's optimum."""
    weighted: Floats
    """(seeds,) likewise to the optimum in which a server counts as often as servers hear it."""


class Look(NamedTuple):
    """One simulation in double precision."""

    exact: bool
    problems: tuple[Problem, ...]
    seeds: int
    first_seed: int
    rounds: int


def optima(world: World, heard: bool = False) -> Floats:
    """Return (Q, d) the minimum of sum_s mean_{k of q at s} f_k per cluster, by a direct solve.

    With `heard` a server counts by how many servers hear it, itself included: the Perron vector of (5.9).
    """
    servers = 1 + world.topology.links["servers"].in_degree if heard else np.ones(SERVERS)
    batch = world.stream.chunk(0, 1)
    x, y, there = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y, batch.weight))
    share = there / there.sum(axis=1, keepdims=True)
    home = np.arange(SERVERS * CLIENTS) // CLIENTS
    found = []
    for cluster in range(CLUSTERS):
        member = world.clusters == cluster
        at_server = np.bincount(home[member], minlength=SERVERS)
        weight = np.where(member, servers[home] / np.maximum(at_server[home], 1), 0)
        rows = weight[:, None] * share
        matrix = np.einsum("ki,kia,kib->ab", rows, x, x) + RIDGE * weight.sum() * np.eye(x.shape[2])
        found.append(np.linalg.solve(matrix, np.einsum("ki,kia,ki->a", rows, x, y)))
    return np.stack(found)


def arrive(look: Look) -> list[Arrival]:
    """Run all problems for long, with all clients called and no noise."""
    worlds = worlds_of(look.problems, look.seeds, look.first_seed)
    outcome = simulated(Setting(exact=look.exact), worlds, look.first_seed, look.rounds, look.rounds, "float64")
    models: NDArray[np.float64] = outcome.recorded["models"][:, -1]
    distances = []
    for heard in (False, True):
        aims = np.stack([optima(world, heard)[world.clusters] for world in worlds])
        apart = np.linalg.norm(models - aims, axis=2) / np.linalg.norm(aims, axis=2)
        distances.append(apart.max(axis=1).reshape(len(look.problems), look.seeds))
    return [Arrival(look.exact, problem, *(d[k] for d in distances)) for k, problem in enumerate(look.problems)]


def at_the_optimum(arrivals: Sequence[Arrival]) -> list[Claim]:
    """Judge whether clients come to their cluster's optimum (Theorem 5.1)."""
    plain = [a for a in arrivals if not a.exact and a.problem.servers == "random"]
    reached = [a for a in arrivals if a.exact or a.problem.servers == "complete"]
    far = "; ".join(
        f"rho = {a.problem.penalty:g}: {brief(float(a.distance.max()), 2)} (to the weighted one "
        f"{brief(float(a.weighted.max()), 2)})"
        for a in plain
    )
    near = "; ".join(
        f"{'exact' if a.exact else 'plain'}, {a.problem.servers} servers: {float(a.distance.max()):.1g}"
        for a in reached
    )
    return [
        Claim(
            "Without mixing and noise every client comes to its cluster's centralised optimum (Theorem 5.1)",
            all(float(a.distance.max()) < REACHED for a in plain),
            f"farthest client, as a share of the optimum's size, {far}. Why: what a server gathers is a gradient step, "
            "and (5.9) averages after it: decentralised gradient descent, whose servers stay apart by a distance that "
            "falls with 1 / rho; and averages over unequal neighbourhoods make servers count by how many hear them",
            "Theorem 5.1: with tau = 0 it converges to each cluster's optimum in linear time",
        ),
        Claim(
            f"It does (to {REACHED:g}) where all servers hear all, and with exact=True on any connected graph",
            all(float(a.distance.max()) < REACHED for a in reached),
            f"farthest client, {near}",
        ),
    ]
