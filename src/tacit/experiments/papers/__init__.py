"""The texts' experiments, run again by name."""

from __future__ import annotations

from tacit.experiments.papers import (
    asynchronous,
    diffusion,
    dola,
    federated,
    mirror,
    networked,
    nonsmooth,
    personalised,
    push_sum,
)
from tacit.experiments.papers.experiment import Claim, Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        push_sum.OCCUPANCY,
        push_sum.SUSY,
        dola.SYNTHETIC,
        dola.RCV1,
        dola.MINIBATCH,
        mirror.THREE_CLIENTS,
        mirror.CONSTRAINED,
        mirror.LAGRANGIAN,
        mirror.DYNAMIC,
        mirror.MNIST,
        diffusion.REGRESSION,
        diffusion.IJCNN1,
        federated.IMPORTANCE_REGRESSION,
        federated.IMPORTANCE_IJCNN1,
        federated.PRIVATE,
        federated.GRAPH_REGRESSION,
        federated.GRAPH_CLASSIFICATION,
        nonsmooth.ELASTIC_NET,
        nonsmooth.LAD,
        nonsmooth.RIDGE,
        personalised.REGRESSION,
        personalised.MNIST,
        personalised.ORGAN,
        personalised.DISCOVERY,
        networked.TUNED,
        asynchronous.VARIANTS_OF_PAO_FED,
        asynchronous.BASELINES,
        asynchronous.ENVIRONMENTS,
        asynchronous.CALCOFI,
        asynchronous.THEORY,
    )
}
"""Name -> experiment, as `tacit reproduce` lists them."""

__all__ = ["EXPERIMENTS", "Claim", "Experiment"]
