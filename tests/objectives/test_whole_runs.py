"""Networks through whole runs, in the simulator and in peers: texts with an embedding, and half precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.audit import conformance
from tacit.graphs import Channel
from tacit.objectives import from_model
from tacit.peer import run_in_process

AGENTS, ROWS, BATCH, ROUNDS, WORDS, PLACES = 3, 240, 8, 20, 7, 5
GRAPH = tacit.graphs.ring(AGENTS)


def texts() -> tuple[np.ndarray, np.ndarray]:
    """Rows of words; the label says whether word 3 is among them."""
    words = np.random.default_rng(0).integers(0, WORDS, (ROWS, PLACES))
    return words, (words == 3).any(axis=1).astype(np.int64)


def bag(params: Any, x: jax.Array) -> jax.Array:
    return params["words"][x.astype("int32")].mean(axis=1) @ params["out"]


def embedding() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"words": rng.normal(size=(WORDS, 4)).astype("float32"), "out": rng.normal(size=(4, 2)).astype("float32")}


def stream(x: np.ndarray, y: np.ndarray, passes: int = 1) -> tacit.streams.Stream:
    reads: dict[str, Any] = {"exhausted": "cycle"} if passes == 1 else {"exhausted": "mask", "passes": passes}
    return tacit.streams.from_arrays(x, y, np.arange(len(y)) % AGENTS, task="multiclass", batch=BATCH, **reads)


def learnt(objective: Any, x: np.ndarray, y: np.ndarray, mechanism: Any = tacit.core.contract.unprotected) -> Any:
    method = tacit.algorithms.adapt_then_combine(objective, 1.0, mechanism)
    run = tacit.simulate(method, GRAPH, stream(x, y), rounds=ROUNDS, seed=2)
    peers = run_in_process(method, GRAPH, stream(x, y), rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(run.per_round["loss"][0], peers.loss, rtol=2e-3)
    return run


@pytest.mark.parametrize("noise", [False, True])
def test_texts_go_through_an_embedding(noise: bool) -> None:
    """Words as whole numbers come to the model as floating ones, and are looked up as they were."""
    x, y = texts()
    objective = from_model(bag, "cross_entropy", embedding())
    mechanism = (
        tacit.privacy.gaussian(0.01, clip=1.0, perturbs="gradient") if noise else tacit.core.contract.unprotected
    )
    run = learnt(objective, x, y, mechanism)
    loss = run.per_round["loss"][0]
    assert loss[-5:].mean() < 0.8 * loss[0]
    batch = tacit.streams.Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y))
    known = tacit.streams.Batch(jnp.asarray(x), jnp.asarray(y))
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), run.models)
    assert float(objective.loss(model, batch)) == float(objective.loss(model, known))


def test_half_precision_through_a_whole_run() -> None:
    """The model computes in bfloat16; states, messages and what is learnt are as in single precision, but for rounding."""
    x, y = texts()
    rows = np.eye(WORDS, dtype="float32")[x].sum(axis=1)
    seen: list[Any] = []

    def dense(params: Any, x: jax.Array) -> jax.Array:
        seen.append(x.dtype)
        return x @ params["words"] @ params["out"]

    runs = [
        learnt(from_model(dense, "cross_entropy", embedding(), precision=p), rows / PLACES, y)
        for p in ("float32", "bfloat16")
    ]
    assert {jnp.dtype("float32"), jnp.dtype("bfloat16")} <= {jnp.dtype(d) for d in seen}
    single, half = (run.per_round["loss"][0] for run in runs)
    assert {leaf.dtype.name for run in runs for leaf in jax.tree.leaves(run.models)} == {"float32"}
    np.testing.assert_array_equal(runs[0].per_round["bits"], runs[1].per_round["bits"])
    assert np.abs(half - single).max() < 0.05
    assert not np.array_equal(half, single)
    assert half[-5:].mean() < 0.8 * half[0]


def test_correlated_noise_costs_a_network_what_it_says_and_leaves_less_in_it_than_independent_noise() -> None:
    """Two passes over ten batches at the same rho, beside the clip alone: how far noise took the models, one seed."""
    x, y = texts()
    objective, reads = (
        from_model(bag, "cross_entropy", embedding()),
        {"rounds": 20, "rho": 0.5, "participation": (2, 10)},
    )

    def trial(mechanism: Any) -> conformance.Trial:
        method = tacit.algorithms.adapt_then_combine(objective, 0.3, mechanism)
        return conformance.Trial(method, GRAPH, stream(x, y, passes=2), Channel(), 20, 3)

    blt, plain = (tacit.privacy.correlated(**reads, strategy=kind) for kind in ("blt", "independent"))  # type: ignore[arg-type]
    trials = [trial(noise) for noise in (blt, plain, blt._replace(distribution=None, correlation=None))]
    conformance.simulator_equals_peers(trials[0])
    conformance.releases_keep_to_their_declaration(trials[0])
    runs = [each.precise for each in trials]
    assert runs[0].privacy.guarantee.rho == runs[1].privacy.guarantee.rho == pytest.approx(0.5)
    models = [np.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(run.models)]) for run in runs]
    apart = [np.linalg.norm(model - models[2]) for model in models[:2]]
    assert 0.01 < apart[0] < apart[1]
