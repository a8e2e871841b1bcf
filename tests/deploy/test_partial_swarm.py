"""One server and twelve clients that come and go, as processes: the simulator's error, and the predicted bytes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tacit.deploy import comparison
from tacit.experiments import build, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "partial-swarm.toml"


@pytest.mark.slow
def test_partial_sharing_between_processes_is_the_simulator_at_the_predicted_cost(tmp_path):
    """Half of the clients are there, not a fifth as in the example: idle links ping by the clock, whoever waits."""
    file = tmp_path / "half.toml"
    text = EXAMPLE.read_text()
    assert "availability = 0.2" in text
    file.write_text(text.replace("availability = 0.2", "availability = 0.5"))
    outcome = comparison.compare(build(load(file)), 0, tmp_path / "swarm", limit=240)
    assert (outcome.processes, outcome.rounds) == (13, 200)
    assert abs(10 * math.log10(outcome.loss / outcome.simulated_loss)) < 0.5
    assert outcome.within(1e-6)  # more than was asked for: it is the same trajectory
    expected = outcome.forecast
    assert expected.content == 16 * expected.messages
    assert expected.messages > 1000
    assert outcome.socket_bytes == pytest.approx(expected.total, rel=0.1)
    assert outcome.socket_bytes - expected.setup == pytest.approx(expected.bytes, rel=0.1)
