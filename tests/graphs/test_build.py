import networkx
import numpy as np
import pytest
import scipy.stats
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.errors import GraphError

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def edges(graph):
    return set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))


def assert_canonical(graph):
    key = graph.receivers.astype(np.int64) * graph.agents + graph.senders
    assert np.all(np.diff(key) > 0)
    assert np.all(graph.senders != graph.receivers)
    assert graph.senders.min(initial=0) >= 0
    assert graph.senders.max(initial=0) < graph.agents


@QUICK
@forall(st.integers(1, 20))
def test_regular_shapes(n):
    ids = range(n)
    expected = {
        graphs.ring: {(i, (i + d) % n) for i in ids for d in (1, -1)},
        graphs.directed_ring: {(i, (i + 1) % n) for i in ids},
        graphs.complete: {(i, j) for i in ids for j in ids},
        graphs.star: {(0, i) for i in ids} | {(i, 0) for i in ids},
        graphs.exponential: {(i, (i + 2**j) % n) for i in ids for j in range(6) if 2**j < n},
    }
    for generator, pairs in expected.items():
        graph = generator(n)
        assert_canonical(graph)
        assert edges(graph) == {(s, r) for s, r in pairs if s != r}
        assert graphs.is_strongly_connected(graph)
        assert networkx.is_strongly_connected(graphs.to_networkx(graph))


@QUICK
@forall(st.integers(2, 40), st.data(), st.booleans(), st.integers(0, 1000))
def test_random_digraph_is_strongly_connected_with_its_degrees(n, data, exact, seed):
    degree = data.draw(st.integers(1, n - 1))
    graph = graphs.random_digraph(n, degree, seed, exact=exact)
    assert_canonical(graph)
    assert networkx.is_strongly_connected(graphs.to_networkx(graph))
    assert graph.in_degree.min() >= 1
    if exact:
        assert np.all(graph.out_degree == degree)
    else:
        assert graph.out_degree.min() >= 1
        assert graph.out_degree.max() <= degree


def test_random_digraph_is_reproducible_and_targets_are_uniform():
    one, two = (graphs.random_digraph(50, 7, seed) for seed in (1, 1))
    assert edges(one) == edges(two)
    assert edges(one) != edges(graphs.random_digraph(50, 7, 2))
    # Every ordered pair is linked with the same probability, below and above the switch to shuffling.
    for degree in (3, 8):
        count = np.zeros((10, 10))
        for seed in range(600):
            graph = graphs.random_digraph(10, degree, seed, exact=True)
            count[graph.senders, graph.receivers] += 1
        low, high = scipy.stats.binom.interval(1 - 1e-6 / 90, 600, degree / 9)
        off_diagonal = count[~np.eye(10, dtype=bool)]
        assert low <= off_diagonal.min() <= off_diagonal.max() <= high


def test_random_digraph_out_degrees_are_uniform():
    degree = graphs.random_digraph(20_000, 4, 0).out_degree
    low, high = scipy.stats.binom.interval(1 - 1e-6, 20_000, 0.25)
    for value in (1, 2, 3, 4):
        assert low <= np.sum(degree == value) <= high


def test_a_million_agents():
    graph = graphs.random_digraph(1_000_000, 10, seed=0)
    assert 5_400_000 < graph.edges < 5_600_000
    assert graph.senders.nbytes + graph.receivers.nbytes == 8 * graph.edges
    assert graph.in_degree.min() >= 1
    assert graphs.is_strongly_connected(graph)


@QUICK
@forall(st.integers(1, 40), st.floats(0, 1), st.integers(0, 1000), st.booleans())
def test_erdos_renyi(n, p, seed, directed):
    graph = graphs.erdos_renyi(n, p, seed, directed=directed)
    assert_canonical(graph)
    if not directed:
        assert graphs.is_symmetric(graph)
    if p == 1:
        assert graph.edges == n * (n - 1)
    if p == 0:
        assert graph.edges == 0


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("p", [0.3, 0.7])
def test_erdos_renyi_links_each_pair_with_its_probability(n, p, directed):
    count = np.zeros((n, n))
    for seed in range(400):
        graph = graphs.erdos_renyi(n, p, seed, directed=directed)
        count[graph.senders, graph.receivers] += 1
    low, high = scipy.stats.binom.interval(1 - 1e-6 / n**2, 400, p)
    off_diagonal = count[~np.eye(n, dtype=bool)]
    assert low <= off_diagonal.min() <= off_diagonal.max() <= high


def test_erdos_renyi_is_sparse_at_a_hundred_thousand_agents():
    graph = graphs.erdos_renyi(100_000, 1e-4, 0)
    low, high = scipy.stats.binom.interval(1 - 1e-6, 100_000 * 99_999 // 2, 1e-4)
    assert 2 * low <= graph.edges <= 2 * high


@QUICK
@forall(st.integers(2, 60), st.floats(0.05, 1.5), st.integers(0, 100))
def test_geometric_links_exactly_the_near_ones(n, radius, seed):
    graph = graphs.geometric(n, radius, seed)
    points = np.random.default_rng(seed).random((n, 2))
    near = np.linalg.norm(points[:, None] - points, axis=-1) <= radius
    assert edges(graph) == {(i, j) for i in range(n) for j in range(n) if i != j and near[i, j]}


@QUICK
@forall(st.integers(3, 40), st.data(), st.floats(0, 1), st.integers(0, 100))
def test_small_world_keeps_its_number_of_links(n, data, rewire, seed):
    k = 2 * data.draw(st.integers(1, (n - 1) // 2))
    graph = graphs.small_world(n, k, rewire, seed)
    assert_canonical(graph)
    assert graphs.is_symmetric(graph)
    assert graph.edges == n * k
    if rewire == 0:
        assert edges(graph) == edges(graphs.k_regular(n, k))


def test_small_world_rewires_its_share():
    lattice, rewired = graphs.k_regular(5000, 4), graphs.small_world(5000, 4, 0.2, 0)
    kept = len(edges(lattice) & edges(rewired)) // 2
    low, high = scipy.stats.binom.interval(1 - 1e-6, 10_000, 0.8)
    assert low <= kept <= high


@QUICK
@forall(st.integers(2, 30), st.data(), st.one_of(st.none(), st.integers(0, 100)))
def test_k_regular(n, data, seed):
    k = data.draw(st.integers(1, n - 1).filter(lambda k: n * k % 2 == 0))
    graph = graphs.k_regular(n, k, seed)
    assert_canonical(graph)
    assert graphs.is_symmetric(graph)
    assert np.all(graph.in_degree == k)
    assert np.all(graph.out_degree == k)
    if k >= 2:
        assert graphs.is_strongly_connected(graph)


def test_random_regular_has_no_lattice_left():
    # Triangles: (k-1)^3/6 = 4.5 expected in a random 4-regular graph, 300 in the lattice of 300 agents.
    triangles = networkx.triangles(graphs.to_networkx(graphs.k_regular(300, 4, seed=0)).to_undirected())
    assert sum(triangles.values()) / 3 < 25


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphs.ring(0),
        lambda: graphs.star(0),
        lambda: graphs.complete(0),
        lambda: graphs.exponential(0),
        lambda: graphs.one_peer_exponential(0),
        lambda: graphs.random_digraph(5, 5, 0),
        lambda: graphs.random_digraph(1, 1, 0),
        lambda: graphs.erdos_renyi(5, 1.5, 0),
        lambda: graphs.geometric(5, 0.0, 0),
        lambda: graphs.small_world(5, 3, 0.1, 0),
        lambda: graphs.small_world(5, 2, 1.1, 0),
        lambda: graphs.k_regular(5, 3),
        lambda: graphs.k_regular(4, 4),
    ],
)
def test_impossible_sizes_are_refused(make):
    with pytest.raises(GraphError, match="expected"):
        make()
