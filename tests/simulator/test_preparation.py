"""Preparing data once, what a method shows of its states, and the cluster that an agent sees itself in."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Algorithm, Phase, PrivacyStatement, share, unprotected
from tacit.core.errors import ConfigError
from tacit.peer import run_in_process

AGENTS, LABELS = 5, np.array([1, 0, 2, 1, 0])
GRAPH = tacit.graphs.ring(AGENTS).with_clusters(LABELS)


class Squared(NamedTuple):
    x: jax.Array
    y: jax.Array
    weight: jax.Array | None
    size: jax.Array


def prepare(batch):
    return Squared(batch.x, batch.y, batch.weight, jnp.sum(batch.x**2))


def summing():
    """Adds up what `prepare` made of each round's batch, and tells neighbours its own cluster."""

    def compute(key, state, batch, view):
        return {**state, "sum": state["sum"] + batch.size}, state["w"]

    def emit(state, released, view):
        return state, share(released, public=jnp.asarray(view.cluster, jnp.int32))

    def absorb(key, state, inbox, view):
        heard = jnp.sum(jnp.where(inbox.arrived & (inbox.slot > 0), inbox.values().public + 1, 0))
        return {**state, "own": jnp.asarray(view.cluster, jnp.int32), "heard": heard.astype(jnp.int32)}

    zero = lambda dtype: jnp.zeros((), dtype)  # noqa: E731
    return Algorithm(
        "summing",
        tacit.objectives.squared(),
        {
            "peer": lambda key, params, views: {
                "w": params,
                "sum": zero(params.dtype),
                "own": zero(jnp.int32),
                "heard": zero(jnp.int32),
            }
        },
        (Phase("peers", compute, unprotected, absorb, emit),),
        lambda state: state["w"] + state["sum"],
        frozenset({"reliable"}),
        PrivacyStatement.none(),
        prepare=prepare,
        diagnostics={name: lambda state, name=name: state[name] for name in ("sum", "own", "heard")},
    )


def streams():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    own = [np.arange(k, 20, AGENTS) for k in range(AGENTS)]
    cyclic = tacit.streams.from_arrays(x, y, own, task="regression", exhausted="cycle")
    return {"resident": cyclic, "whole": tacit.streams.whole(x, y, own, task="regression")}


@pytest.mark.parametrize("kind", ["resident", "whole"])
def test_a_prepared_batch_is_the_batch_of_its_round(kind):
    data, rounds = streams()[kind], 7
    run = tacit.simulate(summing(), GRAPH, data, rounds=rounds, record_every=1)
    x = data.chunk(0, rounds).x
    sums = np.cumsum(np.sum(x**2, axis=tuple(range(2, x.ndim))), axis=0)
    np.testing.assert_allclose(run.recorded["sum"][0], sums, rtol=1e-5)
    if kind == "resident":
        peers = run_in_process(summing(), GRAPH, data, rounds=rounds)
        np.testing.assert_allclose(peers.models[-1], run.models[0], rtol=1e-6)


def test_agents_know_their_cluster_in_every_repeat():
    other = LABELS[::-1]
    graph = lambda seed: tacit.graphs.ring(AGENTS).with_clusters([LABELS, other][seed])  # noqa: E731
    run = tacit.simulate(summing(), graph, streams()["whole"], rounds=2, repeats=2, record_every=2)
    for r, labels in enumerate((LABELS, other)):
        np.testing.assert_array_equal(run.recorded["own"][r, -1], labels)
        np.testing.assert_array_equal(run.recorded["heard"][r, -1], np.roll(labels, 1) + np.roll(labels, -1) + 2)


def test_a_record_may_not_be_called_as_the_methods_own(tmp_path):
    with pytest.raises(ConfigError, match="'sum'.*another name"):
        tacit.simulate(summing(), GRAPH, streams()["whole"], rounds=1, record={"sum": np.sum})


def test_diagnostics_outlive_a_restart(tmp_path):
    data = streams()["whole"]
    whole = tacit.simulate(summing(), GRAPH, data, rounds=6, record_every=2)
    tacit.simulate(summing(), GRAPH, data, rounds=4, record_every=2, checkpoint=tmp_path / "state")
    rest = tacit.simulate(summing(), GRAPH, data, rounds=6, record_every=2, checkpoint=tmp_path / "state")
    np.testing.assert_array_equal(rest.recorded["sum"], whole.recorded["sum"])
