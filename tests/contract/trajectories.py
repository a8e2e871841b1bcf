"""Digests of the trajectory of every case in both runtimes: `python -m tests.contract.trajectories FILE`.

Two commits compute the same if their files are the same: `diff before.txt after.txt`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import jax
import numpy as np

import tacit
from tacit.peer import run_in_process
from tests.contract.cases import CASES, ROUNDS, stream


def digest(*trees: object) -> str:
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(trees):
        array = np.ascontiguousarray(leaf)
        found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:16]


def main(path: str) -> None:
    lines = []
    for case in CASES:
        run = tacit.simulate(case.make(), case.graph, stream(), rounds=ROUNDS, channel=case.channel, seed=3, repeats=2)
        peers = run_in_process(case.make(), case.graph, stream(), rounds=ROUNDS, channel=case.channel, seed=3)
        spent = {name: value for name, value in run.privacy.summary().items() if isinstance(value, int | float)}
        lines.append(
            f"{case.name}: simulator {digest(run.models, run.per_round)}, peers {digest(peers.models, peers.loss)}, "
            f"spent {spent}"
        )
        print(lines[-1], flush=True)
        jax.clear_caches()
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
