"""PGFL and ClusterFL: transcriptions, the optimum of each cluster, privacy, and topologies that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.algorithms import clustered_federated, personalised_graph_federated
from tacit.core.errors import ConfigError, GraphError
from tacit.graphs import complete, federation, ring
from tacit.objectives import logistic, squared
from tacit.privacy import decaying_gaussian, gaussian

SERVERS, EACH, CLUSTERS, DIM, MOST = 4, 5, 3, 6, 4
CLIENTS = SERVERS * EACH
RNG = np.random.default_rng(5)
LABELS = np.array([0, 0, 1, 1, 0, 1, 2, 2, 0, 0, 1, 2, 0, 1, 2, 2, 2, 1, 0, 1])
"""The first server has nobody of cluster 2."""
SIZES = RNG.integers(2, MOST + 1, CLIENTS)
X = RNG.standard_normal((CLIENTS, MOST, DIM))
TRUTH = RNG.standard_normal((CLUSTERS, DIM))
Y = np.einsum("kni,ki->kn", X, TRUTH[LABELS]) + 0.1 * RNG.standard_normal((CLIENTS, MOST))
OWN = [k * MOST + np.arange(size) for k, size in enumerate(SIZES)]
STREAM = tacit.streams.whole(X.reshape(-1, DIM), Y.reshape(-1), OWN, task="regression")
TOPOLOGY = federation(ring(SERVERS), EACH, LABELS)
L2, RHO = 0.05, 0.8
OBJECTIVE = squared(l2=L2)


def run(algorithm, rounds, topology=TOPOLOGY, **settings):
    return tacit.simulate(algorithm, topology, STREAM, rounds=rounds, dtype="float64", **settings)


def parts(k):
    """Curvature and slope of a client's mean of half squares."""
    x, y = X[k, : SIZES[k]], Y[k, : SIZES[k]]
    return x.T @ x / SIZES[k], x.T @ y / SIZES[k]


def transcription(rounds, tau, weights):
    """Gauthier (2023), Alg. 4, with one matrix of weights among servers: the models that clients heard in the last round."""
    w, phi = np.zeros((CLIENTS, DIM)), np.zeros((CLIENTS, DIM))
    model = np.zeros((SERVERS, CLUSTERS, DIM))
    home = np.arange(CLIENTS) // EACH
    for t in range(1, rounds + 1):
        heard = model[home, LABELS]
        for k in range(CLIENTS):
            curvature, slope = parts(k)
            anchor = model[home[k], LABELS[k]]
            w[k] = np.linalg.solve(curvature + (L2 + RHO) * np.eye(DIM), slope + phi[k] + RHO * anchor)
        gathered = model.copy()
        for s in range(SERVERS):
            for q in range(CLUSTERS):
                mine = np.flatnonzero((home == s) & (q == LABELS))
                if mine.size:
                    gathered[s, q] = w[mine].mean(axis=0) - phi[mine].mean(axis=0) / RHO
        combined = np.einsum("sp,pqi->sqi", weights, gathered)
        others = (combined.sum(axis=1, keepdims=True) - combined) / (CLUSTERS - 1)
        model = (1 - tau(t)) * combined + tau(t) * others
        phi += RHO * (model[home, LABELS] - w)
    return heard


def averaging(graph):
    matrix = np.eye(SERVERS)
    matrix[graph.receivers, graph.senders] = 1
    return matrix / matrix.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("make", "weights"),
    [
        (personalised_graph_federated, averaging(ring(SERVERS))),
        pytest.param(clustered_federated, np.eye(SERVERS), marks=pytest.mark.covered_by("servers on a ring")),
    ],
    ids=["servers on a ring", "servers apart"],
)
def test_it_is_its_equations(make, weights):
    tau = lambda t: 0.4 * 0.9**t  # noqa: E731
    found = run(make(OBJECTIVE, clusters=CLUSTERS, penalty=RHO, tau=tau), 25)
    np.testing.assert_allclose(found.models[0], transcription(25, tau, weights), rtol=1e-9, atol=1e-12)


def optimum(cluster):
    """The minimum of sum_s mean_{k of the cluster at s} f_k, by a direct solve."""
    home = np.arange(CLIENTS) // EACH
    curvature, slope = np.zeros((DIM, DIM)), np.zeros(DIM)
    for s in range(SERVERS):
        mine = np.flatnonzero((home == s) & (cluster == LABELS))
        for k in mine:
            own = parts(k)
            curvature += (own[0] + L2 * np.eye(DIM)) / mine.size
            slope += own[1] / mine.size
    return np.linalg.solve(curvature, slope)


def distance(models):
    """Largest distance of a client's model from its cluster's optimum, beside that optimum's size."""
    targets = np.stack([optimum(q) for q in range(CLUSTERS)])[LABELS]
    return np.max(np.linalg.norm(models - targets, axis=1) / np.linalg.norm(targets, axis=1))


def test_with_tau_0_every_cluster_comes_to_its_own_optimum():
    """1e-5 as promised, also through a server that has nobody of a cluster; the text's averages stay away."""
    exact = run(personalised_graph_federated(OBJECTIVE, clusters=CLUSTERS, penalty=RHO, exact=True), 400)
    assert distance(exact.models[0]) < 1e-5
    plain = run(personalised_graph_federated(OBJECTIVE, clusters=CLUSTERS, penalty=RHO), 400)
    assert distance(plain.models[0]) > 1e-2


@pytest.mark.covered_by("its equations and the optimum of every cluster")
def test_where_all_servers_hear_all_the_texts_averages_are_exact():
    everybody = LABELS.copy()
    everybody[1] = 2  # so that every server has somebody of each cluster
    topology = federation(complete(SERVERS), EACH, everybody)
    found = run(personalised_graph_federated(OBJECTIVE, clusters=CLUSTERS, penalty=RHO), 400, topology)
    targets = []
    home = np.arange(CLIENTS) // EACH
    for q in range(CLUSTERS):
        share = np.zeros(CLIENTS)
        for s in range(SERVERS):
            mine = (home == s) & (everybody == q)
            share[mine] = 1 / mine.sum()
        curvature = sum(share[k] * (parts(k)[0] + L2 * np.eye(DIM)) for k in range(CLIENTS))
        targets.append(np.linalg.solve(curvature, sum(share[k] * parts(k)[1] for k in range(CLIENTS))))
    np.testing.assert_allclose(found.models[0], np.stack(targets)[everybody], rtol=1e-5, atol=1e-7)


@pytest.mark.covered_by("its equations and the optimum of every cluster")
def test_one_cluster_is_one_model_for_all():
    found = run(personalised_graph_federated(OBJECTIVE, clusters=1, penalty=RHO, exact=True), 300)
    home = [parts(k) for k in range(CLIENTS)]
    curvature = sum(c + L2 * np.eye(DIM) for c, _ in home)
    one = np.linalg.solve(curvature, sum(s for _, s in home))
    np.testing.assert_allclose(found.models[0], np.broadcast_to(one, (CLIENTS, DIM)), rtol=1e-5, atol=1e-7)


@pytest.mark.covered_by("its equations and simulator/test_calls.py")
def test_who_is_not_called_keeps_its_model():
    mechanism = gaussian(2.0, clip=1.0)
    made = personalised_graph_federated(OBJECTIVE, mechanism, clusters=CLUSTERS, penalty=RHO, cohort=1, tau=0.5)
    found = run(made, 2, seed=3)  # in the second round a server has a model of every cluster
    moved = np.any(found.models[0] != 0, axis=1)
    assert moved.sum() == SERVERS
    assert [moved[s * EACH : (s + 1) * EACH].sum() for s in range(SERVERS)] == [1] * SERVERS
    assert found.per_round["messages"][0, 0] == 2 * SERVERS + 2 * SERVERS  # calls, answers, and the ring of servers


def test_the_published_schedule_costs_the_sum_of_its_rounds_not_the_texts_total():
    """phi_1 = 0.001 and zeta = 0.99 over 300 rounds: 1.92. The text's 0.095 adds up phi's that shrink with the noise."""
    first, decay, rounds = 0.001, 0.99, 300
    mechanism = decaying_gaussian(1 / np.sqrt(2 * first), decay, clip=1.0)
    found = run(clustered_federated(OBJECTIVE, mechanism, clusters=CLUSTERS, penalty=RHO), rounds)
    total = (first * decay ** -np.arange(float(rounds))).sum()
    assert total == pytest.approx(1.92, abs=0.01)
    assert found.privacy.guarantee.rho == pytest.approx(total, rel=1e-5)
    assert first * (1 - decay**rounds) / (1 - decay) == pytest.approx(0.095, abs=0.001)


def test_a_replaced_record_moves_what_a_client_sends_within_the_declared_sensitivity():
    clip = 0.3
    mechanism = gaussian(1e-6, clip)
    made = clustered_federated(logistic(l2=L2), mechanism, clusters=1, penalty=RHO)
    alone = federation(complete(CLIENTS), 1)
    signs = np.where(Y > 0, 1, -1)
    x = X.copy()
    before = tacit.streams.whole(x.reshape(-1, DIM), signs.reshape(-1), OWN)
    x[7, 1] *= -30
    after = tacit.streams.whole(x.reshape(-1, DIM), signs.reshape(-1), OWN)
    runs = [tacit.simulate(made, alone, s, rounds=2, dtype="float64") for s in (before, after)]
    # A server of one client hands its released model back to it.
    moved = np.linalg.norm(runs[0].models[0] - runs[1].models[0], axis=1)
    allowed = 2 * clip / (SIZES[7] * (RHO + L2))
    assert 0.5 * allowed < moved[7] <= allowed * 1.001
    np.testing.assert_allclose(np.delete(moved, 7), 0, atol=1e-12)


def test_a_topology_that_does_not_fit_is_refused():
    make = personalised_graph_federated
    with pytest.raises(ConfigError, match=r"federation\(graph of the servers"):
        run(make(OBJECTIVE, clusters=2), 1, ring(CLIENTS))
    with pytest.raises(ConfigError, match="clusters = 2, .*3"):
        run(make(OBJECTIVE, clusters=2), 1)
    with pytest.raises(ConfigError, match="clusters = 3, .*1"):
        run(make(OBJECTIVE, clusters=3), 1, federation(ring(SERVERS), EACH))
    with pytest.raises(GraphError, match="nobody belongs to cluster 1"):
        federation(ring(SERVERS), EACH, np.where(LABELS == 1, 0, LABELS))
    with pytest.raises(GraphError, match="whole number .*20 clients"):
        federation(ring(SERVERS), EACH, LABELS[:-1])
    with pytest.raises(ConfigError, match=r"tau = 1\.5"):
        make(OBJECTIVE, clusters=3, tau=1.5)
    with pytest.raises(ConfigError, match="clusters = 0"):
        make(OBJECTIVE, clusters=0)
    with pytest.raises(ConfigError, match="cohort = 0"):
        make(OBJECTIVE, clusters=3, cohort=0)
