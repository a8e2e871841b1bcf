"""FedProx, SCAFFOLD, FedAvgM and FedAdam against their equations and a solver's optimum."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.algorithms import fedadam, fedavg, fedavgm, fedprox, scaffold
from tacit.core.errors import ConfigError
from tacit.graphs import star_roles
from tacit.peer import run_in_process
from tests.algorithms.given import stream_of, two_classes

CLIENTS, DIM, ROUNDS, RECORDS, STEP, L2 = 6, 4, 24, 3, 0.4, 1e-1
OBJECTIVE = tacit.objectives.logistic(l2=L2)
STEPS = [1, 2, 3, 1, 2, 3]


@pytest.fixture(scope="module")
def samples():
    return two_classes(5, (ROUNDS, CLIENTS, RECORDS), DIM)


def gradient(w, a, y):
    margin = y * (a @ w)
    return np.mean(-(y / (1 + np.exp(margin)))[:, None] * a, axis=0) + L2 * w


def trained(w, a, y, steps, pull=0.0, drift=0.0):
    at = w.copy()
    for _ in range(steps):
        at = at - STEP / steps * (gradient(at, a, y) + pull * (at - w) + drift)
    return at


def check(algorithm, samples, expected):
    run = tacit.simulate(algorithm, star_roles(CLIENTS), stream_of(*samples), rounds=ROUNDS, dtype="float64")
    np.testing.assert_allclose(run.models[0, 0], expected, rtol=1e-9, atol=1e-12)
    return run


def test_fedprox(samples):
    """Li et al. (2020), Alg. 2."""
    a, y = samples
    w = np.zeros(DIM)
    for t in range(ROUNDS):
        w = np.mean([trained(w, a[t, i], y[t, i], STEPS[i], pull=2.0) for i in range(CLIENTS)], axis=0)
    check(fedprox(OBJECTIVE, STEP, proximal=2.0, local_steps=STEPS), samples, w)


def test_scaffold(samples):
    """Karimireddy et al. (2020), Alg. 1, option II, with both messages; all clients take part."""
    a, y = samples
    w, c, own = np.zeros(DIM), np.zeros(DIM), np.zeros((CLIENTS, DIM))
    for t in range(ROUNDS):
        ways, deltas = [], []
        for i in range(CLIENTS):
            after = trained(w, a[t, i], y[t, i], STEPS[i], drift=c - own[i])
            new = own[i] - c + (w - after) / STEP
            ways.append(after - w)
            deltas.append(new - own[i])
            own[i] = new
        w = w + 0.7 * np.mean(ways, axis=0)
        c = c + np.mean(deltas, axis=0)
    check(scaffold(OBJECTIVE, STEP, server_step=0.7, local_steps=STEPS), samples, w)


def test_a_cohort_s_control_variates_have_the_mean_that_the_server_keeps(samples):
    noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=0.5)
    algorithm = scaffold(OBJECTIVE, STEP, noise, cohort=2, local_steps=2)
    result = run_in_process(algorithm, star_roles(CLIENTS), stream_of(*samples), rounds=9, dtype="float64", seed=1)
    own = np.mean([machine.state.own for machine in result.machines["client"]], axis=0)
    np.testing.assert_allclose(result.machines["server"][0].state.c, own, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(own) > 0.05


def test_fedavgm(samples):
    """Hsu et al. (2019), sec. 4."""
    a, y = samples
    w, m = np.zeros(DIM), np.zeros(DIM)
    for t in range(ROUNDS):
        m = 0.8 * m + np.mean([trained(w, a[t, i], y[t, i], STEPS[i]) for i in range(CLIENTS)], axis=0) - w
        w = w + 0.5 * m
    check(fedavgm(OBJECTIVE, STEP, server_step=0.5, momentum=0.8, local_steps=STEPS), samples, w)


@pytest.mark.parametrize(
    "variant", [pytest.param(v, marks=pytest.mark.covered_by("yogi")) for v in ("adam", "adagrad")] + ["yogi"]
)
def test_fedadam(variant, samples):
    """Reddi et al. (2021), Alg. 2."""
    a, y = samples
    w, m, v = np.zeros(DIM), np.zeros(DIM), np.full(DIM, 0.01**2)
    for t in range(ROUNDS):
        delta = np.mean([trained(w, a[t, i], y[t, i], STEPS[i]) for i in range(CLIENTS)], axis=0) - w
        m = 0.8 * m + 0.2 * delta
        v = {
            "adam": 0.9 * v + 0.1 * delta**2,
            "adagrad": v + delta**2,
            "yogi": v - 0.1 * delta**2 * np.sign(v - delta**2),
        }[variant]
        w = w + 0.05 * m / (np.sqrt(v) + 0.01)
    settings = {"server_step": 0.05, "momentum": 0.8, "decay": 0.9, "tau": 0.01, "local_steps": STEPS}
    check(fedadam(OBJECTIVE, STEP, variant=variant, **settings), samples, w)


@pytest.fixture(scope="module")
def fixed():
    """One sample per client, the same in every round, and the optimum of all of them."""
    data = tacit.streams.logistic_drift(agents=CLIENTS, dim=DIM, repeat_every=1, heterogeneity=1.0, seed=3)
    best = tacit.metrics.best_fixed(OBJECTIVE, lambda: [data.chunk(0, 1)], data.batch_spec())
    assert best.gap < 1e-8
    return data, best.params


def distance(algorithm, fixed, rounds=400):
    data, optimum = fixed
    run = tacit.simulate(algorithm, star_roles(CLIENTS), data, rounds=rounds, dtype="float64")
    return np.linalg.norm(run.models[0] - optimum, axis=-1).max() / np.linalg.norm(optimum)


def test_with_several_local_steps_scaffold_alone_reaches_the_optimum(fixed):
    """Karimireddy et al. (2020): clients drift, and control variates take that back; a pull makes it less."""
    drifting = distance(fedavg(OBJECTIVE, 5.0, cohort=CLIENTS, local_steps=10), fixed)
    assert drifting > 0.02
    assert distance(fedprox(OBJECTIVE, 5.0, proximal=1.0, local_steps=10), fixed) < 0.7 * drifting
    assert distance(scaffold(OBJECTIVE, 2.0, local_steps=10), fixed) < 1e-4


@pytest.mark.parametrize("make", [fedavgm, fedadam])
def test_an_optimiser_at_the_server_reaches_the_optimum(make, fixed):
    settings = {"server_step": 0.05, "variant": "adagrad"} if make is fedadam else {}
    assert distance(make(OBJECTIVE, 0.5, **settings), fixed, rounds=1500) < 1e-3


def test_settings_that_cannot_be_meant_are_refused():
    for make, settings in (
        (fedprox, {"proximal": 0.0}),
        (scaffold, {"server_step": -1.0}),
        (fedavgm, {"momentum": 1.0}),
        (fedadam, {"variant": "sgd"}),
        (fedadam, {"tau": 0.0}),
        (scaffold, {"cohort": 0}),
    ):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            make(OBJECTIVE, **settings)
