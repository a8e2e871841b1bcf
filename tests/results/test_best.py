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


def test_what_it_cannot_judge_is_refused(rows, tmp_path):
    x, y = rows
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
    private = tacit.algorithms.distributed_online(OBJECTIVE, step=0.1, mechanism=noise)
    with pytest.raises(ConfigError, match="public=True"):
        run_with(Best(OBJECTIVE, x[60:], y[60:]), rows, private)
    public = Best(OBJECTIVE, x[60:], y[60:], public=True)
    run_with(public, rows, private, rounds=2)
    assert jax.tree.leaves(public.models)[0].shape[0] == AGENTS
    with pytest.raises(ConfigError, match="checkpoint"):
        run_with(public, rows, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ConfigError, match="repeats"):
        Best(OBJECTIVE, x, y).of(run_with(public, rows, rounds=2))
    with pytest.raises(ConfigError, match="patience"):
        Best(OBJECTIVE, x, y, patience=0)


def test_each_repeat_has_its_best(rows):
    """Repeats that differ: noise is another in each."""
    x, y = rows
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
    private = tacit.algorithms.distributed_online(OBJECTIVE, step=1.0, mechanism=noise)
    best = Best(OBJECTIVE, x[60:], y[60:], public=True)
    run = run_with(best, rows, private, repeats=3)
    seen = run.recorded["held_out"]
    assert [found.look for found in best.each] == seen.argmin(axis=1).tolist()
    np.testing.assert_array_equal([found.loss for found in best.each], seen.min(axis=1))
    chosen = best.of(run)
    assert np.shape(chosen.models) == np.shape(run.models)
    assert chosen.chosen.rounds == tuple(run.recorded_rounds[found.look] for found in best.each)
    batch = tacit.streams.Batch(jnp.asarray(x[60:]), jnp.asarray(y[60:]))
    again = [np.mean([OBJECTIVE.loss(model, batch) for model in models]) for models in chosen.models]
    np.testing.assert_allclose(again, seen.min(axis=1), rtol=1e-5)

    patient = Best(OBJECTIVE, x[60:], y[60:], public=True, patience=2)
    ended = run_with(patient, rows, private, repeats=3)
    looks = ended.recorded["held_out"]
    np.testing.assert_array_equal(looks, seen[:, : looks.shape[1]])
    if ended.rounds < 40:  # all of them got no better
        assert max(looks.argmin(axis=1)) == looks.shape[1] - 3
        assert not patient.of(ended).partial


@pytest.mark.parametrize("owner", [None, "1"])
def test_the_best_models_are_files_with_their_card(rows, tmp_path, owner):
    x, y = rows
    best = Best(OBJECTIVE, x[60:], y[60:], patience=2)
    run = run_with(best, rows)
    model = best.of(run).model(owner=owner)
    found = tacit.load_model(model.save(tmp_path / "best.safetensors"))
    expected = np.asarray(best.models)
    expected = expected.mean(axis=0) if owner is None else expected[int(owner)]
    np.testing.assert_allclose(found.params, expected, rtol=1e-6)
    assert found.card.made.rounds == run.recorded_rounds[best.look] < run.rounds
    assert any("30 rows" in note for note in found.card.notes)
    assert not found.card.made.partial
