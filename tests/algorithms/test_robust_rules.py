"""Robust rules against slow NumPy transcriptions, and under lies of every size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, RequirementError
from tacit.core.robust_rules import RULES, Rows

LARGEST = np.finfo(np.float32).max


def trimmed(x, w, own, liars):
    found = np.empty(x.shape[1])
    for k in range(x.shape[1]):
        order = np.lexsort((w, x[:, k]))[liars : len(x) - liars]
        found[k] = np.average(x[order, k], weights=w[order])
    return found


def middle(x, w, own, liars):
    return np.median(x, axis=0)


def nearest_to_all(x, w, own, liars):
    at = np.median(x, axis=0)
    for _ in range(16):
        pull = 1 / np.maximum(np.linalg.norm(x - at, axis=1), 1e-6)
        at = pull @ x / pull.sum()
    return at


def shortened(x, w, own, liars):
    apart = x - x[own]
    length = np.linalg.norm(apart, axis=1)
    tau = np.sort(np.delete(length, own))[len(x) - 2 - 2 * liars]
    return x[own] + sum(w[j] * min(1, tau / length[j]) * apart[j] for j in range(len(x)) if j != own)


ON_PAPER = {
    "trimmed_mean": trimmed,
    "median": middle,
    "geometric_median": nearest_to_all,
    "clipped": shortened,
}


def rows(seed=0, senders=8, dim=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(senders, dim)), rng.uniform(0.5, 1, senders)
    return x.astype(dtype), (w / w.sum()).astype(dtype)


def combined(rule, x, w, here=None, own=0, **settings):
    here = np.ones(len(x), bool) if here is None else here
    w = np.where(here, w, 0)
    mine = np.arange(len(x)) == own
    given = Rows(*map(jnp.asarray, (x, here, w / w.sum(), mine)))
    return np.asarray(RULES[rule](**settings).combine(given))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("liars", [1, 2])
def test_a_rule_is_what_it_is_on_paper(rule, liars):
    x, w = rows(dtype=np.float32)
    expected = ON_PAPER[rule](x.astype(np.float64), w.astype(np.float64), 0, liars)
    np.testing.assert_allclose(combined(rule, x, w, liars=liars), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_what_did_not_arrive_is_never_read(rule):
    x, w = rows(dtype=np.float32)
    here = np.array([True] * 6 + [False] * 2)
    for there in (np.nan, np.inf, LARGEST):
        x[6:] = there
        found = combined(rule, x, w, here)
        np.testing.assert_allclose(found, combined(rule, x[:6], w[:6]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lie", [1e3, 1e18, 1e30, LARGEST])
def test_no_lie_leads_further_than_the_honest_values(rule, lie):
    x, w = rows(senders=10, dtype=np.float32)
    x[8], x[9] = lie, -lie if lie < LARGEST else lie
    found = combined(rule, x, w, liars=2)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) < 10


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_senders_does_not_matter(rule):
    x, w = rows(dtype=np.float32)
    x[[2, 5]] = x[3]  # ties, of different weights
    order = np.random.default_rng(1).permutation(len(x))
    own = int(np.flatnonzero(order == 0)[0])
    np.testing.assert_allclose(combined(rule, x[order], w[order], own=own), combined(rule, x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{"rule": "clipped", "liars": 0}, {"rule": "clipped", "tau": np.inf}])
def test_without_liars_a_rule_is_the_plain_mean(settings):
    x, w = rows()
    np.testing.assert_allclose(combined(x=x, w=w, **settings), w @ x, rtol=1e-5)
    np.testing.assert_allclose(combined("trimmed_mean", x, w, liars=0), w @ x, rtol=1e-5)


METHOD = tacit.algorithms.distributed_online(tacit.objectives.logistic())


@pytest.mark.parametrize(
    ("rule", "settings", "named"),
    [
        ("mode", {}, "trimmed_mean"),
        ("median", {"liars": -1}, "liars"),
        ("median", {"liars": True}, "liars"),
        ("median", {"tau": 1.0}, "tau"),
        ("clipped", {"tau": 0.0}, "tau"),
        ("geometric_median", {"iterations": 0}, "iterations"),
        ("geometric_median", {"smoothing": 0.0}, "smoothing"),
        ("clipped", {"quarantine": True}, "renormalise"),
        ("clipped", {"release": 0}, "release"),
    ],
)
def test_what_makes_no_sense_is_refused(rule, settings, named):
    with pytest.raises(ConfigError, match=named):
        tacit.algorithms.robust(METHOD, rule, **settings)


def test_a_neighbourhood_that_cannot_outvote_its_liars_is_refused_before_round_0():
    wary = tacit.algorithms.robust(METHOD, "median", liars=2)
    stream = tacit.streams.logistic_drift(agents=9, dim=2)
    with pytest.raises(RequirementError, match="liars = 2"):
        tacit.simulate(wary, tacit.graphs.small_world(9, 4, 0.0, seed=0), stream, rounds=1)
    tacit.simulate(wary, tacit.graphs.complete(9), stream, rounds=1)
