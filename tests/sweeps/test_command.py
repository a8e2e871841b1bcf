from __future__ import annotations

from pathlib import Path

import pytest

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


def test_workers_that_there_are_not_are_refused_before_anything_is_written(tmp_path: Path, capsys) -> None:
    assert command(str(EXAMPLE), "--out", str(tmp_path / "out"), "--on", "slurm") == 2
    assert "ray://HOST" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
