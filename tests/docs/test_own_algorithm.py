"""An algorithm of one's own, from its file to the command line, and what is said to those who get it wrong."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tacit
from tacit.algorithms import REGISTRY
from tacit.audit import conformance
from tacit.cli import main
from tacit.config.own_code import own_files
from tacit.core.contract import Algorithm, Phase, share
from tacit.core.errors import ContractError
from tests.docs.pages import ROOT

FILE = ROOT / "examples" / "own_algorithm.py"


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Give a command with `--with` and return its exit code and what it printed."""

    def give(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as left:
            main(["--with", *arguments])
        streams = capsys.readouterr()
        return left.value.code or 0, streams.out + streams.err

    return give


def test_it_runs_from_a_file(command: Any, folder: Path) -> None:
    example = ROOT / "examples" / "own-algorithm.toml"
    text = example.read_text(encoding="utf-8").replace("repeats = 3", "repeats = 1\nregret_points = 0")
    own, _ = text.split('\n[[algorithm]]\nname = "adapt_then_combine"')
    (folder / "own.toml").write_text(own, encoding="utf-8")
    code, printed = command(str(FILE), "run", "own.toml", "--rounds", "3")
    assert code == 0, printed
    assert "momentum, epsilon 4" in printed
    assert "eps 4 per record" in printed
    # What a swarm's processes are told to run as well.
    assert own_files(entry.constructor for entry in REGISTRY.values()) == [FILE]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("x = 1\ny = 1 / 0\n", "own.py: line 2: ZeroDivisionError: division by zero"),
        ("x = (\n", "own.py: line 1: SyntaxError: '(' was never closed"),
        (
            'from tacit.algorithms import register\n@register("x")\ndef bare(objective, step=0.1):\n    "Bare."\n',
            "bare: its parameter 'objective' has no type",
        ),
    ],
)
def test_a_file_with_a_fault_is_answered_with_its_place(command: Any, folder: Path, code: str, answer: str) -> None:
    (folder / "own.py").write_text(code)
    status, printed = command("own.py", "algorithms")
    assert status == 2
    assert answer in printed


def test_a_file_that_is_not_there(command: Any) -> None:
    status, printed = command("nowhere.py", "algorithms")
    assert (status, printed.startswith("error: --with nowhere.py: ")) == (2, True)


def careless(mistake: str) -> Algorithm:
    """Gossip with a mistake in it."""
    objective, calls = tacit.objectives.logistic(), itertools.count()

    def compute(key: Any, state: Any, batch: Any, view: Any) -> Any:
        return state, state - 0.1 * jax.grad(objective.loss)(state, batch)

    def emit(state: Any, released: Any, view: Any) -> Any:
        factor = {"number": 1 + 0.01 * view.agent, "memory": 1 + 0.01 * next(calls)}.get(mistake, 1.0)
        return state, share(released * factor, jnp.sum(released) if mistake == "public" else ())

    def absorb(key: Any, state: Any, inbox: Any, view: Any) -> Any:
        return inbox.mix().private

    return Algorithm(
        "careless",
        objective,
        {"peer": lambda key, params, views: params},
        (Phase("peers", compute, tacit.privacy.unprotected, absorb, emit),),
        lambda state: state,
        frozenset(),
        tacit.contract.PrivacyStatement.none(),
    )


@pytest.mark.parametrize(
    ("mistake", "check", "answer"),
    [
        ("public", "public_parts_ignore_data", "the public part of agent 0's message along 'peers' in round 1 depends"),
        ("number", "relabelling_changes_nothing", "numbered in another way its models differ by .* view.agent"),
        ("memory", "simulator_equals_peers", "after 2 rounds the simulator and separate peers differ by"),
        ("memory", "restart_goes_on", "stopped and started again it takes another way"),
    ],
)
def test_a_method_that_breaks_the_contract_is_told_how(mistake: str, check: str, answer: str) -> None:
    stream, *other = (tacit.streams.logistic_drift(agents=3, dim=2, rounds=6, seed=seed) for seed in (0, 1))
    trial = conformance.Trial(careless(mistake), tacit.graphs.ring(3), stream, tacit.graphs.Channel(), 2, 0)
    with pytest.raises(ContractError, match=f"'careless': .*{answer}"):
        getattr(conformance, check)(trial, *(other if mistake == "public" else ()))
