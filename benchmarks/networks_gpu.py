"""Networks of many agents on an accelerator beside JAX by hand: `python -m benchmarks.networks_gpu`.

Decentralised SGD on a ring: a network of two hidden layers with 1,002,570 parameters and the convolutional one of
1,663,370 (`tacit.objectives.cnn`), 100 and 1,000 agents, in float32 and, the first of them, in bfloat16. By hand: the
same loss under `jax.vmap` inside of a scan, neighbours by `jnp.roll`, data on the device, states donated. Agent-steps
are steps of one agent on its batch. The share of the peak is that of a large matrix product in the same precision,
timed in the same run, by the operations that the compiler counts in one agent's step. A run with the gradient of each
record clipped comes last, with XLA's autotuner as it is set: what it takes to compile is printed.

`--agents 10 --rounds 5` measures on a CPU. Writes benchmarks/results/networks_gpu.json; exit code 1 if tacit has less
than 0.9 of the rate by hand anywhere.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacit
from benchmarks.figures import write
from benchmarks.networks import rounds_of
from tacit.core.contract import Objective
from tacit.streams import Batch

AGENTS, BATCH, SIDE, WIDTHS, CHANNELS, STEP = (100, 1_000), 32, 28, (1024, 192), (32, 64), 0.05
PERIOD, ROUNDS, REPETITIONS, SQUARE = 4, 50, 5, 8192
GOAL = 0.9
SMOKE = {
    "AGENTS": (3,), "BATCH": 2, "SIDE": 8, "WIDTHS": (4, 3), "CHANNELS": (2, 2), "PERIOD": 2, "ROUNDS": 2,
    "REPETITIONS": 1, "SQUARE": 16,
}  # fmt: skip


def layers() -> dict[str, np.ndarray]:
    """Return the first parameters of the network of dense layers."""
    rng, sizes, found = np.random.default_rng(0), (SIDE * SIDE, *WIDTHS, 10), {}
    for k, (into, out) in enumerate(pairwise(sizes)):
        found[f"w{k}"] = (rng.normal(size=(into, out)) / into**0.5).astype(np.float32)
        found[f"b{k}"] = np.zeros(out, np.float32)
    return found


def dense(params: Any, x: jax.Array) -> jax.Array:
    for k in range(len(WIDTHS)):
        x = jax.nn.relu(x @ params[f"w{k}"] + params[f"b{k}"])
    return x @ params[f"w{len(WIDTHS)}"] + params[f"b{len(WIDTHS)}"]


def objectives() -> dict[str, tuple[Objective, str]]:
    """Return the networks by name, each with the precision that it computes in."""
    return {
        "dense, float32": (tacit.objectives.from_model(dense, "cross_entropy", layers()), "float32"),
        "dense, bfloat16": (
            tacit.objectives.from_model(dense, "cross_entropy", layers(), precision="bfloat16"), "bfloat16",
        ),
        "convolutions, float32": (tacit.objectives.cnn(side=SIDE, channels=CHANNELS, classes=10), "float32"),
    }  # fmt: skip


def data(agents: int) -> Batch:
    """Return the batches of a period: (rounds, agents, batch, ...)."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(PERIOD, agents, BATCH, SIDE * SIDE)).astype(np.float32)
    return Batch(x, rng.integers(0, 10, (PERIOD, agents, BATCH)).astype(np.int32))


def by_tacit(objective: Objective, batches: Batch, rounds: int, mechanism: Any) -> list[float]:
    """Return the seconds of a round, repetition by repetition."""
    agents = batches.y.shape[1]
    stream = tacit.streams.from_function(
        lambda start, stop: jax.tree.map(lambda leaf: leaf[np.arange(start, stop) % PERIOD], batches),
        agents=agents, period=PERIOD, data_size=PERIOD * BATCH,
    )  # fmt: skip
    method = tacit.algorithms.adapt_then_combine(objective, STEP, mechanism)
    return rounds_of(method, tacit.graphs.ring(agents), stream, rounds, REPETITIONS)["wall"]


def by_hand(objective: Objective, batches: Batch, rounds: int) -> list[float]:
    """Return the same of a program that does this alone."""
    agents = batches.y.shape[1]
    x, y = jnp.asarray(batches.x), jnp.asarray(batches.y)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), Batch(x, y))
    first = objective.initial(shapes)

    def step(params: Any, x: jax.Array, y: jax.Array) -> Any:
        value, gradient = jax.value_and_grad(objective.loss)(params, Batch(x, y))
        return jax.tree.map(lambda w, g: w - STEP * g, params, gradient), value

    def one_round(params: Any, t: jax.Array) -> Any:
        after, losses = jax.vmap(step)(params, x[t % PERIOD], y[t % PERIOD])
        return jax.tree.map(lambda w: (w + jnp.roll(w, 1, 0) + jnp.roll(w, -1, 0)) / 3, after), jnp.mean(losses)

    several = jax.jit(lambda params: jax.lax.scan(one_round, params, jnp.arange(rounds)), donate_argnums=0)
    params = jax.tree.map(lambda w: jnp.broadcast_to(w, (agents, *jnp.shape(w))) + 0, first)
    found = []
    for _ in range(REPETITIONS + 1):
        begun = time.perf_counter()
        params, losses = several(params)
        jax.block_until_ready((params, losses))
        found.append((time.perf_counter() - begun) / rounds)
    return found[1:]


def operations(objective: Objective, batches: Batch) -> float:
    """Return the floating-point operations that the compiler counts in one agent's gradient."""
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), batches)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), one)
    counted = jax.jit(jax.grad(objective.loss)).lower(objective.initial(shapes), one).compile().cost_analysis()
    return float(counted.get("flops", 0.0)) if isinstance(counted, dict) else 0.0


def peak(precision: str) -> float:
    """Return the operations a second of a large matrix product."""
    a = jnp.ones((SQUARE, SQUARE), precision)
    product: Callable[[jax.Array], jax.Array] = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(a))
    begun = time.perf_counter()
    for _ in range(3):
        out = product(a)
    jax.block_until_ready(out)
    return 3 * 2 * SQUARE**3 / (time.perf_counter() - begun)


def main() -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, help="instead of 100 and 1,000")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", help="networks whose name begins so")
    asked = parser.parse_args()
    device = jax.devices()[0]
    print(device.platform, device.device_kind, "jax", jax.__version__)
    peaks: dict[str, float] = {}
    rows, misses = [], []
    plain = tacit.core.mechanism.unprotected
    for agents in AGENTS if asked.agents is None else (asked.agents,):
        batches = data(agents)
        for name, (objective, precision) in objectives().items():
            if not name.startswith(asked.only or ""):
                continue
            peaks[precision] = peaks.get(precision) or peak(precision)
            work = operations(objective, batches)
            ways = {
                "tacit": partial(by_tacit, objective, batches, asked.rounds, plain),
                "by hand": partial(by_hand, objective, batches, asked.rounds),
            }
            rates = {way: agents / statistics.median(measured()) for way, measured in ways.items()}
            for way, rate in rates.items():
                share = rate * work / peaks[precision]
                rows.append({"network": name, "agents": agents, "way": way, "agent_steps": rate, "of_peak": share})
                print(f"{name:<24} {agents:>6,} agents  {way:<8} {rate:>12,.0f} agent-steps/s  {share:.1%} of the peak")
            over = rates["tacit"] / rates["by hand"]
            misses += [f"{name}, {agents:,}: {over:.2f} of by hand"] if over < GOAL else []
        noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
        begun = time.perf_counter()
        seconds = by_tacit(objectives()["dense, float32"][0], batches, asked.rounds, noise)
        spent = time.perf_counter() - begun - REPETITIONS * asked.rounds * statistics.median(seconds)
        rate = agents / statistics.median(seconds)
        rows.append(
            {"network": "dense, clipped", "agents": agents, "way": "tacit", "agent_steps": rate, "set_up": spent}
        )
        print(
            f"{'dense, clipped':<24} {agents:>6,} agents  tacit    {rate:>12,.0f} agent-steps/s, set up in "
            f"{spent:.0f} s"
        )
    print("all goals met" if not misses else "missed: " + "; ".join(misses))
    write(
        "networks_gpu", {"device": device.device_kind, "peaks": peaks, "runs": rows, "missed": misses}, "jax", "numpy"
    )
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
