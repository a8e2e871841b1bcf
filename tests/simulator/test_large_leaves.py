"""Messages whose large leaves stand by themselves: the same trajectories as side by side with the others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Algorithm
from tacit.core.mechanism import unprotected
from tacit.graphs import Channel, Delay, Graph, Topology, star_roles
from tacit.privacy import local_graph_homomorphic
from tacit.simulator import inbox

AGENTS, DIM, HIDDEN, ROUNDS = 5, 3, 4, 6


def network(params: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["in"] + params["bias"]) @ params["out"]


def objective() -> tacit.core.contract.Objective:
    rng = np.random.default_rng(0)
    first = {"in": rng.normal(size=(DIM, HIDDEN)), "bias": np.zeros(HIDDEN), "out": rng.normal(size=HIDDEN)}
    return tacit.objectives.from_model(network, "logistic", first)


def run(algorithm: Algorithm, graph: Graph | Topology, channel: Channel) -> Any:
    stream = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, seed=1)
    return tacit.simulate(algorithm, graph, stream, rounds=ROUNDS, channel=channel, dtype="float64")


LATE = Channel(loss=0.2, delay=Delay(p=0.5, longest=2))
CASES = {
    "shared": (tacit.algorithms.gradient_tracking, unprotected, tacit.graphs.ring(AGENTS), Channel()),
    "pushed": (
        tacit.algorithms.online_push_sum,
        unprotected,
        tacit.graphs.random_digraph(AGENTS, 2, seed=0),
        Channel(),
    ),
    "late": (
        tacit.algorithms.loss_tolerant_push_sum,
        unprotected,
        tacit.graphs.random_digraph(AGENTS, 2, seed=0),
        LATE,
    ),
    "a server's": (tacit.algorithms.fedavg, unprotected, star_roles(AGENTS), Channel()),
    "masked": (
        tacit.algorithms.adapt_then_combine,
        local_graph_homomorphic(0.1),
        tacit.graphs.complete(AGENTS),
        Channel(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_same_trajectory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix of 12 numbers by itself, the two vectors together; then all of them together."""
    constructor, mechanism, graph, channel = CASES[name]
    algorithm = constructor(objective(), 0.2, mechanism)
    together = run(algorithm, graph, channel)
    monkeypatch.setattr(inbox, "LARGE", DIM * HIDDEN)
    apart = run(algorithm, graph, channel)
    for one, other in zip(jax.tree.leaves(apart.models), jax.tree.leaves(together.models), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(apart.per_round["bits"], together.per_round["bits"])


def test_a_large_leaf_has_a_group_of_its_own_where_nothing_looks_at_all_numbers_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "LARGE", DIM * HIDDEN)
    seen: list[list[int]] = []
    lay = inbox.Packing.__init__

    def noted(self: inbox.Packing, *given: Any, **named: Any) -> None:
        lay(self, *given, **named)
        seen.append(sorted(self.widths.values()))

    monkeypatch.setattr(inbox.Packing, "__init__", noted)
    for name in ("pushed", "masked"):
        constructor, mechanism, graph, channel = CASES[name]
        run(constructor(objective(), 0.2, mechanism), graph, channel)
    assert seen == [[2 * HIDDEN + 1, DIM * HIDDEN], [(DIM + 2) * HIDDEN]]  # with the mass beside the vectors
