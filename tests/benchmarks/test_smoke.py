"""Every benchmark runs in its smallest form, `SMOKE`: constants of its module. What it measures there means nothing."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from benchmarks.__main__ import failed, names

from tests.daily import some


def test_every_benchmark_is_found() -> None:
    assert {"engine", "noise", "sampler", "transport", "cohort", "swarm", "soak", "gpu"} <= set(names())


@pytest.mark.parametrize(
    "name",
    some(
        names(),
        "the tests of what they measure",
        covered=[
            *("agent_loops", "asynchronous", "board", "compression", "correlated_network", "hosted", "networks"),
            *("networks_gpu", "noise", "robustness", "shards", "soak", "start", "swarm", "sweep"),
        ],
    ),
)
def test_it_runs(name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    written = {}
    for constant, value in module.SMOKE.items():
        assert hasattr(module, constant)
        monkeypatch.setattr(module, constant, value)
    if hasattr(module, "write"):
        monkeypatch.setattr(module, "write", lambda called, found, *libraries: written.update({called: found}))
    monkeypatch.setattr(sys, "argv", [name])
    assert module.main() in (0, 1)  # 1: a goal is missed, which tells nothing at these sizes
    assert capfd.readouterr().out
    assert written or not hasattr(module, "write")
    assert np.float64(5e-324) * 1 > 0  # the process still knows the least numbers: no library has switched them off


def test_one_that_fails_is_told_and_the_others_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert failed(["no_such", "neither"]) == ["no_such", "neither"]
    assert "-- neither" in capfd.readouterr().out
