"""Python files of the user's own that register algorithms: what `--with` runs, and a swarm's processes too."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tacit.errors import ConfigError


def import_file(file: Path) -> None:
    """Run a Python file as a module of its own; it may import what lies beside it, as a script may."""
    if not file.is_file():
        raise ConfigError(f"--with {file}: there is no such file; give a Python file that registers your algorithm")
    name = f"with_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--with {file}: expected a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # type hints are looked up there
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"--with {file}: {_where(error, file)}{type(error).__name__}: {error}") from error


def own_files(constructors: Iterable[Callable[..., Any]]) -> list[Path]:
    """Return the files of those constructors that are not the package's own."""
    own = [c for c in constructors if c.__module__.partition(".")[0] != "tacit"]
    return sorted({Path(inspect.getfile(constructor)).resolve() for constructor in own})


def _where(error: Exception, file: Path) -> str:
    """Say in which line of the file it went wrong."""
    lines = [step.lineno for step in traceback.extract_tb(error.__traceback__) if Path(step.filename) == file.resolve()]
    number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return "" if number is None else f"line {number}: "
