"""Python files of the user's own that register algorithms, run by `--with` and by a swarm's processes.

Their content decides what is released as much as a job's settings do, and so does the package's version. `Program` is
both, and goes into the hash on which the members of a job agree. A file counts by its bytes, wherever it lies.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tacit import version
from tacit.core.errors import ConfigError

_LOADED: dict[Path, str] = {}
"""File that `--with` has run, or that one of these imports from beside it -> digest of what it held then."""


class Program(NamedTuple):
    """The code that runs a job."""

    version: str
    """Of this package."""
    code: tuple[tuple[str, str], ...]
    """Name and digest of every file of the user's own."""

    def facts(self) -> dict[str, Any]:
        """Return what two members compare: a file is its content, whatever it is called."""
        return {"tacit": self.version, "code": sorted({digest for _, digest in self.code})}


def program(constructors: Iterable[Callable[..., Any]]) -> Program:
    """Return the code that runs a job made by these constructors: every file given by `--with`, and theirs."""
    files = dict(_LOADED)
    for constructor in constructors:
        for file in own_files([constructor]):
            if file not in files:
                try:
                    files[file] = _digest(file.read_bytes())
                except OSError as error:
                    raise ConfigError(
                        f"{constructor.__name__!r}: its source {file.name!r} cannot be read, so that members could not "
                        "agree on it; put it into a file, and give that by --with or import it"
                    ) from error
    return Program(version.__version__, tuple(sorted((file.name, digest) for file, digest in files.items())))


@functools.cache
def package_digest() -> str:
    """Return a digest of all source of this package, as it lay on the disk when it was first asked for."""
    return digest_of(Path(version.__file__).parent)


def digest_of(folder: Path) -> str:
    """Return a digest of all Python files under a folder, by their names and contents."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        total.update(f"{file.relative_to(folder).as_posix()} {_digest(file.read_bytes())}\n".encode())
    return total.hexdigest()


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
    source = file.read_bytes()
    try:
        exec(compile(source, spec.origin or file, "exec", dont_inherit=True), module.__dict__)  # no cached bytes
    except Exception as error:
        raise ConfigError(f"--with {file}: {_where(error, file)}{type(error).__name__}: {error}") from error
    _LOADED.update({beside: _digest(beside.read_bytes()) for beside in _imported_from(file.parent.resolve())})
    _LOADED[file.resolve()] = _digest(source)


def own_files(constructors: Iterable[Callable[..., Any]]) -> list[Path]:
    """Return the files of those constructors that are not the package's own."""
    own = [c for c in constructors if c.__module__.partition(".")[0] != "tacit"]
    return sorted({Path(inspect.getfile(constructor)).resolve() for constructor in own})


def _imported_from(folder: Path) -> list[Path]:
    """Return the files of imported modules that lie in a folder under their own name."""
    found = []
    for name, module in list(sys.modules.items()):
        place, file = folder.joinpath(*name.split(".")), getattr(module, "__file__", None)
        if file is not None and Path(file) in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            found.append(Path(file))
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _where(error: Exception, file: Path) -> str:
    """Say in which line of the file it went wrong."""
    lines = [step.lineno for step in traceback.extract_tb(error.__traceback__) if Path(step.filename) == file.resolve()]
    number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return "" if number is None else f"line {number}: "
