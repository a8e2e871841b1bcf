"""Small forms of the campaigns on results: commands that are killed, and directories that are changed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.core.errors import ResultError
from tacit.results.sealed import Sealed, put, seal
from tests.faults import result_kills, result_mutations


def test_changed_directories_are_refused_or_read_without_a_traceback() -> None:
    figures = result_mutations.campaign(60, seed=1)
    assert figures.violations == []
    assert figures.outcomes["read (0)"] > 5
    assert figures.outcomes["refused (2)"] > 15


def test_the_campaign_notices_markup_and_control_characters() -> None:
    assert result_mutations.judge(["plain \n text", "<!doctype html><p>fine</p>"]) == ""
    assert "script" in result_mutations.judge(["<!doctype html><p><script>x</script></p>"])
    assert "onclick" in result_mutations.judge(["<!doctype html><p onclick='x'>"])
    assert result_mutations.judge(["\x1b[2J"]) != ""


FILES = [seal({"a": str(k).encode() * 1000, "b": str(k).encode()}, {"number": k}) for k in range(2)]


def kept(place: Path) -> object:
    try:
        found = Sealed.read(place)
        return [found.summary["number"], found.file("a"), found.file("b")]
    except ResultError:
        return None


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("whole", [True, False])
def test_the_campaign_kills_looks_and_does_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    command = result_kills.Command(
        lambda place: put(place, FILES[1]),
        kept if whole else lambda place: object(),
        lambda place: put(place, FILES[0]),
    )
    monkeypatch.setitem(result_kills.COMMANDS, "tiny", command)
    tale = result_kills.campaign("tiny", 5, random.Random(0), tmp_path)
    assert tale.kills + tale.ended == sum(tale.left.values()) == 5
    assert (tale.violations == []) == whole


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", list(result_kills.COMMANDS))
def test_commands_that_are_killed_leave_whole_results_or_none(name: str) -> None:
    command = [sys.executable, "-m", "tests.faults.result_kills", "--kills", "3", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
