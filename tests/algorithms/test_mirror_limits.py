"""Where mirror descent and its kin go while every round brings the same batch (a solver says), and what they refuse."""

from __future__ import annotations

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import saddle_constants
from tacit.core.errors import ConfigError, RequirementError
from tacit.graphs import Attendance
from tacit.objectives import Constraint, Euclidean, Simplex, entropy, euclidean_ball
from tacit.peer import run_in_process
from tacit.privacy import laplace

CENTRES = np.array([[0.9, 0.0, 0.3], [0.0, 0.7, 0.4], [0.2, 0.3, 0.0]])
"""Of f_i(x) = ||x - centre_i||^2 / 2 on the simplex."""
ROWS = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.6, 0.2, 0.2]])
"""Everybody hears agent 0 more than the others."""
PULL = tacit.objectives.from_loss(lambda params, batch: jnp.sum(jnp.square(params - batch)) / 2, np.zeros(3))
FOR_EVER = tacit.streams.from_function(lambda start, stop: np.tile(CENTRES, (stop - start, 1, 1)), agents=3, period=1)
COORDINATES = {f"x{k}": lambda params, batch, k=k: params[k] for k in range(3)}


def minimiser(shares, *constraints):
    x = cvxpy.Variable(3)
    total = sum(share * cvxpy.sum_squares(x - centre) / 2 for share, centre in zip(shares, CENTRES, strict=True))
    bounds = [x >= 0, cvxpy.sum(x) == 1, *[row @ x <= limit for row, limit in constraints]]
    cvxpy.Problem(cvxpy.Minimize(total), bounds).solve(solver="CLARABEL")
    return x.value


@pytest.mark.parametrize("unbiased", [False, True])
def test_where_mirror_descent_goes(unbiased):
    """Averaging by rows finds the minimiser that is weighted by W's Perron vector, push-sum that of everybody alike."""
    values, vectors = np.linalg.eig(ROWS.T)
    perron = np.real(vectors[:, np.argmax(np.real(values))])
    perron /= perron.sum()
    biased, true = minimiser(perron), minimiser(np.ones(3) / 3)
    assert np.abs(biased - true).max() > 0.03  # so that the two can be told apart
    matrix = ROWS / ROWS.sum(axis=0) if unbiased else ROWS
    graph = tacit.graphs.from_matrix(matrix)
    step = tacit.algorithms.inverse(4.0)
    algorithm = tacit.algorithms.mirror_descent(PULL, step, mirror=entropy(), unbiased=unbiased)
    run = tacit.simulate(algorithm, graph, FOR_EVER, rounds=6000, record_every=6000, dtype="float64")
    np.testing.assert_allclose(run.models[0], np.tile(true if unbiased else biased, (3, 1)), atol=1e-3)


LIMIT = 0.25
FIRST = Constraint("first share", lambda params, batch: params[0] - LIMIT)
DOUBLY = tacit.graphs.from_matrix(np.array([[0.6, 0.4, 0.0], [0.1, 0.6, 0.3], [0.3, 0.0, 0.7]]))
LONG = 6400
CONSTRAINED = {
    "constrained_mirror_descent": tacit.algorithms.constrained_mirror_descent(
        PULL, FIRST, damping=0.5, mirror=entropy()
    ),
    "lagrangian_descent": tacit.algorithms.lagrangian_descent(PULL, FIRST, LONG, mirror=Euclidean(Simplex())),
}


@pytest.mark.parametrize("name", CONSTRAINED)
def test_where_constrained_methods_go_on_average(name):
    """To the minimiser that keeps the constraint, as the texts have it: regret and violation grow like sqrt(T)."""
    best = minimiser(np.ones(3) / 3, (np.eye(3)[0], LIMIT))
    assert np.abs(best - minimiser(np.ones(3) / 3)).max() > 0.1  # the constraint matters
    run = tacit.simulate(
        CONSTRAINED[name], DOUBLY, FOR_EVER, rounds=LONG, record_every=LONG, dtype="float64", figures=COORDINATES
    )
    x = np.stack([run.per_round[name][0] for name in COORDINATES], axis=1)
    np.testing.assert_allclose(run.per_round["first share"][0], x[:, 0] - LIMIT, atol=1e-12)
    early, late = (np.abs(x[:rounds].mean(axis=0) - best).max() for rounds in (LONG // 16, LONG))
    assert late < 4e-3
    assert late < 0.4 * early


# -- what is refused ----------------------------------------------------------------------------------------------------

MIRROR, DYNAMIC = tacit.algorithms.mirror_descent, tacit.algorithms.dynamic_mirror_descent
SADDLE, QUEUES = tacit.algorithms.constrained_mirror_descent, tacit.algorithms.lagrangian_descent


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SADDLE(PULL, FIRST, dual="x"), "dual = 'x': expected one of private, released"),
        (lambda: SADDLE(PULL, FIRST, damping=-1), "damping = -1: expected a finite number from 0 on"),
        (lambda: SADDLE(PULL, FIRST, step=0), "step is 0; expected a positive number or a function"),
        (lambda: QUEUES(PULL, FIRST, rounds=0), "rounds = 0: expected a whole number of at least 1"),
        (lambda: QUEUES(PULL, FIRST, rounds=2.5), "rounds = 2.5: expected a whole number"),
        (lambda: QUEUES(PULL, FIRST, rounds=9, boldness=-1), "boldness = -1: expected a finite number above 0"),
        (lambda: DYNAMIC(PULL, window=0), "window = 0: expected a whole number of at least 1; so many rounds"),
        (lambda: DYNAMIC(PULL, window=True), "window = True: expected a whole number"),
        (lambda: MIRROR(PULL, unbiased=True, missing="renormalise"), "missing = 'renormalise' with unbiased = true"),
        (
            lambda: MIRROR(PULL, mechanism=laplace(1.0, 1.0, perturbs="model"), mirror=entropy()),
            "noises the model after a step in NegativeEntropy.*say perturbs='update' or 'gradient'",
        ),
        (
            lambda: MIRROR(PULL, mechanism=laplace(1.0, 1.0, "l1", "model"), mirror=euclidean_ball(1.0)),
            "clips in the l1 norm and noises the projected model.*clip in l2",
        ),
        (
            lambda: SADDLE(PULL, FIRST, mechanism=laplace(1.0, 1.0, perturbs="model")),
            "'laplace' noises the model, but constrained_mirror_descent releases.*say perturbs='gradient'",
        ),
        (lambda: saddle_constants(1.0, 0.0, 1.0), "divergence = 1.0, value = 0.0.*expected bounds above 0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize("run", [tacit.simulate, run_in_process])
@pytest.mark.parametrize(
    ("start", "words"),
    [
        (
            [0.5, 0.6, -0.1],
            "outside of the set of 'mirror_descent'.*coordinate 2 is -0.1, expected no coordinate below",
        ),
        ([0.5, 0.2, 0.2], "they sum to 0.9, expected 1; give one inside, or none"),
    ],
)
def test_a_start_off_the_simplex_is_refused(run, start, words):
    with pytest.raises(ConfigError, match=words):
        run(MIRROR(PULL, mirror=entropy()), DOUBLY, FOR_EVER, rounds=2, start=np.array(start))


def test_one_agents_start_off_the_simplex_is_refused():
    def start(agent):
        return np.array([0.5, 0.5, 0.1 * (agent == 2)])

    with pytest.raises(ConfigError, match=r"they sum to 1.1, expected 1"):
        tacit.simulate(MIRROR(PULL, mirror=entropy()), DOUBLY, FOR_EVER, rounds=2, start=start)


@pytest.mark.parametrize(
    "make",
    [MIRROR, DYNAMIC, lambda o: SADDLE(o, FIRST), lambda o: QUEUES(o, FIRST, 2)],
    ids=["2.1", "2.4", "2.2", "2.3"],
)
def test_weights_whose_rows_do_not_sum_to_one_are_refused(make):
    graph = tacit.graphs.from_matrix(ROWS.T)  # as a sender's shares they would do
    with pytest.raises(RequirementError, match=r"receiver_normalised.*1.*with_weights\('receiver'\)"):
        tacit.simulate(make(PULL), graph, FOR_EVER, rounds=2)


def staying_away():
    """Agent 2 stays away from rounds 3 and 4 of five."""
    table = np.ones((5, 3), bool)
    table[2:4, 2] = False
    return DOUBLY.with_weights("receiver").with_dynamics(Attendance(table))


@pytest.mark.parametrize("run", [tacit.simulate, run_in_process])
def test_whoever_is_away_for_longer_than_the_window_stops_the_run(run):
    says = r"every 2 rounds in a row connect everybody.*rounds 3 to 4 leave no path from agent \d to agent \d"
    with pytest.raises(RequirementError, match=says):
        run(DYNAMIC(PULL, window=2), staying_away(), FOR_EVER, rounds=10)


@pytest.mark.parametrize(("window", "rounds"), [(3, 10), (2, 3), (None, 10), (9, 3)])
def test_whoever_is_back_in_time_does_not(window, rounds):
    """Nor does what comes after the run's end; a run that is shorter than the window connects everybody by itself."""
    algorithm = DYNAMIC(PULL, window=window)
    topology = runtime.prepared_topology(algorithm, staying_away())
    runtime.check_window(algorithm, topology, jax.random.key(0), rounds)


def test_the_texts_constants():
    """eta_t = sqrt(b / (t (D^2 + G^2 / alpha))), gamma = 2 G^2 / alpha (Dissertation, ch. 3)."""
    found = saddle_constants(divergence=2.0, value=3.0, slope=4.0, convexity=0.5)
    assert found.damping == pytest.approx(64)
    assert float(found.step(jnp.asarray(9))) == pytest.approx(np.sqrt(2 / (9 * (9 + 32))))
