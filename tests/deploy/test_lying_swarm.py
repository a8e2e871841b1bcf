"""Swarms in which processes lie: each attack over mutual TLS, with a rule and without."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tacit.attacks import ATTACKS
from tacit.cli.swarm import app
from tacit.core.errors import ConfigError
from tacit.deploy.comparison import _last_loss, rounds_of
from tacit.deploy.rehearsal import job_hash
from tacit.deploy.swarm import EXPERIMENT, LIARS, Swarm
from tacit.experiments import build, parse

FILE = """
[run]
name = "lies"
rounds = {rounds}
dtype = "float64"
regret_points = 0

[graph]
kind = "complete"
agents = {agents}

[stream]
kind = "logistic_drift"
dim = 5
batch = 16

[objective]
kind = "logistic"
l2 = 1e-2

[liars]
agents = [{liar}]
attack = {{kind = "{kind}"{more}}}

[[algorithm]]
name = "distributed_online"
label = "plain"
step = 0.5
"""
ROBUST = """
[[algorithm]]
name = "distributed_online"
label = "robust"
step = 0.5
robust = {rule = "geometric_median", liars = 1}
"""
PLAIN, WARY = 0, 1
HARM = {"a_little_is_enough": 0.005, "dissensus": 0.01, "label_flip": 0.05}
"""Loss that an attack costs plain averaging at least; the others cost a tenth and more."""
HONEST, LIAR = [f"peer-{k}" for k in range(4)], "peer-4"


def text(kind: str, *, agents: int = 5, rounds: int = 40, more: str = "", rest: str = ROBUST) -> str:
    return FILE.format(kind=kind, agents=agents, liar=agents - 1, rounds=rounds, more=more) + rest


def problem(kind: str, **settings):
    return build(parse(text(kind, **settings), Path("lies.toml")))


@pytest.fixture(scope="module")
def honest_loss():
    """Of the same four peers, where the fifth has not begun to lie."""
    made = problem("stale_replay", more=", after = 1000")
    return _last_loss(made, rounds_of(made, PLAIN)[0])


def on_paper(made, rounds: int):
    """Two peers, of which the second sends minus half of what the first sent in the round before."""
    stream, x, before = made.stream(0), np.zeros((2, 5)), None
    for t in range(rounds):
        batch = jax.tree.map(lambda leaf: np.float64(leaf[0]), stream.chunk(t, t + 1))
        with jax.enable_x64(True):
            z = x - 0.5 * np.asarray(jax.vmap(jax.grad(made.objective.loss))(x, batch))
        lie = -0.5 * (z[1] if before is None else before[0])
        x, before = np.array([z[0] + lie, z[0] + z[1]]) / 2, z
        yield x


def test_a_process_lies_and_an_honest_one_does_not_know_how(tmp_path, monkeypatch):
    """A log has all that its process imports."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    made = problem("inner_product", agents=2, rounds=3, rest="")
    with Swarm(made, PLAIN, tmp_path / "swarm") as swarm:
        swarm.wait(120)
    np.testing.assert_allclose(swarm.models(), list(on_paper(made, 3)), rtol=1e-9)
    logs = {name: (tmp_path / "swarm" / name / "member.log").read_text() for name in swarm.members}
    assert "tacit.peer.node.service" in logs["peer-0"]
    assert "tacit.attacks" not in logs["peer-0"]
    assert "tacit.attacks.lying" in logs["peer-1"]
    assert "liars" not in (tmp_path / "swarm" / EXPERIMENT).read_text()
    assert "inner_product" in (tmp_path / "swarm" / LIARS).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ATTACKS)
def test_a_process_of_each_kind_is_survived_by_those_with_a_rule(tmp_path, kind, honest_loss):
    """Every model of every round is the reference's; losses are those of the last 4 rounds of 40, seed 0."""
    file, out = tmp_path / "lies.toml", tmp_path / "out"
    file.write_text(text(kind))
    with pytest.raises(SystemExit) as ended:
        app(args=["run", str(file), "--out", str(out), "--limit", "600"], prog_name="tacit swarm")
    assert ended.value.code == 0
    plain, wary = json.loads((out / "swarm.json").read_text())["algorithms"]
    assert plain["verdict"] == wary["verdict"] == "same"
    assert plain["loss"] > honest_loss + HARM.get(kind, 0.1)
    assert wary["loss"] < honest_loss + 0.02
    if kind != "a_little_is_enough":  # whose messages lie among the honest ones
        for name in HONEST:
            scores = {other: found["score"] for other, found in wary["neighbours"][name].items()}
            assert max(scores, key=scores.get) == LIAR, (name, scores)


def test_liars_change_no_job():
    made, other = problem("sign_flip"), problem("dissensus")
    assert job_hash(made.config, PLAIN) == job_hash(other.config, PLAIN) != job_hash(made.config, WARY)


def test_a_lie_that_no_process_can_tell_is_refused_before_one_is_started(tmp_path):
    star = FILE.replace("complete", "star").replace("distributed_online", "fedavg")
    served = star.format(kind="dissensus", agents=4, liar=2, rounds=3, more="")
    with pytest.raises(ConfigError, match=r"\[liars\].*dissensus"):
        Swarm(build(parse(served, Path("lies.toml"))), PLAIN, tmp_path / "swarm")
    assert not (tmp_path / "swarm").exists()
