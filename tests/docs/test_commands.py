"""Every command in what people read can be given, with the options that it names."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from tacit.cli import app
from tests.docs.pages import ROOT, WRITTEN, commands, inline

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
each_page = pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))


def idle(command: Any) -> Any:
    """Make a command that reads its arguments and does nothing."""
    command.callback = lambda **arguments: None
    for below in getattr(command, "commands", {}).values():
        idle(below)
    return command


TACIT = idle(typer.main.get_command(app))


def fault(words: list[str]) -> str | None:
    """Say why a command could not be given."""
    program, *rest = words
    missing = [word for word in rest if word.startswith("examples/") and not (ROOT / word).exists()]
    if missing:
        return f"there is no {missing[0]}"
    if program == "make":
        return None if set(rest) <= TARGETS else f"no target {rest}"
    if program.endswith("python"):
        known = rest[0] != "-m" or importlib.util.find_spec(rest[1]) is not None
        return None if known else f"there is no module {rest[1]}"
    try:
        TACIT.main(list(rest), prog_name="tacit", standalone_mode=False)
    except Exception as error:  # whatever the parser says
        return f"{type(error).__name__}: {error}"
    return None


@each_page
def test_commands_can_be_given(path: Path) -> None:
    faults = {" ".join(words): why for words in commands(path) if (why := fault(words))}
    assert not faults


@each_page
def test_commands_that_are_named_exist(path: Path) -> None:
    for code in inline(path, "code_inline"):
        command, words = TACIT, code.content.split()
        if words[:1] != ["tacit"]:
            continue
        for word in words[1:]:
            below = getattr(command, "commands", {})
            if not below or not re.fullmatch(r"[a-z-]+", word) or word.startswith("-"):
                break
            assert word in below, f"{path.name}: {code.content}"
            command = below[word]


def test_a_wrong_command_is_noticed() -> None:
    assert fault(["tacit", "run", "first.toml"]) is None
    assert "no-such-option" in str(fault(["tacit", "run", "first.toml", "--no-such-option"]))
    assert fault(["tacit", "rum", "first.toml"]) is not None
    assert fault(["tacit", "run"]) is not None
    assert fault(["tacit", "run", "first.toml", "--rounds", "many"]) is not None
    assert fault(["make", "nothing"]) == "no target ['nothing']"
    assert fault(["python", "-m", "benchmarks.nothing"]) is not None
    assert "examples/nothing.toml" in fault(["tacit", "run", "examples/nothing.toml"])
