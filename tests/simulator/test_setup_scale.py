"""Set-up grows with agents and links, and the compiled programs do not."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

import tacit
from benchmarks import setup as benchmark
from tacit.graphs import Channel, Graph
from tacit.graphs.edges import stable_order
from tacit.simulator.simulation import Options, Simulation

OPTIONS = Options(
    rounds=5, repeats=1, seed=0, channel=Channel(), dtype=np.dtype("float32"), start=None, node_loss=None, figures={},
    evaluate="everyone", record={}, record_every=None, checkpoint=None, progress=False, liars={},
)  # fmt: skip
METHODS = {
    "plain": tacit.algorithms.online_push_sum(tacit.objectives.logistic()),
    "private": tacit.algorithms.online_push_sum(
        tacit.objectives.logistic(), mechanism=tacit.privacy.laplace(epsilon=1.0, clip=1.0, norm="l1")
    ),
}


def two_degrees(agents: int) -> Graph:
    """A ring in which every second agent hears twelve more: two buckets, whatever its size."""
    ids, near = np.arange(agents), np.repeat(np.arange(1, agents, 2), 12)
    senders = np.concatenate([ids, (near + np.tile(np.arange(2, 14), agents // 2)) % agents])
    return tacit.graphs.from_edges(agents, senders, np.concatenate([(ids + 1) % agents, near]))


@cache
def texts(method: str, agents: int, repeats: int) -> list[str]:
    stream = tacit.streams.logistic_drift(agents=agents, dim=3, rounds=5)
    graph = two_degrees(agents)
    simulation = Simulation(METHODS[method], graph, stream, replace(OPTIONS, repeats=repeats))
    assert len(simulation.learners.buckets) == 2
    network, number = simulation.network, jax.ShapeDtypeStruct((), np.int32)
    loop = jax.eval_shape(simulation.engine.start, network, simulation.params, None)
    found = [
        jax.jit(simulation.engine.start).lower(network, simulation.params, None),
        jax.jit(simulation.programs.advance_shard).lower(network, loop, simulation.data.resident(), number, number),
        jax.jit(simulation.programs.models_of_shard).lower(network, loop),
    ]
    return [program.as_text() for program in found]


def shape_of(program: str) -> str:
    return re.sub(r"\d+", "0", program)


@pytest.mark.parametrize(("method", "repeats"), [("plain", 1), ("private", 2)])
def test_programs_hold_nothing_of_the_size_of_the_run(method: str, repeats: int) -> None:
    small, large = (list(map(shape_of, texts(method, agents, repeats))) for agents in (600, 2_000))
    assert small == large


@pytest.mark.parametrize(("method", "repeats"), [("plain", 1), ("private", 2)])
def test_no_maximum_is_taken_over_what_is_the_same_for_all(method: str, repeats: int) -> None:
    """The compiler would take it itself, agent by agent."""
    spread = r"(%\w+) = stablehlo\.broadcast_in_dim %c\w*, dims = \[\] : \(tensor<\w+>\) -> tensor<\d{3,}x\w+>"
    for program in texts(method, 600, repeats):
        for function in program.split("func.func"):
            constant = set(re.findall(spread, function))
            assert not constant & set(re.findall(r"stablehlo\.reduce\((%\w+) ", function))


def test_links_are_sorted_by_counting() -> None:
    values = np.random.default_rng(0).integers(0, 50, 1_000).astype(np.int32)
    assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))
    assert stable_order(values[:0]).size == 0


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, second = (benchmark.in_own_process(100, str(tmp_path)) for _ in range(2))
    assert first["programs"] > 0
    assert second["programs"] == 0
    assert first["loss"] == second["loss"]
