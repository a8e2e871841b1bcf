"""Commands that other distributions add (entry points of the group `tacit.commands`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from tacit.cli.common import reported
from tacit.config.extensions import Extensions
from tacit.core.errors import ConfigError

ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Settings of a command that only says why it is not there."""


def add_extensions(app: typer.Typer) -> None:
    """Add every command that is installed; `reproduce` says how to get it where it is not.

    A command that cannot be loaded says so when it is asked for, and the others work. None takes the name of another.
    """
    commands = Extensions("tacit.commands")
    for name in sorted(set(commands) - _names(app)):
        try:
            command = commands[name]
            _add(typer.Typer(), name, command, built=True)
        except ConfigError as fault:
            app.command(name=name, context_settings=ANYTHING)(_missing(fault))
        else:
            _add(app, name, command)
    if "reproduce" not in commands:
        app.command(name="reproduce", context_settings=ANYTHING)(_reproduce_is_elsewhere)


def _add(app: typer.Typer, name: str, command: Callable[..., Any], built: bool = False) -> None:
    """Add a command; `built` finds out at once whether Typer can make one of it."""
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name=name, epilog=getattr(command, "epilog", None))(command)
    if built:
        try:
            typer.main.get_command(app)
        except Exception as fault:
            raise ConfigError(f"{name!r} of another distribution is no command ({fault})") from fault


def _names(app: typer.Typer) -> set[str]:
    own = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return own | {str(group.name) for group in app.registered_groups}


def _missing(fault: ConfigError) -> Callable[..., None]:
    @reported
    def missing() -> None:
        """Of another distribution, and cannot be loaded."""
        raise fault

    return missing


@reported
def _reproduce_is_elsewhere() -> None:
    """Run an experiment of the five texts (in the distribution tacit-reproduction)."""
    raise ConfigError(
        "the texts' experiments are in a distribution of their own: `pip install tacit-reproduction`, or in a clone "
        "`pip install -e reproduction`"
    )
