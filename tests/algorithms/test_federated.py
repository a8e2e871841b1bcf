"""Sampled federated averaging and graphs of servers against slow transcriptions of Rizk (2023), (2.56)-(2.60), (3.6)-(3.8).

Cohorts, batches and noise are drawn again by the same functions from the same keys; the arithmetic is NumPy's.
"""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import fedavg, graph_federated
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.core.contract import Extent
from tacit.graphs import federation, star, star_roles
from tacit.privacy import graph_homomorphic, laplace_of_size, per_edge
from tacit.privacy.noise import noise_words, unit_laplace
from tacit.simulator.cohorts import Cohorts
from tacit.streams import Batch

SERVERS, CLIENTS, COHORT, DIM, ROUNDS = 3, 6, 3, 3, 20
EVERYONE = SERVERS * CLIENTS
STEP, L2, CLIP, SIZE, BETWEEN = 0.4, 0.05, 0.5, 0.3, 0.2
OTHERS = pytest.mark.covered_by("the other parameters")
OBJECTIVE = tacit.objectives.logistic(l2=L2)
RNG = np.random.default_rng(11)
LOCAL_STEPS = RNG.integers(1, 4, EVERYONE)
BATCHES = RNG.integers(1, 5, EVERYONE)
SIZES = RNG.integers(4, 9, EVERYONE)
X = RNG.standard_normal((EVERYONE, SIZES.max(), DIM)).astype(np.float32).astype(np.float64)
Y = RNG.choice([-1.0, 1.0], (EVERYONE, SIZES.max()))


def stream(clients=EVERYONE):
    """Every client's whole data set in each round."""
    own = [k * SIZES.max() + np.arange(SIZES[k]) for k in range(clients)]
    return tacit.streams.whole(X.reshape(-1, DIM), Y.reshape(-1), own)


def settings(clients=EVERYONE):
    return {"cohort": COHORT, "local_steps": LOCAL_STEPS[:clients].tolist(), "batch_size": BATCHES[:clients].tolist()}


# -- draws -------------------------------------------------------------------------------------------------------------


def compute_key(agent, t, phase):
    """The key that a phase's compute gets."""
    probe = SimpleNamespace(compute=lambda key, state, batch, view: (state, key))
    return runtime.compute(probe, phase, agent, None, (), SimpleNamespace(round=t))[1]


@pytest.fixture(scope="module")
def draws():
    """What is random in a run of seed 0: clients are role 0 and servers role 1; uplink is phase 1, servers phase 2."""
    root, rounds = jax.random.key(0), jnp.arange(1, ROUNDS + 1)

    def of_client(t, k, size, batch):
        key = runtime.agent_key(root, 0, 0, k)
        fold = jax.random.fold_in
        work = compute_key(key, t, 1)
        taken = jnp.stack([uniform_cohort(fold(work, e), size, BATCHES.max(), batch) for e in range(LOCAL_STEPS.max())])
        return taken, unit_laplace(noise_words(key, t, 1), 0, (DIM,), jnp.float64)

    def of_server(t, p):
        key = runtime.agent_key(root, 1, 0, p)
        called = uniform_cohort(compute_key(key, t, 0), CLIENTS, COHORT)
        words = noise_words(key, t, 2)
        per_link, one = (unit_laplace(words, 0, shape, jnp.float64) for shape in ((3, DIM), (DIM,)))
        return called, per_link, one

    with jax.enable_x64(True):
        clients = jax.vmap(jax.vmap(of_client, (None, 0, 0, 0)), (0, None, None, None))
        servers = jax.vmap(jax.vmap(of_server, (None, 0)), (0, None))
        taken, noise = jax.jit(clients)(rounds, jnp.arange(EVERYONE), jnp.asarray(SIZES), jnp.asarray(BATCHES))
        called, per_link, one = jax.jit(servers)(rounds, jnp.arange(SERVERS))
    found = (taken, noise, called, per_link, one)
    return SimpleNamespace(
        **dict(zip(("taken", "noise", "called", "link", "one"), map(np.asarray, found), strict=True))
    )


# -- equations ---------------------------------------------------------------------------------------------------------


def mean_gradient(w, k, rows, clip):
    """Of the loss without its penalty, every record's clipped if asked for."""
    total = np.zeros(DIM)
    for n in rows:
        g = -Y[k, n] * X[k, n] / (1 + np.exp(Y[k, n] * (X[k, n] @ w)))
        total += g if clip is None else g * min(1, clip / np.linalg.norm(g))
    return total / len(rows)


def trained(w, k, taken, noise, perturbs, clip):
    """A client's round: (3.6), and what it adds to a model, (2.56), or to the mean of its gradients, (2.60)."""
    at, total = w, np.zeros(DIM)
    for e in range(LOCAL_STEPS[k]):
        rows = taken[e][taken[e] >= 0]
        assert len(rows) == BATCHES[k]
        assert len(set(rows)) == len(rows)
        assert rows.max() < SIZES[k]
        gradient = mean_gradient(at, k, rows, clip)
        penalty = L2 * at
        at = at - STEP / LOCAL_STEPS[k] * (gradient + penalty)
        total += gradient if clip is not None else gradient + penalty
    mean = total / LOCAL_STEPS[k]
    rest = w if clip is None else w - STEP * L2 * w  # the penalty is no data's: of the round's first point, no noise
    if perturbs == "model":
        return rest - STEP * mean + noise
    if perturbs == "gradient":
        return rest - STEP * (mean + noise)
    return rest - (STEP * mean + noise)


def averaged(w, p, t, draws, perturbs, clip, scale):
    called = p * CLIENTS + draws.called[t, p]
    models = [trained(w, k, draws.taken[t, k], scale * draws.noise[t, k], perturbs, clip) for k in called]
    return np.mean(models, axis=0)


def one_server(draws, perturbs, clip, scale):
    w, trace = np.zeros(DIM), []
    for t in range(ROUNDS):
        w = averaged(w, 0, t, draws, perturbs, clip, scale)
        trace.append(w)
    return np.array(trace)


def of_run(algorithm, topology, data, **more):
    run = tacit.simulate(
        algorithm, topology, data, rounds=ROUNDS, dtype="float64", evaluate="cohort", record_every=1, progress=False,
        record={"servers": lambda models: models[::CLIENTS]}, **more,
    )  # fmt: skip
    return run, run.recorded["servers"][0]


@pytest.fixture(scope="module")
def with_noise_on_models():
    noise = laplace_of_size(SIZE, perturbs="model")
    algorithm = fedavg(OBJECTIVE, STEP, noise, **settings(CLIENTS))
    return algorithm, of_run(algorithm, star_roles(CLIENTS), stream(CLIENTS))


def test_noise_on_models(draws, with_noise_on_models):
    _, (run, models) = with_noise_on_models
    expected = one_server(draws, "model", None, SIZE / np.sqrt(2))
    np.testing.assert_allclose(models[:, 0], expected, rtol=1e-9, atol=1e-12)
    assert not run.privacy.private  # nothing bounds what a record can change


@pytest.mark.covered_by("simulator/test_calls.py")
def test_the_same_in_the_dense_engine(monkeypatch, with_noise_on_models):
    """Everybody computes and is masked: the same trajectory as gathering the cohort alone."""
    algorithm, (_, models) = with_noise_on_models
    monkeypatch.setattr(Cohorts, "calls", lambda self, index: False)
    run = tacit.simulate(
        algorithm, star_roles(CLIENTS), stream(CLIENTS), rounds=ROUNDS, dtype="float64", record_every=1,
        progress=False, record={"servers": lambda models: models[::CLIENTS]},
    )  # fmt: skip
    np.testing.assert_allclose(run.recorded["servers"][0], models, rtol=1e-12, atol=1e-14)


def test_one_server_is_federated_averaging(with_noise_on_models):
    _, (_, models) = with_noise_on_models
    noise = laplace_of_size(SIZE, perturbs="model")
    algorithm = graph_federated(OBJECTIVE, STEP, noise, **settings(CLIENTS))
    alone = tacit.graphs.complete(1).with_weights("metropolis")
    _, others = of_run(algorithm, federation(alone, CLIENTS), stream(CLIENTS))
    np.testing.assert_allclose(others, models, rtol=1e-14, atol=1e-15)  # two programs: a last bit may differ


# -- several servers ---------------------------------------------------------------------------------------------------


def weights():
    graph = star(SERVERS).with_weights("metropolis")
    return graph, np.asarray(graph.matrix().todense())


@pytest.mark.parametrize(
    ("scheme", "perturbs"), [("random", "gradient"), pytest.param("homomorphic", "update", marks=OTHERS)]
)
def test_servers_on_a_graph(draws, scheme, perturbs):
    """(3.6)-(3.8): clients' noise on gradients or updates with a clip, and noise between the servers 1 - 0 - 2."""
    graph, A = weights()
    assert np.count_nonzero(A) == 7
    w = np.zeros((SERVERS, DIM))
    trace = []
    neighbours = [sorted(set(np.flatnonzero(A[:, m])) - {m}) for m in range(SERVERS)]
    scale = BETWEEN / np.sqrt(2)
    for t in range(ROUNDS):
        psi = [averaged(w[p], p, t, draws, perturbs, CLIP, SIZE / np.sqrt(2)) for p in range(SERVERS)]
        w = np.zeros((SERVERS, DIM))
        for m in range(SERVERS):
            for slot, p in enumerate([m, *neighbours[m]]):
                if scheme == "random":
                    g = draws.link[t, m, slot]
                else:
                    g = draws.one[t, m] * (1 if p != m else -(1 - A[m, m]) / A[m, m])
                w[p] += A[p, m] * (psi[m] + scale * g)
        if scheme == "homomorphic":
            np.testing.assert_allclose(w.mean(axis=0), np.mean(psi, axis=0), atol=1e-12)
        trace.append(w)
    between = per_edge(BETWEEN) if scheme == "random" else graph_homomorphic(BETWEEN)
    noise = laplace_of_size(SIZE, CLIP, perturbs=perturbs)
    algorithm = graph_federated(OBJECTIVE, STEP, noise, between, **settings())
    run, models = of_run(algorithm, federation(graph, CLIENTS), stream())
    np.testing.assert_allclose(models, np.array(trace), rtol=1e-9, atol=1e-12)
    # A record is charged once for every call of its client, 2 clip in the l2 norm and sqrt(d) times as much in l1.
    calls = max(np.bincount(draws.called[:, p].ravel()).max() for p in range(SERVERS))
    in_steps = 1 if perturbs == "gradient" else STEP
    per_call = 2 * CLIP * np.sqrt(DIM) * in_steps / (SIZE / np.sqrt(2))
    assert run.privacy.guarantee.epsilon == pytest.approx(calls * per_call, rel=1e-6)


# -- sensitivity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "batch", "perturbs"),
    [
        (1, 2, "update"),
        (3, 2, "gradient"),
        pytest.param(1, None, "gradient", marks=OTHERS),
        pytest.param(3, None, "model", marks=OTHERS),
    ],
)
def test_declared_sensitivity_holds(steps, batch, perturbs):
    """Released values of data sets that differ in one record, found by random search, differ by no more than declared.

    The search must come near the bound where one record decides all: one step on the whole data.
    """
    records, searched = 4, 300
    mechanism = laplace_of_size(1.0, CLIP, perturbs=perturbs)
    algorithm = fedavg(OBJECTIVE, STEP, mechanism, cohort=1, local_steps=steps, batch_size=batch)
    phase = algorithm.phases[1]
    view = SimpleNamespace(round=jnp.asarray(5), agent=jnp.asarray(0), data_size=jnp.asarray(records))

    def released(key, w, x, y):
        return phase.compute(key, w, Batch(x, y, None), view)[1]

    def change(key):
        parts = jax.random.split(key, 5)
        x = 3 * jax.random.normal(parts[0], (records, DIM))
        y = jnp.where(jax.random.bernoulli(parts[1], shape=(records,)), 1.0, -1.0)
        w = jax.random.normal(parts[2], (DIM,))
        # The other record pulls the opposite way as hard as it can: same sample, other label, or a new one.
        new = jnp.where(jax.random.bernoulli(parts[3]), x[0], 5 * jax.random.normal(parts[4], (DIM,)))
        difference = released(key, w, x, y) - released(key, w, x.at[0].set(new), y.at[0].set(-y[0]))
        return jnp.sum(jnp.abs(difference))

    changes = np.asarray(jax.jit(jax.vmap(change))(jax.random.split(jax.random.key(1), searched)))
    with jax.enable_x64(False):
        declared = float(phase.mechanism.noise(view, Extent(DIM, records)).sensitivity)
    in_steps = 1.0 if perturbs == "gradient" else STEP
    alone = 2 * CLIP * np.sqrt(DIM) * in_steps
    assert declared == pytest.approx(alone / {(1, None): records, (1, 2): 2}.get((steps, batch), 1), rel=1e-6)
    assert changes.max() <= declared * (1 + 1e-5)
    if steps == 1:
        # With two labels the gradients are opposite but not both at full length: logistic ones shrink with the margin.
        assert changes.max() > 0.4 * declared
