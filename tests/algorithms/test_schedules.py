"""Step sizes that a user gives as functions of the round: in the run's precision, and the same in both runtimes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.algorithms.schedules import as_schedule, inverse, inverse_sqrt
from tacit.core.errors import ConfigError
from tacit.peer import run_in_process

OBJECTIVE = tacit.objectives.logistic(l2=1e-2)
GRAPH = tacit.graphs.complete(3).with_weights("metropolis")
ROUNDS = 6
TABLE = jnp.array([0.0, 0.5, 0.25, 0.125, 0.0625, 0.0, 1.0])
STEPS = {
    "a root": (lambda t: 0.3 / jnp.sqrt(t), lambda t: 0.3 / np.sqrt(t)),
    "a logarithm": (lambda t: 0.1 * jnp.log(1 + t), lambda t: 0.1 * np.log(1 + t)),
    "a whole number": (lambda t: 1, lambda t: 1.0),
    "a float": (lambda t: 0.1, lambda t: 0.1),
    "a power of the round": (lambda t: 0.5 * 0.9**t, lambda t: 0.5 * 0.9**t),
    "an entry of a table": (lambda t: TABLE[t], lambda t: float(TABLE[t])),
    "the round itself": (lambda t: t, float),
}


@pytest.fixture(scope="module")
def data():
    return tacit.streams.logistic_drift(agents=3, dim=2, rounds=ROUNDS, seed=4)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_ones_own_is_taken_in_double_precision_in_both_runtimes(name, data):
    """Gradient descent with averaging in NumPy; in single precision a root alone would be off by 1e-8."""
    given, exact = STEPS[name]
    chunk = data.chunk(0, ROUNDS)
    a, y = chunk.x.astype(np.float64), chunk.y.astype(np.float64)
    x = np.zeros((3, 2))
    for t in range(1, ROUNDS + 1):
        slopes = -y[t - 1] / (1 + np.exp(y[t - 1] * np.sum(a[t - 1] * x, axis=1)))
        x = np.full((3, 3), 1 / 3) @ (x - exact(t) * (slopes[:, None] * a[t - 1] + 1e-2 * x))
    algorithm = tacit.algorithms.distributed_online(OBJECTIVE, step=given)
    run = tacit.simulate(algorithm, GRAPH, data, rounds=ROUNDS, dtype="float64", progress=False)
    np.testing.assert_allclose(run.models[0], x, rtol=1e-12, atol=1e-14)
    if name in ("a root", "a whole number"):  # the others differ by what is traced, not by who runs it
        peers = run_in_process(algorithm, GRAPH, data, rounds=ROUNDS, dtype="float64")
        np.testing.assert_allclose(peers.models[-1], x, rtol=1e-12, atol=1e-14)


def test_a_schedule_takes_a_round_as_python_counts_it():
    assert float(inverse(1.0)(4)) == 0.25
    assert float(inverse_sqrt(1.0)(4)) == 0.5
    assert float(as_schedule(lambda t: 2)(4)) == 2.0
    assert as_schedule(lambda t: 2)(jnp.int32(4)).dtype == jnp.float32


def test_a_step_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match="step"):
        as_schedule(lambda t: jnp.ones(3))(jnp.int32(1))
