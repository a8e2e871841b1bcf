"""The slot tables describe exactly the graph, whatever its degrees, and do not outgrow it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.contract import Phase, unprotected
from tacit.graphs import Graph, Topology
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tacit.simulator.layout import lay_out
from tests.simulator import specimens

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
PEERS = {"peers": ("peer", "peer")}


def check_role(role, total):
    assert np.array_equal(np.sort(role.order), np.arange(total))
    assert np.array_equal(role.order[role.position], np.arange(total))
    edges = [0, *(bucket.stop for bucket in role.buckets)]
    assert [bucket.start for bucket in role.buckets] == edges[:-1]
    assert edges[-1] == total
    assert all(bucket.stop > bucket.start for bucket in role.buckets)


def entries(tables, role):
    """Every (agent in the union, slot, table, place) of one side."""
    for bucket, table in zip(role.buckets, tables, strict=True):
        slots, agents = table.live.shape
        assert agents == bucket.stop - bucket.start
        for column in range(agents):
            for slot in range(slots):
                yield int(role.order[bucket.start + column]), slot, table, (slot, column)


def check_links(links, source, target, one_role):
    """Compare both sides with the edge list, entry by entry."""
    graph = links.graph
    edges = list(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
    dead = len(edges) + (graph.agents if one_role else 0)

    out_rows = {}
    seen = []
    for agent, slot, table, place in entries(links.out, source):
        row = int(table.row[place])
        assert row not in out_rows, "two out-slots share a row of the per-slot messages"
        out_rows[row] = (agent, slot)
        edge = int(table.edge[place])
        if slot == 0 and one_role:
            assert (bool(table.live[place]), edge) == (True, len(edges) + agent)
            assert table.agent[place] == agent % source.agents
        elif table.live[place]:
            assert edges[edge][0] == agent
            assert table.agent[place] == edges[edge][1] % target.agents
            seen.append(edge)
        else:
            assert (edge, int(table.agent[place])) == (dead, -1)
    assert sorted(out_rows) == list(range(links.slot_rows))
    assert sorted(seen) == list(range(len(edges))), "every edge once on the senders' side"
    out_slot = {}
    for agent, slot, table, place in entries(links.out, source):
        if slot and table.live[place]:
            out_slot[int(table.edge[place])] = (agent, slot)

    seen, last = [], {}
    for agent, slot, table, place in entries(links.into, target):
        edge = int(table.edge[place])
        sender = int(source.order[table.row[place]])
        assert 0 <= table.slot_row[place] < max(links.slot_rows, 1)
        if slot == 0 and one_role:
            assert (bool(table.live[place]), edge, sender) == (True, len(edges) + agent, agent)
            assert out_rows[int(table.slot_row[place])] == (agent, 0)
        elif table.live[place]:
            assert edges[edge] == (sender, agent)
            assert table.agent[place] == sender % source.agents
            assert out_rows[int(table.slot_row[place])] == out_slot[edge]
            assert last.get(agent, -1) < sender, "in-slots ascend by sender: a slot keeps its meaning"
            last[agent] = sender
            seen.append(edge)
        else:
            assert (edge, int(table.agent[place])) == (dead, -1)
            if one_role:
                assert sender == agent, "padding reads the agent's own row, which cannot leak"
    assert sorted(seen) == list(range(len(edges))), "every edge once on the receivers' side"


def check(layout, topology, ends):
    for role, size in topology.roles.items():
        check_role(layout.roles[role], size)
        assert layout.roles[role].agents * layout.repeats == size
    for name, (source, target) in ends.items():
        check_links(layout.links[name], layout.roles[source], layout.roles[target], source == target)


@st.composite
def edge_lists(draw, receivers, senders, one_role):
    pairs = [(s, r) for r in range(receivers) for s in range(senders) if not (one_role and s == r)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    return [s for s, _ in chosen], [r for _, r in chosen]


@st.composite
def one_role_unions(draw):
    agents, repeats = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    parts = [Graph.from_edges(agents, *draw(edge_lists(agents, agents, True))) for _ in range(repeats)]
    return Topology.union([Topology({"peer": agents}, {"peers": g}) for g in parts]), repeats


@st.composite
def two_role_unions(draw):
    clients, servers, repeats = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    parts = [
        Topology(
            {"client": clients, "server": servers},
            {
                "up": Graph.from_edges(servers, *draw(edge_lists(servers, clients, False)), sources=clients),
                "down": Graph.from_edges(clients, *draw(edge_lists(clients, servers, False)), sources=servers),
                "among": Graph.from_edges(servers, *draw(edge_lists(servers, servers, True))),
            },
        )
        for _ in range(repeats)
    ]
    return Topology.union(parts), repeats


@pytest.fixture(params=[layout_module.BUCKET_OVERHEAD, 0], ids=["as shipped", "most buckets"])
def overhead(request, monkeypatch):
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", request.param)
    return request.param


@QUICK
@forall(one_role_unions(), st.sampled_from([0, 3, 800]))
def test_links_within_a_role_are_laid_out_edge_by_edge(union, overhead):
    topology, repeats = union
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "BUCKET_OVERHEAD", overhead)
        check(lay_out(topology, PEERS, repeats), topology, PEERS)


@QUICK
@forall(two_role_unions(), st.sampled_from([0, 3, 800]))
def test_links_between_roles_are_laid_out_edge_by_edge(union, overhead):
    topology, repeats = union
    ends = {"up": ("client", "server"), "down": ("server", "client"), "among": ("server", "server")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "BUCKET_OVERHEAD", overhead)
        check(lay_out(topology, ends, repeats), topology, ends)


def skewed(agents, seed=0, longest=60):
    """In-degrees with a heavy tail: more than 64 different ones where there are enough agents."""
    generator = np.random.default_rng(seed)
    degree = np.minimum(generator.zipf(1.6, agents), min(longest, agents - 1))
    receivers = np.repeat(np.arange(agents), degree)
    shift = np.concatenate([1 + generator.permutation(agents - 1)[:d] for d in degree])
    return Graph.from_edges(agents, (receivers + shift) % agents, receivers)


@pytest.mark.parametrize(
    "graph",
    [
        graphs.star(40),
        graphs.complete(9),
        Graph.from_edges(6, [], []),
        Graph.from_edges(1, [], []),
        skewed(150, longest=140),
        graphs.star(12).disconnected(),
    ],
    ids=["star", "complete", "no links", "one agent", "skewed", "disconnected"],
)
@pytest.mark.parametrize("repeats", [1, 2])
def test_special_graphs(graph, repeats, overhead):
    topology = Topology.union([graphs.as_topology(graph)] * repeats)
    layout = lay_out(topology, PEERS, repeats)
    check(layout, topology, PEERS)
    assert layout.links["peers"].uniform == (graph.edges == graph.agents * (graph.agents - 1))


def least_cost(degrees, overhead, most):
    """Cheapest partition of sorted degrees into at most `most` runs, by trying all of them."""
    values = np.unique(degrees)
    best = np.inf
    for buckets in range(1, min(most, values.size) + 1):
        for cuts in combinations(range(1, values.size), buckets - 1):
            tops = [values[c - 1] for c in (*cuts, values.size)]
            slots = sum(int(tops[np.searchsorted(tops, d)]) + 1 for d in degrees)
            best = min(best, slots + overhead * buckets)
    return best


@QUICK
@forall(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 30))
def test_buckets_waste_as_little_as_any_partition_could(degrees, overhead):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "BUCKET_OVERHEAD", overhead)
        bounds = layout_module._bucket_bounds(np.array(degrees))
    cost = sum(bounds[np.searchsorted(bounds, d)] + 1 for d in degrees) + overhead * len(bounds)
    assert cost == least_cost(degrees, overhead, layout_module.most_buckets(len(degrees)))


def slot_count(tables):
    return sum(table.live.size for table in tables)


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphs.star(20_000),
        lambda: skewed(3_000, longest=1_000),
        lambda: graphs.random_digraph(20_000, out_degree=6, seed=0),
        lambda: graphs.erdos_renyi(2_000, 0.01, seed=0),
    ],
    ids=["star", "skewed", "random digraph", "erdos renyi"],
)
def test_padding_is_bounded(make):
    graph = make()
    layout = lay_out(graphs.as_topology(graph), PEERS, 1)
    spare = layout_module.most_buckets(graph.agents) * layout_module.BUCKET_OVERHEAD
    assert slot_count(layout.links["peers"].into) <= 2 * (graph.agents + graph.edges) + spare


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphs.from_edges(200_000, np.zeros(199_999, int), np.arange(1, 200_000)),
        lambda: skewed(3_000, longest=1_000).reverse(),
        lambda: Graph.union([skewed(3_000, longest=1_000), skewed(3_000, longest=1_000).reverse()]),
        lambda: graphs.random_digraph(20_000, out_degree=6, seed=0),
    ],
    ids=["a hub that all hear", "skewed senders", "skewed both ways", "random digraph"],
)
def test_padding_of_both_sides_is_bounded(make):
    graph = make()
    layout = lay_out(graphs.as_topology(graph), PEERS, 1)
    spare = layout_module.most_buckets(graph.agents) * layout_module.BUCKET_OVERHEAD
    for side in (layout.links["peers"].into, layout.links["peers"].out):
        assert slot_count(side) <= 5 * (graph.agents + graph.edges) + spare


def test_a_hub_of_two_hundred_thousand_neighbours_takes_part_in_a_round():
    agents = 200_000
    algorithm = specimens.algorithm(
        [Phase("peers", specimens.step, unprotected, lambda k, s, inbox, v: s._replace(x=inbox.mix().private))],
        lambda key, params, views: specimens.Federated(params + views["peers"].agent, views["peers"].agent),
        lambda state: specimens.padded(state.x),
    )
    data = np.ones((1, agents, specimens.DIM), np.float32)
    stream = specimens.fixed(data)
    graph = graphs.star(agents).with_weights("receiver")
    run = simulate(algorithm, graph, stream, rounds=1, dtype="float64")
    x = 0.9 * np.arange(agents)[:, None] + 0.1 * data[0]
    expected = 0.5 * (x + x[0])
    expected[0] = x.mean(axis=0)
    np.testing.assert_allclose(run.models[0, :, : specimens.DIM], expected, rtol=1e-9, atol=1e-9)
    assert run.per_round["messages"].tolist() == [[2 * (agents - 1)]]
