"""Importance sampling around a server: against a transcription of its equations, unbiased, and towards the optimum."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit import runtime
from tacit.algorithms import Shares, fedavg, importance_fedavg, optimal_shares
from tacit.algorithms._parts.sampling import Sample, systematic_cohort, uniform_cohort
from tacit.algorithms.federated._importance import mixed, redistributed
from tacit.algorithms.federated.importance_fedavg import local_training
from tacit.core.contract import View
from tacit.core.errors import ConfigError, DataError
from tacit.graphs import federation, ring, star_roles
from tacit.peer.in_memory import run_in_process
from tests.daily import some

CLIENTS, PLACES, ROUNDS, COHORT, STEP, L2, FLOOR = 7, 9, 24, 3, 0.05, 1e-2, 0.2
SIZES = np.array([9, 4, 7, 9, 3, 6, 2])
STEPS, BATCHES = [1, 2, 3, 1, 2, 1, 2], [1, 3, 4, 2, 3, 4, 4]
OBJECTIVE = tacit.objectives.squared(l2=L2)
DATA = tacit.streams.linear_regression(CLIENTS, PLACES, 2, seed=5, noise_variance=(0.2, 1.0))
STREAM = DATA.stream(SIZES)
OPTIMUM, _ = DATA.optima(L2, SIZES)
RULES = ("uniform", "given", "current", "sampled")
FALSE_ALARM = 1e-6


def shares() -> Shares:
    batch = jax.tree.map(lambda leaf: leaf[0], STREAM.chunk(0, 1))
    return optimal_shares(OBJECTIVE, batch, SIZES, jnp.asarray(OPTIMUM), STEPS, BATCHES, FLOOR)


def method(rule: str, **settings):
    given = {"cohort": COHORT, "local_steps": STEPS, "batch_size": BATCHES, "records": PLACES, "floor": FLOOR}
    probabilities = GIVEN if rule == "given" else rule
    return importance_fedavg(OBJECTIVE, STEP, probabilities, **{**given, **settings})


GIVEN = shares()


@functools.cache
def simulated(rule: str):
    return tacit.simulate(
        method(rule), star_roles(CLIENTS), STREAM, rounds=ROUNDS, seed=3, dtype="float64", record={"w": lambda m: m[0]},
        record_every=1,
    )  # fmt: skip


# -- the equations, in numpy -------------------------------------------------------------------------------------------


class Choices:
    """The draws of a run, with the keys that the runtimes use and the functions of `cohorts`."""

    def __init__(self, rule: str) -> None:
        self.rule, self.root = rule, jax.random.key(3)
        self.call = 1 if rule == "current" else 0
        self._even = jax.jit(uniform_cohort, static_argnums=2)
        self._unequal = jax.jit(systematic_cohort, static_argnums=2)

    def key(self, role: int, agent: int, t: int, phase: int):
        key = runtime.agent_key(self.root, role, 0, agent)
        return jax.random.fold_in(jax.random.fold_in(key, t), phase * 4 + 1)

    def draw(self, key, p: np.ndarray, size: int, taken: int) -> Sample:
        if self.rule == "uniform":
            chosen = np.asarray(self._even(key, len(p), size, taken))[:taken]
            return Sample(chosen, np.full(taken, 1 / len(p)))
        padded = np.pad(capped_by_hand(np.asarray(p, float), taken), (0, PLACES - len(p)))  # one shape for all
        found = self._unequal(key, padded, size, taken)
        return Sample(np.asarray(found.chosen)[:taken], np.asarray(found.share)[:taken])

    def clients(self, t: int, p: np.ndarray) -> Sample:
        return self.draw(self.key(1, 0, t, self.call), p, COHORT, COHORT)

    def records(self, t: int, k: int, e: int, p: np.ndarray) -> Sample:
        key = jax.random.fold_in(self.key(0, k, t, self.call + 1), e)
        return self.draw(key, p, max(BATCHES), min(BATCHES[k], SIZES[k]))


def capped_by_hand(p: np.ndarray, taken: int) -> np.ndarray:
    """Set whoever is above the cap to it and share the rest out, one at a time."""
    p, at_cap = p / p.sum(), np.zeros(len(p), bool)
    while (p[~at_cap] > (1 + 1e-9) / taken).any():
        at_cap[np.argmax(np.where(at_cap, -1, p))] = True
        p = np.where(at_cap, 1 / taken, p / p[~at_cap].sum() * (1 - at_cap.sum() / taken))
    return p


def floored(p: np.ndarray) -> np.ndarray:
    return (1 - FLOOR) * p / p.sum() + FLOOR / len(p)


def gradients(w: np.ndarray, k: int) -> np.ndarray:
    x, y = DATA.x[k, : SIZES[k]].astype(float), DATA.y[k, : SIZES[k]].astype(float)
    return (x @ w - y)[:, None] * x + L2 * w


def worth(k: int, norms: np.ndarray, p: np.ndarray, whole: float) -> float:
    draws = STEPS[k] * min(BATCHES[k], SIZES[k])
    sigma = 6 / draws / SIZES[k] ** 2 * np.sum(norms**2 / p)
    return np.sqrt(sigma + (3 + 6 / draws) * whole)


def by_hand(rule: str) -> np.ndarray:
    """Algorithm 2.1, round by round: (rounds, 2) the server's models."""
    choices, w, path = Choices(rule), np.zeros(2), []
    p_clients = np.ones(CLIENTS) / CLIENTS
    p_records = [np.ones(n) / n for n in SIZES]
    for t in range(1, ROUNDS + 1):
        norms = [np.linalg.norm(gradients(w, k), axis=1) for k in range(CLIENTS)]
        if rule == "given":
            p_clients, p_records = GIVEN.clients, [GIVEN.records[k, :n] for k, n in enumerate(SIZES)]
        if rule == "current":  # (2.50), (2.51)
            p_records = [floored(n) for n in norms]
            whole = [np.sum(gradients(w, k).mean(axis=0) ** 2) for k in range(CLIENTS)]
            p_clients = np.array([worth(k, norms[k], p_records[k], whole[k]) for k in range(CLIENTS)])
        drawn = choices.clients(t, p_clients if rule in ("uniform", "given") else floored(p_clients))
        models, values = [], []
        for k, p_k in zip(drawn.chosen, drawn.share, strict=True):
            at, seen, before = w, np.zeros(2), p_records[k]
            for e in range(STEPS[k]):
                p = p_records[k]
                sample = choices.records(t, k, e, floored(p) if rule == "sampled" else p)
                scale = 1 / (len(sample.chosen) * SIZES[k] * sample.share)
                at_w = scale @ gradients(w, k)[sample.chosen]
                at = at - STEP / (STEPS[k] * CLIENTS * p_k) * (scale @ gradients(at, k)[sample.chosen])
                seen = seen + at_w / STEPS[k]
                if rule == "sampled":  # (2.54)
                    mine = norms[k][sample.chosen]
                    p = p.copy()
                    p[sample.chosen] = mine / mine.sum() * p[sample.chosen].sum()
                    p_records[k] = p
            models.append(at)
            values.append(worth(k, norms[k], floored(before), np.sum(seen**2)))
        if rule == "sampled":  # (2.53)
            values = np.array(values)
            p_clients = p_clients.copy()
            p_clients[drawn.chosen] = values / values.sum() * p_clients[drawn.chosen].sum()
        w = np.mean(models, axis=0)
        path.append(w)
    return np.array(path)


@pytest.mark.parametrize("rule", some(RULES, "the shares of samples, which are all of it", daily=["sampled"]))
def test_against_the_equations(rule):
    with jax.enable_x64(True):
        expected = by_hand(rule)
    np.testing.assert_allclose(simulated(rule).recorded["w"][0], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.covered_by("the equations and the shares below")
@pytest.mark.parametrize("rule", RULES[1:])
def test_peers_go_the_same_way(rule):
    peers = run_in_process(method(rule), star_roles(CLIENTS), STREAM, rounds=6, seed=3, dtype="float64")
    np.testing.assert_allclose(peers.models[:, 0], simulated(rule).recorded["w"][0][:6], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(peers.messages, simulated(rule).per_round["messages"][0][:6])


@pytest.mark.covered_by("the equations and the shares below")
def test_uniform_is_fedavg_and_a_survey_costs_messages_to_and_from_all():
    averaging = fedavg(OBJECTIVE, STEP, cohort=COHORT, local_steps=STEPS, batch_size=BATCHES)
    run = tacit.simulate(averaging, star_roles(CLIENTS), STREAM, rounds=ROUNDS, seed=3, dtype="float64")
    np.testing.assert_allclose(run.models, simulated("uniform").models, rtol=1e-9)
    assert np.all(simulated("sampled").per_round["messages"] == 2 * COHORT)
    assert np.all(simulated("current").per_round["messages"] == 2 * COHORT + 2 * CLIENTS)


# -- the estimator -----------------------------------------------------------------------------------------------------


@pytest.mark.covered_by("the equations and the shares below")
def test_a_step_is_unbiased_whatever_the_shares():
    """First models of 1,000 runs from w = 0, one local step: Hotelling's T^2, false alarms 1 in 1e6."""
    whole = np.mean([gradients(np.zeros(2), k).mean(axis=0) for k in range(CLIENTS)], axis=0)
    skewed = Shares(np.arange(1.0, CLIENTS + 1), np.tile(np.arange(PLACES, 0.0, -1), (CLIENTS, 1)))
    once = importance_fedavg(OBJECTIVE, STEP, skewed, cohort=COHORT, batch_size=BATCHES)
    run = tacit.simulate(once, star_roles(CLIENTS), STREAM, rounds=1, repeats=1000, evaluate="cohort")
    assert _t_squared(-run.models[:, 0] / STEP - whole) < chi2.ppf(1 - FALSE_ALARM, 2)


def test_a_client_is_unbiased_with_shares_that_others_left_behind():
    """The state of "sampled" after some rounds: 20,000 local steps of one client, false alarms 1 in 1e6."""
    k = 2
    training = local_training(OBJECTIVE, lambda t: jnp.ones(()), "sampled", 1, BATCHES, FLOOR)
    view = View(jnp.int32(k), jnp.int32(1), jnp.asarray(True), jnp.int32(SIZES[k]), None, None)
    left = mixed(jnp.asarray([50, 1, 3, 0, 0, 2, 9, 0, 0.0]), jnp.arange(PLACES) < SIZES[k], 0.0)
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, k]), STREAM.chunk(0, 1))
    start = jnp.asarray([0.3, -0.2])

    def step(key):
        found = training.round(key, start, jnp.ones(()), left, batch, view)
        return found.model, found.share

    models, after = jax.jit(jax.vmap(step))(jax.random.split(jax.random.key(0), 20_000))
    off = np.asarray(start - models, np.float64) - gradients(np.asarray(start), k).mean(axis=0)
    assert _t_squared(off) < chi2.ppf(1 - FALSE_ALARM, 2)
    np.testing.assert_allclose(np.sum(after, axis=1), 1, rtol=1e-5)
    assert np.all(np.asarray(after)[:, SIZES[k] :] == 0)


def _t_squared(off: np.ndarray) -> float:
    mean = off.mean(axis=0)
    return float(len(off) * mean @ np.linalg.solve(np.cov(off.T), mean))


@pytest.mark.covered_by("the equations and the shares below")
def test_with_smaller_steps_it_comes_nearer_to_the_optimum():
    """Two servers that do not know of each other, each with shares of its own; the solver's optimum is the judge."""
    stars = federation(ring(2), CLIENTS)
    chunk = STREAM.chunk(0, 1)
    both = tacit.streams.from_function(
        lambda a, b: jax.tree.map(lambda leaf: np.concatenate([leaf, leaf], axis=1), chunk),
        agents=2 * CLIENTS, period=1, data_size=np.tile(SIZES, 2),
    )  # fmt: skip
    twice = Shares(np.concatenate([GIVEN.clients, np.ones(CLIENTS)]), np.tile(GIVEN.records, (2, 1)))
    falling = importance_fedavg(
        OBJECTIVE, lambda t: 1 / (10 + 0.2 * t), twice, cohort=COHORT, local_steps=STEPS * 2, batch_size=BATCHES * 2
    )
    run = tacit.simulate(
        falling, stars, both, rounds=3000, evaluate="cohort", progress=False, record_every=100,
        record={"msd": lambda m: np.sum((np.asarray(m)[::CLIENTS] - OPTIMUM) ** 2, axis=1)},
    )  # fmt: skip
    msd = run.recorded["msd"][0]
    assert np.all(msd[-5:].mean(axis=0) < 1e-3)
    assert np.all(msd[-5:].mean(axis=0) < msd[:3].mean(axis=0) / 2)


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_shares_are_the_equations_of_the_text():
    k = 3
    norms = np.linalg.norm(gradients(OPTIMUM, k), axis=1)
    np.testing.assert_allclose(GIVEN.records[k, : SIZES[k]], floored(norms), rtol=1e-4)
    values = []
    for j in range(CLIENTS):
        each = gradients(OPTIMUM, j)
        n = np.linalg.norm(each, axis=1)
        values.append(worth(j, n, floored(n), np.sum(each.mean(axis=0) ** 2)))
    np.testing.assert_allclose(GIVEN.clients, floored(np.array(values)), rtol=1e-4)


def test_what_the_chosen_have_is_shared_out_among_them():
    p = redistributed(jnp.asarray([0.1, 0.2, 0.3, 0.4]), jnp.asarray([3, -1, 0]), jnp.asarray([3.0, 0.0, 1.0]))
    np.testing.assert_allclose(p, [0.125, 0.2, 0.3, 0.375], rtol=1e-6)
    same = redistributed(jnp.asarray([0.5, 0.5]), jnp.asarray([0, 1]), jnp.zeros(2))
    np.testing.assert_allclose(same, [0.5, 0.5])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cohort": 0}, "cohort = 0"),
        ({"floor": 0.0}, "floor = 0.0"),
        ({"probabilities": "best"}, "'best'"),
        ({"records": None}, "records = None"),
        ({"probabilities": Shares([1.0])}, "are not given"),
        ({"probabilities": Shares([1.0, -1.0], [[1.0], [1.0]])}, r"shape \(2,\)"),
        ({"probabilities": Shares([1.0, 1.0], [[1.0]])}, r"expected \(2, places\)"),
        ({"probabilities": Shares([1.0], [[1.0]]), "batch_size": None}, "are given"),
    ],
)
def test_refusals(settings, words):
    given = {"cohort": 2, "batch_size": 2, "records": 3, "probabilities": "sampled", **settings}
    with pytest.raises(ConfigError, match=words):
        importance_fedavg(OBJECTIVE, **given)


def test_one_record_without_an_axis_cannot_be_sampled_from():
    data = tacit.streams.logistic_drift(agents=3, dim=2)
    with pytest.raises(DataError, match="whole data set"):
        tacit.simulate(method("uniform", local_steps=1, batch_size=1), star_roles(3), data, rounds=1)


def test_shares_of_other_clients_are_refused():
    with pytest.raises(ConfigError, match="7 .* 8 clients"):
        method("given", local_steps=1, batch_size=2).topology(star_roles(8))


def test_nothing_is_promised_and_it_is_said_why():
    assert not method("sampled").privacy.private
    assert "norms of gradients" in method("current").privacy.holds
    assert "fedavg" in method("uniform").privacy.holds
