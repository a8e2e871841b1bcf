import networkx
import numpy as np
import pytest

from tacit import graphs
from tacit.core.errors import GraphError


def read(tmp_path, text, **options):
    file = tmp_path / "trust.txt"
    file.write_text(text)
    return graphs.from_edge_list(file, **options)


def test_edge_list_without_weights(tmp_path):
    graph = read(tmp_path, "# who trusts whom\n0 1\n1,2  # comma\n\n2\t0\n")
    assert graph.name == "trust"
    assert graph.weights is None
    assert list(zip(graph.senders, graph.receivers, strict=True)) == [(2, 0), (0, 1), (1, 2)]
    assert read(tmp_path, "0 1\n", agents=5).agents == 5
    assert read(tmp_path, "", agents=2).edges == 0


def test_edge_list_with_weights(tmp_path):
    graph = read(tmp_path, "1 0 0.25\n0, 1, 0.5\n0 0 0.75\n")
    np.testing.assert_array_equal(graph.matrix().toarray(), [[0.75, 0.25], [0.5, 0]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n2\n", r"trust\.txt, line 2: expected 'sender receiver \[weight\]', found '2'"),
        ("0 1 0.5 9\n", r"line 1: expected"),
        ("# top\n\n0 one\n", "line 3: sender and receiver must be whole numbers, found '0 one'"),
        ("0 -1\n", "line 1: agents are numbered from 0"),
        ("0 1 heavy\n", "line 1: the weight must be a number, found '0 1 heavy'"),
        ("0 1 nan\n", "line 1: the weight must be a finite number"),
        ("0 1 -2\n", "line 1: the weight must be a finite number, 0 or larger"),
        ("0 1 0.5\n1 0\n", "line 2: weights stand on all lines or on none"),
        ("0 1\n1 0 0.5\n", "line 2: weights stand on all lines or on none"),
        ("0 1\n1 1\n", "line 2: 1 1 is a self loop"),
        ("0 1\n1 0\n0 1\n", "line 3: 0 1 stands on line 1 already"),
        ("# nothing\n", "no edges found"),
    ],
)
def test_edge_list_errors_name_file_line_and_expectation(tmp_path, text, words):
    with pytest.raises(GraphError, match=words):
        read(tmp_path, text)


def test_edge_list_outside_the_given_agents(tmp_path):
    with pytest.raises(GraphError, match=r"line 1: agent 7 is not in 0\.\.3"):
        read(tmp_path, "0 7\n", agents=4)


def test_edge_list_that_cannot_be_read(tmp_path):
    with pytest.raises(GraphError, match=r"none\.txt: cannot be read"):
        graphs.from_edge_list(tmp_path / "none.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GraphError, match="cannot be read as text"):
        graphs.from_edge_list(tmp_path / "binary.txt")


def test_from_networkx():
    karate = networkx.karate_club_graph()
    graph = graphs.from_networkx(karate)
    assert graph.agents == 34
    assert graph.edges == 2 * karate.number_of_edges()
    assert graphs.is_symmetric(graph)
    named = graphs.from_networkx(networkx.DiGraph([("b", "a"), ("a", "c")]))
    assert list(zip(named.senders, named.receivers, strict=True)) == [(0, 1), (1, 2)]
    unordered = networkx.DiGraph([(2, 0), (0, 1)])
    assert graphs.from_networkx(unordered).neighbours_out(2).tolist() == [0]
    with pytest.raises(GraphError, match="self loop"):
        graphs.from_networkx(networkx.DiGraph([(0, 1), (1, 1)]))
    with pytest.raises(GraphError, match="no nodes"):
        graphs.from_networkx(networkx.Graph())


@pytest.mark.parametrize("weights", ["sender", "receiver", None])
def test_networkx_and_back_is_the_same_graph(weights):
    graph = graphs.random_digraph(9, out_degree=3, seed=1).with_clusters(np.arange(9) % 2)
    graph = graph if weights is None else graph.with_weights(weights)
    nodes = list("abcdefghi")
    there = graphs.to_networkx(graph, nodes=nodes)
    assert there.is_directed()
    assert there.nodes["b"] == {"cluster": 1}
    back = graphs.from_networkx(there, weight=weights and "weight", cluster="cluster")
    assert list(there.nodes) == nodes
    assert back.name == graph.name
    np.testing.assert_array_equal(back.senders, graph.senders)
    np.testing.assert_array_equal(back.receivers, graph.receivers)
    np.testing.assert_array_equal(back.clusters, graph.clusters)
    if weights is None:
        assert back.weights is None
    else:
        np.testing.assert_array_equal(back.matrix().toarray(), graph.matrix().toarray())


def test_links_between_roles_in_networkx():
    topology = graphs.star_roles(3)
    uplink = graphs.to_networkx(topology.links["uplink"])
    assert set(uplink.edges) == {(("sender", k), ("receiver", 0)) for k in range(3)}
    assert networkx.is_bipartite(uplink.to_undirected())
    assert uplink.nodes["sender", 0] == {"bipartite": 0}
    with pytest.raises(GraphError, match="2 different names for 1 agents"):
        graphs.to_networkx(topology.links["uplink"], nodes=["a", "b"])


def test_weights_of_networkx_are_read_when_asked_for():
    mutual = networkx.Graph()
    mutual.add_edge("x", "y", trust=0.25)
    mutual.add_edge("x", "x", trust=0.75)
    graph = graphs.from_networkx(mutual, weight="trust")
    np.testing.assert_array_equal(graph.matrix().toarray(), [[0.75, 0.25], [0.25, 0]])
    mutual.add_edge("y", "z")
    with pytest.raises(GraphError, match="edge 'y' -> 'z' has no 'trust'"):
        graphs.from_networkx(mutual, weight="trust")
    mutual.add_node("w", group=0)
    mutual.remove_edge("x", "x")
    with pytest.raises(GraphError, match="node 'x' has no 'group'"):
        graphs.from_networkx(mutual, cluster="group")
