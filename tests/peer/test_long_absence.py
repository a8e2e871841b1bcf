"""A neighbour that is away for long takes what was meant for it, and not the others' models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.algorithms.push_sum.loss_tolerant_push_sum import LEAST_MASS
from tacit.core.contract import Clip
from tests.peer.settings import Setting
from tests.peer.virtual import Network
from tests.peer.weather import CALM

AGENTS, ROUNDS, AWAY = 5, 400, "peer-2"


def test_totals_keep_mass_while_a_neighbour_is_away_and_get_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a ring of five the other four hear each other, and each round they address a part to the one that is away."""
    clipped = tacit.privacy.unprotected._replace(clip=Clip(1.0))
    algorithm = tacit.algorithms.loss_tolerant_push_sum(tacit.objectives.squared(), 0.05, clipped)
    stream = tacit.streams.linear_drift(AGENTS, 3, drift=0.0, seed=1, batch=2)
    network = Network(Setting("ring", algorithm, tacit.graphs.ring(AGENTS), stream, ROUNDS), 0, tmp_path, CALM)
    try:
        network.run(1.0)
        with monkeypatch.context() as gone:
            gone.setattr(network, "_restart", lambda name: None)
            network._kill(network.hosts[AWAY])
        network.run(15.0)
        others = [host.node for name, host in network.hosts.items() if name != AWAY]
        assert min(node.round for node in others) > 100
        assert all(float(node.machine.state.held.mass) > LEAST_MASS / 3 for node in others)
        assert all(np.max(np.abs(node.model())) < 100 for node in others)
        network._restart(AWAY)
        network.run(network.now + 15.0)
        nodes = [host.node for host in network.hosts.values()]
        assert sum(float(node.machine.state.held.mass) for node in nodes) > AGENTS / 4
        models = np.stack([np.asarray(node.model()) for node in nodes])
        assert np.max(np.ptp(models, axis=0)) < 0.5
    finally:
        network.close()
