"""What an agent that stays away does, method by method: docs/choosing.md says what runs show."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tacit
from tacit.algorithms import REGISTRY
from tacit.core.errors import ConfigError, RequirementError
from tacit.graphs import Attendance
from tests.contract.cases import AGENTS, DIM, FORMS, build, stream
from tests.daily import some
from tests.docs.pages import ROOT

SECTION = (ROOT / "docs" / "choosing.md").read_text("utf-8").partition("## Who stays away")[2]
KINDS = ("learns alone", "keeps its state", "is refused", "takes part all the same", "cannot be said")
ROWS = [line for line in SECTION.splitlines() if line.startswith(tuple(f"| {kind}" for kind in KINDS))]
SAID = {name: row.split("|")[1] for row in ROWS for name in re.findall(r"`(\w+)`", row.split("|")[2])}
DAILY = ("online_push_sum", "dynamic_mirror_descent", "zcdp_admm", "graph_federated", "pao_fed")
"""One of each kind."""


def test_every_method_stands_in_the_table_once() -> None:
    assert len(ROWS) == len(KINDS)
    own = [name for name, entry in REGISTRY.items() if entry.constructor.__module__.startswith("tacit.")]
    assert sorted(SAID) == sorted(own)
    assert sum(len(re.findall(r"`\w+`", row.split("|")[2])) for row in ROWS) == len(SAID)


def found(name: str) -> str:
    """Run two rounds, from the second of which agent 0 stays away, with the others' data of that round in two forms."""
    algorithm = build(name, **FORMS.get(name, ({}, {}))[0])
    table = np.ones((2, AGENTS), bool)
    table[1, 0] = False
    graph = tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0).with_clusters(np.arange(AGENTS) % 3)
    graph = graph.with_dynamics(Attendance(table))

    def models(sign: float) -> np.ndarray:
        batch = stream().chunk(0, 2)
        x = batch.x.copy()
        x[1, 1:] *= sign
        data = tacit.streams.from_function(
            lambda start, stop: batch._replace(x=x[start:stop], y=batch.y[start:stop]), agents=AGENTS, rounds=2
        )
        settings = {"record": {"models": np.asarray}, "record_every": 1}
        return tacit.simulate(algorithm, graph, data, rounds=2, **settings).recorded["models"][0, :, 0]

    try:
        (before, after), (_, other) = models(1.0), models(-1.0)
    except RequirementError:
        return "is refused"
    except ConfigError:
        return "cannot be said"
    assert before.shape == (DIM,)
    if not np.array_equal(after, other):
        return "takes part all the same"
    return "keeps its state" if np.array_equal(before, after) else "learns alone"


@pytest.mark.parametrize("name", some(REGISTRY, "one of each kind of answer", daily=DAILY))
def test_what_an_absent_agent_does_is_what_the_table_says(name: str) -> None:
    assert found(name) in SAID[name]
