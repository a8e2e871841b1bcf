"""Metrics: regret and its comparators, scores on held-out rows, consensus, intervals over repeats, bits."""

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.metrics.clusters import agreement as agreement
    from tacit.metrics.clusters import by_cluster as by_cluster
    from tacit.metrics.clusters import normalised_deviation as normalised_deviation
    from tacit.metrics.comparator import Comparator as Comparator
    from tacit.metrics.comparator import best_fixed as best_fixed
    from tacit.metrics.comparator import best_fixed_prefixes as best_fixed_prefixes
    from tacit.metrics.dynamic import DynamicComparator as DynamicComparator
    from tacit.metrics.dynamic import dynamic_comparator as dynamic_comparator
    from tacit.metrics.feasible import FeasibleComparator as FeasibleComparator
    from tacit.metrics.feasible import best_fixed_within as best_fixed_within
    from tacit.metrics.feasible import check_feasible as check_feasible
    from tacit.metrics.held_out import Evaluation as Evaluation
    from tacit.metrics.held_out import HeldOut as HeldOut
    from tacit.metrics.held_out import evaluate_models as evaluate_models
    from tacit.metrics.intervals import Band as Band
    from tacit.metrics.intervals import Interval as Interval
    from tacit.metrics.intervals import mean_band as mean_band
    from tacit.metrics.intervals import mean_interval as mean_interval
    from tacit.metrics.intervals import paired_difference as paired_difference
    from tacit.metrics.regret import Regret as Regret
    from tacit.metrics.regret import Slope as Slope
    from tacit.metrics.regret import loglog_slope as loglog_slope
    from tacit.metrics.regret import static_regret as static_regret
    from tacit.metrics.rounds import consensus_distance as consensus_distance
    from tacit.metrics.rounds import message_bits as message_bits
    from tacit.metrics.scores import calibration_error as calibration_error
    from tacit.metrics.scores import classification_scores as classification_scores
    from tacit.metrics.scores import regression_scores as regression_scores

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "clusters": "agreement by_cluster normalised_deviation",
        "comparator": "Comparator best_fixed best_fixed_prefixes",
        "dynamic": "DynamicComparator dynamic_comparator",
        "feasible": "FeasibleComparator best_fixed_within check_feasible",
        "held_out": "Evaluation HeldOut evaluate_models",
        "intervals": "Band Interval mean_band mean_interval paired_difference",
        "regret": "Regret Slope loglog_slope static_regret",
        "rounds": "consensus_distance message_bits",
        "scores": "calibration_error classification_scores regression_scores",
    },
)
