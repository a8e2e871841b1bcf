"""Averages of models: what each kind computes, and settings that are refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.algorithms.model_average import AVERAGES
from tacit.core.errors import ConfigError

MODELS = np.random.default_rng(0).normal(size=(40, 3))
METHOD = tacit.algorithms.online_push_sum(tacit.objectives.logistic())


def averages(kind: str, **settings: float) -> np.ndarray:
    """Return the average after each of the models, in double precision."""
    average = AVERAGES[kind](**settings)

    def add(kept, model):
        kept = average.add(kept, model)
        return kept, kept.average

    with jax.enable_x64(True):
        return np.asarray(jax.lax.scan(add, average.first(jnp.full(3, 9.0)), jnp.asarray(MODELS))[1])


def weighted(weights: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.average(MODELS[: k + 1], axis=0, weights=w) for k, w in enumerate(weights)])


@pytest.mark.parametrize(
    ("kind", "settings", "weight"),
    [
        ("mean", {}, lambda j, k: 1.0),
        ("mean", {"power": 1.0}, lambda j, k: j),
        ("mean", {"power": 3}, lambda j, k: j * (j + 1) * (j + 2)),
        ("exponential", {"rate": 0.2}, lambda j, k: 0.8 ** (k - j)),
        ("tail", {"share": 1.0}, lambda j, k: 1.0),
    ],
)
def test_an_average_has_the_weights_that_it_states(kind, settings, weight):
    expected = weighted([np.array([weight(j, k) for j in range(1, k + 1)]) for k in range(1, len(MODELS) + 1)])
    np.testing.assert_allclose(averages(kind, **settings), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("share", [0.5, 0.25, 0.75, 0.125])
def test_a_tail_is_the_mean_of_at_least_its_share(share):
    """Starts s_0 = 0, s_1 = 1 and s_(m+1) the first c with c - s_m >= share c; from the round after it s_m is used."""
    starts = [0, 1]
    while starts[-1] < len(MODELS):
        starts.append(next(c for c in range(starts[-1] + 1, 10**6) if c - starts[-1] >= share * c))
    used = [max(s for s, until in zip([0, *starts], starts, strict=False) if until < k) for k in range(1, 41)]
    expected = np.stack([MODELS[s:k].mean(axis=0) for k, s in enumerate(used, start=1)])
    np.testing.assert_allclose(averages("tail", share=share), expected, rtol=1e-12, atol=1e-13)
    covered = 1 - np.array(used) / np.arange(1, 41)
    assert covered.min() >= share
    assert covered[20:].max() <= share * (2 - share) + 0.1


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        ("meen", {}, "did you mean 'mean'"),
        ("mean", {"power": -1.0}, "power = -1.0"),
        ("exponential", {"rate": 1.0}, "rate = 1.0"),
        ("tail", {"share": 0.0}, "share = 0.0"),
        ("tail", {"rate": 0.1}, "rate"),
    ],
)
def test_what_is_no_average_is_refused(kind, settings, named):
    with pytest.raises(ConfigError, match=named):
        tacit.algorithms.averaged(METHOD, kind, **settings)
