from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.config.experiment import parse
from tacit.core.errors import ConfigError
from tacit.experiments import Problem, build, load
from tacit_reproduction.datasets import fetch as datasets

EXAMPLES = Path(__file__).parents[2] / "examples"


def small(name: str) -> Problem:
    """An example with so few rounds and repeats that it only shows that everything fits together."""
    config = load(EXAMPLES / name, rounds=5, references=False)
    return build(replace(config, run=config.run.model_copy(update={"repeats": 2, "regret_points": 0})))


@pytest.mark.covered_by("the private example")
def test_the_synthetic_example_runs() -> None:
    made = small("synthetic.toml")
    labels = [run.label for run in made.runs(progress=False)]
    assert labels == ["constant step", "falling step", "alone"]


def test_the_private_example_runs_and_says_what_it_spent() -> None:
    made = small("private.toml")
    spent = {run.label: run.record().privacy for run in made.runs(progress=False)}
    assert spent == {
        "open": "not private",
        "Laplace": "eps 1 per record",
        "Gaussian": "eps 0.999, delta 1e-05 per record",
    }


@pytest.mark.covered_by("algorithms/test_diffusion.py, of masks")
def test_the_example_of_noise_that_knows_the_graph() -> None:
    runs = {run.label: run for run in small("graph-noise.toml").runs(progress=False)}
    plain, masked = (runs[label].per_round["loss"] for label in ("no noise", "masks"))
    np.testing.assert_allclose(plain, masked, rtol=1e-4)  # the grid
    assert not np.allclose(plain, runs["on every link"].per_round["loss"], rtol=1e-4)
    assert "exact weighed sum" in runs["masks"].privacy.words()
    assert runs["a server that calls ten"].per_round["messages"][0, 0] == 20


def test_the_budget_example_keeps_its_limit_at_the_price_of_one_epsilon() -> None:
    made = small("budget.toml")
    runs = list(made.runs(progress=False))
    assert [run.record().privacy for run in runs] == ["not private", "not private", "eps 4 per record"]
    assert [list(run.constraints) for run in runs] == [[], *[["l1 norm at most 1.5"]] * 2]


def test_the_example_of_a_swarm_is_simulated_too() -> None:
    made = small("swarm-ops.toml")
    assert [run.record().privacy for run in made.runs(progress=False)] == ["not private", "eps 1 per record"]


@pytest.mark.covered_by("algorithms/test_pao_fed.py")
def test_the_asynchronous_example_shares_two_percent_and_nobody_comes_without_data() -> None:
    text = (EXAMPLES / "asynchronous.toml").read_text().replace("[250, 500, 750, 1000]", "[10, 20, 30, 40]")
    made = build(parse(text, EXAMPLES / "asynchronous.toml", rounds=40, repeats=1))
    assert made.channel.links == ("uplink",)
    there = made.graph(0).availability["peer"]
    np.testing.assert_array_equal(there.arrivals, made.stream(0).arrivals)
    assert set(there.probability) == {0.2}
    runs = {run.label: run for run in made.runs(progress=False)}
    own, common, whole = (run.traffic["uplink"] for run in runs.values())
    np.testing.assert_array_equal(own.messages, whole.messages)
    assert own.bits.sum() * 50 == common.bits.sum() * 50 == whole.bits.sum() > 0
    with pytest.raises(ConfigError, match=r"toml: \[stream\]: agent 3 has 1000 samples, .* 5 rounds"):
        small("asynchronous.toml")


@pytest.mark.data
@pytest.mark.skipif(not datasets.available("occupancy"), reason=datasets.where("occupancy"))
def test_the_occupancy_example_runs() -> None:
    made = small("occupancy.toml")
    run = next(iter(made.runs(progress=False)))
    assert run.label == "Online push-sum (OPS)"
    assert "all 20,560 rows" in run.stream
