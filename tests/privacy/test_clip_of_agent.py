"""Clips of an agent's whole contribution: what is clipped, what it costs, and who cannot have it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.audit import conformance
from tacit.core.contract import Clip
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, star_roles
from tacit.privacy import clipped_mean, gaussian, gradient_parts, laplace, laplace_of_size
from tacit.privacy.clipping import clipped_share
from tacit.streams import Batch
from tests.algorithms.given import stream_of, two_classes

AGENTS, BATCH, DIM = 4, 6, 3
OBJECTIVE = tacit.objectives.squared(l2=0.1)
OF_AGENT = gaussian(1.0, clip=0.5, adjacency="agent")
AT = np.array([0.3, -0.2, 0.1])


def batch(scale: float = 1.0) -> Batch:
    rng = np.random.default_rng(0)
    return Batch(jnp.asarray(scale * rng.normal(size=(BATCH, DIM))), jnp.asarray(rng.normal(size=BATCH)))


def plain_mean(given: Batch) -> np.ndarray:
    """Of the data's part alone."""
    x, y = np.asarray(given.x), np.asarray(given.y)
    whole = jax.grad(OBJECTIVE.loss)(jnp.asarray(AT), given) - jax.grad(OBJECTIVE.loss.regulariser)(jnp.asarray(AT))  # type: ignore[attr-defined]
    assert x.shape[0] == y.shape[0]
    return np.asarray(whole)


@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_the_mean_is_clipped_and_no_record_by_itself(scale: float) -> None:
    given = batch(scale)
    mean = plain_mean(given)
    expected = mean * min(1, 0.5 / np.linalg.norm(mean))
    assert (np.linalg.norm(mean) > 0.5) == (scale > 1)
    parts = gradient_parts(OBJECTIVE, OF_AGENT.clip)
    np.testing.assert_allclose(parts.data(jnp.asarray(AT), given), expected, rtol=1e-5, atol=1e-7)
    assert parts.penalty is not None
    of_one = jax.grad(OBJECTIVE.loss.data)  # type: ignore[attr-defined]
    by_records = clipped_mean(of_one, Clip(0.5, "l2", "agent"))(jnp.asarray(AT), given)
    np.testing.assert_allclose(by_records, expected, rtol=1e-5, atol=1e-7)
    share = clipped_share(OBJECTIVE, Clip(0.5, "l2", "agent"))(jnp.asarray(AT), given)
    assert float(share) == (scale > 1)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
def test_nothing_that_an_agent_holds_takes_it_beyond_the_bound(norm: Any) -> None:
    bound = Clip(0.5, norm, "agent")
    data = jax.jit(gradient_parts(OBJECTIVE, bound).data)
    size = {"l2": np.linalg.norm, "l1": lambda g: np.abs(g).sum(), "linf": lambda g: np.abs(g).max()}[norm]
    for scale in (1e-20, 1.0, 1e8, 1e30, np.inf):
        assert size(np.asarray(data(jnp.asarray(AT, jnp.float32), batch(scale)), np.float64)) <= 0.5


def test_several_local_steps_are_clipped_as_one() -> None:
    """Two steps that are not cut by themselves, and their mean gradient, which is."""
    given, step = batch(3.0), 0.1
    noiseless = OF_AGENT._replace(distribution=None, sensitivity=None, ratio=None, perturbs="gradient")
    method = tacit.algorithms.fedavg(OBJECTIVE, step, noiseless, cohort=1, local_steps=2)
    first, second = AT, None
    data, rest = jax.grad(OBJECTIVE.loss.data), jax.grad(OBJECTIVE.loss.regulariser)  # type: ignore[attr-defined]
    one = np.asarray(data(jnp.asarray(first), given))
    second = first - step / 2 * (one + np.asarray(rest(jnp.asarray(first))))
    mean = (one + np.asarray(data(jnp.asarray(second), given))) / 2
    assert np.linalg.norm(mean) > 0.5
    still = stream_of(np.asarray(given.x)[None, None], np.asarray(given.y)[None, None])
    run = tacit.simulate(method, star_roles(1), still, rounds=1, start=AT, dtype="float64")
    expected = AT - step * (mean * 0.5 / np.linalg.norm(mean) + 0.1 * AT)
    np.testing.assert_allclose(run.models[0, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["distributed_online", "fedavg"])
def test_peers_release_what_the_simulator_does_and_cut_nothing(name: str) -> None:
    x, y = two_classes(3, (6, AGENTS, BATCH), DIM)
    settings = {"cohort": 2, "local_steps": 2} if name == "fedavg" else {}
    graph = star_roles(AGENTS) if name == "fedavg" else tacit.graphs.ring(AGENTS)
    method = tacit.algorithms.find(name).constructor(
        tacit.objectives.logistic(), step=0.2, mechanism=OF_AGENT, **settings
    )
    trial = conformance.Trial(method, graph, stream_of(4 * x, y), Channel(), 6, 3)
    conformance.simulator_equals_peers(trial, "float64", 1e-10)
    conformance.releases_keep_to_their_declaration(trial)


def test_it_costs_what_a_clip_of_each_record_costs_and_says_what_is_clipped() -> None:
    x, y = two_classes(3, (5, AGENTS, BATCH), DIM)
    ring = tacit.graphs.ring(AGENTS)

    def run(unit: Any) -> Any:
        method = tacit.algorithms.distributed_online(OBJECTIVE, 0.2, laplace(0.5, clip=1.0, adjacency=unit))
        return tacit.simulate(method, ring, stream_of(x, y), rounds=5)

    whole, each = run("agent").privacy, run("dataset").privacy
    assert (whole.guarantee.epsilon, whole.guarantee.unit) == (each.guarantee.epsilon, "agent") == (2.5, "agent")
    assert whole.statement.adjacency == each.statement.adjacency
    assert whole.statement.assumptions != each.statement.assumptions


def test_the_clip_of_noise_of_a_given_size_may_be_the_agents() -> None:
    assert laplace_of_size(0.1, clip=2.0, adjacency="agent").clip == Clip(2.0, "l2", "agent")
    assert laplace_of_size(0.1, adjacency="agent").clip is None


@pytest.mark.parametrize("name", ["private_admm", "personalised_graph_federated"])
def test_local_problems_that_are_solved_to_the_end_cannot_have_it(name: str) -> None:
    settings = {"clusters": 3, "tau": 0.1} if name == "personalised_graph_federated" else {}
    with pytest.raises(ConfigError, match="'dataset'"):
        tacit.algorithms.find(name).constructor(OBJECTIVE, mechanism=OF_AGENT, **settings)
