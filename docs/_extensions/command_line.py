"""Every command of `tacit` with its arguments and options, written where a page says `<!-- commands -->`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from sphinx.application import Sphinx

PLACE = "<!-- commands -->"


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Go through a command and those below it, in order: full name and command."""
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def as_markdown() -> str:
    """Return the reference of the command line, made from the application itself."""
    import typer

    from tacit.cli import app

    return "\n".join(
        line for name, command in commands(typer.main.get_command(app), "tacit") for line in _page(name, command)
    )


def _page(name: str, command: Any) -> Iterator[str]:
    below = getattr(command, "commands", {})
    yield f"## {name}\n"
    yield f"{_plain(command.help or '')}\n"
    if below:
        yield from (
            f"- [{name} {word}](#{f'{name} {word}'.replace(' ', '-')}): {_first(one.help)}"
            for word, one in below.items()
        )
        yield ""
    own = [parameter for parameter in command.params if not parameter.hidden]
    if own:
        yield "| | default | |\n|---|---|---|"
        yield from map(_row, own)
        yield ""
    example = (command.epilog or "").removeprefix("Example: ")
    if example:
        yield f"```console\n$ {example}\n```\n"


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = ", ".join([*parameter.opts, *parameter.secondary_opts]) if is_option else parameter.name.upper()
    kind = "" if not is_option or parameter.is_flag else f" {_type(parameter)}"
    return f"| `{name}{kind}` | {_default(parameter, is_option)} | {_plain(parameter.help or '')} |"


def _type(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    one = next(iter(get_args(annotation)), annotation)  # of a list
    return {"Path": "PATH", "int": "N", "float": "X"}.get(getattr(one, "__name__", ""), "TEXT")


def _default(parameter: Any, is_option: bool) -> str:
    if parameter.required:
        return "needed"
    if parameter.default is None or (is_option and parameter.is_flag):
        return ""
    return f"`{parameter.default}`"


def _plain(text: str) -> str:
    r"""Undo what terminals need: \[ for a bracket; and keep table cells whole."""
    return re.sub(r"\s*\n(?!\n)\s*", " ", text.replace("\\[", "[")).replace("|", "\\|").strip()


def _first(text: str | None) -> str:
    return _plain((text or "").strip().split("\n\n")[0])


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, as_markdown())


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the place."""
    app.connect("source-read", _fill)
    return {"version": "1", "parallel_read_safe": True}
