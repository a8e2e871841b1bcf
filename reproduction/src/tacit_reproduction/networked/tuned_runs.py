"""Runs of `npfl-rl`: methods, extent, and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import networked_personalised, private_admm
from tacit.core.contract import Algorithm
from tacit.results import Run
from tacit_reproduction.finished import finished_run
from tacit_reproduction.gaps import decibels
from tacit_reproduction.networked.clustered_regression import Floats, Ints, Network, world

PENALTY = 3.0
"""rho of the text."""
RIDGE = 1e-3
"""lambda / |C_q| of the text, which says small only."""
START = 0.05
"""tau of the first round, the fixed one that the text compares with: "the same initial convergence rate"."""
HALF = 2
"""Our squared loss is half of (6.10): rates of the gradient (6.13) count twice, the penalty of one model half."""
WIDTH, EPOCHS = 0.05, 3
TEXT_TAUS = (0.0, 0.05, 0.1, 0.2, 0.4)
LOSS = objectives.squared(l2=RIDGE)
EVERY = 5
"""Rounds between records."""
LAST = 0.1
"""Share of the rounds over which what a run has settled at is averaged."""

ONE_MODEL = "one model"
DPG, BATCH_DPG, SAC, BATCH_SAC = "DPG", "batch DPG", "SAC", "batch SAC"
POLICIES = (DPG, BATCH_DPG, SAC, BATCH_SAC)
"""As in the text."""
OURS = ("DPG, rate / 10", "SAC, rate x 10")
"""With rates of ours."""


def fixed(tau: float) -> str:
    """Return what to call a fixed strength."""
    return f"tau = {tau:g}"


def method(name: str) -> Algorithm:
    """Make a method by its name."""
    if name == ONE_MODEL:
        return private_admm(LOSS, penalty=PENALTY / HALF)
    if name.startswith("tau = "):
        return networked_personalised(LOSS, penalty=PENALTY, tau=float(name.removeprefix("tau = ")))
    rates = {
        DPG: ("gradient", HALF * 0.001, 1),
        BATCH_DPG: ("gradient", HALF * 0.003, EPOCHS),
        SAC: ("actor_critic", 0.1, 1),
        BATCH_SAC: ("actor_critic", 0.04, EPOCHS),
        OURS[0]: ("gradient", HALF * 0.0001, 1),
        OURS[1]: ("actor_critic", 1.0, 1),
    }
    policy, rate, epochs = rates[name]
    return networked_personalised(
        LOSS, penalty=PENALTY, tau=START, policy=policy, rate=rate, width=WIDTH, epochs=epochs
    )


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    rounds: int
    taus: tuple[float, ...]
    """Fixed strengths, the text's among them."""
    networks: tuple[Network, ...]
    methods: tuple[str, ...]
    """That tune tau."""

    @property
    def names(self) -> tuple[str, ...]:
        """All methods."""
        return (*reversed(self.methods), *map(fixed, self.taus), ONE_MODEL)


FINER = (0.0, 0.0125, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.4)
FULL = Design(20, 600, FINER, ("as drawn", "clusters connected"), POLICIES + OURS)
QUICK = Design(6, 150, TEXT_TAUS, ("as drawn",), POLICIES)


class Outcome(NamedTuple):
    """Records of a run, at every fifth round."""

    rounds: Ints
    """(points,)."""
    deviation: Floats
    """(seeds, points, clients) ||w_k - w_q||^2 / ||w_q||^2."""
    tau: Floats
    """(seeds, points, clients); zeros where there is none."""
    residual: float
    """The largest bound on a local solution's distance from the exact one, as a share of its cluster's model."""

    @property
    def curve(self) -> Floats:
        """(seeds, points) mean deviation over clients."""
        return np.asarray(self.deviation.mean(axis=2))

    @property
    def settled(self) -> Floats:
        """(seeds,) mean deviation over clients, and over the last rounds."""
        return np.asarray(self.curve[:, self._late].mean(axis=1))

    @property
    def settled_by_client(self) -> Floats:
        """(seeds, clients) over the last rounds."""
        return np.asarray(self.deviation[:, self._late].mean(axis=1))

    @property
    def settled_tau(self) -> Floats:
        """(seeds, clients) over the last rounds."""
        return np.asarray(self.tau[:, self._late].mean(axis=1))

    @property
    def _late(self) -> NDArray[np.bool_]:
        return np.asarray(self.rounds > (1 - LAST) * self.rounds[-1])

    def early(self, until: int) -> Floats:
        """(seeds,) the curve's mean in dB over the first rounds, the area under it; as a deviation."""
        return np.asarray(10 ** (decibels(self.curve[:, self.rounds <= until]).mean(axis=1) / 10))

    def at(self, round_: int) -> Floats:
        """(seeds, clients) tau after a round, or after the next one that was recorded."""
        return np.asarray(self.tau[:, int(np.searchsorted(self.rounds, round_))])

    @property
    def roughness(self) -> Floats:
        """(seeds,) mean absolute change in dB from record to record over the second half."""
        half = decibels(self.curve[:, self.rounds > self.rounds[-1] / 2])
        return np.asarray(np.abs(np.diff(half, axis=1)).mean(axis=1))


class Clients(NamedTuple):
    """Properties of a network's clients, (seeds, clients) each."""

    sizes: Ints
    own: Ints
    reach: Ints


class Evidence(NamedTuple):
    """Everything that was measured."""

    design: Design
    outcomes: Mapping[tuple[Network, str], Outcome]
    clients: Mapping[Network, Clients]


def clients(network: Network, seeds: int, first: int) -> Clients:
    """Return what sets the clients of these seeds apart."""
    worlds = [world(network, first + k) for k in range(seeds)]
    return Clients(*(np.stack(found) for found in zip(*((w.sizes, w.own, w.reach) for w in worlds), strict=True)))


def run_method(task: tuple[Network, str, int, int, int]) -> Outcome:
    """Run one method on one kind of network, all seeds at once."""
    network, name, seeds, rounds, first = task
    run = finished_run(
        method(name),
        lambda seed: world(network, seed).graph,
        lambda seed: world(network, seed).stream,
        rounds=rounds,
        repeats=seeds,
        seed=first,
        dtype="float64",
        record={"models": lambda models: models},
        record_every=EVERY,
    )
    return outcome(run, np.stack([world(network, first + k).truth for k in range(seeds)]))


def outcome(run: Run, truth: Floats) -> Outcome:
    """Compare the recorded models with those that the data were made with."""
    power = np.square(truth).sum(axis=-1)[:, None]
    deviation = np.square(run.recorded["models"] - truth[:, None]).sum(axis=-1) / power
    tau = run.recorded.get("tau", np.zeros_like(deviation))
    residual = float((run.recorded["residual"] / np.sqrt(power)).max())
    return Outcome(np.asarray(run.recorded_rounds), deviation, np.asarray(tau), residual)
