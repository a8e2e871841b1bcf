from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tacit.algorithms import REGISTRY
from tacit.cli import main
from tacit.config.choices import MECHANISMS, parameters
from tacit.config.experiment import GRAPHS
from tacit.experiments import demo
from tacit.results import Comparison, load, load_all

EXPERIMENT = """
[run]
name = "small"
rounds = 8
repeats = 2
regret_points = 1

[graph]
kind = "ring"
agents = 4

[stream]
kind = "linear_drift"
dim = 2

[objective]
kind = "squared"
l2 = 0.1

[[algorithm]]
name = "online_push_sum"
step = 0.1
"""


class Result:
    """What a call of the command line did."""

    def __init__(self, code: Any, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(EXPERIMENT)

    def call(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        return Result(caught.value.code or 0, *capsys.readouterr())

    return call


def test_without_arguments_it_explains_itself(tacit: Any) -> None:
    result = tacit()
    assert result.code == 0
    for command in ("demo", "run", "algorithms", "graph", "privacy", "ledger", "audit", "reproduce", "compare"):
        assert command in result.out


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "run",
        "algorithms",
        "graph check",
        "privacy plan",
        "privacy explain",
        "privacy network",
        "ledger show",
        "ledger verify",
        "ledger export",
        "audit",
        "reproduce",
        "compare",
    ],
)
def test_every_command_has_help_with_an_example(tacit: Any, command: str) -> None:
    result = tacit(*command.split(), "--help")
    assert result.code == 0
    assert f"Example: tacit {command}" in result.out


def test_the_version_is_that_of_the_package(tacit: Any) -> None:
    import tacit as package

    assert tacit("--version").out == f"tacit {package.__version__}\n"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, tacit.cli; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"matplotlib", "pyarrow", "sklearn", "pydantic", "networkx", "tacit.experiments"}


def test_python_m_tacit_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tacit", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tacit ")


def test_a_run_writes_its_directory(tacit: Any, tmp_path: Path) -> None:
    result = tacit("run", "small.toml", "--out", "out", "--rounds", "6", "--seed", "3")
    assert result.code == 0
    assert "report: out/report.html" in result.out
    assert "online_push_sum" in result.out
    record = load(tmp_path / "out")
    assert (record.summary["rounds"], record.summary["seed"]) == (6, 3)
    assert record.settings["run"]["rounds"] == 6


def test_a_run_goes_to_a_folder_of_its_name_by_default(tacit: Any, tmp_path: Path) -> None:
    assert tacit("run", "small.toml", "--rounds", "2").code == 0
    assert (tmp_path / "runs" / "small" / "summary.json").exists()


@pytest.mark.parametrize(("records", "threads"), [(1, "1"), (2**16, None)])
def test_light_rounds_get_one_thread_and_heavy_ones_all(
    tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, threads: str | None
) -> None:
    for name in ("PJRT_NPROC", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    wide = EXPERIMENT.replace("dim = 2", f"dim = 8\nbatch = {records}").replace("rounds = 8", "rounds = 1")
    (tmp_path / "wide.toml").write_text(wide.replace("regret_points = 1", "regret_points = 0"))
    assert tacit("run", "wide.toml").code == 0
    assert os.environ.get("PJRT_NPROC") == threads


def test_ctrl_c_leaves_a_valid_partial_run(tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.simulator import progress

    monkeypatch.setattr(progress.Progress, "at", lambda self, done: signal.raise_signal(signal.SIGINT))
    result = tacit("run", "small.toml", "--out", "out", "--rounds", "500")
    assert result.code == 130
    assert "interrupted" in result.err
    record = load(tmp_path / "out")
    assert record.summary["partial"] is True
    assert 0 < record.summary["rounds"] < 500
    assert "was interrupted" in (tmp_path / "out" / "report.html").read_text()


def test_ctrl_c_before_anything_was_done_leaves_nothing(
    tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def interrupted(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.simulator.simulate", interrupted)
    result = tacit("run", "small.toml", "--out", "out")
    assert result.code == 130
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nowhere.toml"), "error: nowhere.toml: cannot be read"),
        (("compare", "."), "error: . is not a finished run"),
        (("graph", "check"), "error: graph check takes one of"),
        (("graph", "check", "--kind", "rings"), "did you mean 'ring'?"),
        (("graph", "check", "--kind", "ring"), "has no 'agents'"),
        (("graph", "check", "--kind", "ring", "--agents", "4", "--k", "2"), "k = 2: unknown key"),
        (("graph", "check", "--kind", "ring", "--agents", "0"), "at least 1"),
        (("graph", "check", "small.toml", "--k", "2"), "k go with --kind"),
        (("graph", "check", "--edges", "nowhere.txt"), "error: nowhere.txt"),
        (("privacy", "explain", "push_sum"), "unknown algorithm 'push_sum'"),
        (("privacy", "explain", "online_push_sum", "--mechanism", "laplce"), "did you mean 'laplace'?"),
        (("privacy", "explain", "online_push_sum", "--mechanism", "gaussian"), "has no 'noise_multiplier'"),
        (("privacy", "explain", "online_push_sum", "--norm", "l3"), "norm = 'l3': expected 'l2'"),
        (("privacy", "explain", "online_push_sum", "--clip", "0"), "clip = 0.0: expected a finite"),
    ],
)
def test_an_error_is_one_message_and_exit_code_2(tacit: Any, arguments: tuple[str, ...], message: str) -> None:
    result = tacit(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


def test_unknown_commands_and_options_are_usage_errors(tacit: Any) -> None:
    assert tacit("nonsense").code == 2
    assert tacit("run", "small.toml", "--round", "3").code == 2


def test_algorithms_are_listed(tacit: Any) -> None:
    found = json.loads(tacit("algorithms", "--json").out)
    assert [fact["name"] for fact in found] == list(REGISTRY)
    (push_sum,) = [fact for fact in found if fact["name"] == "online_push_sum"]
    assert push_sum["source"] == "OPS paper, Alg. 1"
    assert push_sum["title"] == "Online push-sum (OPS)"
    assert "strongly_connected" in push_sum["requires"]
    assert {"name": "step", "default": 0.1} in push_sum["parameters"]
    kinds = list(MECHANISMS)
    assert {"name": "mechanism", "default": "unprotected", "kinds": kinds} in push_sum["parameters"]
    (dola,) = [fact for fact in found if fact["name"] == "distributed_online"]
    assert {"name": "step", "default": "inverse_sqrt"} in dola["parameters"]
    table = tacit("algorithms").out
    assert all(f" {name} " in table for name in REGISTRY)  # none is broken in two
    assert ", ".join(kinds[:2]) in table
    assert "not private" in table


def test_privacy_is_explained_by_what_holds(tacit: Any) -> None:
    text = tacit("privacy", "explain", "distributed_online").out
    for words in (
        "eps-differential privacy of the whole run",
        "without mechanism:  not private",
        "laplace, epsilon 1.0, clip 1.0, norm l2",
        "unit:               record",
        "two data sets are neighbours if one record is replaced",
        "parallel: each release is charged to the records of its round alone",
        "clipped to l2 norm 1 (enforced)",
        "laplace noise on the ",
    ):
        assert words in text
    options = ["--mechanism", "gaussian", "--noise-multiplier", "2", "--clip", "3", "--norm", "linf"]
    options += ["--perturbs", "update", "--adjacency", "dataset", "--json"]
    found = json.loads(tacit("privacy", "explain", "online_push_sum", *options).out)
    assert found["mechanism"] == {
        "kind": "gaussian",
        "noise_multiplier": 2.0,
        "clip": 3.0,
        "norm": "linf",
        "perturbs": "update",
        "adjacency": "dataset",
    }
    assert found["unit"] == "agent"
    assert found["composition"].startswith("sequential: ")
    assert [re.search("linf norm 3", line) is not None for line in found["assumptions"]] == [True]
    assert found["holds"].startswith("gaussian noise on the update")
    whole = ["--adjacency", "agent", "--json"]
    found = json.loads(tacit("privacy", "explain", "fedavg", *whole).out)
    assert (found["unit"], found["mechanism"]["adjacency"]) == ("agent", "agent")
    assert [re.search("all of an agent's records.*l2 norm 1", line) is not None for line in found["assumptions"]]
    bounded = ["--mechanism", "bounded_laplace", "--epsilon", "1", "--rounds", "9", "--json"]
    assert json.loads(tacit("privacy", "explain", "online_push_sum", *bounded).out)["mechanism"]["rounds"] == 9
    decaying = ["--mechanism", "decaying_gaussian", "--noise-multiplier", "1", "--decay", "0.5", "--clip", "1"]
    assert "decay 0.5" in tacit("privacy", "explain", "online_push_sum", *decaying).out


def test_an_algorithm_without_mechanism_is_explained_too(tacit: Any) -> None:
    found = json.loads(tacit("privacy", "explain", "local_online", "--json").out)
    assert found["mechanism"] == "it takes none"
    assert found["holds"].startswith("not private")


def test_a_private_run_says_what_it_spent_everywhere(tacit: Any, tmp_path: Path) -> None:
    table = '[algorithm.mechanism]\nkind = "laplace"\nepsilon = 0.5\nclip = 1.0\n'
    text = EXPERIMENT.replace("dim = 2", "dim = 2\nrepeat_every = 4").replace("[run]", "[run]\nreferences = false")
    (tmp_path / "small.toml").write_text(text + table)
    result = tacit("run", "small.toml", "--out", "out")
    assert result.code == 0
    assert "eps 1 per record" in " ".join(result.out.split())  # 8 rounds over 4: everything is read twice
    record = load(tmp_path / "out")
    assert (record.summary["privacy"]["epsilon"], record.summary["privacy"]["reads"]) == (pytest.approx(1.0), 2)
    assert "Eps 1 per record" in (tmp_path / "out" / "report.html").read_text()
    assert tacit("run", "out/config.toml", "--out", "again").code == 0
    assert load(tmp_path / "again").summary["privacy"] == record.summary["privacy"]


def test_a_graph_is_checked_against_every_algorithm(tacit: Any, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("0 1\n1 0\n1 2\n")  # nobody hears agent 2
    result = tacit("graph", "check", "--edges", "edges.txt")
    assert result.code == 0
    assert "agents, edges                         3, 3" in result.out
    rows = [line.split() for line in result.out.splitlines()]
    verdicts = {row[0]: row[1] for row in rows if row and row[0] in REGISTRY}
    assert verdicts["online_push_sum"] == "no"
    assert verdicts["local_online"] == "yes"
    assert "agent 2 to agent 0" in " ".join(result.out.split())
    assert "4, 8" in tacit("graph", "check", "small.toml").out
    assert (
        "random_digraph(6, 2)"
        in tacit("graph", "check", "--kind", "random_digraph", "--agents", "6", "--out-degree", "2").out
    )


def test_graph_check_has_an_option_for_every_generators_parameter(tacit: Any) -> None:
    text = tacit("graph", "check", "--help").out
    for kind, function in GRAPHS.items():
        if kind not in ("edge_list", "matrix"):  # these come from files
            for key in parameters(function, frozenset({"seed", "name"})):
                assert f"--{key.replace('_', '-')}" in text


def test_runs_are_compared(tacit: Any, tmp_path: Path) -> None:
    tacit("run", "small.toml", "--out", "a")
    (tmp_path / "small.toml").write_text(EXPERIMENT.replace('"online_push_sum"', '"local_online"'))
    tacit("run", "small.toml", "--out", "b")
    result = tacit("compare", "a", "b", "--out", "both")
    assert result.code == 0
    assert "local_online" in result.out
    assert result.err == ""
    assert len(load_all(tmp_path / "both")) == 2
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    (tmp_path / "b" / "summary.json").write_text(json.dumps({**summary, "rounds": 5000}))
    assert "differ in rounds" in tacit("compare", "a", "b").err


def test_the_demonstration_runs_and_says_who_won(tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = demo.PROBLEM.replace("repeats = 8", "repeats = 2\nregret_points = 1")
    assert small != demo.PROBLEM
    monkeypatch.setattr(demo, "PROBLEM", small)
    result = tacit("demo", "--rounds", "3")
    assert result.code == 0
    for words in (
        "OPS",
        "COL",
        "DOL-Symm",
        "DOL-Asymm",
        "Local OGD",
        "not private",
        "report: runs/demo/report.html",
    ):
        assert words in result.out
    records = load_all(tmp_path / "runs" / "demo")
    spent = {record.label: record.privacy for record in records}
    private = {label for label, privacy in spent.items() if privacy.startswith("eps 3,")}
    assert private == {"Private online push-sum (OPS)", "alone, same noise"}
    assert set(records[5].summary["references"].values()) == set(list(spent)[6:])
    (sentence,) = Comparison.load([tmp_path / "runs" / "demo"]).sentences()
    assert sentence in result.out
    assert sentence in (tmp_path / "runs" / "demo" / "report.html").read_text()


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, Path, int]]:
    """Two experiments in the place of the real ones; the calls that they got."""
    calls: list[tuple[bool, Path, int]] = []

    def study(name: str, holds: bool) -> Any:
        def run(quick: bool, out: Path, seed: int) -> dict[str, Any]:
            calls.append((quick, out, seed))
            outcome = "holds" if holds else "fails"
            claim = {"claim": "A < B", "holds": holds, "figure": "A 1, B 2", "ours": False, "outcome": outcome}
            headline = {"headline": "A is best", "verdict": "refuted", "text": "1", "ours": "2"}
            return {"claims": [claim], "headlines": [headline]}

        return SimpleNamespace(name=name, title=f"title of {name}", source="a paper", minutes=3.0, run=run)

    module = ModuleType("tacit_reproduction.catalogue")
    known = {"good": study("good", True), "bad": study("bad", False)}
    module.all_studies = lambda: known  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tacit_reproduction.catalogue", module)
    return calls


def test_experiments_of_the_texts_are_listed_and_run(tacit: Any, papers: list[tuple[bool, Path, int]]) -> None:
    assert "title of good" in tacit("reproduce", "--list").out
    result = tacit("reproduce", "good", "--quick", "--out", "x", "--seed", "5")
    assert (result.code, papers) == (0, [(True, Path("x"), 5)])
    assert "A < B" in result.out
    assert "A is best" in result.out
    assert tacit("reproduce", "bad").code == 0  # a claim that does not hold is a result
    failed = tacit("reproduce", "bad", "--strict")
    assert failed.code == 1
    assert "DOES NOT HOLD" in failed.out
    assert papers[-1] == (False, Path("runs/bad"), 0)
    unknown = tacit("reproduce", "god")
    assert unknown.code == 2
    assert "did you mean 'good'?" in unknown.err


def test_all_or_one_experiment_is_asked_for(tacit: Any) -> None:
    both = tacit("reproduce", "ops-susy", "--all")
    assert (both.code, "'ops-susy'" in both.err) == (2, True)
    alone = tacit("reproduce", "ops-susy", "--jobs", "2")
    assert (alone.code, "--jobs goes with --all" in alone.err) == (2, True)
    many = tacit("reproduce", "--all", "--jobs", "9999")
    assert (many.code, "give --jobs a number from 1 to" in many.err) == (2, True)
