"""Training of networks beside other ways to do the same, in one run: `python -m benchmarks.networks`.

- Rounds of a small convolutional network, ten clients on a ring, each with a batch of its own: tacit, three ways to
  write them in JAX by hand, and torch as pfl-research uses it (one model, clients in turn, channels_last). torch runs
  in an environment of its own, whose interpreter `--torch` or the environment variable TORCH_PYTHON names; without one
  that column is left out.
- A step with the gradient of each record clipped beside a plain one, at a batch of 256: time, and memory as the
  compiler plans it. The same of what a peer computes before its noise, which holds every record to its part once more.

What counts is time by the clock on an idle machine; processor time is printed beside it. Writes
benchmarks/results/networks.json; exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacit
from benchmarks.figures import write
from tacit.core.contract import Mechanism, Objective, unprotected
from tacit.privacy.clipping import clipped_gradient
from tacit.simulator.simulation import Simulation
from tacit.streams import Batch

AGENTS, BATCH, SIDE, CHANNELS, STEP = 10, 32, 28, (16, 32), 0.05
PERIOD, ROUNDS, BY_HAND, REPETITIONS = 8, 60, 8, 5
"""Batches, rounds of a repetition (fewer by hand, which takes longer), and repetitions."""
CLIPPED = {"small": {"channels": (16, 32), "hidden": None}, "of 1,663,370 parameters": {"channels": (32, 64)}}
RECORDS, STEPS = 256, 3
GOAL, TIME_GOAL, MEMORY_GOAL = 1.0, 2.5, 1.5
SMOKE = {
    "AGENTS": 3, "BATCH": 2, "SIDE": 8, "CHANNELS": (2, 2), "PERIOD": 2, "ROUNDS": 2, "BY_HAND": 2, "REPETITIONS": 1,
    "RECORDS": 4, "STEPS": 1, "CLIPPED": {"small": {"channels": (2, 2), "hidden": None}},
}  # fmt: skip

Times = dict[str, list[float]]
"""Seconds of a round, repetition by repetition, by "wall" and "processor"."""


def first_params() -> dict[str, jax.Array]:
    rng, (one, two) = np.random.default_rng(0), CHANNELS
    shapes = {"first": (3, 3, 1, one), "second": (3, 3, one, two), "out": ((SIDE // 4) ** 2 * two, 10)}
    drawn = {name: rng.normal(size=shape) / np.prod(shape[:-1]) ** 0.5 for name, shape in shapes.items()}
    sizes = {"first_bias": one, "second_bias": two, "out_bias": 10}
    return {name: jnp.asarray(w, jnp.float32) for name, w in drawn.items()} | {
        name: jnp.zeros(size, jnp.float32) for name, size in sizes.items()
    }


def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """The network as a user writes it: no thought of what a compiler makes of it."""
    for name in ("first", "second"):
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, params[name], (1, 1), "SAME", dimension_numbers=form)
        x = jax.nn.relu(x + params[f"{name}_bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ params["out"] + params["out_bias"]


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(PERIOD, AGENTS, BATCH, SIDE * SIDE)).astype(np.float32)
    return x, rng.integers(0, 10, (PERIOD, AGENTS, BATCH))


def timed(advance: Callable[[int], Any], rounds: int) -> Times:
    """Time rounds, after two that compile."""
    jax.block_until_ready(advance(2))
    found: Times = {"wall": [], "processor": []}
    for _ in range(REPETITIONS):
        wall, processor = time.perf_counter(), time.process_time()
        jax.block_until_ready(advance(rounds))
        found["wall"].append((time.perf_counter() - wall) / rounds)
        found["processor"].append((time.process_time() - processor) / rounds)
    return found


# -- rounds ------------------------------------------------------------------------------------------------------------
def by_tacit() -> Times:
    x, y = data()
    rows = (x.swapaxes(0, 1).reshape(-1, SIDE * SIDE), y.swapaxes(0, 1).reshape(-1))
    owner = np.repeat(np.arange(AGENTS), PERIOD * BATCH)
    stream = tacit.streams.from_arrays(*rows, owner, task="multiclass", batch=BATCH, exhausted="cycle")
    objective = tacit.objectives.from_model(apply, "cross_entropy", first_params(), shape=(SIDE, SIDE, 1))
    method, graph = tacit.algorithms.adapt_then_combine(objective, STEP), tacit.graphs.ring(AGENTS)
    return rounds_of(method, graph, stream, ROUNDS, REPETITIONS)


def rounds_of(method: Any, graph: Any, stream: Any, rounds: int, repetitions: int) -> Times:
    """Time rounds of tacit, without what goes before and after them."""
    found: Times = {"wall": [], "processor": []}
    of_run = Simulation._rounds

    def timed_rounds(self: Simulation, *arguments: Any) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        run = of_run(self, *arguments)
        found["wall"].append((time.perf_counter() - wall) / rounds)
        found["processor"].append((time.process_time() - processor) / rounds)
        return run

    Simulation._rounds = timed_rounds  # type: ignore[method-assign]
    try:
        for _ in range(repetitions + 1):
            tacit.simulate(method, graph, stream, rounds=rounds, record_every=rounds, progress=False)
    finally:
        Simulation._rounds = of_run  # type: ignore[method-assign]
    return {name: values[1:] or values for name, values in found.items()}


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    outputs = apply(params, x.reshape(-1, SIDE, SIDE, 1))
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1))


def step(params: Any, x: jax.Array, y: jax.Array) -> Any:
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda w, g: w - STEP * g, params, gradient), value


def mixed(params: Any) -> Any:
    return jax.tree.map(lambda w: (w + jnp.roll(w, 1, 0) + jnp.roll(w, -1, 0)) / 3, params)


def all_at_once(params: Any, x: jax.Array, y: jax.Array) -> Any:
    after, losses = jax.vmap(step)(params, x, y)
    return mixed(after), jnp.mean(losses)


def written_out(params: Any, x: jax.Array, y: jax.Array) -> Any:
    each = [step(jax.tree.map(lambda w, k=k: w[k], params), x[k], y[k]) for k in range(AGENTS)]
    after = jax.tree.map(lambda *parts: jnp.stack(parts), *(models for models, _ in each))
    return mixed(after), jnp.mean(jnp.stack([value for _, value in each]))


def by_hand(one_round: Callable[..., Any], scanned: bool) -> Times:
    x, y = map(jnp.asarray, data())
    start = jax.tree.map(lambda w: jnp.broadcast_to(w, (AGENTS, *w.shape)) + 0, first_params())

    @partial(jax.jit, static_argnums=3)
    def several(params: Any, x: jax.Array, y: jax.Array, rounds: int) -> Any:
        return jax.lax.scan(lambda p, t: one_round(p, x[t % PERIOD], y[t % PERIOD]), params, jnp.arange(rounds))

    single = jax.jit(one_round, donate_argnums=0)

    def advance(rounds: int) -> Any:
        if scanned:
            return several(start, x, y, rounds)
        params, losses = jax.tree.map(jnp.copy, start), []
        for t in range(rounds):
            params, value = single(params, x[t % PERIOD], y[t % PERIOD])
            losses.append(value)
        return params, losses

    if scanned:
        jax.block_until_ready(advance(BY_HAND))
    return timed(advance, BY_HAND)


def by_torch(interpreter: str) -> Times:
    settings = {
        "agents": AGENTS, "batch": BATCH, "side": SIDE, "channels": CHANNELS, "step": STEP, "period": PERIOD,
        "rounds": ROUNDS, "repetitions": REPETITIONS, "threads": len(os.sched_getaffinity(0)),
    }  # fmt: skip
    file = Path(__file__).with_name("torch_network.py")
    done = subprocess.run([interpreter, str(file), json.dumps(settings)], check=True, stdout=subprocess.PIPE, text=True)
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def rounds_of_all(interpreter: str | None) -> tuple[dict[str, Times], float]:
    """Measure every way, and return tacit's rate over that of the best other."""
    ways: dict[str, Callable[[], Times]] = {
        "tacit": by_tacit,
        "jax by hand: vmap, a call a round": partial(by_hand, all_at_once, False),
        "jax by hand: agents written out, a call a round": partial(by_hand, written_out, False),
        "jax by hand: vmap inside scan": partial(by_hand, all_at_once, True),
    }
    if interpreter is not None:
        ways["torch, one model, channels_last"] = partial(by_torch, interpreter)
    print(f"{AGENTS} clients, batch {BATCH}, images of {SIDE} x {SIDE}, channels {CHANNELS}")
    found = {}
    for name, way in ways.items():
        found[name] = way()
        wall, processor = (statistics.median(found[name][clock]) for clock in ("wall", "processor"))
        print(f"{name:<50} {1 / wall:>8.2f} rounds/s   processor {1e3 * processor:>8.1f} ms a round", flush=True)
    best = min(statistics.median(times["wall"]) for name, times in found.items() if name != "tacit")
    return found, best / statistics.median(found["tacit"]["wall"])


def network_and_records(settings: dict[str, Any]) -> tuple[Objective, Batch]:
    rng = np.random.default_rng(2)
    x, y = rng.uniform(size=(RECORDS, SIDE * SIDE)).astype(np.float32), rng.integers(0, 10, RECORDS)
    if settings.get("hidden", 0) is None:
        objective = tacit.objectives.from_model(apply, "cross_entropy", first_params(), shape=(SIDE, SIDE, 1))
    else:
        objective = tacit.objectives.cnn(side=SIDE, **settings)
    return objective, Batch(x, y)


# -- steps under a clip ------------------------------------------------------------------------------------------------
def clipped_and_plain(settings: dict[str, Any]) -> dict[str, float]:
    """Return time and memory of a step whose records are clipped over those of a plain one, taken in turn."""
    objective, data = network_and_records(settings)
    batch = jax.tree.map(jnp.asarray, data)
    params = objective.initial(batch)
    clip = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0).clip
    gradients = {"plain": jax.grad(objective.loss), "clipped": clipped_gradient(objective, clip)}

    def stepped(gradient: Callable[..., Any], params: Any, batch: Batch) -> Any:
        return jax.tree.map(lambda w, g: w - STEP * g, params, gradient(params, batch))

    calls = {name: (jax.jit(partial(stepped, g)), (params, batch)) for name, g in gradients.items()}
    return {"parameters": float(sum(leaf.size for leaf in jax.tree.leaves(params))), **compared(calls)}


def compared(calls: dict[str, tuple[Any, tuple[Any, ...]]]) -> dict[str, float]:
    """Return time and memory of the function "clipped" with its arguments over those of "plain", taken in turn."""
    programs = {name: function.lower(*arguments).compile() for name, (function, arguments) in calls.items()}
    memory, clocks = {}, {name: {"wall": [], "processor": []} for name in programs}
    for name, program in programs.items():
        plan = program.memory_analysis()
        memory[name] = plan.temp_size_in_bytes + plan.argument_size_in_bytes + plan.output_size_in_bytes
        jax.block_until_ready(program(*calls[name][1]))
    for _ in range(REPETITIONS):
        for name, program in programs.items():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(STEPS):
                jax.block_until_ready(program(*calls[name][1]))
            clocks[name]["wall"].append((time.perf_counter() - wall) / STEPS)
            clocks[name]["processor"].append((time.process_time() - processor) / STEPS)
    times = {name: {clock: statistics.median(v) for clock, v in clock_of.items()} for name, clock_of in clocks.items()}
    return {
        "plain_seconds": times["plain"]["wall"],
        "plain_bytes": float(memory["plain"]),
        "time": times["clipped"]["wall"] / times["plain"]["wall"],
        "processor": times["clipped"]["processor"] / times["plain"]["processor"],
        "memory": memory["clipped"] / memory["plain"],
    }


# -- what a peer computes before its noise -----------------------------------------------------------------------------
class SeenError(Exception):
    """Carries the first release of a peer that was about to be computed."""


def of_a_peer(mechanism: Mechanism, objective: Objective, data: Batch) -> tuple[Any, tuple[Any, ...]]:
    """Return a peer's function of a round with data, and what it is called with."""
    from tacit.peer import run_in_process
    from tacit.peer.machine.functions import AgentFunctions
    from tacit.peer.machine.releases import BookedReleaser, NothingBooked
    from tacit.privacy.noise import NoiseSource

    both = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (1, 2, *leaf.shape)), data)
    stream = tacit.streams.from_function(lambda start, stop: both, agents=2, rounds=1)
    method = tacit.algorithms.adapt_then_combine(objective, STEP, mechanism)
    booked = AgentFunctions.prepare_booked

    def seen(self: AgentFunctions, index: int, key: Any, state: Any, batch: Batch, view: Any, *rest: Any) -> Any:
        raise SeenError(self._compute[index], (key, state, batch, view))

    AgentFunctions.prepare_booked = seen  # type: ignore[method-assign]
    try:
        releaser = BookedReleaser(NothingBooked(), NoiseSource())
        run_in_process(method, tacit.graphs.complete(2), stream, rounds=1, releaser=lambda role, agent: releaser)
    except SeenError as found:
        return found.args[0], found.args[1]
    finally:
        AgentFunctions.prepare_booked = booked  # type: ignore[method-assign]
    raise AssertionError("a peer releases something in a round")


def peer_and_plain(settings: dict[str, Any]) -> dict[str, float]:
    """Return time and memory of what a peer computes under a clip over those without a mechanism."""
    objective, data = network_and_records(settings)
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
    mechanisms = {"plain": unprotected, "clipped": noise}
    return compared({name: of_a_peer(mechanism, objective, data) for name, mechanism in mechanisms.items()})


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", default=os.environ.get("TORCH_PYTHON"), help="an interpreter that has torch")
    parser.add_argument("--only", choices=("rounds", "clipped", "peer"))
    asked = parser.parse_args()
    misses, found = [], {}
    if asked.only in (None, "rounds"):
        times, ratio = rounds_of_all(asked.torch)
        found["rounds"] = {"seconds": times, "over_best": ratio}
        print(f"tacit over the best of the others: {ratio:.2f} (goal {GOAL})")
        misses += [f"{ratio:.2f} of the best other, goal {GOAL}"] if ratio < GOAL else []
    parts = {"clipped": ("records clipped", clipped_and_plain), "peer": ("a peer's release", peer_and_plain)}
    chosen = [(part, name) for part in parts if asked.only in (None, part) for name in CLIPPED]
    for part, network in chosen:
        words, measured = parts[part]
        cost, name = measured(CLIPPED[network]), f"{part}, {network}"
        found[name] = cost
        print(
            f"{words} over plain, batch {RECORDS}, network {network}: time {cost['time']:.2f} (goal "
            f"{TIME_GOAL}), processor {cost['processor']:.2f}, memory {cost['memory']:.2f} (goal {MEMORY_GOAL}); plain "
            f"{1e3 * cost['plain_seconds']:.0f} ms, {cost['plain_bytes'] / 2**20:.0f} MiB"
        )
        misses += [f"{name}: time {cost['time']:.2f}, goal {TIME_GOAL}"] if cost["time"] > TIME_GOAL else []
        misses += [f"{name}: memory {cost['memory']:.2f}, goal {MEMORY_GOAL}"] if cost["memory"] > MEMORY_GOAL else []
    print("all goals met" if not misses else "missed: " + "; ".join(misses))
    write("networks", {**found, "missed": misses}, "jax", "numpy")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
