"""Studies in one go, and their command."""

import json
import multiprocessing
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.own_network import in_own_network

import tacit
from reproduction.tests import made_up
from tacit.board.runs import Runs
from tacit.cli import main
from tacit.config import own_code
from tacit.core.errors import ConfigError, ResultError
from tacit.sweeps.workers import Lost
from tacit_reproduction import catalogue, gallery
from tacit_reproduction import summary as summaries
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.gallery import Finished, reproduce_all, schedule
from tacit_reproduction.study import crew, watching


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Finished], list[Finished]]:
    out, told = tmp_path_factory.mktemp("gallery"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "_named", made_up.named)
        outcomes = reproduce_all(made_up.STUDIES, out, told.append, quick=True, seed=5)
    return out, outcomes, told


def test_every_study_ends_in_its_own_way_and_none_stops_the_others(first) -> None:
    out, (fine, fails, dies), told = first
    written = json.loads((out / "fine" / "summary.json").read_text())
    assert {**fine.summary, "files": written["files"]} == written
    assert (fine.summary["seed"], fine.summary["quick"]) == (5, True)
    assert (fails.summary, dies.summary) == (None, None)
    assert "rows.csv is not there; put it there" in fails.fault
    assert "exit code 3" in dies.fault
    assert not (out / "fails" / "summary.json").exists()
    assert {outcome.study.name for outcome in told} == {study.name for study in made_up.STUDIES}
    assert "as it goes" in (out / "fine" / "log.txt").read_text()


def test_what_is_done_is_not_done_again(first, monkeypatch: pytest.MonkeyPatch) -> None:
    out, outcomes, _ = first
    monkeypatch.setattr(schedule, "_reproduce", lambda task: pytest.fail("begun again"))
    told: list[Finished] = []
    (again,) = reproduce_all([outcomes[0].study], out, told.append, quick=True, seed=5)
    assert (again.kept, again.summary, told) == (True, outcomes[0].summary, [again])


@pytest.mark.parametrize(("quick", "seed", "changed"), [
    (False, 5, {}), (True, 6, {}), (True, 5, {"versions": {"tacit": "another"}}), (True, 5, {"code_digest": "another"}),
], ids=["form", "seed", "version", "code"])  # fmt: skip
def test_another_form_seed_version_or_code_is_done_anew(first, monkeypatch, quick, seed, changed) -> None:
    out, outcomes, _ = first
    assert schedule._kept(outcomes[0].study, out / "fine", True, 5) is not None
    for name, value in changed.items():
        monkeypatch.setattr(summaries, name, lambda value=value: value)
    assert schedule._kept(outcomes[0].study, out / "fine", quick, seed) is None
    assert schedule._kept(outcomes[1].study, out / "fails", True, 5) is None


@pytest.mark.parametrize("part", ["package_digest", "digest_of"])
def test_the_digest_is_of_the_package_and_of_the_reproduction(tmp_path: Path, monkeypatch, part: str) -> None:
    found = set()
    for name, content in [("a.py", "1"), ("b.py", "2"), ("b.py", "3")]:
        (tmp_path / name).write_text(content)
        found.add(own_code.digest_of(tmp_path))
    assert len(found) == 3
    before = summaries.code_digest()
    monkeypatch.setattr(summaries, part, lambda *_: "another")
    assert summaries.code_digest.__wrapped__() != before


@pytest.mark.parametrize("change", ["other rows", "rows that were not there"])
def test_other_data_are_done_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(datasets, "_ASKED", set())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.npz").write_bytes(b"1")

    def reads(*arguments):
        assert datasets.find("rows.npz")
        assert datasets.find("more.npz") is None
        return made_up.found(*arguments)

    study = made_up.study("reads", "OPS paper", measure=reads)
    study.run(True, tmp_path / "reads", 0)
    assert schedule._kept(study, tmp_path / "reads", True, 0) is not None
    (tmp_path / "data" / ("rows.npz" if change == "other rows" else "more.npz")).write_bytes(b"22")
    assert schedule._kept(study, tmp_path / "reads", True, 0) is None


def test_a_cell_has_a_live_file_while_it_is_run(tmp_path: Path) -> None:
    seen = []

    def cell(rounds: int) -> int:
        graph, stream = tacit.graphs.directed_ring(3), tacit.streams.logistic_drift(3, 2)
        method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())

        def look(part: Any) -> None:
            seen.extend((run.state, run.algorithm) for run in Runs(tmp_path).all())

        with watching() as watch:
            return tacit.simulate(method, graph, stream, rounds=rounds, watch=(*watch, look)).rounds

    assert crew(1, live=tmp_path)("cells", cell, [2, 3]) == [2, 3]
    assert ("live", "online_push_sum") in seen
    assert list((tmp_path / ".tacit-live").iterdir()) == []
    with watching() as watch:
        assert watch == ()


@pytest.mark.slow
def test_a_worker_tells_which_data_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_ASKED", set())
    assert crew(2)("numbers", datasets.find, ["nowhere-1.npz", "nowhere-2.npz"]) == [None, None]
    assert datasets.looked_for() == {"nowhere-1.npz", "nowhere-2.npz"}


def test_an_interruption_ends_what_runs_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch) -> None:
    def impatient(outcome: Finished) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "_named", made_up.named)
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        reproduce_all([made_up.FOR_EVER, made_up.named("fine")], tmp_path, impatient, jobs=2)
    assert set(multiprocessing.active_children()) <= before
    assert not (tmp_path / "waits" / "summary.json").exists()


def test_no_log_no_result_and_no_directory_to_write_to_are_told(tmp_path: Path) -> None:
    for result in (Lost("its worker died"), None):
        outcome = schedule._ended(made_up.study("x", "Li et al."), tmp_path / "x", result)
        assert outcome.summary is None
        assert str(tmp_path / "x") in outcome.fault
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot be written .* give another directory with --out"):
        reproduce_all([made_up.named("fine")], tmp_path / "file")


def test_each_study_has_a_core_and_two_on_a_large_machine() -> None:
    for cores, asked, wanted in ((1, None, (1, 1)), (8, None, (8, 1)), (16, None, (8, 2)), (7, 3, (3, 2))):
        assert schedule.core_shares(cores, asked) == wanted
    with pytest.raises(ConfigError, match="8 jobs on 7 cores"):
        schedule.core_shares(7, 8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray", "ignore::FutureWarning:ray")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # of Ray
@in_own_network
def test_on_ray_every_study_ends_in_its_own_way_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr(schedule, "_named", made_up.named)
    fine, fails, dies = reproduce_all(made_up.STUDIES, tmp_path, quick=True, seed=5, jobs=2, on="ray")
    assert fine.summary == summaries.read(tmp_path / "fine")
    assert "rows.csv is not there" in fails.fault
    assert (dies.summary, "died" in dies.fault) == (None, True)
    (again,) = reproduce_all(made_up.STUDIES[:1], tmp_path, quick=True, seed=5, on="ray")
    assert again.kept


SOURCES = {"one": "OPS paper", "two": "Li et al."}


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finished]:
    """What a run of two studies comes to, of which a test may change the second; the run itself is left out."""
    known = {name: made_up.study(name, source) for name, source in SOURCES.items()}
    out = tmp_path / "out"
    outcomes = [Finished(study, out / name, study.run(True, out / name, 0)) for name, study in known.items()]

    def reproduce_all(studies, out, told, quick, seed, jobs, on) -> list[Finished]:
        assert (out, quick, seed, jobs, on) == (tmp_path / "out", True, 3, 2, "pool")
        assert studies == list(known.values())
        for outcome in outcomes:
            told(outcome)
        return outcomes

    monkeypatch.setattr(gallery, "reproduce_all", reproduce_all)
    monkeypatch.setattr(catalogue, "all_studies", lambda: known)
    return outcomes


def command(tmp_path: Path, *more: str) -> int:
    arguments = ["reproduce", "--all", "--quick", "--seed", "3", "--jobs", "2", "--out", str(tmp_path / "out"), *more]
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return int(str(left.value.code))


def test_every_outcome_is_a_line_and_the_gallery_is_named(ended, tmp_path: Path, capsys) -> None:
    ended[1] = ended[1]._replace(kept=True)
    assert command(tmp_path) == 0
    said = capsys.readouterr().out
    assert "[ 1/2] one: 3 headline results: 1 reproduced" in said
    assert re.search(r"\[ 2/2\] two: .*, done before", said)
    assert f"gallery: {tmp_path / 'out' / 'index.html'}" in said
    assert (tmp_path / "out" / "index.html").is_file()
    assert command(tmp_path, "--strict") == 1


def test_a_study_that_did_not_run_is_named_and_is_exit_code_1(ended, tmp_path: Path, capsys) -> None:
    ended[1] = ended[1]._replace(summary=None, fault="rows.csv is not there")
    assert command(tmp_path) == 1
    said = capsys.readouterr()
    assert "two did not run: rows.csv is not there" in said.err
    assert "1 of 2 studies are there" in said.out


def test_what_is_stored_is_judged_again_without_a_run(ended, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(gallery, "reproduce_all", lambda *_: pytest.fail("something ran"))
    assert command(tmp_path, "--stored") == 0
    assert (tmp_path / "out" / "headlines.md").read_text().count("✓ reproduced") == 2
    shutil.rmtree(tmp_path / "out" / "two")
    assert command(tmp_path, "--stored") == 1
    assert "1 of 2 studies are there" in capsys.readouterr().out


def test_the_module_of_the_entry_point_can_be_imported_first() -> None:
    subprocess.run([sys.executable, "-c", "import tacit_reproduction.command, tacit.cli"], check=True)
