"""Methods whose members come and go: what a joiner adds, what a leaver keeps, and that wrappers keep to it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.algorithms import averaged
from tacit.core.contract import Algorithm, Links
from tacit.runtime import emit, make_view
from tacit.runtime.slots import NO_SLOT, moved_state
from tests.contract.cases import CASES, Case

OPEN = [case for case in CASES if case.make().membership is not None]
PARAMS = jnp.asarray([0.2, 0.3, 0.5])


def _links(size: int, own: float = 0.25) -> Links:
    share = (1 - own) / (size - 1)
    return Links(jnp.arange(size), jnp.ones(size, bool), jnp.asarray([own, *[share] * (size - 1)]))


def _views(out: int = 4, into: int = 3, own: float = 0.25):
    return {"peers": make_view(agent=0, round=1, out=_links(out, own), into=_links(into))}


def _first(method: Algorithm, **sizes):
    return method.init["peer"](jax.random.key(0), PARAMS, _views(**sizes))


def test_some_method_lets_members_come_and_go():
    assert {"online_push_sum", "loss_tolerant_push_sum"} <= {case.make().name for case in OPEN}


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "averaged"])
@pytest.mark.parametrize("case", OPEN, ids=lambda case: case.name)
def test_a_joiner_holds_nothing_and_only_passes_on(case: Case, wrapped: bool):
    method = averaged(case.make(), "tail") if wrapped else case.make()
    state = _first(method)
    vacant = method.membership.vacant(state)
    assert jax.tree.structure(vacant) == jax.tree.structure(state)
    assert bool(method.membership.settled(state))
    assert not bool(method.membership.settled(vacant))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(method.model(vacant)))


@pytest.mark.parametrize("case", OPEN, ids=lambda case: case.name)
def test_a_leaver_keeps_nothing_and_who_passes_on_adds_no_noise(case: Case):
    method = case.make()
    (phase,) = method.phases
    state = _first(method)
    view = _views(own=0.0)["peers"]._replace(fresh=jnp.asarray(False), into=_links(3)._replace(live=jnp.zeros(3, bool)))
    noise = jax.tree.map(lambda leaf: 100 * jnp.ones_like(leaf), PARAMS)
    after, outbox = emit(phase, state, noise, view, None)[:2]
    assert all(np.abs(leaf).max() < 50 for leaf in jax.tree.leaves(outbox.message))
    if outbox.delivery == "per_slot":  # running totals: what stays is in the state
        assert all(np.allclose(leaf, 0) for leaf in jax.tree.leaves(after.held))


def test_memories_of_links_go_with_their_links():
    method = tacit.algorithms.loss_tolerant_push_sum(tacit.objectives.squared())
    state = _first(method, out=3, into=3)
    marked = state._replace(heard_round=jnp.asarray([0, 11, 22]))
    kept = {"peers": {"into": [0, 2, NO_SLOT, NO_SLOT, NO_SLOT]}}
    moved = moved_state(method, "peer", jax.random.key(0), PARAMS, marked, _views(out=3, into=5), kept)
    assert moved.heard_round.tolist() == [0, 22, 0, 0, 0]
    assert moved.sent.high.mass.shape == (3,)
    assert moved.heard.high.mass.shape == (5,)
