"""Common parts of all commands: errors as messages and exit codes, and tables."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.core.errors import ConfigError, TacitError
from tacit.core.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

INTERRUPTED = 130
WIDTH_OF_A_FILE = 120
"""Tables that do not go to a terminal may be this wide."""
LONGEST_NAME = 26


def watchers(trackers: Sequence[Any]) -> tuple[list[Any], bool | None]:
    """Return who watches an experiment's runs, and whether a bar shows them: at a terminal there is a view instead."""
    if not sys.stderr.isatty():
        return [*trackers], None
    from rich.console import Console

    from tacit.cli.terminal import TerminalView

    return [TerminalView(Console(stderr=True, highlight=False)), *trackers], False


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of ours and Ctrl-C into messages and exit codes."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except TacitError as error:
            say(f"error: {error}", err=True)
            raise typer.Exit(2) from error
        except OSError as error:
            if error.filename is None:  # not about a file: a fault of ours, or a pipe that was closed
                raise
            say(f"error: {error.filename}: {error.strerror}; check the path, its owner and the disk", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            say("interrupted: nothing more was written", err=True)
            raise typer.Exit(INTERRUPTED) from error

    return wrapped


def say(words: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line. All that commands say goes through here or `print_table`: no text from outside steers a terminal.

    `err` is for standard error, and `nl=False` leaves the line open.
    """
    typer.echo(visible(str(words)), err=err, nl=nl)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s unless there is one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def check_directory(out: Path) -> None:
    """Refuse a directory that could not be written, before the work of which the outcome is to go there."""
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"--out {out}: {there} is a file, expected a directory; name another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"--out {out}: {there} may not be written; name another directory, or change its owner")


def keep_to_itself() -> None:
    """Keep a Ray that this command starts from telling its makers of it, unless the user says otherwise."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, as wide as the terminal or as a file may be."""
    console().print(made_table(columns, rows), markup=False)


def made_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table to print; its text steers no terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # Names are to be copied, so that those in the first column are kept whole.
    longest = max((len(word) for row in rows for word in row[0].split()), default=0)
    for k, column in enumerate(columns):
        table.add_column(visible(column), overflow="fold", min_width=min(longest, LONGEST_NAME) if k == 0 else None)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def console() -> Console:
    """Return the console to print on."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE, highlight=False)


def explained(error: typer.TyperException) -> str:
    """Return the message for a faulty command line."""
    context: Any = getattr(error, "ctx", None)
    if context is None:  # an option without its value: the parser does not say of which command
        return f"{error.format_message()} `tacit COMMAND --help` says what goes with it."
    command, commands = context.command, getattr(context.command, "commands", {})
    path = context.command_path
    lines = [f"{path}: {_fault(error)}"]
    if commands:
        lines.append(f"Commands: {', '.join(commands)}.")
    elif command.epilog:
        lines.append(command.epilog)
    lines.append(f"`{path} --help` says more.")
    return "\n".join(lines)


def _fault(error: typer.TyperException) -> str:
    """Return what is wrong, with the value that was given where there was one."""
    parameter: Any = getattr(error, "param", None)
    if parameter is None:
        return error.format_message()
    option = parameter.opts[-1] if parameter.opts[-1].startswith("-") else parameter.name.upper()
    faults = getattr(error.__cause__, "errors", None)
    if faults is None:
        return f"{option} is missing" if type(error).__name__ == "MissingParameter" else error.format_message()
    from tacit.config.sections import expectation

    fault = faults()[0]
    return f"{option} {fault['input']!r}: {expectation(fault)}"
