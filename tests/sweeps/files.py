"""Small sweeps, as files."""

from __future__ import annotations

from pathlib import Path

EXPERIMENT = """
[run]
rounds = 6
seed = 3
{run}

[graph]
kind = "random_digraph"
agents = 5
out_degree = 2
{graph}

[stream]
kind = "logistic_drift"
dim = 3

[objective]
kind = "logistic"
l2 = 0.01

[[algorithm]]
name = "{method}"
{algorithm}
"""


def experiment(method: str = "online_push_sum", run: str = "", graph: str = "", algorithm: str = "") -> str:
    return EXPERIMENT.format(run=run, graph=graph, method=method, algorithm=algorithm)


def write(folder: Path, sweep: str, text: str | None = None) -> Path:
    """Write a sweep; `sweep` is what stands in [sweep], its [sweep.keys] included."""
    file = folder / "small.toml"
    file.write_text(f"[sweep]\n{sweep}\n{experiment() if text is None else text}")
    return file
