"""What every command needs: errors as messages and exit codes, and tables."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from tacit.errors import TacitError

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130
WIDTH_OF_A_FILE = 120
"""Tables that do not go to a terminal may be this wide."""
LONGEST_NAME = 26


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of ours and Ctrl-C into messages and exit codes."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except TacitError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted: nothing more was written", err=True)
            raise typer.Exit(INTERRUPTED) from error

    return wrapped


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, as wide as the terminal or as a file may be."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # Names are to be copied, so that those in the first column are kept whole.
    longest = max((len(word) for row in rows for word in row[0].split()), default=0)
    for k, column in enumerate(columns):
        table.add_column(column, overflow="fold", min_width=min(longest, LONGEST_NAME) if k == 0 else None)
    for row in rows:
        table.add_row(*row)
    console().print(table, markup=False)


def console() -> Console:
    """Return the console to print on."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE, highlight=False)
