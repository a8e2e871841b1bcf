"""What a method may ask of what it heard."""

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.contract import Message
from tacit.core.errors import ContractError
from tacit.core.inbox import StackedInbox

WEIGHT = jnp.array([0.5, 0.3, 0.2])
VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def inbox(arrived, weight=WEIGHT):
    there = np.asarray(arrived)
    shown = np.where(there[:, None], VALUES, 0)
    return StackedInbox(Message(jnp.asarray(shown), jnp.asarray(there, jnp.float32)), jnp.asarray(there), weight, 3)


@pytest.mark.parametrize("arrived", [[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1]])
def test_the_mean_is_over_those_who_arrived(arrived):
    there = np.array(arrived, bool)
    weight = np.asarray(WEIGHT)[there]
    expected = weight @ VALUES[there] / weight.sum()
    found = inbox(there).mean()
    np.testing.assert_allclose(found.private, expected, rtol=1e-6)
    np.testing.assert_allclose(found.public, 1, rtol=1e-6)


def test_where_nobody_arrived_it_is_zero_and_not_nan():
    np.testing.assert_array_equal(inbox([False] * 3).mean().private, [0, 0])


def test_it_needs_the_weights():
    with pytest.raises(ContractError, match="the sender has applied them"):
        inbox([True] * 3, weight=None).mean()
