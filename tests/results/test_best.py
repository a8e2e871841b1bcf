"""The best models of a run, and runs that end once they get no better."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError
from tacit.results import Best

AGENTS = 3
OBJECTIVE = tacit.objectives.logistic()
METHOD = tacit.algorithms.distributed_online(OBJECTIVE, step=3.0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3)).astype("float32")
    return x, np.sign(x[:, 0] + rng.normal(size=90))


def run_with(best, rows, method=METHOD, **settings):
    x, y = rows
    stream = tacit.streams.from_arrays(x[:60], y[:60], np.arange(60) % AGENTS, batch=2, exhausted="cycle")
    given = {"rounds": 40, "record": {"held_out": best}, "record_every": 2} | settings
    return tacit.simulate(method, tacit.graphs.ring(AGENTS), stream, **given)


def test_it_keeps_the_best_and_ends_the_run(rows):
    x, y = rows
    whole = Best(OBJECTIVE, x[60:], y[60:])
    run = run_with(whole, rows)
    seen = run.recorded["held_out"][0]
    assert run.rounds == 40
    assert not run.partial
    assert whole.look == int(seen.argmin())
    assert whole.loss == seen.min()
    batch = tacit.streams.Batch(jnp.asarray(x[60:]), jnp.asarray(y[60:]))
    again = np.mean([OBJECTIVE.loss(model, batch) for model in np.asarray(whole.models)])
    assert np.isclose(again, whole.loss, rtol=1e-5)

    patient = Best(OBJECTIVE, x[60:], y[60:], patience=2)
    for _ in range(2):  # each run begins anew
        ended = run_with(patient, rows)
        looks = ended.recorded["held_out"][0]
        np.testing.assert_array_equal(looks, seen[: len(looks)])
        assert ended.partial
        assert ended.rounds == ended.recorded_rounds[-1] < 40
        assert patient.look == int(looks.argmin()) == len(looks) - 3
        assert looks[: patient.look + 3].min() == patient.loss


def test_what_it_cannot_judge_is_refused(rows):
    x, y = rows
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
    private = tacit.algorithms.distributed_online(OBJECTIVE, step=0.1, mechanism=noise)
    with pytest.raises(ConfigError, match="public=True"):
        run_with(Best(OBJECTIVE, x[60:], y[60:]), rows, private)
    public = Best(OBJECTIVE, x[60:], y[60:], public=True)
    run_with(public, rows, private, rounds=2)
    assert jax.tree.leaves(public.models)[0].shape[0] == AGENTS
    with pytest.raises(ConfigError, match="repeats = 2"):
        run_with(public, rows, repeats=2)
    with pytest.raises(ConfigError, match="patience"):
        Best(OBJECTIVE, x, y, patience=0)
