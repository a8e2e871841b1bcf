"""zCDP-NFL, its baselines and P-ADMM against transcriptions of their equations and a solver's optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import dp_admm, private_admm, zcdp_admm, zcdp_subgradient
from tacit.core.errors import ConfigError, RequirementError
from tacit.graphs import erdos_renyi, ring, small_world, star_roles
from tacit.objectives import absolute, logistic, softmax, squared
from tacit.privacy import decaying_gaussian, gaussian, laplace
from tacit.privacy.noise import noise_words, unit_gaussian

AGENTS, SAMPLES, DIM = 8, 12, 5
DATA = tacit.streams.linear_regression(AGENTS, SAMPLES, DIM, seed=3)
X, Y = DATA.x.astype(np.float64), DATA.y.astype(np.float64)
GRAPH = small_world(AGENTS, 4, 0.3, seed=1)
LINKED = np.zeros((AGENTS, AGENTS))
LINKED[GRAPH.receivers, GRAPH.senders] = 1


def run(algorithm, rounds, graph=GRAPH, **settings):
    return tacit.simulate(algorithm, graph, DATA.stream(), rounds=rounds, dtype="float64", **settings)


def elastic_subgradient(u, l1, l2):
    """Of the mean of half squares plus l1 ||w||_1 + (l2 / 2) ||w||^2, row by row of u; of |0| it takes 1."""
    residual = np.einsum("kni,ki->kn", X, u) - Y
    return np.einsum("kn,kni->ki", residual, X) / SAMPLES + l1 * np.where(u >= 0, 1, -1) + l2 * u


def test_linearised_admm_is_its_equations():
    """Gauthier (2023), (3.8)-(3.10), over 30 rounds with a vanishing step."""
    l1, l2, rho = 0.03, 0.2, 0.7
    eta = lambda t: 1 / (1 + 0.1 * t)  # noqa: E731
    u, gamma = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    degree = LINKED.sum(axis=1)[:, None]
    for t in range(1, 31):
        pulled = rho * (degree * u + LINKED @ u)
        w = (u / eta(t) + pulled - elastic_subgradient(u, l1, l2) - gamma) / (1 / eta(t) + 2 * rho * degree)
        u = w
        gamma = gamma + rho * (degree * u - LINKED @ u)
    found = run(zcdp_admm(squared(l1=l1, l2=l2), step=eta, penalty=rho), 30)
    np.testing.assert_allclose(found.models[0], u, rtol=1e-10, atol=1e-12)


def test_exact_admm_is_its_equations():
    """Gauthier (2023), (3.4): every local problem by a direct solve, over 30 rounds."""
    l2, rho = 0.1, 0.4
    u, gamma = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    degree = LINKED.sum(axis=1)
    curvature = np.einsum("kni,knj->kij", X, X) / SAMPLES
    slope = np.einsum("kni,kn->ki", X, Y) / SAMPLES
    for _ in range(30):
        pulled = rho * (degree[:, None] * u + LINKED @ u) - gamma
        u = np.stack(
            [
                np.linalg.solve(curvature[k] + (l2 + 2 * rho * degree[k]) * np.eye(DIM), slope[k] + pulled[k])
                for k in range(AGENTS)
            ]
        )
        gamma = gamma + rho * (degree[:, None] * u - LINKED @ u)
    found = run(private_admm(squared(l2=l2), penalty=rho), 30)
    np.testing.assert_allclose(found.models[0], u, rtol=1e-9, atol=1e-12)
    assert found.recorded["residual"].max() < 1e-12


SIZES = np.array([2, 12, 5, 3, 9, 1, 7, 4])
UNEQUAL = np.arange(SAMPLES) < SIZES[:, None]
OWN = tacit.streams.whole(
    DATA.x[UNEQUAL], DATA.y[UNEQUAL], np.repeat(np.arange(AGENTS), SIZES), task="regression", name="unequal"
)
RHO, ETA, CLIP = 0.7, 0.4, 0.3


def clipped_subgradients(u, l2):
    """ell'(X_k, y_k; u_k) / D_k + lambda R'(u_k), every record's gradient clipped to c1: what (3.12) is said of."""
    found = []
    for k in range(AGENTS):
        each = ((X[k] @ u[k] - Y[k])[:, None] * X[k])[: SIZES[k]]
        norm = np.linalg.norm(each, axis=1, keepdims=True)
        found.append((each * np.minimum(1, CLIP / norm)).sum(axis=0) / SIZES[k] + l2 * u[k])
    return np.array(found)


def test_every_agent_averages_over_its_own_records():
    """Gauthier (2023), (3.5) and (3.8)-(3.10) with D_k from 1 to 12, clipped: (3.12) divides by D_k, and so does the objective."""
    l2 = 0.2
    degree = LINKED.sum(axis=1)[:, None]
    u, gamma = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    for _ in range(30):
        pulled = RHO * (degree * u + LINKED @ u)
        u = (u / ETA + pulled - clipped_subgradients(u, l2) - gamma) / (1 / ETA + 2 * RHO * degree)
        gamma = gamma + RHO * (degree * u - LINKED @ u)
    quiet = zcdp_admm(squared(l2=l2), ETA, gaussian(1e-12, CLIP), RHO)
    found = tacit.simulate(quiet, GRAPH, OWN, rounds=30, dtype="float64")
    np.testing.assert_allclose(found.models[0], u, rtol=1e-4, atol=1e-6)  # a clip keeps a margin of roundings


def test_noise_goes_with_an_agent_s_own_number_of_records():
    """Gauthier (2023), (3.12)-(3.13): sigma_k = Delta_k / sqrt(2 phi), of the very draws."""
    phi = 0.05
    loud, quiet = (zcdp_admm(squared(), ETA, gaussian(m, CLIP), RHO) for m in (1 / np.sqrt(2 * phi), 1e-12))
    one, none = (tacit.simulate(a, GRAPH, OWN, rounds=1, dtype="float64").models[0] for a in (loud, quiet))
    with jax.enable_x64(True):
        words = [noise_words(runtime.agent_key(jax.random.key(0), 0, 0, k), 1, 0) for k in range(AGENTS)]
        draws = np.array([unit_gaussian(w, 0, (DIM,), jnp.float64) for w in words])
    sensitivity = 2 * CLIP / (SIZES * (2 * RHO * LINKED.sum(axis=1) + 1 / ETA))
    np.testing.assert_allclose(none - one, sensitivity[:, None] / np.sqrt(2 * phi) * draws, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "rounds"),
    [(lambda o: zcdp_admm(o, step=0.5, penalty=0.5), 300), (lambda o: private_admm(o, penalty=0.3), 200)],
    ids=["linearised", "exact"],
)
def test_without_noise_everybody_comes_to_the_solvers_optimum(make, rounds):
    optimum, _ = DATA.optima(0.1)
    found = run(make(squared(l2=0.1)), rounds, erdos_renyi(AGENTS, 0.5, seed=1))
    np.testing.assert_allclose(found.models[0], np.broadcast_to(optimum, (AGENTS, DIM)), rtol=1e-6, atol=1e-8)


@pytest.mark.covered_by("the optimum of the squared loss; metrics/test_comparator.py, of this one")
def test_least_absolute_deviations_come_to_the_linear_programmes_optimum():
    """Not smooth at its optimum, where several residuals are zero; the vanishing step gets there."""
    from scipy.optimize import linprog

    n = AGENTS * SAMPLES
    rows, labels = X.reshape(n, DIM), Y.reshape(n)
    one = np.eye(n)
    cost = np.concatenate([np.zeros(DIM), np.ones(n)])
    solved = linprog(
        cost, np.block([[rows, -one], [-rows, -one]]), np.concatenate([labels, -labels]), bounds=(None, None)
    )
    found = run(zcdp_admm(absolute(), step=lambda t: 0.3 * 0.995**t, penalty=1.0), 2500)
    error = np.sum((found.models[0] - solved.x[:DIM]) ** 2) / np.sum(solved.x[:DIM] ** 2)
    assert error < 1e-4


def replaced(record_of: int, scale: float) -> tacit.streams.Stream:
    """The same data but for one record of one agent, which is far from all others."""
    x, y = DATA.x.copy(), DATA.y.copy()
    x[record_of, 0], y[record_of, 0] = scale * x[record_of, 0], -scale * y[record_of, 0]
    return DATA._replace(x=x, y=y).stream()


@pytest.mark.parametrize(
    ("algorithm", "perturbs"),
    [
        (zcdp_admm, "update"),
        *(
            pytest.param(*pair, marks=pytest.mark.covered_by("zcdp_admm's update"))
            for pair in [(zcdp_admm, "model"), *((private_admm, what) for what in ("gradient", "update", "model"))]
        ),
    ],
)
def test_a_replaced_record_moves_the_released_value_within_the_declared_sensitivity(algorithm, perturbs):
    """Noise of a vanishing multiple of the sensitivity shows the value itself; its size is the declaration."""
    clip, rho = 0.5, 0.6
    tiny = gaussian(1e-6, clip, perturbs=perturbs)
    settings = {"penalty": rho} if algorithm is private_admm else {"penalty": rho, "step": 0.4}
    made = algorithm(squared(l2=0.1), mechanism=tiny, **settings)
    before = run(made, 1).models[0]
    after = tacit.simulate(made, GRAPH, replaced(2, 50.0), rounds=1, dtype="float64").models[0]
    near = 0.0 if algorithm is private_admm else 1 / 0.4
    degree = LINKED[2].sum()
    allowed = 2 * clip / (SAMPLES * (2 * rho * degree + near))
    moved = np.linalg.norm(before - after, axis=1)
    assert 0.3 * allowed < moved[2] <= allowed * 1.002
    np.testing.assert_allclose(np.delete(moved, 2), 0, atol=1e-4 * allowed)


def test_the_run_books_the_sum_of_all_rounds_and_what_it_booked_is_what_was_drawn():
    first, decay, rounds = 0.02, 0.97, 40
    mechanism = decaying_gaussian(1 / np.sqrt(2 * first), decay, clip=1.0)
    found = run(zcdp_admm(squared(l2=0.1), step=0.4, mechanism=mechanism), rounds)
    phi = first * decay ** -np.arange(rounds)
    assert found.privacy.guarantee.rho == pytest.approx(phi.sum(), rel=1e-6)
    still = run(zcdp_admm(squared(l2=0.1), step=0.4, mechanism=mechanism), 1)
    exact = run(zcdp_admm(squared(l2=0.1), step=0.4, mechanism=gaussian(1e-9, 1.0)), 1)
    sensitivity = 2 / (SAMPLES * (2 * LINKED.sum(axis=1) + 1 / 0.4))
    draws = (still.models[0] - exact.models[0]) / (sensitivity[:, None] / np.sqrt(2 * first))
    # 40 normal draws: their mean square is within 0.3 .. 2.2 but for a chance of 1e-4.
    assert 0.3 < np.mean(draws**2) < 2.2


@pytest.mark.covered_by("contract/, and the equations above")
def test_the_baselines_are_what_they_are_said_to_be():
    objective = squared(l1=0.01)
    twin = run(dp_admm(objective, step=0.3), 20)
    np.testing.assert_array_equal(twin.models, run(zcdp_admm(objective, step=0.3), 20).models)
    consensus = run(tacit.algorithms.consensus(objective, step=0.1), 20)
    np.testing.assert_array_equal(run(zcdp_subgradient(objective, step=0.1), 20).models, consensus.models)


@pytest.mark.parametrize("objective", [softmax(3), absolute(), squared(l1=0.1)], ids=["softmax", "absolute", "l1"])
def test_the_exact_method_says_which_objectives_it_can_solve(objective):
    with pytest.raises(ConfigError, match="zcdp_admm"):
        private_admm(objective)


def test_refused():
    with pytest.raises(ConfigError, match="penalty = 0"):
        zcdp_admm(squared(), penalty=0)
    with pytest.raises(ConfigError, match="linf"):
        private_admm(squared(), laplace(1.0, 1.0, norm="linf"))
    with pytest.raises(ConfigError, match="newton_steps"):
        private_admm(logistic(), newton_steps=0)
    with pytest.raises(RequirementError, match="no path"):
        run(zcdp_admm(squared()), 1, tacit.graphs.from_edges(AGENTS, [0, 1], [1, 0]))
    with pytest.raises(ConfigError, match="'peers'"):
        run(zcdp_admm(squared()), 1, star_roles(AGENTS))
    with pytest.raises(RequirementError, match="has no reverse"):
        run(zcdp_admm(squared()), 1, tacit.graphs.directed_ring(AGENTS))
    assert run(zcdp_admm(squared()), 1, ring(AGENTS)).rounds == 1


@pytest.mark.parametrize("value", [pytest.param(np.nan, marks=pytest.mark.covered_by("1e30")), 1e30], ids=str)
def test_a_record_that_cannot_be_computed_with_moves_the_release_within_its_bound(value):
    """In the round that reads it: it says nothing, and the others say what they did."""
    clip, rho = 0.5, 0.6
    made = private_admm(squared(l2=0.1), gaussian(1e-6, clip, perturbs="gradient"), penalty=rho)

    def poisoned(start, stop):
        batch = DATA.stream().chunk(start, stop)
        x = batch.x.copy()
        x[:, 2, 0, 1] = value
        return batch._replace(x=x)

    bad = tacit.streams.from_function(poisoned, agents=AGENTS, rounds=1)
    good = tacit.streams.from_function(DATA.stream().chunk, agents=AGENTS, rounds=1)
    models = [tacit.simulate(made, GRAPH, data, rounds=1).models[0] for data in (good, bad)]
    moved = np.linalg.norm(models[0] - models[1], axis=1)
    assert 0 < moved[2] <= 2 * clip / (SAMPLES * 2 * rho * LINKED[2].sum()) * 1.001
    np.testing.assert_array_equal(np.delete(moved, 2), 0)
