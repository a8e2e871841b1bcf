"""What is learnt under privacy, and what correlated noise costs: `python -m benchmarks.private_learning`.

`--problem ring`: online push-sum with one record a round under correlated noise, by strategy, graph and average.
`--problem tables`: ten owners of real tables, by epsilon (`benchmarks.private_tables`); sets that are not there are
left out, and the pooled column needs jax-privacy.
`--problem cost`: time and memory of correlated beside independent noise in one run.
Without a problem all three. Writes benchmarks/results/private_learning_<problem>.json; exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import warnings
from typing import Any

import numpy as np

from benchmarks import private_tables
from benchmarks.figures import environment, write
from benchmarks.private_tables import interval, measure, missed

SEEDS, TUNING = 10, (100, 2)
"""Of figures, from 0 on; first seed and number of those that a step is chosen on."""
# -- ring --------------------------------------------------------------------------------------------------------------
AGENTS, DIM, ROUNDS, LABEL_NOISE = 20, 20, 1000, 0.284
"""Of the ring; the noise of labels gives an average loss of about 0.336 without privacy."""
GOALS = {4.5: 0.388, 1.0: 0.445, 0.5: 0.461, 0.1: 0.550}
"""Rho of a record -> the largest loss."""
STEPS = (0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
NETWORKS = ("ring", "exponential", "random digraph")
VARIANTS = (
    *(("independent", "none"), ("blt", "none"), ("blt", "tail")),
    *(("graph", "none"), ("graph", "tail"), ("toeplitz", "none")),
)
"""Strategy of the noise, and average of the models."""
STEP_OF = {"toeplitz": "blt", "graph": "blt"}
"""Strategies that take the step chosen for another one."""
# -- tables ------------------------------------------------------------------------------------------------------------
TABLES = ("a9a", "w8a", "phishing", "ijcnn1", "occupancy", "susy")
EPSILONS = (2.0, 1.0)
# -- cost --------------------------------------------------------------------------------------------------------------
SIZES, REPETITIONS, AGENT_ROUNDS, PERIOD = (1_024, 100_000), 3, 6.4e6, 16
COST_GOAL = 1.5
KINDS = ("gaussian", "blt")
PEAK_AGENTS, MEMORY_GOAL = 1_000_000, 1.1
"""Memory at the peak: so many times what is predicted, the vectors and one draw that waits for them."""


def graphs() -> dict[str, Any]:
    import tacit

    steps = [-2, -1, 1, 2]
    ends = [(i, (i + k) % AGENTS) for i in range(AGENTS) for k in steps]
    made = {
        "ring": tacit.graphs.from_edges(AGENTS, *zip(*ends, strict=True)),
        "exponential": tacit.graphs.exponential(AGENTS),
        "random digraph": tacit.graphs.random_digraph(AGENTS, 5, seed=0),
    }
    return {name: made[name] for name in NETWORKS}


def online(graph: Any, rho: float | None, strategy: str, average: str, step: float, seeds: tuple[int, int]) -> Any:
    """Return (loss, accuracy) of every seed, means over the rounds."""
    import tacit

    noise = {}
    if rho is not None:
        weights = graph.with_weights("sender").matrix().toarray() if strategy == "graph" else None
        noise["mechanism"] = tacit.privacy.correlated(ROUNDS, 1.0, rho, strategy=strategy, weights=weights)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=step, **noise)
    run = tacit.simulate(
        method if average == "none" else tacit.algorithms.averaged(method, average),
        graph,
        lambda seed: tacit.streams.logistic_drift(AGENTS, DIM, noise=LABEL_NOISE, seed=seed),
        rounds=ROUNDS,
        repeats=seeds[1],
        seed=seeds[0],
        record_every=ROUNDS,
        progress=False,
    )
    return np.stack([run.per_round[name].mean(axis=1) for name in ("loss", "accuracy")], axis=1)


def tuned(graph: Any, rho: float | None, strategy: str, average: str, start: float) -> float:
    """Climb to the best step from a likely one, on other seeds."""
    if len(STEPS) == 1:
        return STEPS[0]
    found: dict[float, float] = {}

    def loss(at: int) -> float:
        if not 0 <= at < len(STEPS):
            return np.inf
        if STEPS[at] not in found:
            found[STEPS[at]] = float(online(graph, rho, strategy, average, STEPS[at], TUNING)[:, 0].mean())
        return found[STEPS[at]]

    at = min(range(len(STEPS)), key=lambda k: abs(np.log(STEPS[k] / start)))
    while (better := min((at - 1, at, at + 1), key=loss)) != at:
        at = better
    return STEPS[at]


def ring() -> tuple[dict[str, Any], list[str]]:
    """Measure all strategies on the ring, and those with few vectors on other graphs, with the ring's steps."""
    networks, rows, faults = graphs(), [], []

    def note(name: str, rho: float | None, strategy: str, average: str, step: float) -> float:
        each = online(networks[name], rho, strategy, average, step, (0, SEEDS))
        loss, accuracy = interval(each[:, 0]), interval(each[:, 1])
        what = {"graph": name, "rho": rho, "strategy": strategy, "average": average, "step": step}
        rows.append({**what, "loss": loss, "accuracy": accuracy})
        shown = f"{loss[0]:.3f} +- {loss[1]:.3f}   {accuracy[0]:.3f} +- {accuracy[1]:.3f}"
        print(f"{name:<15} rho {rho!s:<5} {strategy:<12} {average:<5} step {step:<5g} {shown}", flush=True)
        write("private_learning_ring", {"rows": rows}, "jax")
        return loss[0]

    ring_ = networks["ring"]
    note("ring", None, "-", "none", tuned(ring_, None, "-", "none", 2.0))
    steps: dict[tuple[str, str], float] = {}
    for rho, goal in GOALS.items():
        losses = {}
        for strategy, average in VARIANTS:
            key = STEP_OF.get(strategy, strategy), average
            if key[0] == strategy:
                steps[key] = tuned(ring_, rho, strategy, average, steps.get(key, 1.0))
            losses[strategy, average] = note("ring", rho, strategy, average, steps[key])
        if losses["blt", "tail"] > goal:
            faults.append(f"ring, rho {rho:g}: loss {losses['blt', 'tail']:.3f}, goal {goal}")
        for name in list(networks)[1:]:
            for strategy in ("blt", "graph"):
                note(name, rho, strategy, "tail", steps["blt", "tail"])
    return {"rows": rows}, faults


def tables() -> tuple[dict[str, Any], list[str]]:
    """Measure all sets that are here."""
    found: dict[str, Any] = {}
    faults = []
    for name in TABLES:
        try:
            private_tables.source(name)
        except (FileNotFoundError, ImportError, ValueError) as error:
            print(f"{name} is left out: {error}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # worse than a constant, say: the table shows it
            found[name] = measure(name, EPSILONS, SEEDS)
        write("private_learning_tables", {"sets": found}, "jax")
        for epsilon in EPSILONS:
            print(f"{name}, epsilon {epsilon:g}: {found[name]['records']:,} records an owner", flush=True)
            for title, each in found[name]["at"][str(epsilon)]["columns"].items():
                if each is None:
                    print(f"  {title:<20} jax-privacy is not installed")
                    continue
                (plain, width), (fair, around) = (interval(column) for column in np.transpose(each))
                print(f"  {title:<20} {plain:.4f} +- {width:.4f}   balanced {fair:.4f} +- {around:.4f}", flush=True)
            faults += missed(name, epsilon, found[name])
    return {"sets": found}, faults


def simulated(agents: int, rounds: int, kind: str) -> tuple[float, Any]:
    """Return seconds of a run with one kind of noise, and its correlation."""
    import tacit

    graph = tacit.graphs.k_regular(agents, 4)
    stream = tacit.streams.logistic_drift(agents, DIM, seed=0, repeat_every=PERIOD)
    if kind == "blt":
        noise = tacit.privacy.correlated(rounds, 1.0, 0.5, participation=(rounds // PERIOD, PERIOD))
    else:
        noise = tacit.privacy.gaussian(1.0, 1.0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.1, mechanism=noise)
    run = tacit.simulate(method, graph, stream, rounds=rounds, record_every=rounds, progress=False)
    return run.seconds, noise.correlation


def timed(agents: int) -> dict[str, Any]:
    """Time both kinds of noise in turn, in this process; the best of each counts."""
    rounds = max(PERIOD, round(AGENT_ROUNDS / agents) // PERIOD * PERIOD)
    each: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(REPETITIONS):
        for kind in KINDS:
            each[kind].append(simulated(agents, rounds, kind)[0])
    return {"agents": agents, "rounds": rounds, "seconds": each, "ratio": min(each["blt"]) / min(each["gaussian"])}


def peak(agents: int, kind: str) -> dict[str, Any]:
    """Return the peak memory of this process with one kind of noise, and what its vectors and a draw should take."""
    import jax

    _, correlation = simulated(agents, 2 * PERIOD, kind)
    arrays = [] if correlation is None else jax.tree.leaves(correlation.start(np.zeros(DIM, np.float32)))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    vectors = agents * sum(array.nbytes for array in arrays)
    return {"peak_bytes": most, "predicted_bytes": vectors + (agents * DIM * 4 if vectors else 0)}


def in_own_process(agents: int, *more: str) -> dict[str, Any]:
    """Measure in a process that starts afresh."""
    command = [sys.executable, "-m", "benchmarks.private_learning", "--size", str(agents), *more]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(agents)).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def cost() -> tuple[dict[str, Any], list[str]]:
    """Time both sizes, and compare peak memory with the size of the vectors."""
    cells, faults = [], []
    for agents in SIZES:
        cell = in_own_process(agents)
        cells.append(cell)
        print(f"{agents:>9,} agents: {cell['ratio']:.2f} times the time of independent noise", flush=True)
        if cell["ratio"] > COST_GOAL:
            faults.append(f"{agents:,} agents: {cell['ratio']:.2f} times the time, goal {COST_GOAL}")
    plain, ours = (in_own_process(PEAK_AGENTS, "--peak", kind) for kind in KINDS)
    more, predicted = ours["peak_bytes"] - plain["peak_bytes"], ours["predicted_bytes"]
    print(f"{PEAK_AGENTS:>9,} agents: {more / 2**20:.1f} MiB more at the peak; predicted {predicted / 2**20:.1f} MiB")
    if more > MEMORY_GOAL * predicted:
        faults.append(f"memory: {more / predicted:.2f} of what is predicted, goal {MEMORY_GOAL}")
    memory = {"agents": PEAK_AGENTS, "more_bytes": more, "predicted_bytes": predicted}
    return {"cells": cells, "memory": memory}, faults


PROBLEMS = {"cost": cost, "tables": tables, "ring": ring}
SMOKE = {
    "PROBLEMS": {"tables": tables, "ring": ring},
    "SEEDS": 1,
    "ROUNDS": 8,
    "STEPS": (1.0,),
    "GOALS": {1.0: 0.445},
    "NETWORKS": ("ring",),
    "VARIANTS": (("blt", "tail"),),
    "TABLES": (),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=sorted(PROBLEMS), help="one of the three")
    parser.add_argument("--seeds", type=int, help=f"instead of {SEEDS}")
    parser.add_argument("--size", type=int, help="cost of one size in this process; prints JSON")
    parser.add_argument("--peak", choices=KINDS, help="with --size: peak memory with one kind of noise instead")
    chosen = parser.parse_args()
    if chosen.size is not None:
        print(json.dumps(peak(chosen.size, chosen.peak) if chosen.peak else timed(chosen.size)))
        return 0
    if chosen.seeds is not None:
        globals()["SEEDS"] = chosen.seeds
    missed_ = []
    for name in [chosen.problem] if chosen.problem else PROBLEMS:
        found, faults = PROBLEMS[name]()
        write(f"private_learning_{name}", {**found, "missed": faults}, "jax")
        missed_ += faults
    print("all goals met" if not missed_ else "missed: " + "; ".join(missed_))
    return 1 if missed_ else 0


if __name__ == "__main__":
    sys.exit(main())
