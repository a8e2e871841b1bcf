"""Cases of the contract on one device and on several: `python -m tests.simulator.sharded float64 2,4`.

Prints a line of JSON for each: the largest difference of models, figures and records, relative to 1 + their size, and
whether the two promise and spend the same privacy. The process needs as many devices as are asked for; with a fourth
argument of the form HOST:PORT/PROCESSES/PROCESS it is one of several, and the one device is each process's own.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import jax
import numpy as np

import tacit
from tacit.core.errors import TacitWarning
from tacit.simulator.shards.hosts import join
from tests.contract.cases import CASES, Case, stream

REPEATS = 3
"""Not the number of devices: whole repeats on each have no link between them."""


def run_of(case: Case, dtype: str, devices: int | None) -> Any:
    settings = {"rounds": 12, "seed": 3, "repeats": REPEATS, "record_every": 4, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return tacit.simulate(
            case.make(), case.graph, stream(), channel=case.channel, dtype=dtype, devices=devices, **settings
        )


def difference(one: Any, many: Any) -> float:
    worst = 0.0
    both = ((run.models, run.per_round, run.recorded) for run in (one, many))
    for leaves in zip(*map(jax.tree.leaves, both), strict=True):
        a, b = (np.asarray(leaf, float) for leaf in leaves)
        if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        worst = max(worst, float(np.nanmax(np.abs(a - b) / (1 + np.abs(a)), initial=0)))
    return worst


def main(dtype: str, devices: str, names: str = "", processes: str = "") -> None:
    if processes:
        address, count, number = processes.split("/")
        join(address, int(count), int(number))
    for case in CASES:
        if names and case.name not in names.split(";"):
            continue
        many = {int(count): run_of(case, dtype, int(count)) for count in devices.split(",")}
        expected = None if processes else run_of(case, dtype, 1)
        for count, run in many.items():
            models = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(run.models)]
            found = {"name": case.name, "devices": count, "loss": run.per_round["loss"].tolist(), "models": models}
            if expected is not None:
                same = str(expected.privacy.summary()) == str(run.privacy.summary())
                found |= {"difference": difference(expected, run), "privacy": same}
            print(json.dumps(found), flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main(*sys.argv[1:])
