"""A swarm: the same experiment in the simulator and as real processes over mutual TLS, model by model.

    python examples/swarm.py                 # some ten seconds

Three processes on this machine, each with a certificate of its own from an authority that the script makes in a
temporary directory, run push-sum over one-sided links. Every model of every round is compared with the simulator's;
the script prints the largest difference, and what the processes sent. The command line has the same:
`tacit swarm run examples/swarm-ops.toml`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tacit.deploy.comparison import compare
from tacit.experiments import build, parse

EXPERIMENT = """
[run]
name = "swarm"
rounds = 10
dtype = "float64"      # so that what is compared is the algorithm, and not the order of rounding

[graph]
kind = "random_digraph"
agents = 3
out_degree = 1

[stream]
kind = "logistic_drift"
dim = 5
batch = 8

[objective]
kind = "logistic"
l2 = 1e-4

[[algorithm]]
name = "online_push_sum"
step = 0.5
"""


def main() -> None:
    problem = build(parse(EXPERIMENT, Path("swarm.toml")))
    with tempfile.TemporaryDirectory(prefix="tacit-swarm-") as folder:
        outcome = compare(problem, 0, Path(folder) / "members")
    print(f"{outcome.processes} processes, {outcome.rounds} rounds")
    print(f"largest difference from the simulator, any coordinate of any round: {outcome.difference:.1e}")
    print(f"loss over the last rounds: {outcome.loss:.4f}, simulated {outcome.simulated_loss:.4f}")
    if outcome.socket_bytes is not None:
        print(f"sent by all together: {outcome.socket_bytes:,} bytes, TLS and all")
    assert outcome.within(1e-6), "the processes and the simulator disagree"


if __name__ == "__main__":
    main()
