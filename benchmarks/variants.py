"""Five ways to compute the same rounds. Each takes agents and returns a function of the number of rounds.

The function runs that many more rounds and returns their summed average loss, so that all five can be compared.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.problem import DIM, L2, STEP, data, make, weights

Advance = Callable[[int], float]


def tacit_api(agents: int) -> Advance:
    """tacit through its public API; a run is as long as one repetition."""
    import tacit

    problem = make(agents)
    objective = tacit.objectives.logistic(l2=L2)
    algorithm = tacit.algorithms.online_push_sum(objective, step=STEP)

    def advance(rounds: int) -> float:
        run = tacit.simulate(
            algorithm, problem.graph, problem.stream, rounds=rounds, record_every=rounds, progress=False
        )
        advance.seconds = run.seconds  # type: ignore[attr-defined]
        return float(np.sum(run.per_round["loss"], dtype=np.float64))

    return advance


def handwritten_jax(agents: int) -> Advance:
    """One file of JAX for this one computation: padded slots, one gather per slot, unrolled."""
    import jax
    import jax.numpy as jnp

    problem = make(agents)
    graph = problem.graph
    edge, own = weights(graph)
    in_degree = graph.in_degree
    width = int(in_degree.max())
    slot = np.arange(graph.edges) - np.repeat(np.cumsum(in_degree) - in_degree, in_degree)
    index = np.tile(np.arange(agents, dtype=np.int32), (width, 1))
    weight = np.zeros((width, agents), np.float32)
    index[slot, graph.receivers] = graph.senders
    weight[slot, graph.receivers] = edge
    x, y = map(jnp.asarray, data(problem))
    index, weight, own = jnp.asarray(index), jnp.asarray(weight), jnp.asarray(own)

    def body(t, carry):  # type: ignore[no-untyped-def]
        state, total, index, weight, own, x, y = carry
        xt, yt = x[t % problem.period], y[t % problem.period]
        z, mass = state[:, :-1], state[:, -1:]
        w = z / mass
        margin = yt * jnp.sum(xt * w, axis=1)
        e = jnp.exp(-jnp.abs(margin))
        loss = jnp.log1p(e) + jnp.maximum(-margin, 0) + 0.5 * L2 * jnp.sum(w * w, axis=1)
        gradient = (-yt * jnp.where(margin > 0, e, 1) / (1 + e))[:, None] * xt + L2 * w
        moved = jnp.concatenate([z - STEP * gradient, mass], axis=1)
        mixed = own[:, None] * moved
        for k in range(width):
            mixed = mixed + weight[k][:, None] * moved.at[index[k]].get(mode="promise_in_bounds")
        return mixed, total + jnp.mean(loss), index, weight, own, x, y

    @jax.jit
    def run(state, rounds, index, weight, own, x, y):  # type: ignore[no-untyped-def]
        return jax.lax.fori_loop(0, rounds, body, (state, jnp.float32(0), index, weight, own, x, y))[:2]

    start = jnp.concatenate([jnp.zeros((agents, DIM)), jnp.ones((agents, 1))], axis=1)

    def advance(rounds: int) -> float:
        return float(run(start, rounds, index, weight, own, x, y)[1])

    return advance


def numpy_csr(agents: int) -> Advance:
    """NumPy for the local step, a scipy.sparse CSR matrix for the mix."""
    problem = make(agents)
    matrix = problem.graph.with_weights("sender").matrix().astype(np.float32)
    x, y = data(problem)

    def advance(rounds: int) -> float:
        state = np.zeros((agents, DIM + 1), np.float32)
        state[:, -1] = 1
        total = 0.0
        for t in range(rounds):
            xt, yt = x[t % problem.period], y[t % problem.period]
            z, mass = state[:, :-1], state[:, -1:]
            w = z / mass
            margin = yt * np.einsum("ij,ij->i", xt, w)
            e = np.exp(-np.abs(margin))
            total += float(np.mean(np.log1p(e) + np.maximum(-margin, 0) + 0.5 * L2 * np.einsum("ij,ij->i", w, w)))
            pull = np.where(margin > 0, e, 1) / (1 + e)
            state[:, :-1] = z + STEP * ((yt * pull)[:, None] * xt - L2 * w)
            state = matrix @ state
        return total

    return advance


def c_kernel(agents: int) -> Advance:
    """A C kernel for this dimension, compiled here and now."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-bench-"))
    library = folder / "kernel.so"
    source = Path(__file__).with_name("kernel.c")
    flags = ["-O3", "-march=native", "-ffast-math", "-fPIC", f"-DDIM={DIM}"]
    subprocess.run(["gcc", *flags, "-c", "-o", f"{library}.o", str(source)], check=True)
    # Linked without -ffast-math, which would have the whole process take numbers near 0 for 0 from then on.
    subprocess.run(["gcc", "-shared", "-o", str(library), f"{library}.o", "-lm"], check=True)
    kernel = ctypes.CDLL(str(library)).push_sum_rounds
    kernel.restype = ctypes.c_double

    problem = make(agents)
    graph = problem.graph
    edge, own = weights(graph)
    start = np.concatenate([[0], np.cumsum(graph.in_degree)]).astype(np.int32)
    senders = np.ascontiguousarray(graph.senders, np.int32)
    x, y = data(problem)
    row = (DIM + 1 + 3) // 4 * 4

    def pointer(array: np.ndarray) -> ctypes.c_void_p:
        return array.ctypes.data_as(ctypes.c_void_p)

    def advance(rounds: int) -> float:
        state = np.zeros((agents, row), np.float32)
        state[:, DIM] = 1
        moved = np.zeros_like(state)
        arrays = [pointer(a) for a in (x, y, start, senders, edge, own, state, moved)]
        total = kernel(agents, rounds, problem.period, *arrays, ctypes.c_float(STEP), ctypes.c_float(L2))
        return float(total) / agents

    return advance


def python_loop(agents: int) -> Advance:
    """One agent after the other, as simulators with an object per agent do; NumPy inside an agent."""
    problem = make(agents)
    x, y = data(problem)
    outs = [problem.graph.neighbours_out(i) for i in range(agents)]

    def advance(rounds: int) -> float:
        models = [np.zeros(DIM, np.float32) for _ in range(agents)]
        masses = [1.0] * agents
        total = 0.0
        for t in range(rounds):
            inbox: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(agents)]
            for i in range(agents):
                xi, yi = x[t % problem.period, i], float(y[t % problem.period, i])
                w = models[i] / masses[i]
                margin = yi * float(xi @ w)
                e = math.exp(-abs(margin))
                total += (math.log1p(e) + max(-margin, 0.0) + 0.5 * L2 * float(w @ w)) / agents
                pull = (e if margin > 0 else 1.0) / (1 + e)
                moved = models[i] + STEP * (yi * pull * xi - L2 * w)
                share = 1 / (1 + len(outs[i]))
                part = (share * moved, share * masses[i])
                inbox[i].append(part)
                for j in outs[i]:
                    inbox[j].append(part)
            for i in range(agents):
                models[i] = np.sum([z for z, _ in inbox[i]], axis=0)
                masses[i] = sum(m for _, m in inbox[i])
        return total

    return advance


VARIANTS: dict[str, Callable[[int], Advance]] = {
    "tacit": tacit_api,
    "jax by hand": handwritten_jax,
    "numpy + csr": numpy_csr,
    "c kernel": c_kernel,
    "python loop": python_loop,
}
