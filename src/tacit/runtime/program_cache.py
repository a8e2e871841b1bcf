"""Compiled programs on disk, where the next process finds those of the same shapes.

The cache is JAX's own. `keep_programs` gives it a folder where nobody else has: what was set for JAX
(`jax_compilation_cache_dir`) stays, and `JAX_ENABLE_COMPILATION_CACHE=false` switches it off.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

import jax

LIMIT = 2**29
"""Bytes of programs that are kept; those written first go first."""
SHORTEST = 0.0
"""Seconds that a program took to compile, at least; JAX keeps those of a second. See docs/performance.md."""
THEIR_SHORTEST = 1.0
"""What JAX has where nobody set it."""


def keep_programs() -> Path | None:
    """Have JAX keep compiled programs in the user's cache folder, from now on in this process.

    Returns:
      The folder; None where programs are kept elsewhere or not at all: JAX was told so, or nothing can be written.

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
        folder = cache_folder() / "programs" / _machine()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return None
        _make_room(folder)
    except (OSError, RuntimeError):  # no folder can be made, or the user has no home
        return None
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(folder))
    if settings["jax_persistent_cache_min_compile_time_secs"] == THEIR_SHORTEST:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    compilation_cache.reset_cache()  # whatever was compiled before has settled that there is none
    _hush()
    return folder


def _hush() -> None:
    """Keep XLA from calling every program that it loads for a CPU a danger, for tuning flags that no CPU lists.

    It does so in lines of kilobytes (jax-ml/jax#38445, openxla/xla#44565). Errors of XLA are exceptions besides.
    """
    if (
        jax.config.values["jax_logging_level"] == "NOTSET" and os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "1"
    ):  # JAX's own choice
        for level in ("CRITICAL", "NOTSET"):  # the latter leaves the level of C++ as it is
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
    """Name the kind of processor: homes are shared, and a program for one kind may not run on another."""
    about = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        about += sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    except OSError:  # another system
        pass
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _make_room(folder: Path) -> None:
    found = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in folder.iterdir() if file.is_file())
    excess = sum(size for _, size, _ in found) - LIMIT
    for _, size, file in found:
        if excess <= 0:
            return
        file.unlink(missing_ok=True)
        excess -= size
