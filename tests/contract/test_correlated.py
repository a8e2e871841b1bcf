"""Correlated noise with every registered method: it runs, or it is refused before round 0 with the reason."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import pytest

import tacit
from tacit import runtime
from tacit.core.errors import ConfigError
from tacit.peer.views import AgentViews
from tacit.privacy import correlated
from tests.contract.cases import FORMS, build, graph_of, stream

PRIVATE = [
    entry.name
    for entry in tacit.algorithms.REGISTRY.values()
    if "mechanism" in inspect.signature(entry.constructor).parameters
]
IN_SEQUENCE = {"lagrangian_descent"}
"""Their state holds data (a private dual variable), so that a record has a say in all later releases."""
BATCH = jax.tree.map(lambda leaf: leaf[0, 0], stream().chunk(0, 1))


def settled(name: str, **settings: object) -> tuple[runtime.MessageSpec, ...]:
    """Go as far as a run goes before its first round."""
    algorithm = build(name, correlated(rounds=20, rho=2.0), **{**FORMS.get(name, ({}, {}))[1], **settings})
    dtype = jnp.dtype("float32")
    world = AgentViews(algorithm, runtime.prepared_topology(algorithm, graph_of(algorithm)), 0, dtype)
    views = {role: world.views(role, 0, 0, 0, world.at_first()) for role in algorithm.init}
    return runtime.settle(algorithm, runtime.first_params(algorithm, BATCH, dtype, None), BATCH, views)


@pytest.mark.parametrize("name", [name for name in PRIVATE if name not in IN_SEQUENCE])
def test_every_method_that_keeps_no_data_takes_it(name: str) -> None:
    releases = [spec.release for spec in settled(name) if spec.release.from_data]
    assert releases
    assert all(release.memory() is not None and not release.in_sequence for release in releases)


@pytest.mark.parametrize("name", [*sorted(IN_SEQUENCE), "constrained_mirror_descent"])
def test_a_method_whose_state_holds_data_says_so(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as refusal:
        settled(name, dual="private")
    assert "gaussian" in str(refusal.value)
