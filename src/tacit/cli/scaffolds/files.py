"""New files of a scaffold: all of them or none, and never instead of one that is there."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.core.errors import ConfigError

WIDTH = 110


def write_new(files: Mapping[Path, str]) -> None:
    """Write files that are not there yet; if one is, or cannot be written, none is left behind."""
    refuse_existing(*files)
    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                written.append(path)
                file.write(text)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def refuse_existing(*paths: Path) -> None:
    """Refuse to write over anything."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise ConfigError(f"{path} is there already and is not overwritten; give another name, or move it away")


def toml(value: Any) -> str:
    """Return text, a number, a truth value or a list of these as TOML writes it."""
    return json.dumps(value, ensure_ascii=False)


def toml_key(name: str) -> str:
    """Return a key as TOML writes it: a name with dots is in quotes."""
    return toml(name) if "." in name else name


def comment(words: str) -> str:
    """Return words as comment lines."""
    return "\n".join(textwrap.wrap(" ".join(words.split()), WIDTH, initial_indent="# ", subsequent_indent="#   "))
