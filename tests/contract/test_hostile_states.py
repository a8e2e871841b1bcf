"""Neighbours send what they like: whatever a state was made of, a record moves what is released by what is booked.

Every private method, found by discovery. What an agent hears becomes its state, so the state is drawn at all sizes up to
what single precision holds, and beyond. One record of the batch is replaced, and the two values that `compute` hands to
the mechanism are compared with the declaration from which noise would be drawn, in the norm of that noise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.core.contract import Params
from tacit.peer.machine.releases import rounding
from tacit.peer.views import AgentViews
from tacit.streams import Batch
from tests.contract import cases
from tests.contract.cases import CASES, DIM, SISTERS, Case

SIZES = np.float32([0, 1, 1e3, 1e6, 1e12, 1e20, 1e30, 1e38, np.inf, np.nan])
RECORDS, DRAWS = 4, 12
CLIP = 0.96
OBJECTIVES = {"logistic": cases.OBJECTIVE, "squared": tacit.objectives.squared(l2=1e-3)}


def released(case: Case) -> int | None:
    """The phase of a case that releases data under noise as peers do: whole models they refuse."""
    algorithm = case.make()
    found = [
        k
        for k, phase in enumerate(algorithm.phases)
        if phase.source == algorithm.learner
        and phase.mechanism.distribution is not None
        and phase.mechanism.perturbs != "model"
        and not phase.mechanism.per_slot
    ]
    return found[0] if found else None


def repeated(case: Case) -> bool:
    return case.name.partition(",")[0] in SISTERS and case.name not in SISTERS.values()


SISTER = pytest.mark.covered_by("the squared loss, whose gradients are not bounded, of a method that shares the code")
PRIVATE = [c for c in CASES if released(c) is not None]


def heard(path, leaf) -> bool:
    """Whether a part of a state is made of what neighbours sent: models, multipliers, a mass; but no own settings."""
    return jnp.issubdtype(leaf.dtype, jnp.floating) and (leaf.ndim > 0 or "mass" in jax.tree_util.keystr(path))


def compiled(case: Case, index: int):
    """(key, size of what neighbours sent, batch) -> value and declaration of one agent, and a model in its state."""
    algorithm = runtime.self_contained(case.make())
    phase, role = algorithm.phases[index], algorithm.learner
    world = AgentViews(algorithm, runtime.prepared_topology(algorithm, case.graph), 0, jnp.dtype("float32"))
    views = world.views(role, 1, 1, RECORDS, world.now(1))

    def value(key, size, batch):
        params = algorithm.objective.initial(batch)
        state = algorithm.init[role](key, params, views)
        leaves, structure = jax.tree.flatten_with_path(state)
        keys = jax.random.split(key, len(leaves))
        hostile = [
            leaf + size * jax.random.normal(k, leaf.shape, leaf.dtype) if heard(path, leaf) else leaf
            for k, (path, leaf) in zip(keys, leaves, strict=True)
        ]
        state = jax.tree.unflatten(structure, hostile)
        _, found = runtime.compute(phase, index, key, state, batch, views[phase.links])
        said = next(leaf for leaf in hostile if leaf.shape == (DIM,))
        return found, runtime.declare(phase, found, RECORDS, views[phase.links]), said

    return jax.jit(jax.vmap(value)), phase.mechanism


def neighbours(rng: np.random.Generator, count: int, model: Params | None) -> tuple[Batch, Batch]:
    """Batches of which one record differs; with a model given, labels that are near what it says of a record."""
    x = rng.standard_normal((count, RECORDS, DIM)) * rng.choice([0.1, 1, 10], (count, RECORDS, 1))
    y = rng.choice([-1.0, 1.0], (count, RECORDS))
    with np.errstate(all="ignore"):
        if model is not None:
            y = np.float32(y + np.einsum("knd,kd->kn", x, np.asarray(model, np.float64)))
    there = Batch(np.float32(x), np.float32(y), np.ones((count, RECORDS), np.float32))
    other = rng.standard_normal((count, DIM)) * rng.choice([0.1, 1, 10], (count, 1))
    swapped_x, swapped_y = there.x.copy(), there.y.copy()
    swapped_x[:, 0], swapped_y[:, 0] = other, -there.y[:, 0]
    return there, Batch(swapped_x, swapped_y, there.weight)


def largest_change(case: Case, loss: str) -> float:
    """The largest change of the value over what is declared, rounding counted as peers count it."""
    index = released(case)
    value, mechanism = compiled(case, index)
    rng = np.random.default_rng(7)
    sizes = np.repeat(SIZES, DRAWS)
    keys = jax.random.split(jax.random.key(3), sizes.size)
    batch, other = neighbours(rng, sizes.size, None)
    if loss == "squared":
        model = value(keys, sizes, batch)[2]
        batch, other = neighbours(rng, sizes.size, model)
    one, two = (value(keys, sizes, each) for each in (batch, other))
    rows = lambda tree: np.concatenate([np.float64(leaf).reshape(sizes.size, -1) for leaf in jax.tree.leaves(tree)], 1)  # noqa: E731
    change = rows(one[0]) - rows(two[0])
    change[~np.isfinite(change)] = np.inf
    moved = np.linalg.norm(change, ord=2 if mechanism.distribution == "gaussian" else 1, axis=1)
    booked = np.float64(one[1].sensitivity) * (1 + rounding(RECORDS, one[0]))
    return float(np.max(moved / booked))


@pytest.mark.parametrize(
    ("case", "loss"),
    [
        pytest.param(c, loss, marks=SISTER if loss == "logistic" or repeated(c) else ())
        for c in PRIVATE
        for loss in OBJECTIVES
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_no_state_makes_a_record_move_more_than_is_booked(case, loss, monkeypatch):
    monkeypatch.setattr(cases, "OBJECTIVE", OBJECTIVES[loss])
    assert 0 < largest_change(case, loss) <= 1


def test_every_method_that_takes_noise_is_tried():
    tried = {c.name.partition(",")[0] for c in PRIVATE}
    assert tried == set(tacit.algorithms.REGISTRY) - set(cases.WITHOUT_NOISE)


def test_many_local_steps_round_within_the_clip():
    """A sum of a thousand equal gradients rounds each time, and always the same way."""
    mechanism = tacit.privacy.gaussian(1.0, clip=CLIP, perturbs="gradient")
    algorithm = tacit.algorithms.fedavg(OBJECTIVES["squared"], 1e-6, mechanism, cohort=1, local_steps=1000)
    world = AgentViews(
        algorithm, runtime.prepared_topology(algorithm, tacit.graphs.star_roles(1)), 0, jnp.dtype("float32")
    )
    view = world.views("client", 0, 1, 1, world.now(1))["uplink"]

    @jax.jit
    def value(y):
        batch = Batch(jnp.ones((1, 1)), y[None], jnp.ones(1))
        return runtime.compute(algorithm.phases[1], 1, jax.random.key(0), jnp.zeros(1), batch, view)[1]

    up, down = (np.float64(value(jnp.float32(y))) for y in (1e6, -1e6))
    booked = float(runtime.declare(algorithm.phases[1], up, 1, view).sensitivity)
    assert 0.999 * booked < np.abs(up - down) <= booked * (1 + rounding(1, np.float32(up)))
