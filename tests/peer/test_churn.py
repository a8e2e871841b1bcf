"""Members that come and go: what is held and under way stays the same, whoever leaves, joins and is killed."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit import graphs, objectives, streams
from tacit.algorithms import loss_tolerant_push_sum, online_push_sum
from tests.peer.churn import ChurnNetwork
from tests.peer.settings import Setting
from tests.peer.weather import CALM, Weather

AGENTS = 6


def _setting(method) -> Setting:
    plain = streams.linear_drift(AGENTS, 3, drift=0.0, seed=1, batch=2).chunk(0, 20)
    batches = plain._replace(weight=np.ones(plain.y.shape, np.float32))
    stream = streams.from_function(lambda a, b: jax.tree.map(lambda leaf: leaf[a:b], batches), agents=AGENTS, rounds=20)
    graph = graphs.random_digraph(AGENTS, 2, seed=3)
    return Setting(method.__name__, method(objectives.squared()), graph, stream, 20, dtype="float64")


@pytest.mark.parametrize("method", [online_push_sum, loss_tolerant_push_sum])
@pytest.mark.parametrize("stormy", [False, True])
def test_mass_is_conserved_while_members_come_and_go(method, stormy, tmp_path):
    storm = Weather(until=6.0, latency=0.005, breaks=0.3, crashes=0.3, crashes_at_commit=0.01, partings=0.0)
    weather = storm if stormy else CALM.__class__(6.0, 0.005, 0, 0, 0, 0, 0, 0, 0, 0)
    network = ChurnNetwork(_setting(method), 1, tmp_path, weather, pause=0.3)
    try:
        network.run(120.0)
        assert network.finished
        assert network.left >= 2
        assert network.joined == network.left
        held = (lambda state: state) if method is online_push_sum else (lambda state: state.held)
        assert network.mass(held) == pytest.approx(AGENTS, abs=1e-9)
    finally:
        network.close()
