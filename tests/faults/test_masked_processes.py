"""Masking peers as real processes: one is killed on the spot, and the federation goes on to the bit."""

import time

import numpy as np
import pytest

from tacit.deploy.swarm import Swarm
from tacit.experiments import build, load
from tacit.peer import run_in_process

EXPERIMENT = """
[run]
name = "masked"
rounds = 300
seed = 5
regret_points = 0

[graph]
kind = "complete"
agents = 4

[stream]
kind = "logistic_drift"
dim = 4

[objective]
kind = "logistic"
l2 = 1e-3

[[algorithm]]
name = "adapt_then_combine"
step = 0.5

[algorithm.mechanism]
kind = "local_graph_homomorphic"
noise_std = 0.5

[[algorithm]]
name = "adapt_then_combine"
label = "on the grid"
step = 0.5

[algorithm.mechanism]
kind = "on_grid"
"""


@pytest.mark.slow
def test_a_masking_process_is_killed_and_the_sums_stay_exact(tmp_path):
    file = tmp_path / "masked.toml"
    file.write_text(EXPERIMENT)
    problem = build(load(file))
    with Swarm(problem, 0, tmp_path / "swarm") as swarm:
        for name in ("peer-1", "peer-2"):
            swarm.await_round(name, 120)
            time.sleep(0.3)  # anywhere in the rounds that follow; the second one while the first is away
            assert swarm.members[name].finished is None
            swarm.kill(name)
            swarm.restart(name)
        swarm.wait(240)
        models = swarm.models()
    assert len(swarm.members["peer-1"].exit_codes) == 2
    settings = problem.config.run
    graph, stream = problem.graph(settings.seed), problem.stream(settings.seed)
    expected = run_in_process(problem.algorithms[1], graph, stream, rounds=settings.rounds, seed=settings.seed).models
    np.testing.assert_array_equal(models, expected)
