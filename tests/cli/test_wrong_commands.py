"""Command lines that cannot be right: each answer names the value, what was expected and what to do, exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tacit.cli import main
from tacit.cli.common import reported

SYNTHETIC = (Path(__file__).parents[2] / "examples" / "synthetic.toml").read_bytes()
FILES = {
    "empty.toml": b"",
    "words.toml": b"this is [not toml",
    "binary.toml": b"\xff\xfe\x00",
    "short.toml": b"[run]\nrounds = 5\n",
    "type.toml": SYNTHETIC.replace(b"rounds = 1000", b'rounds = "many"'),
    "right.toml": SYNTHETIC,
    "lines.txt": b"0 1 2 3\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with files that are not what commands expect."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)


def refused(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """Return what the command says on stderr as it leaves with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert out == ""
    assert err.startswith("error: ")
    return err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("runn", ["'runn'", "Did you mean 'run'?", "Commands:", "`tacit --help`"]),
        ("graph", ["Missing command", "Commands: check"]),
        ("graph chek", ["'chek'", "Did you mean 'check'?"]),
        ("run", ["FILE is missing", "Example: tacit run examples/", "`tacit run --help`"]),
        ("run a.toml b.toml", ["b.toml", "Example: tacit run"]),
        ("run a.toml --round 5", ["--round", "--rounds"]),
        ("run a.toml --rounds", ["--rounds", "--help"]),
        ("run a.toml --rounds five", ["tacit run: --rounds 'five': expected a whole number\n"]),
        ("run a.toml --rounds 0", ["--rounds '0': expected a value greater than or equal to 1"]),
        ("graph check --kind erdos_renyi --p half", ["--p 'half': expected a number\n"]),
        ("privacy plan", ["--records", "--rounds"]),
        ("privacy plan --records 10", ["--epsilon"]),
        ("ledger export a.db --format xml", ["'xml' is not one of 'csv', 'json'"]),
    ],
)
def test_a_command_line_that_is_not_understood(
    capsys: pytest.CaptureFixture[str], command: str, words: list[str]
) -> None:
    said = refused(capsys, command)
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run none.toml", ["none.toml", "No such file", "give the path"]),
        ("run folder", ["folder", "Is a directory", "give the path"]),
        ("run empty.toml", ["there is no [run]", "see examples/synthetic.toml"]),
        ("run words.toml", ["not valid TOML", "line 1"]),
        ("run binary.toml", ["binary.toml", "cannot be read as TOML"]),
        ("run short.toml", ["there is no [graph]", "add one"]),
        ("run type.toml", ["[run] rounds = 'many': expected a whole number"]),
        ("compare folder", ["folder is not a finished run", "tacit run --out"]),
        ("compare empty.toml", ["empty.toml is not a finished run"]),
        ("graph check --edges folder", ["folder", "Is a directory", "sender receiver"]),
        ("graph check --edges lines.txt", ["line 1", "expected 'sender receiver [weight]'", "0 1 2 3"]),
        ("ledger show folder", ["folder is a directory: expected a ledger"]),
        ("ledger show words.toml", ["words.toml cannot be used as a ledger"]),
        ("peer run empty.toml", ["empty.toml: there is no job", "add job ="]),
        ("peer init-ca empty.toml", ["empty.toml: File exists; check the path"]),
        ("swarm run none.toml", ["none.toml", "No such file"]),
        ("audit online_pushsum", ["'online_pushsum'; did you mean 'online_push_sum'?"]),
        ("privacy explain fedavgg", ["did you mean 'fedavg'?"]),
    ],
)
def test_a_file_or_a_name_that_is_not_what_was_expected(
    capsys: pytest.CaptureFixture[str], command: str, words: list[str]
) -> None:
    said = refused(capsys, command)
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("command", ["demo", "run right.toml", "compare folder", "swarm run right.toml"])
def test_where_nothing_can_be_written_nothing_is_run(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = refused(capsys, f"{command} --out empty.toml/out")
    assert f"--out {Path('empty.toml/out')}: " in said
    assert "is a file, expected a directory" in said


def test_a_directory_of_somebody_else_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # who runs tests as root may write everywhere
    said = refused(capsys, "demo --out folder/out")
    assert f"{Path('folder').absolute()} may not be written" in said


def test_a_closed_pipe_is_no_fault_of_a_file() -> None:
    """As with `tacit algorithms | head`: it is left to typer, which ends the program in silence."""

    @reported
    def command() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        command()
