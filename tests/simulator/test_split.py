"""A layout cut into shards: nothing is lost, halos bring what is read, and few links are cut."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.graphs import Channel, Topology
from tacit.simulator.data import held_by
from tacit.simulator.layout import Layout, lay_out
from tacit.simulator.shards import partition
from tacit.simulator.shards.split import Split, split

OBJECTIVE = tacit.objectives.logistic()


def laid_out(algorithm, graph, repeats=1) -> tuple[Layout, dict]:
    ends = runtime.link_ends(algorithm)
    parts = [runtime.prepared_topology(algorithm, graph, Channel())] * repeats
    return lay_out(Topology.union(parts), ends, repeats), ends


def cut(algorithm, graph, shards, repeats=1) -> tuple[Layout, Split, dict]:
    layout, ends = laid_out(algorithm, graph, repeats)
    return layout, split(layout, partition.homes(layout, ends, shards), ends, shards), ends


PEERS = tacit.algorithms.online_push_sum(OBJECTIVE)
CLIENTS = tacit.algorithms.graph_federated(OBJECTIVE, cohort=2)
PROBLEMS = {
    "digraph": (PEERS, tacit.graphs.random_digraph(41, 6, seed=0)),
    "hub": (PEERS, tacit.graphs.star(30)),
    "complete": (PEERS, tacit.graphs.complete(9)),
    "servers": (CLIENTS, tacit.graphs.federation(tacit.graphs.ring(3), 5)),
}


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("shards", [2, 4, 8])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_link_reads_what_it_read_before(name, shards, repeats):
    layout, found, ends = cut(*PROBLEMS[name], shards, repeats)
    for role, before in layout.roles.items():
        after = found.layout.roles[role]
        assert sorted(after.order[after.real]) == sorted(before.order)
        assert np.array_equal(after.order[after.position], np.arange(before.order.size))
    for links, before in layout.links.items():
        after, edges = found.layout.links[links], []
        for b, table in enumerate(after.into):
            shard = np.repeat(np.arange(shards), table.live.shape[1] // shards)
            columns = found.roles[ends[links][1]].columns[b].reshape(-1)
            kept = columns >= 0
            assert not table.live[:, ~kept].any()
            assert np.array_equal(table.live[:, kept], before.into[b].live[:, columns[kept]])
            for attribute, known in (("row", found.rows), ("slot_row", found.slot_rows)):
                origin = known[links].origin[shard, getattr(table, attribute)]
                was = getattr(before.into[b], attribute)[:, np.maximum(columns, 0)]
                assert np.array_equal(origin[table.live], was[table.live])
            edges.append(table.edge[table.live & (table.edge < before.graph.edges)])
        assert sorted(np.concatenate(edges)) == list(range(before.graph.edges))


def test_messages_go_as_they_lie_where_nearly_all_are_read() -> None:
    graphs = {"few": tacit.graphs.ring(60), "all": tacit.graphs.random_digraph(60, 10, seed=0, exact=True)}
    halos = {name: cut(PEERS, graph, 2)[1].layout.links["peers"].halo for name, graph in graphs.items()}
    assert (halos["few"].whole, halos["all"].whole) == (False, True)
    assert halos["all"].rows == cut(PEERS, graphs["all"], 2)[1].layout.roles["peer"].rows
    assert halos["all"].sends == ()


def test_no_shard_has_more_of_a_bucket_than_another_by_two():
    _, found, _ = cut(*PROBLEMS["digraph"], 4)
    real = found.layout.roles["peer"].real.reshape(4, -1)
    for bucket in found.layout.roles["peer"].buckets:
        sizes = real[:, bucket].sum(axis=1)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("shards", [2, 4])
def test_repeats_go_to_different_devices_first(shards):
    _, found, _ = cut(*PROBLEMS["digraph"], shards, repeats=4)
    assert found.layout.links["peers"].halo is None


def cut_links(graph, shards) -> tuple[int, int]:
    """Links between shards as they are cut, and if agents stayed in the order given."""
    layout, ends = laid_out(PEERS, graph)
    agents = partition._agents(layout, ends)
    homes = partition.homes(layout, ends, shards)["peer"], np.arange(graph.agents) * shards // graph.agents
    return tuple(int(np.sum(home[agents.senders] != home[agents.receivers])) for home in homes)


def shuffled(graph):
    other = np.random.default_rng(1).permutation(graph.agents)
    return tacit.graphs.from_edges(graph.agents, other[graph.senders], other[graph.receivers])


@pytest.mark.parametrize(
    ("graph", "share"),
    [
        (tacit.graphs.ring(400), 0.05),
        (tacit.graphs.geometric(400, 0.15, seed=0), 0.5),
        (tacit.graphs.random_digraph(400, 4, seed=0), 0.9),
    ],
    ids=["ring", "geometric", "random"],
)
def test_agents_in_no_order_are_put_where_their_neighbours_are(graph, share):
    found, given = cut_links(shuffled(graph), 4)
    assert found < share * given


def test_agents_in_a_good_order_stay_there():
    found, given = cut_links(tacit.graphs.ring(64), 4)
    assert (found, given) == (8, 8)


def test_a_shard_holds_the_rows_of_its_own_agents_where_all_repeats_read_the_same():
    """Two repeats on four shards: either is cut in two, and so are the rows."""
    _, found, _ = cut(PEERS, tacit.graphs.ring(12), 4, repeats=2)
    learners = found.layout.roles["peer"]
    held, place = held_by(learners)
    assert held.size == 4 * 6
    agent, shard = learners.order % learners.agents, np.repeat(np.arange(4), learners.rows)
    assert np.array_equal(held.reshape(4, -1)[shard, place], agent)
