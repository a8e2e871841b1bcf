"""`tacit audit` on the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from tacit import runtime
from tacit.cli.audit import audit
from tacit.core.errors import ContractError
from tacit.privacy import draws
from tacit.privacy.draws import Released

APP = typer.Typer()
APP.command()(audit)


def run(*arguments: str, trials: int = 2000):
    return CliRunner().invoke(APP, [*arguments, "--trials", str(trials), "--problem", "linear", "--seconds", "0"])


def test_a_claim_that_holds_is_told_in_a_sentence():
    gaussian = ("--mechanism", "gaussian", "--noise-multiplier", "2", "--rounds", "2")
    outcome = run("online_push_sum", *gaussian, trials=30_000)
    assert outcome.exit_code == 0
    text = " ".join(outcome.output.split())
    assert "holds" in text
    assert "linear" in text
    assert "claimed 2.166 at delta = 1e-05" in text


def test_a_broken_claim_is_exit_code_1(monkeypatch):
    monkeypatch.setattr(draws, "release", lambda m, words, value, *given: Released(value, None))
    outcome = run("distributed_online", "--epsilon", "0.5", "--json")
    assert outcome.exit_code == 1
    facts = json.loads(outcome.output)
    assert (facts["verdict"], facts["problem"]) == ("broken", "linear")
    assert facts["power"] > 4
    assert facts["claim"]["epsilon"] == pytest.approx(0.5)
    assert facts["lower_bound"] > 2


def test_an_attack_with_little_power_is_exit_code_3():
    outcome = run("distributed_online", "--epsilon", "0.1", "--json")
    assert outcome.exit_code == 3
    facts = json.loads(outcome.output)
    assert facts["verdict"] == "not conclusive"
    assert facts["power"] < 0.5
    assert "trials" in facts["limit"]


def test_sizes_and_the_norm_are_the_user_s_to_choose():
    sizes = ["--coordinates", "2", "--records", "1", "--rounds", "2"]
    outcome = run("distributed_online", "--mechanism", "gaussian", "--norm", "linf", *sizes, "--json", trials=20_000)
    assert outcome.exit_code == 0
    facts = json.loads(outcome.output)
    assert (facts["coordinates"], facts["records"], facts["rounds"]) == (2, 1, 2)
    assert facts["position"].endswith("spread")


STALLED = """
import jax, jax.numpy as jnp
from tacit.algorithms import distributed_online, register

@register("a test")
def stalled(objective, mechanism):
    algorithm = distributed_online(objective, mechanism=mechanism)
    phase = algorithm.phases[0]

    def compute(key, state, batch, view):
        turns = jax.lax.while_loop(lambda n: n >= 0, lambda n: (n + 1) % 1000003, view.round)
        return phase.compute(key, state + turns.astype(state.dtype), batch, view)

    return algorithm._replace(phases=(phase._replace(compute=compute),))
"""


@pytest.mark.covered_by("test_audit.py, of an audit that has no more time")
def test_a_method_that_stalls_gets_a_verdict(tmp_path):
    file = tmp_path / "stalled.py"
    file.write_text(STALLED)
    command = [sys.executable, "-m", "tacit", "--with", str(file), "audit", "stalled", "--trials", "100", "--json"]
    outcome = subprocess.run([*command, "--seconds", "5"], capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 3, outcome.stderr
    facts = json.loads(outcome.stdout)
    assert facts["verdict"] == "not conclusive"
    assert "5 s" in facts["limit"]


def test_a_method_that_is_refused_is_exit_code_1(monkeypatch):
    def refuse(*arguments):
        raise ContractError("it calls the host")

    monkeypatch.setattr(runtime, "settle", refuse)
    outcome = run("distributed_online", "--json")
    assert outcome.exit_code == 1
    facts = json.loads(outcome.output)
    assert facts["verdict"] == "refused"
    assert "calls the host" in facts["refused"]


def test_masks_are_audited_by_what_one_link_shows_and_by_the_receiver_s_sum():
    masks = ("--mechanism", "local_graph_homomorphic", "--noise-std", "0.1")
    outcome = run("adapt_then_combine", *masks, "--json", trials=20_000)
    assert outcome.exit_code == 0
    facts = json.loads(outcome.output)
    assert facts["holds"] is facts["exact"] is facts["hidden"] is True
    assert "exact to the bit" in facts["words"]
    assert facts["power"] > 0.5


def test_what_is_not_private_is_no_error():
    outcome = run("local_online", "--mechanism", "none")
    assert outcome.exit_code == 0
    assert "Not private by any claim" in outcome.output


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["nothing"], "unknown algorithm 'nothing'"),
        (["local_online"], "--mechanism none"),
        (["online_push_sum", "--mechanism", "uniform"], "'uniform'"),
        (["online_push_sum", "--noise-multiplier", "1"], "--noise-multiplier 1"),
        (["online_push_sum", "--mechanism", "gaussian", "--epsilon", "1"], "--epsilon 1"),
        (["online_push_sum", "--epsilon", "0"], "epsilon = 0"),
        (["online_push_sum", "--all"], "--all"),
        ([], "--all"),
        (["online_push_sum", "--decay", "0.5"], "--decay 0.5"),
        (["online_push_sum", "--strategy", "blt"], "--strategy blt"),
        (["online_push_sum", "--mechanism", "correlated", "--reads", "0"], "participation[0] = 0"),
        (["lagrangian_descent", "--mechanism", "correlated"], "use gaussian"),
        (["online_push_sum", "--problem", "cubic"], "'cubic'"),
        (["online_push_sum", "--mechanism", "per_edge"], "for each link"),
        (["fedavg", "--mechanism", "local_graph_homomorphic"], "for each link"),
        (["consensus", "--mechanism", "per_edge", "--epsilon", "1"], "--epsilon 1"),
    ],
)
def test_settings_that_cannot_be_used_are_named(arguments, names):
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert names in outcome.output
