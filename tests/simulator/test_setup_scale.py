"""Set-up grows with agents and links, and the compiled programs do not."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest

import tacit
from benchmarks import setup as benchmark
from tacit.core.errors import ConfigError, GraphError
from tacit.graphs import Channel, Graph
from tacit.graphs.edges import refuse_large, stable_order
from tacit.simulator import layout
from tacit.simulator.layout import RoleLayout
from tacit.simulator.setup import Setup
from tacit.simulator.shards.devices import loop_specs
from tacit.simulator.simulation import Options, Simulation
from tests.simulator.several import started

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


def sharded_texts(method: str, agents: int, repeats: int) -> list[str]:
    """Return the programs of two devices, which this process has to have."""
    stream = tacit.streams.logistic_drift(agents=agents, dim=3, rounds=5)
    options = replace(OPTIONS, repeats=repeats, devices=2)
    simulation = Simulation(METHODS[method], two_degrees(agents), stream, options)
    programs, network, found = simulation.programs, simulation.network, []

    def noted(function: Any, *arguments: Any, donate: Any = ()) -> Any:
        found.append(jax.jit(function).lower(*arguments).as_text())
        return lambda *given: jax.eval_shape(function, *given)

    with mock.patch("tacit.simulator.shards.programs.compiled", noted):
        loop = programs.start(network, simulation.params, None)
        programs.compile(network, programs.devices.shapes(loop, loop_specs(loop)), simulation.data.resident())
    return found


SHARDED = """
from tests.simulator.test_setup_scale import shape_of, sharded_texts
for method, repeats in (("plain", 1), ("private", 2)):
    small, large = (list(map(shape_of, sharded_texts(method, agents, repeats))) for agents in (600, 2_000))
    assert len(small) == 3 and small == large, method
"""


def test_programs_of_several_devices_hold_nothing_of_the_size_of_the_run() -> None:
    process = started("-W", "ignore", "-c", SHARDED, devices=2)
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(("method", "repeats"), [("plain", 1), ("private", 2)])
def test_no_maximum_is_taken_over_what_is_the_same_for_all(method: str, repeats: int) -> None:
    """The compiler would take it itself, agent by agent."""
    spread = r"(%\w+) = stablehlo\.broadcast_in_dim %c\w*, dims = \[\] : \(tensor<\w+>\) -> tensor<\d{3,}x\w+>"
    for program in texts(method, 600, repeats):
        for function in program.split("func.func"):
            constant = set(re.findall(spread, function))
            assert not constant & set(re.findall(r"stablehlo\.reduce\((%\w+) ", function))


def test_equal_numbers_stay_in_their_order() -> None:
    values = np.random.default_rng(0).integers(0, 50, 1_000).astype(np.int32)
    assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))
    assert stable_order(values[:0]).size == 0


def test_links_beyond_32_bits_are_refused() -> None:
    """Of 1e8 agents and 1e9 links all places fit; what does not fit is refused before anything of its size is made."""
    with tacit.limits.memory(1e6):
        refuse_large(100_000_000, 1_000_000_000)
        with pytest.raises(GraphError, match="2,147,483,646"):
            refuse_large(100_000_000, 2_100_000_000)
    role = RoleLayout(4, np.arange(4), np.arange(4), (slice(0, 4),), np.zeros(4), None)
    graph: Any = SimpleNamespace(edges=2**31 - 3)
    with pytest.raises(GraphError, match="2,147,483,649"):
        layout._lay_out_links(graph, role, role, one_role=True)


def test_more_rows_under_way_than_32_bits_number_are_refused() -> None:
    spec = SimpleNamespace(message=(), delivery="share")
    fake: Any = SimpleNamespace(
        algorithm=SimpleNamespace(phases=[SimpleNamespace(links="peers")]),
        channel=SimpleNamespace(on=lambda links: SimpleNamespace(longest_delay=20)),
        specs=[spec],
        layout=SimpleNamespace(links={"peers": SimpleNamespace(into=())}, shards=1),
        packings=[SimpleNamespace(bytes=4)],
        crews={},
        buffer_rows=lambda index, read: 110_000_000,
    )
    with tacit.limits.memory(1e6), pytest.raises(ConfigError, match="21 rounds of 110,000,000"):
        Setup._nothing_in_flight(fake, 0)


def test_losses_agree_to_the_bit_on_a_cpu_alone() -> None:
    one, near, far = ({"platform": p, "loss": x} for p, x in (("cpu", 0.5), ("cpu", 0.5 + 1e-9), ("gpu", 0.51)))
    assert benchmark.agree(one, one)
    assert not benchmark.agree(one, near)
    assert benchmark.agree({**one, "platform": "gpu"}, near)
    assert not benchmark.agree({**one, "platform": "gpu"}, far)


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, second = (benchmark.in_own_process(100, str(tmp_path)) for _ in range(2))
    assert first["programs"] > 0
    assert second["programs"] == 0
    assert first["loss"] == second["loss"]
