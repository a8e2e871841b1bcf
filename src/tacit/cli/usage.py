"""Messages about a command line that cannot be understood: the value, what was expected, and an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer


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
