"""Distances of PGFL to each cluster's centralised optimum (Gauthier 2023, Theorem 5.1)."""

import numpy as np

from tacit_reproduction.gauthier import pgfl
from tacit_reproduction.gauthier.pgfl import CLIENTS, CLUSTERS, PENALTY, SERVERS, Problem, Setting, Task, World
from tacit_reproduction.table import Floats, Results, Row, parted
from tacit_reproduction.verdict import Claim, brief, fact

REACHED = 1e-5  # so near, as a share of the optimum's size, a client has come to it


def looks(quick: bool, first: int) -> list[Task]:
    penalties = (PENALTY,) if quick else (PENALTY, 10.0, 30.0)
    plain = [*(Problem(penalty=p) for p in penalties), Problem(servers="complete")]
    size = (2, first, 600) if quick else (5, first, 2500)
    return [(Setting(), plain, *size), (Setting(exact=True), [Problem()], *size)]


def optima(world: World) -> Floats:
    """Return (Q, d) the minimum of sum_s mean_{k of q at s} f_k per cluster, by a direct solve."""
    batch = world.stream.chunk(0, 1)
    x, y, there = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y, batch.weight))
    share, home, found = there / there.sum(axis=1, keepdims=True), np.arange(SERVERS * CLIENTS) // CLIENTS, []
    for cluster in range(CLUSTERS):
        member = world.clusters == cluster
        at_server = np.bincount(home[member], minlength=SERVERS)
        weight = np.where(member, 1 / np.maximum(at_server[home], 1), 0)
        rows = weight[:, None] * share
        matrix = np.einsum("ki,kia,kib->ab", rows, x, x) + pgfl.RIDGE * weight.sum() * np.eye(x.shape[2])
        found.append(np.linalg.solve(matrix, np.einsum("ki,kia,ki->a", rows, x, y)))
    return np.stack(found)


def arrive(look: Task) -> list[Row]:
    """Return how far the farthest client ends from its cluster's optimum, as a share of the latter's size."""
    setting, problems, seeds, first, rounds = look
    worlds = [pgfl.world_of(problem, seed) for problem in problems for seed in range(first, first + seeds)]
    models = pgfl.simulated(setting, worlds, first, rounds, rounds, "float64").recorded["models"][:, -1]
    aims = np.stack([optima(world)[world.clusters] for world in worlds])
    apart = (np.linalg.norm(models - aims, axis=2) / np.linalg.norm(aims, axis=2)).max(axis=1)
    averaging = {"averaging": "exact" if setting.exact else "plain"}
    return parted(averaging, (problem._asdict() for problem in problems), seeds, {"distance": apart})


def claims(results: Results) -> list[Claim]:
    rows = [row for row in results.rows if "distance" in row.measures]
    plain = [r for r in rows if r.factors["averaging"] == "plain" and r.factors["servers"] == "random"]
    found = []
    said = "Theorem 5.1: linear convergence to each cluster's optimum"
    for claim, of, text in (
        ("Without mixing and noise clients come to their cluster's optimum", plain, said),
        ("They do where all servers hear all, or steps are corrected", [r for r in rows if r not in plain], ""),
    ):
        far = {"{averaging} {servers} {penalty}".format(**r.factors): float(r.measures["distance"].max()) for r in of}
        words = "; ".join(f"{name}: {brief(value, 2)}" for name, value in far.items())
        why = f"farthest client (averaging, servers, rho): {words}. (5.9) averages after a gradient step"
        found.append(fact(claim, max(far.values()) < REACHED, why, text))
    return found
