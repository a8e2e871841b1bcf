"""Commands that other distributions add (entry points of the group `tacit.commands`)."""

from __future__ import annotations

import typer

from tacit.cli.common import reported
from tacit.config.extensions import Extensions
from tacit.core.errors import ConfigError


def add_extensions(app: typer.Typer) -> None:
    """Add every command that is installed; `reproduce` says how to get it where it is not."""
    commands = Extensions("tacit.commands")
    for name in sorted(commands):
        command = commands[name]
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name=name, epilog=getattr(command, "epilog", None))(command)
    if "reproduce" not in commands:
        app.command(name="reproduce", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(
            _reproduce_is_elsewhere
        )


@reported
def _reproduce_is_elsewhere() -> None:
    """Run an experiment of the five texts (in the distribution tacit-reproduction)."""
    raise ConfigError(
        "the texts' experiments are in a distribution of their own: `pip install tacit-reproduction`, or in a clone "
        "`pip install -e reproduction`"
    )
