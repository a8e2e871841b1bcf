import numpy as np
import pytest

from tacit import graphs
from tacit.core.errors import GraphError
from tacit.graphs import Topology


def test_a_graph_becomes_peers():
    ring = graphs.ring(5)
    topology = graphs.as_topology(ring)
    assert dict(topology.roles) == {"peer": 5}
    assert topology.links["peers"] is ring
    assert graphs.as_topology(topology) is topology


def test_star_roles():
    star = graphs.star_roles(4)
    assert dict(star.roles) == {"client": 4, "server": 1}
    up, down = star.links["uplink"], star.links["downlink"]
    assert (up.agents, up.columns, up.edges) == (1, 4, 4)
    assert (down.agents, down.columns, down.edges) == (4, 1, 4)
    np.testing.assert_allclose(up.with_weights("receiver").matrix().toarray(), np.full((1, 4), 0.25))
    np.testing.assert_allclose(down.with_weights("receiver").matrix().toarray(), np.ones((4, 1)))
    assert graphs.star_roles(1).links["uplink"].edges == 1


def test_sizes_must_fit_a_role():
    with pytest.raises(GraphError, match="5 receivers"):
        Topology({"peer": 4}, {"peers": graphs.ring(5)})
    with pytest.raises(GraphError, match="3 senders"):
        Topology({"server": 1, "client": 4}, {"uplink": graphs.star_roles(3).links["uplink"]})
    with pytest.raises(GraphError, match="0 agents"):
        Topology({"peer": 0}, {})
    with pytest.raises(GraphError, match="at least one role"):
        Topology({}, {})
    with pytest.raises(GraphError, match="two roles"):
        graphs.as_topology(graphs.star_roles(3).links["uplink"])
    with pytest.raises(GraphError, match="at least one"):
        graphs.star_roles(0)


def test_union_joins_link_sets():
    union = Topology.union([graphs.star_roles(3)] * 2)
    assert dict(union.roles) == {"client": 6, "server": 2}
    W = union.links["uplink"].with_weights("receiver").matrix().toarray()
    np.testing.assert_allclose(W, np.kron(np.eye(2), np.full((1, 3), 1 / 3)))
    with pytest.raises(GraphError, match="equal"):
        Topology.union([graphs.star_roles(3), graphs.star_roles(4)])
    with pytest.raises(GraphError, match="at least one"):
        Topology.union([])
