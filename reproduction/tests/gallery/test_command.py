import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reproduction.tests import made_up
from tacit.cli import main
from tacit_reproduction import catalogue, gallery
from tacit_reproduction.gallery import Finished

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
