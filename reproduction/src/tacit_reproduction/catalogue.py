"""List of the experiments, by subject and by name."""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit_reproduction import (
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
from tacit_reproduction.experiment import Claim, Experiment


class Part(NamedTuple):
    """One subject of the texts."""

    name: str
    experiments: tuple[Experiment, ...]


PARTS = (
    Part(
        "No server, one-sided trust",
        (push_sum.OCCUPANCY, push_sum.SUSY, dola.SYNTHETIC, dola.RCV1, dola.MINIBATCH),
    ),
    Part(
        "Mirror descent without a server",
        (mirror.THREE_CLIENTS, mirror.CONSTRAINED, mirror.LAGRANGIAN, mirror.DYNAMIC, mirror.MNIST),
    ),
    Part(
        "Noise that knows the graph, and servers",
        (
            diffusion.REGRESSION,
            diffusion.IJCNN1,
            federated.IMPORTANCE_REGRESSION,
            federated.IMPORTANCE_IJCNN1,
            federated.PRIVATE,
            federated.GRAPH_REGRESSION,
            federated.GRAPH_CLASSIFICATION,
        ),
    ),
    Part("Private nonsmooth learning", (nonsmooth.ELASTIC_NET, nonsmooth.LAD, nonsmooth.RIDGE)),
    Part(
        "Clients that are mostly away",
        (
            asynchronous.VARIANTS_OF_PAO_FED,
            asynchronous.BASELINES,
            asynchronous.ENVIRONMENTS,
            asynchronous.CALCOFI,
            asynchronous.THEORY,
        ),
    ),
    Part(
        "One model for each cluster",
        (
            personalised.REGRESSION,
            personalised.MNIST,
            personalised.ORGAN,
            personalised.DISCOVERY,
            networked.TUNED,
        ),
    ),
)
"""By subject, in the order of the texts' own argument; no experiment needs the outcome of another."""

EXPERIMENTS: dict[str, Experiment] = {e.name: e for part in PARTS for e in part.experiments}
"""Name -> experiment, as `tacit reproduce` lists them."""

MINUTES: dict[str, float] = {
    "ops-occupancy": 2,
    "ops-susy": 5,
    "dola-synthetic": 3,
    "dola-rcv1": 2,
    "dola-minibatch": 2,
    "omd-three-clients": 1,
    "omd-constrained": 2,
    "lagrangian-budget": 3,
    "omd-dynamic": 2,
    "omd-mnist": math.inf,  # hours; 9 minutes on an H200
    "diffusion-regression": 3,
    "diffusion-ijcnn1": 1,
    "isfedavg-regression": 4,
    "isfedavg-ijcnn1": 3,
    "fedavg-private": 3,
    "gfl-regression": 4,
    "gfl-classification": 1,
    "zcdp-elastic-net": 4,
    "zcdp-lad": 3,
    "zcdp-ridge": 9,
    "pao-variants": 6,
    "pao-vs-baselines": 10,
    "pao-environments": 11,
    "pao-calcofi": 8,
    "pao-theory": 2,
    "pgfl-regression": 6,
    "pgfl-mnist": 10,
    "pgfl-organ": 5,
    "pgfl-discovery": 17,
    "npfl-rl": 8,
}
"""Name -> minutes that the full form takes on two cores."""

__all__ = ["EXPERIMENTS", "MINUTES", "PARTS", "Claim", "Experiment", "Part"]
