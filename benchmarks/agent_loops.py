"""Agents of a network all at once or one after the other, on one core and on all: `python -m benchmarks.agent_loops`.

A CPU's rule of `tacit.runtime.convolutions` (agents with convolutions one after the other, others all at once) and that
of `tacit run` (one thread, unless a model's work is worth more) are made of these figures. Each is measured in a
process of its own, since JAX settles its threads and its forms once. Time by the clock, on an idle machine. Writes
benchmarks/results/agent_loops.json.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from itertools import pairwise, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacit
from benchmarks import networks
from benchmarks.figures import environment, write
from tacit.simulator import setup

LAYERS = {"MLP of 2,410": (64, 32, 10), "MLP of 25,450": (784, 32, 10), "MLP of 669,706": (784, 512, 512, 10)}
"""Widths of networks without convolutions, by name."""
CONVOLUTIONS = {"CNN of 20,490": (28, (16, 32))}
"""Side of the images and channels of those with."""
AGENTS, BATCH, AGENT_ROUNDS, REPETITIONS, CORES = (10, 100), 32, 200, 3, ("one", "all")
SMOKE = {
    "LAYERS": {"MLP": (4, 2, 2)}, "CONVOLUTIONS": {}, "AGENTS": (2,), "BATCH": 2, "AGENT_ROUNDS": 4, "REPETITIONS": 1,
    "CORES": ("one",),
}  # fmt: skip
FORMS = {"at once": False, "in turn": True}
"""Whether agents work one after the other."""


def dense(params: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]


def objective_of(asked: dict[str, Any]) -> tuple[Any, int]:
    """Return the objective of a setting, and the numbers in a row."""
    rng = np.random.default_rng(0)
    if "layers" not in asked:
        networks.SIDE, networks.CHANNELS = asked["side"], tuple(asked["channels"])
        form = (networks.SIDE, networks.SIDE, 1)
        made = tacit.objectives.from_model(networks.apply, "cross_entropy", networks.first_params(), shape=form)
        return made, networks.SIDE**2
    widths = asked["layers"]
    pairs = list(pairwise(widths))
    drawn = [rng.normal(size=pair).astype(np.float32) / pair[0] ** 0.5 for pair in pairs]
    first = [{"weight": jnp.asarray(w), "bias": jnp.zeros(w.shape[1])} for w in drawn]
    return tacit.objectives.from_model(dense, "cross_entropy", first), widths[0]


def measure(asked: dict[str, Any]) -> float:
    """Return seconds of a round, by the clock."""
    setup.convolves = lambda *arguments: asked["in_turn"]
    objective, width = objective_of(asked)
    agents, batch = asked["agents"], asked["batch"]
    rng = np.random.default_rng(1)
    rows = agents * batch * 2
    x, y = rng.normal(size=(rows, width)).astype(np.float32), rng.integers(0, 2, rows)
    owner = np.arange(rows) % agents
    stream = tacit.streams.from_arrays(x, y, owner, task="multiclass", batch=batch, exhausted="cycle")
    method, graph = tacit.algorithms.adapt_then_combine(objective, 0.05), tacit.graphs.ring(agents)
    return statistics.median(networks.rounds_of(method, graph, stream, asked["rounds"], asked["repetitions"])["wall"])


def apart(asked: dict[str, Any], cores: str) -> float:
    """Measure in a process of its own."""
    rounds = max(AGENT_ROUNDS // asked["agents"], 2)
    settings = {**asked, "batch": BATCH, "rounds": rounds, "repetitions": REPETITIONS}
    command = [sys.executable, "-m", "benchmarks.agent_loops", json.dumps(settings)]
    surroundings = environment(0 if cores == "one" else 2**20)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=surroundings)
    return float(done.stdout.splitlines()[-1])


def main() -> int:
    if len(sys.argv) > 1:
        print(measure(json.loads(sys.argv[1])))
        return 0
    models = {name: {"layers": widths} for name, widths in LAYERS.items()} | {
        name: {"side": side, "channels": channels} for name, (side, channels) in CONVOLUTIONS.items()
    }
    found: dict[str, dict[str, float]] = {}
    for (name, model), agents in product(models.items(), AGENTS):
        times = {
            f"{form}, {cores}": apart({**model, "agents": agents, "in_turn": in_turn}, cores)
            for (form, in_turn), cores in product(FORMS.items(), CORES)
        }
        found[f"{name} parameters, {agents} agents"] = times
        told = "   ".join(f"{which} {1e3 * seconds:>9.2f} ms" for which, seconds in times.items())
        print(f"{name:<16} {agents:>4} agents   {told}", flush=True)
    write("agent_loops", {"batch": BATCH, "seconds_per_round": found}, "jax", "numpy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
