"""A million agents on a GPU through the public API: `python -m benchmarks.gpu`.

Prints the device, its copy bandwidth, and agent-rounds per second of tacit and of the hand-written version.
"""

from __future__ import annotations

import statistics
import sys
import time

import jax
import jax.numpy as jnp

from benchmarks.engine import REPETITIONS
from benchmarks.variants import handwritten_jax, tacit_api

AGENTS = 1_000_000
ROUNDS = 3_000
COPIED = 2**29


def copy_bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    source = jnp.ones(COPIED, jnp.float32)
    copy = jax.jit(lambda a: a + 1)
    jax.block_until_ready(copy(source))
    begun = time.perf_counter()
    for _ in range(10):
        out = copy(source)
    jax.block_until_ready(out)
    return 10 * 2 * source.nbytes / (time.perf_counter() - begun)


SMOKE = {"AGENTS": 16, "ROUNDS": 2, "REPETITIONS": 1, "COPIED": 2**10}


def main() -> int:
    print(jax.devices(), "jax", jax.__version__)
    print(f"copy bandwidth {copy_bandwidth() / 1e12:.2f} TB/s")
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else AGENTS
    for name, make in (("tacit", tacit_api), ("jax by hand", handwritten_jax)):
        advance = make(agents)
        print(name, "loss of five rounds", advance(5))
        rates = []
        advance(ROUNDS)
        for _ in range(REPETITIONS):
            begun = time.perf_counter()
            advance(ROUNDS)
            seconds = getattr(advance, "seconds", time.perf_counter() - begun)
            rates.append(agents * ROUNDS / seconds)
        every = ", ".join(f"{rate / 1e9:.3f}" for rate in rates)
        print(f"{name}: {statistics.median(rates) / 1e9:.3f}e9 agent-rounds/s ({every})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
