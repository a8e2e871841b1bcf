"""Network privacy: the map of a method against the equations of its text, refusals, and an observer's attack.

A claim that holds is broken by chance in at most 1 of 1,000 seeds; seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.audit import audit_observer, linear_network
from tacit.cli import app
from tacit.core.errors import ConfigError, TacitError
from tacit.graphs import Graph, LinkDrop, random_digraph, ring
from tacit.privacy import averaging_network, gaussian, laplace, network_loss
from tacit.privacy.conversions import tight

NOISE = gaussian(noise_multiplier=0.25, clip=1.0)
LOSS = tacit.objectives.logistic()
ROUNDS = 5


def derived(method: Any, graph: Graph, objective: Any = LOSS) -> Any:
    stream = tacit.streams.logistic_drift(graph.agents, 2)
    return linear_network(method, objective, graph, stream, ROUNDS)


@pytest.mark.parametrize(
    ("name", "on", "graph", "weights"),
    [
        ("online_push_sum", "update", random_digraph(7, out_degree=3, seed=1), "sender"),
        ("adapt_then_combine", "gradient", ring(5), "metropolis"),
    ],
)
def test_the_map_is_that_of_the_equations(name: str, on: Any, graph: Graph, weights: Any) -> None:
    noise = gaussian(noise_multiplier=2.0, clip=1.0, perturbs=on)
    make = getattr(tacit.algorithms, name)
    found = derived(lambda o: make(o, step=0.5, mechanism=noise), graph).loss()
    matrix = np.asarray(graph.with_weights(weights).matrix().todense())
    expected = network_loss(averaging_network(matrix, ROUNDS), sensitivity=1.0, scale=2.0)
    np.testing.assert_allclose(found.mu, expected.mu, rtol=1e-9)
    np.testing.assert_allclose(found.strong, 0.5)


def test_steps_that_shrink_and_a_ridge_are_part_of_the_map() -> None:
    ridge, rate = 0.5, tacit.algorithms.inverse_sqrt(0.8)
    method = partial(tacit.algorithms.online_push_sum, step=rate, mechanism=NOISE)
    found = derived(method, ring(5), tacit.objectives.logistic(l2=ridge))
    matrix = np.asarray(ring(5).with_weights("sender").matrix().todense())
    kept = 1 - ridge * 0.8 / np.sqrt(np.arange(1, ROUNDS + 1))
    network = averaging_network(matrix, ROUNDS)
    keeps = kept[:, None, None] * np.eye(5)
    expected = network._replace(transition=network.transition @ keeps, from_state=network.from_state @ keeps)
    loss = network_loss(expected, found.sensitivity, found.scale)
    np.testing.assert_allclose(found.loss().mu, loss.mu, rtol=1e-7)
    assert found.scale[0, 0] / found.scale[3, 0] == pytest.approx(2.0)


PUSH_SUM = tacit.algorithms.online_push_sum


@pytest.mark.parametrize(
    ("mechanism", "graph", "others", "words"),
    [
        (tacit.privacy.unprotected, ring(5), {}, "no privacy"),
        (laplace(1.0, clip=1.0), ring(5), {}, "laplace"),
        (NOISE, ring(5).with_dynamics(LinkDrop(0.5)), {}, "fixed graph"),
        (NOISE, ring(5), {"objective": tacit.objectives.logistic(l1=0.1)}, "linear"),
    ],
    ids=["open", "laplace", "links that come and go", "l1"],
)
def test_what_is_not_linear_or_not_fixed_is_refused(mechanism: Any, graph: Graph, others: Any, words: str) -> None:
    with pytest.raises(TacitError, match=words):
        derived(partial(PUSH_SUM, mechanism=mechanism), graph, **others)


def test_an_observer_two_links_away_reaches_what_is_claimed_and_no_more() -> None:
    make = partial(tacit.algorithms.online_push_sum, mechanism=NOISE)
    found = audit_observer(make, ring(7), agent=0, observer=2, trials=16_000)
    assert found.verdict == "holds"
    assert found.power >= 0.7
    assert found.claim < tight(8.0, 1e-5)


def test_a_neighbour_breaks_the_claim_of_one_three_links_away() -> None:
    make = partial(tacit.algorithms.online_push_sum, mechanism=NOISE)
    near = audit_observer(make, ring(7), agent=0, observer=1, trials=4_000)
    matrix = np.asarray(ring(7).with_weights("sender").matrix().todense())
    far = network_loss(averaging_network(matrix, 4), sensitivity=1.0, scale=0.25).mu[0, 3]
    assert near.verdict == "holds"
    assert replace(near, claim=tight(far**2 / 2, 1e-5)).verdict == "broken"


def test_an_observer_of_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="two agents"):
        audit_observer(partial(tacit.algorithms.online_push_sum, mechanism=NOISE), ring(5), 1, 1)


SMALL = """
[run]
rounds = 6
[graph]
kind = "ring"
agents = 5
[stream]
kind = "logistic_drift"
dim = 2
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
label = "open"
[[algorithm]]
name = "online_push_sum"
label = "<Gauss>"
[algorithm.mechanism]
kind = "gaussian"
noise_multiplier = 2.0
clip = 1.0
"""


def test_the_command_prints_the_loss_by_distance_and_writes_matrix_and_picture(tmp_path: Path) -> None:
    file, out = tmp_path / "small.toml", tmp_path / "out"
    file.write_text(SMALL)
    done = CliRunner().invoke(app, ["privacy", "network", str(file), "--rounds", "4", "--out", str(out)])
    assert done.exit_code == 0, done.output
    strong = f"{tight(0.125, 1e-5):.4g}"
    assert done.output.count(strong) >= 2  # of a neighbour, and of whoever sees everything
    assert "no privacy" in done.output
    assert "not a bound" in done.output
    rows = [line.split(",") for line in (out / "2-gauss.csv").read_text().splitlines()]
    assert (len(rows), {len(row) for row in rows}) == (6, {6})
    assert float(rows[1][2]) == pytest.approx(tight(0.125, 1e-5))
    assert rows[1][1] == ""
    ElementTree.parse(out / "2-gauss.svg")


@pytest.mark.parametrize("option", [["--rounds", "7"], ["--delta", "1"]])
def test_settings_of_the_command_that_cannot_be_used(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    done = CliRunner().invoke(app, ["privacy", "network", str(tmp_path / "small.toml"), *option])
    assert done.exit_code == 2


def test_correlated_noise_costs_an_observer_of_everything_what_is_declared() -> None:
    noise = tacit.privacy.correlated(rounds=ROUNDS, rho=0.5, clip=1.0)
    loss = derived(partial(tacit.algorithms.online_push_sum, mechanism=noise), ring(5)).loss()
    assert loss.strong.max() == pytest.approx(1.0, rel=1e-6)  # mu of rho = 1/2
    assert loss.mu[0, 2] < loss.mu[0, 1] <= loss.strong.max()
    short = tacit.privacy.correlated(rounds=ROUNDS - 1, rho=0.5, clip=1.0)
    with pytest.raises(ConfigError, match="anew"):
        derived(partial(tacit.algorithms.online_push_sum, mechanism=short), ring(5))
