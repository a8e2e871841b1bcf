from __future__ import annotations

import pytest

EXPERIMENT = """
[run]
name = "small"
rounds = 12
repeats = 2
regret_points = 2

[graph]
kind = "random_digraph"
agents = 5
out_degree = 2

[stream]
kind = "logistic_drift"
dim = 3

[objective]
kind = "logistic"
l2 = 1e-2

[[algorithm]]
name = "online_push_sum"
step = { schedule = "inverse_sqrt", scale = 1.0 }

[[algorithm]]
name = "local_online"
label = "alone"
step = 0.3
"""


@pytest.fixture
def experiment() -> str:
    """A tiny experiment of two algorithms."""
    return EXPERIMENT
