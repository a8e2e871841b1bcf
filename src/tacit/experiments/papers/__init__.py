"""The texts' experiments, run again by name."""

from __future__ import annotations

from typing import NamedTuple

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

CPU_MINUTES: dict[str, float] = {
    "ops-occupancy": 3,
    "ops-susy": 5,
    "dola-synthetic": 3,
    "dola-rcv1": 5,
    "dola-minibatch": 3,
    "omd-three-clients": 2,
    "omd-constrained": 2,
    "lagrangian-budget": 4,
    "omd-dynamic": 2,
    "omd-mnist": 120,
    "diffusion-regression": 4,
    "diffusion-ijcnn1": 1,
    "isfedavg-regression": 3,
    "isfedavg-ijcnn1": 3,
    "fedavg-private": 4,
    "gfl-regression": 7,
    "gfl-classification": 2,
    "zcdp-elastic-net": 10,
    "zcdp-lad": 4,
    "zcdp-ridge": 15,
    "pao-variants": 7,
    "pao-vs-baselines": 14,
    "pao-environments": 14,
    "pao-calcofi": 5,
    "pao-theory": 1,
    "pgfl-regression": 8,
    "pgfl-mnist": 10,
    "pgfl-organ": 10,
    "pgfl-discovery": 8,
    "npfl-rl": 11,
}
"""Name -> minutes of one core that the full form takes."""

__all__ = ["CPU_MINUTES", "EXPERIMENTS", "PARTS", "Claim", "Experiment", "Part"]
