"""`tacit audit` on the command line."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from tacit import runtime
from tacit.cli.audit import audit

APP = typer.Typer()
APP.command()(audit)


def run(*arguments: str):
    return CliRunner().invoke(APP, [*arguments, "--trials", "400"])


def test_a_claim_that_holds_is_told_in_a_sentence():
    outcome = run("online_push_sum", "--mechanism", "gaussian", "--noise-multiplier", "2", "--rounds", "2")
    assert outcome.exit_code == 0
    text = " ".join(outcome.output.split())
    assert "consistent" in text
    assert "with 99.9 % confidence; claimed 2.166 at delta = 1e-05 per record" in text


def test_a_broken_claim_is_exit_code_1(monkeypatch):
    monkeypatch.setattr(runtime, "release", lambda mechanism, words, value, view, records: (value, None))
    outcome = run("distributed_online", "--epsilon", "0.5", "--json")
    assert outcome.exit_code == 1
    facts = json.loads(outcome.output)
    assert facts["holds"] is False
    assert facts["claim"]["epsilon"] == pytest.approx(0.5)
    assert facts["lower_bound"] > 2


def test_masks_are_audited_by_what_one_link_shows_and_by_the_receiver_s_sum():
    outcome = run("adapt_then_combine", "--mechanism", "local_graph_homomorphic", "--noise-std", "0.1", "--json")
    assert outcome.exit_code == 0
    facts = json.loads(outcome.output)
    assert facts["holds"] is facts["exact"] is facts["hidden"] is True
    assert "exact to the bit" in facts["words"]


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
        (["online_push_sum", "--mechanism", "per_edge"], "for each link"),
        (["fedavg", "--mechanism", "local_graph_homomorphic"], "for each link"),
        (["consensus", "--mechanism", "per_edge", "--epsilon", "1"], "--epsilon 1"),
    ],
)
def test_settings_that_cannot_be_used_are_named(arguments, names):
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert names in outcome.output
