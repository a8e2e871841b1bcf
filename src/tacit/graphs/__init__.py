"""Graphs: link sets, weights, time-varying schedules, channels, generators, and checks before a run.

W[i, j] is what receiver i multiplies sender j's message with; edges are directed from sender to receiver. A
graph is kept as an edge list, so that a million agents fit.
"""

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.graphs.build import Rotation as Rotation
    from tacit.graphs.build import Timetable as Timetable
    from tacit.graphs.build import complete as complete
    from tacit.graphs.build import directed_ring as directed_ring
    from tacit.graphs.build import exponential as exponential
    from tacit.graphs.build import one_peer_exponential as one_peer_exponential
    from tacit.graphs.build import periodic as periodic
    from tacit.graphs.build import ring as ring
    from tacit.graphs.build import star as star
    from tacit.graphs.channel import Channel as Channel
    from tacit.graphs.channel import Delay as Delay
    from tacit.graphs.checks import Perron as Perron
    from tacit.graphs.checks import column_sums as column_sums
    from tacit.graphs.checks import doubly_stochastic as doubly_stochastic
    from tacit.graphs.checks import is_strongly_connected as is_strongly_connected
    from tacit.graphs.checks import is_symmetric as is_symmetric
    from tacit.graphs.checks import missing_path as missing_path
    from tacit.graphs.checks import one_sided_edge as one_sided_edge
    from tacit.graphs.checks import one_sided_share as one_sided_share
    from tacit.graphs.checks import perron as perron
    from tacit.graphs.checks import receiver_normalised as receiver_normalised
    from tacit.graphs.checks import row_sums as row_sums
    from tacit.graphs.checks import sender_normalised as sender_normalised
    from tacit.graphs.checks import spectral_gap as spectral_gap
    from tacit.graphs.convert import from_edge_list as from_edge_list
    from tacit.graphs.convert import from_matrix as from_matrix
    from tacit.graphs.convert import from_networkx as from_networkx
    from tacit.graphs.convert import to_networkx as to_networkx
    from tacit.graphs.dynamics import Attendance as Attendance
    from tacit.graphs.dynamics import Dynamics as Dynamics
    from tacit.graphs.dynamics import LinkDrop as LinkDrop
    from tacit.graphs.dynamics import OptOut as OptOut
    from tacit.graphs.dynamics import Periodic as Periodic
    from tacit.graphs.dynamics import RandomMatching as RandomMatching
    from tacit.graphs.dynamics import Schedule as Schedule
    from tacit.graphs.dynamics import attendance as attendance
    from tacit.graphs.graph import Graph as Graph
    from tacit.graphs.graph import RoundGraph as RoundGraph
    from tacit.graphs.graph import from_edges as from_edges
    from tacit.graphs.masking import MaskingPairs as MaskingPairs
    from tacit.graphs.masking import masking_pairs as masking_pairs
    from tacit.graphs.masking import masking_sides as masking_sides
    from tacit.graphs.random_graphs import erdos_renyi as erdos_renyi
    from tacit.graphs.random_graphs import geometric as geometric
    from tacit.graphs.random_graphs import k_regular as k_regular
    from tacit.graphs.random_graphs import random_digraph as random_digraph
    from tacit.graphs.random_graphs import small_world as small_world
    from tacit.graphs.report import GraphReport as GraphReport
    from tacit.graphs.report import describe as describe
    from tacit.graphs.requirements import check_channel as check_channel
    from tacit.graphs.requirements import check_requirements as check_requirements
    from tacit.graphs.requirements import require as require
    from tacit.graphs.roles import Availability as Availability
    from tacit.graphs.roles import Shifts as Shifts
    from tacit.graphs.roles import validate_clusters as validate_clusters
    from tacit.graphs.topology import Topology as Topology
    from tacit.graphs.topology import as_topology as as_topology
    from tacit.graphs.topology import federation as federation
    from tacit.graphs.topology import star_roles as star_roles
    from tacit.graphs.weights import Weights as Weights
    from tacit.graphs.weights import by_rule as by_rule
    from tacit.graphs.weights import evaluate as evaluate
    from tacit.graphs.weights import given as given
    from tacit.graphs.windows import Gap as Gap
    from tacit.graphs.windows import Window as Window
    from tacit.graphs.windows import connection_window as connection_window
    from tacit.graphs.windows import first_gap as first_gap
    from tacit.graphs.windows import first_gap_of_run as first_gap_of_run
    from tacit.graphs.windows import live_rounds as live_rounds

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "build": "Rotation Timetable complete directed_ring exponential one_peer_exponential periodic ring star",
        "channel": "Channel Delay",
        "checks": (
            "Perron column_sums doubly_stochastic is_strongly_connected is_symmetric missing_path "
            "one_sided_edge one_sided_share perron receiver_normalised row_sums sender_normalised spectral_gap"
        ),
        "convert": "from_edge_list from_matrix from_networkx to_networkx",
        "dynamics": "Attendance Dynamics LinkDrop OptOut Periodic RandomMatching Schedule attendance",
        "graph": "Graph RoundGraph from_edges",
        "masking": "MaskingPairs masking_pairs masking_sides",
        "random_graphs": "erdos_renyi geometric k_regular random_digraph small_world",
        "report": "GraphReport describe",
        "requirements": "check_channel check_requirements require",
        "roles": "Availability Shifts validate_clusters",
        "topology": "Topology as_topology federation star_roles",
        "weights": "Weights by_rule evaluate given",
        "windows": "Gap Window connection_window first_gap first_gap_of_run live_rounds",
    },
)
