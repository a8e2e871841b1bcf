"""What is measured: regret and its comparators, consensus, intervals over repeats, bits."""

from tacit.metrics.bits import message_bits
from tacit.metrics.clusters import agreement, by_cluster, normalised_deviation
from tacit.metrics.comparator import Comparator, best_fixed, best_fixed_prefixes
from tacit.metrics.feasible import FeasibleComparator, best_fixed_within, check_feasible
from tacit.metrics.intervals import Band, Interval, mean_band, mean_interval, paired_difference
from tacit.metrics.onthefly import consensus_distance, network_loss, network_score, node_loss
from tacit.metrics.per_round import DynamicComparator, dynamic_comparator
from tacit.metrics.regret import Regret, Slope, loglog_slope, static_regret

__all__ = [
    "Band",
    "Comparator",
    "DynamicComparator",
    "FeasibleComparator",
    "Interval",
    "Regret",
    "Slope",
    "agreement",
    "best_fixed",
    "best_fixed_prefixes",
    "best_fixed_within",
    "by_cluster",
    "check_feasible",
    "consensus_distance",
    "dynamic_comparator",
    "loglog_slope",
    "mean_band",
    "mean_interval",
    "message_bits",
    "network_loss",
    "network_score",
    "node_loss",
    "normalised_deviation",
    "paired_difference",
    "static_regret",
]
