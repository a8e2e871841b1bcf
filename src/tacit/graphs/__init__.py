"""Graphs: link sets, weights, time-varying schedules, channels, generators, and checks before a run.

W[i, j] is what receiver i multiplies sender j's message with; edges are directed from sender to receiver. A
graph is kept as an edge list, so that a million agents fit.
"""

from tacit.graphs.availability import Availability
from tacit.graphs.build import (
    complete,
    directed_ring,
    exponential,
    one_peer_exponential,
    periodic,
    ring,
    star,
)
from tacit.graphs.channel import Channel, Delay
from tacit.graphs.checks import (
    Perron,
    column_sums,
    doubly_stochastic,
    is_strongly_connected,
    is_symmetric,
    missing_path,
    one_sided_edge,
    one_sided_share,
    perron,
    receiver_normalised,
    row_sums,
    sender_normalised,
    spectral_gap,
)
from tacit.graphs.clusters import checked_clusters
from tacit.graphs.convert import from_edge_list, from_matrix, from_networkx, to_networkx
from tacit.graphs.dynamics import Attendance, Dynamics, LinkDrop, OptOut, Periodic, RandomMatching, attendance
from tacit.graphs.graph import Graph, RoundGraph
from tacit.graphs.masking import MaskingPairs, masking_pairs, masking_sides
from tacit.graphs.random_graphs import erdos_renyi, geometric, k_regular, random_digraph, small_world
from tacit.graphs.report import GraphReport, describe
from tacit.graphs.requirements import check_channel, check_requirements, require
from tacit.graphs.topology import Topology, as_topology, federation, star_roles
from tacit.graphs.weights import Weights, by_rule, evaluate, given
from tacit.graphs.windows import Gap, Window, connection_window, first_gap, first_gap_of_run, live_rounds

from_edges = Graph.from_edges

__all__ = [
    "Attendance",
    "Availability",
    "Channel",
    "Delay",
    "Dynamics",
    "Gap",
    "Graph",
    "GraphReport",
    "LinkDrop",
    "MaskingPairs",
    "OptOut",
    "Periodic",
    "Perron",
    "RandomMatching",
    "RoundGraph",
    "Topology",
    "Weights",
    "Window",
    "as_topology",
    "attendance",
    "by_rule",
    "check_channel",
    "check_requirements",
    "checked_clusters",
    "column_sums",
    "complete",
    "connection_window",
    "describe",
    "directed_ring",
    "doubly_stochastic",
    "erdos_renyi",
    "evaluate",
    "exponential",
    "federation",
    "first_gap",
    "first_gap_of_run",
    "from_edge_list",
    "from_edges",
    "from_matrix",
    "from_networkx",
    "geometric",
    "given",
    "is_strongly_connected",
    "is_symmetric",
    "k_regular",
    "live_rounds",
    "masking_pairs",
    "masking_sides",
    "missing_path",
    "one_peer_exponential",
    "one_sided_edge",
    "one_sided_share",
    "periodic",
    "perron",
    "random_digraph",
    "receiver_normalised",
    "require",
    "ring",
    "row_sums",
    "sender_normalised",
    "small_world",
    "spectral_gap",
    "star",
    "star_roles",
    "to_networkx",
]
