"""States that go on to the links of another epoch: the model stays, and the form is that of the new links."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.algorithms import averaged
from tacit.core.contract import Links
from tacit.runtime import link_ends, make_view
from tests.contract.cases import CASES, Case

GOING_ON = [case for case in CASES if case.make().continuation is not None]
PARAMS = jnp.asarray([0.2, 0.3, 0.5])


def _views(method, size):
    links = Links(jnp.arange(size), jnp.ones(size, bool), jnp.full(size, 1 / size))
    return {name: make_view(agent=0, round=1, out=links, into=links) for name in link_ends(method)}


def _form(state):
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), str(jnp.asarray(leaf).dtype)), state)


def test_methods_with_fixed_members_go_on():
    names = {case.make().name for case in GOING_ON}
    assert {"distributed_online", "zcdp_admm", "private_admm", "adapt_then_combine", "networked_personalised"} <= names


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "averaged"])
@pytest.mark.parametrize("case", GOING_ON, ids=lambda case: case.name)
def test_the_model_stays_and_the_form_is_that_of_the_new_links(case: Case, wrapped: bool):
    method = averaged(case.make()) if wrapped else case.make()
    first = method.init["peer"](jax.random.key(0), PARAMS, _views(method, 3))
    chance = np.random.default_rng(0)
    learnt = jax.tree.map(lambda leaf: leaf + chance.uniform(0.1, 0.2, jnp.shape(leaf)).astype(leaf.dtype), first)
    found = method.continuation["peer"](learnt, _views(method, 5))
    assert _form(found) == _form(method.init["peer"](jax.random.key(0), PARAMS, _views(method, 5)))
    np.testing.assert_array_equal(method.model(found), method.model(learnt))


def test_multipliers_begin_anew_where_members_have_gone():
    method = next(case.make() for case in GOING_ON if case.make().name == "zcdp_admm")
    first = method.init["peer"](jax.random.key(0), PARAMS, _views(method, 3))
    found = method.continuation["peer"](first._replace(u=2 * PARAMS, gamma=PARAMS), _views(method, 5))
    np.testing.assert_array_equal(found.gamma, jnp.zeros(3))
    np.testing.assert_allclose(found.others, 4 * 2 * PARAMS, rtol=1e-6)
