"""Results are whole or not there: writers that die at any step, two writers at once, readers in between."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.core.errors import ResultError
from tacit.privacy import Loss
from tacit.privacy.accounting import guarantee
from tacit.privacy.spending import RunPrivacy
from tacit.results import Comparison, Run, load, load_all, store
from tests.daily import some

from .conftest import PRIVATE

MakeRun = Callable[..., Run]
STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
"""Of a writer, as the interpreter announces them."""


@pytest.fixture
def two(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> tuple[Comparison, Comparison]:
    """The same labels at epsilon 8 and at epsilon 1; nothing is drawn, which would take most of the time."""
    monkeypatch.setattr(store, "shown_files", lambda *shown: {store.REPORT: b"a report"})

    def at(epsilon: float, *labels: str) -> Comparison:
        privacy = RunPrivacy(PRIVATE.statement, guarantee(Loss(epsilon, epsilon**2 / 2), "record"), reads=1)
        return Comparison(tuple(make_run(label=label, privacy=privacy).record() for label in labels))

    return at(8.0, "A", "B"), at(1.0, "A", "C")


def told(directory: Path) -> list[str] | None:
    """What `tacit compare` would show of privacy; None: an error."""
    try:
        return [record.label + " " + record.privacy for record in load_all(directory)]
    except ResultError:
        return None


def dies_at(step: int, directory: Path, work: Callable[[], object]) -> bool:
    """Do work in a process that is gone before its step number `step` in a directory; returns whether it came so far."""
    child = os.fork()
    if child == 0:
        left = [step]

        def look(event: str, arguments: tuple[object, ...]) -> None:
            if event in STEPS and str(directory) in str(arguments[0]):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)

        sys.addaudithook(look)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("before", some(["results", "nothing"], "a writer over older results", daily=["results"]))
def test_a_writer_that_dies_at_any_step_leaves_whole_results_or_none(two, tmp_path: Path, before: str) -> None:
    old, new = two
    first = tmp_path / "first"
    first.mkdir()
    if before == "results":
        old.save(first)
    whole = [told(first), told(new.save(tmp_path / "second"))]
    seen, step = [], 0
    while True:
        step += 1
        directory = tmp_path / f"at-{step}"
        shutil.copytree(first, directory)
        died = dies_at(step, directory, lambda directory=directory: new.save(directory))
        seen.append(told(directory))
        if not died:
            break
        assert seen[-1] is None or seen[-1] in whole, f"a mixture, dying at step {step}"
        for part in ("a", "b", "c"):  # each run is whole by itself, too
            told(directory / part)
        if step % 5 == 0:  # whoever comes next finds its way, and clears up
            new.save(directory)
            assert told(directory) == whole[1]
            assert sorted(path.name for path in directory.iterdir() if path.name[0] == ".") == []
    assert step > 30
    assert seen[-1] == whole[1]
    assert seen[0] == whole[0]
    assert sorted(path.name for path in directory.iterdir()) == ["a", "c", "report.html", "summary.json"]


def test_readers_see_one_or_the_other_of_two_writers(two, tmp_path: Path) -> None:
    whole = [told(each.save(tmp_path / name)) for each, name in zip(two, ("8", "1"), strict=True)]
    directory = two[0].save(tmp_path / "both")
    refused = []

    def write(mine: Comparison) -> None:
        for _ in range(25):
            try:
                mine.save(directory)
            except ResultError as error:
                refused.append(str(error))

    writers = [threading.Thread(target=write, args=(each,)) for each in two]
    for writer in writers:
        writer.start()
    seen = []
    while any(writer.is_alive() for writer in writers):
        seen.append(told(directory))
    assert [found for found in seen if found not in whole] == []
    assert all(str(directory) in words for words in refused)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A directory that process 12345 writes."""
    directory = tmp_path / "held"
    directory.mkdir()
    with (directory / ".tacit-lock").open("w") as file:
        file.write("12345\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield directory


def test_a_second_writer_is_refused_by_name_and_changes_nothing(make_run: MakeRun, held: Path) -> None:
    with pytest.raises(ResultError, match=r"held.*12345"):
        make_run().save(held)
    assert [path.name for path in held.iterdir()] == [".tacit-lock"]


def test_what_a_killed_writer_left_is_cleared_but_not_where_a_link_leads(make_run: MakeRun, tmp_path: Path) -> None:
    outside, directory = tmp_path / "outside", tmp_path / "run"
    for folder in (outside, directory):
        folder.mkdir()
    (outside / "mine.txt").write_text("kept")
    (directory / ".tacit-lock").write_text("12345\n")
    (directory / ".tacit-new").symlink_to(outside)
    run = make_run()
    run.save(directory)
    assert not [path for path in directory.iterdir() if path.name[0] == "."]
    (directory / ".tacit-new" / "summary.json" / "half").mkdir(parents=True)
    run.save(directory)
    assert not [path for path in directory.iterdir() if path.name[0] == "."]
    assert (outside / "mine.txt").read_text() == "kept"


def test_a_summary_from_outside_names_nothing_to_be_removed(make_run: MakeRun, tmp_path: Path) -> None:
    directory = make_run().save(tmp_path / "run")
    (tmp_path / "mine.txt").write_text("kept")
    (directory / "notes.txt").write_text("kept")
    written = (directory / "summary.json").read_text()
    for name in ("../mine.txt", "notes.txt", str(tmp_path / "mine.txt")):
        summary = json.loads(written)
        summary["files"][name] = "0" * 64
        (directory / "summary.json").write_text(json.dumps(summary))
        store.save_data(make_run().record(), directory)
    assert (tmp_path / "mine.txt").exists()
    assert (directory / "notes.txt").exists()


@pytest.mark.parametrize("name", ["config.toml", "trace.parquet"])
def test_files_of_two_runs_are_not_taken_for_one(make_run: MakeRun, tmp_path: Path, name: str) -> None:
    a, b = make_run(settings={"run": {"name": "a"}}).save(tmp_path / "a"), make_run(seed=1).save(tmp_path / "b")
    shutil.copy(b / name, a / name)
    with pytest.raises(ResultError, match=name):
        load(a)


def test_a_refused_directory_that_was_made_is_removed_again(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(settings={"run": {"name": object()}})  # no TOML
    with pytest.raises(TypeError):
        run.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()
