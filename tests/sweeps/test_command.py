from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from tacit.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep.toml"


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["sweep", *arguments])
    return int(str(left.value.code))


def test_the_example_is_swept_and_the_same_command_goes_on(tmp_path: Path, capsys) -> None:
    given = [str(EXAMPLE), "--out", str(tmp_path / "out"), "--workers", "1", "--rounds", "4"]
    assert command(*given) == 0
    said = capsys.readouterr().out
    assert "12 of 12 settings" in said
    assert "algorithm.step" in said
    assert str(tmp_path / "out" / "table.parquet") in said
    assert command(*given) == 0
    assert "0 of 12 settings" not in capsys.readouterr().out
    assert command(*given[:-1], "5") == 2
    assert "run.rounds" in capsys.readouterr().err


@pytest.mark.slow
def test_a_command_that_is_killed_in_the_middle_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = [sys.executable, "-m", "tacit", "sweep", str(EXAMPLE), "--out", str(out), "--workers", "2", "--rounds", "4"]
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as one:
        for line in one.stdout:
            if re.match(r"\s+[1-9]\d* of 12", line):
                one.kill()  # whether it was half done or all of it
                break
    before = parquet.read_table(out / "table.parquet").to_pylist()
    assert before
    again = subprocess.run(given, capture_output=True, text=True, check=True)
    assert f"{len(before) // 5} of 12 settings" in again.stdout
    after = parquet.read_table(out / "table.parquet").to_pylist()
    assert [row for row in after if row in before] == before
    assert len(after) == 60


def test_workers_that_there_are_not_are_refused_before_anything_is_written(tmp_path: Path, capsys) -> None:
    assert command(str(EXAMPLE), "--out", str(tmp_path / "out"), "--on", "slurm") == 2
    assert "ray://HOST" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
