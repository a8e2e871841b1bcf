"""Clusters in the description of a graph: link sets within and between them, unions, relabelling, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import GraphError
from tacit.graphs import Topology, as_topology, complete, federation, ring, small_world, star_roles

LABELS = [0, 1, 1, 0, 2, 0]


def pairs(graph):
    return set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))


def test_links_lead_within_clusters_or_between_them():
    graph = complete(6).with_clusters(LABELS)
    made = as_topology(graph)
    assert set(made.links) == {"peers", "cluster", "bridge"}
    within = {(a, b) for a in range(6) for b in range(6) if a != b and LABELS[a] == LABELS[b]}
    assert pairs(made.links["cluster"]) == within
    assert pairs(made.links["bridge"]) == pairs(graph) - within
    np.testing.assert_array_equal(made.clusters["peer"], LABELS)
    assert set(as_topology(complete(6)).links) == {"peers"}


def test_a_cluster_of_one_has_bridges_alone():
    made = as_topology(ring(6).with_clusters(LABELS))
    assert made.links["cluster"].in_degree[4] == 0
    assert made.links["bridge"].in_degree[4] == 2


def test_clusters_go_along_with_their_agents():
    graph = small_world(6, 2, 0.5, seed=0).with_clusters(LABELS)
    new = np.array([3, 0, 5, 1, 2, 4])
    moved = graph.relabelled(new)
    np.testing.assert_array_equal(moved.clusters[new], LABELS)
    np.testing.assert_array_equal(graph.reverse().clusters, LABELS)
    np.testing.assert_array_equal(graph.mutual().clusters, LABELS)
    np.testing.assert_array_equal(graph.with_weights("receiver").clusters, LABELS)


def test_a_union_keeps_the_numbers_of_each_part():
    one, other = ring(6).with_clusters(LABELS), ring(6).with_clusters(LABELS[::-1])
    made = Topology.union([as_topology(one), as_topology(other)])
    np.testing.assert_array_equal(made.clusters["peer"], LABELS + LABELS[::-1])
    with pytest.raises(GraphError, match="in clusters, or none"):
        Topology.union([Topology({"peer": 6}, {"peers": g}, c) for g, c in ((one, {"peer": LABELS}), (ring(6), {}))])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], r"shape \(2,\).*each of 6 agents"),
        ([0.0] * 6, "float64"),
        ([0, 1, -1, 0, 1, 1], "-1 is negative"),
        ([0, 2, 2, 0, 3, 3], "nobody belongs to cluster 1"),
    ],
    ids=["too few", "no whole numbers", "negative", "a gap"],
)
def test_refused(labels, said):
    with pytest.raises(GraphError, match=said):
        ring(6).with_clusters(labels)


def test_clients_are_in_clusters_and_servers_are_not():
    made = federation(ring(3), 2, LABELS)
    assert set(made.clusters) == {"client"}
    assert federation(ring(3), 2).clusters == {}
    with pytest.raises(GraphError, match="role 'peer'"):
        Topology({"client": 2, "server": 1}, star_roles(2).links, {"peer": np.array([0])})
    with pytest.raises(GraphError, match="links two roles"):
        star_roles(6).links["uplink"].with_clusters([0])
