"""Commands of other distributions: one that is broken takes nothing else away, and none takes a name of ours."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tacit.cli.added import add_extensions
from tacit.config import extensions

FOREIGN = """
import typer
app = typer.Typer()
number = 3

@app.command()
def hello():
    print("hello from a group")

def greet():
    "Greet."
    print("hello")

def odd(value: type(number).__mro__.__class__ | dict[str, object]):
    "Of a type that no command line has."
"""


def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **commands: str) -> typer.Typer:
    (tmp_path / "foreign_commands.py").write_text(FOREIGN)
    (tmp_path / "foreign_exit.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "foreign_syntax.py").write_text("def\n")
    (tmp_path / "foreign_raises.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("foreign_")]:
        monkeypatch.delitem(sys.modules, name)
    points = [EntryPoint(name, value, "tacit.commands") for name, value in commands.items()]
    monkeypatch.setattr(extensions, "entry_points", lambda group: points)
    app = typer.Typer()

    @app.command()
    def run() -> None:
        """Run."""
        print("ours")

    own = typer.Typer()
    own.command("show")(lambda: print("ours"))
    own.command("hide")(lambda: print("ours"))
    app.add_typer(own, name="ledger")
    add_extensions(app)
    return app


def test_commands_are_added(monkeypatch, tmp_path):
    app = made(monkeypatch, tmp_path, greet="foreign_commands:greet", group="foreign_commands:app")
    assert CliRunner().invoke(app, ["greet"]).output == "hello\n"
    assert CliRunner().invoke(app, ["group", "hello"]).output == "hello from a group\n"


@pytest.mark.parametrize(
    "value",
    [
        "foreign_nowhere:run",
        "foreign_commands:nothing",
        "foreign_commands:number",
        "foreign_commands:odd",
        "foreign_exit:run",
        "foreign_syntax:run",
        "foreign_raises:run",
    ],
)
def test_a_broken_command_says_so_when_it_is_asked_for(monkeypatch, tmp_path, value):
    app = made(monkeypatch, tmp_path, broken=value)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    assert CliRunner().invoke(app, ["run"]).output == "ours\n"
    found = CliRunner().invoke(app, ["broken", "--some", "argument"])
    assert found.exit_code == 2
    assert found.output.startswith("error: 'broken'")


def test_no_command_of_ours_is_replaced(monkeypatch, tmp_path):
    app = made(monkeypatch, tmp_path, run="foreign_commands:greet", ledger="foreign_commands:app")
    assert CliRunner().invoke(app, ["run"]).output == "ours\n"
    assert CliRunner().invoke(app, ["ledger", "show"]).output == "ours\n"
