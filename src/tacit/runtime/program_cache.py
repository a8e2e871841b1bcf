"""Compiled programs on disk, where the next process finds those of the same shapes.

The cache is JAX's own. `keep_programs` gives it a folder where nobody else has: what was set for JAX
(`jax_compilation_cache_dir`) stays, and `JAX_ENABLE_COMPILATION_CACHE=false` switches it off.

What lies there is executed: whoever can write into the folder acts as this user. So it belongs to the user alone, or it
is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
import zlib
from pathlib import Path

import jax

from tacit.core.errors import ConfigError

LIMIT = 2**28
"""Bytes of programs that are kept; those written first go first."""
SHORTEST = 0.0
"""Seconds that a program took to compile, at least; JAX keeps those of a second. See docs/performance.md."""
THEIR_SHORTEST = 1.0
"""What JAX has where nobody set it."""
ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""What a frame of it begins with."""
CHECKED = ".checked"
"""File whose time tells which programs were looked at."""


def keep_programs(folder: Path | None = None) -> Path | None:
    """Have JAX keep compiled programs in a folder, from now on in this process.

    Args:
      folder: By default that of the user's cache, where one can be used.

    Returns:
      Where they are; None where programs are kept elsewhere or not at all: JAX was told so, or the user's cache cannot
      be used.

    Raises:
      ConfigError: The folder cannot be made or written, or others than the user can reach it.

    Example:
      >>> import jax
      >>> jax.config.update("jax_enable_compilation_cache", False)
      >>> keep_programs() is None
      True
    """
    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] is not None or not settings["jax_enable_compilation_cache"]:
        return None
    try:
        own = _own_folder(cache_folder() / "programs" if folder is None else folder)
        _remove_torn(own)
        _make_room(own)
    except (OSError, RuntimeError, ConfigError) as error:  # RuntimeError: the user has no home
        if folder is None:
            return None
        why = error if isinstance(error, ConfigError) else f"{folder}: {error}; give it to the user who runs this"
        raise ConfigError(f"{why}, or remove it") from error
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(own))
    if settings["jax_persistent_cache_min_compile_time_secs"] == THEIR_SHORTEST:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    compilation_cache.reset_cache()  # whatever was compiled before has settled that there is none
    _hush()
    return own


def _own_folder(folder: Path) -> Path:
    """Make the folder of this kind of processor: homes are shared, and a program for one may not run on another."""
    own = folder / _machine()
    for each in (folder, own):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
            raise ConfigError(f"{each}: what lies there is executed, and it is not a folder of this user")
        if os.name == "posix" and found.st_mode & 0o077:
            raise ConfigError(f"{each}: what lies there is executed, and others can reach it; set its mode to 700")
    return own


def _hush() -> None:
    """Keep XLA from calling every program that it loads for a CPU a danger, for tuning flags that no CPU lists.

    It does so in lines of kilobytes (jax-ml/jax#38445, openxla/xla#44565). Errors of XLA are exceptions besides.
    """
    if jax.config.values["jax_logging_level"] == "NOTSET" and os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "1":
        for level in ("CRITICAL", "NOTSET"):  # 1 is JAX's own choice; NOTSET leaves the level of C++ as it is
            jax.config.update("jax_logging_level", level)


def cache_folder() -> Path:
    """Return the folder of this user for what can be made anew, as the platform has it."""
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "tacit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tacit"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "tacit"


def _machine() -> str:
    """Name the kind of processor, as far as the system says it."""
    about = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):  # another system
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        about += sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _remove_torn(folder: Path) -> None:
    """Remove programs that were not written to their end: JAX would complain of each at every start, and keep it."""
    mark = folder / CHECKED
    since = mark.stat().st_mtime if mark.exists() else 0.0
    for file, about in _files(folder).items():
        with contextlib.suppress(FileNotFoundError):
            if file.parent == folder and about.st_mtime >= since and _is_torn(file.read_bytes()):
                file.unlink(missing_ok=True)
    mark.touch()


def _files(folder: Path) -> dict[Path, os.stat_result]:
    """Return the programs, and what XLA keeps beside them for a GPU, in folders of its own; others may remove some."""
    found = {}
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            about = file.stat()
            if stat.S_ISREG(about.st_mode) and file.name != CHECKED:
                found[file] = about
    return found


def _is_torn(content: bytes) -> bool:
    try:
        if content[:1] == b"x":
            zlib.decompress(content)
    except zlib.error:
        return True
    return _lacks_blocks(content) if content.startswith(ZSTANDARD) else not content.strip(b"\0")


def _lacks_blocks(content: bytes) -> bool:
    """Whether a frame of Zstandard ends before its last block (RFC 8878): JAX writes these where that is installed."""
    flags = content[len(ZSTANDARD)] if len(content) > len(ZSTANDARD) else 0
    one_segment, checked, size = flags >> 5 & 1, flags >> 2 & 1, flags >> 6
    at = len(ZSTANDARD) + 2 - one_segment + (0, 1, 2, 4)[flags & 3] + (one_segment, 2, 4, 8)[size]
    while at + 3 <= len(content):
        block = int.from_bytes(content[at : at + 3], "little")
        repeated = block >> 1 & 3 == 1
        at += 3 + (1 if repeated else block >> 3)
        if block & 1:
            return at + 4 * checked > len(content)
    return True


def _make_room(folder: Path) -> None:
    found = sorted((about.st_mtime, about.st_size, file) for file, about in _files(folder).items())
    excess = sum(size for _, size, _ in found) - LIMIT
    for _, size, file in found:
        if excess <= 0:
            return
        file.unlink(missing_ok=True)
        excess -= size
