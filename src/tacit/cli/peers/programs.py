"""Compiled programs of a peer, kept on its disk from one start to the next.

What lies there is executed: whoever can write into the folder acts as the peer. So it belongs to the peer's user alone,
or it is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import zlib
from pathlib import Path

from tacit.core.errors import ConfigError

MOST_BYTES = 2**26
"""Of all programs that are kept; beyond it they are removed, and compiled anew."""


def keep_programs(folder: Path) -> None:
    """Have JAX keep what it compiles in a folder; where it has one by its own setting, that one stays.

    Args:
      folder: Made if it is not there. One that others can write into, or that cannot be made, is a ConfigError.
    """
    import jax

    given = jax.config.values
    if given["jax_compilation_cache_dir"] or not given["jax_enable_compilation_cache"]:
        return
    own = folder / hashlib.sha256(f"{jax.__version__} {_processor()}".encode()).hexdigest()[:16]
    try:
        _make(folder)
        for other in set(folder.iterdir()) - {own}:
            shutil.rmtree(other)  # of another version of JAX, or of another processor
        _make(own)
        if sum(path.stat().st_size for path in own.iterdir()) > MOST_BYTES:
            shutil.rmtree(own)
            _make(own)
        for path in own.iterdir():
            if _torn(path.read_bytes()):
                path.unlink()
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; give it to the peer's user, or remove it") from error
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{folder}: what lies there is executed, and others than the peer's user can reach it; remove it"
        )


def _processor() -> str:
    """Return what tells apart processors that do not run each other's programs, as far as the system says it."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return os.uname().machine


def _torn(content: bytes) -> bool:
    """Whether a program was not written to its end: JAX would complain of it at every start, and not replace it."""
    try:
        if content[:1] == b"x":  # else by Zstandard, where that is installed
            zlib.decompress(content)
    except zlib.error:
        return True
    return not content.strip(b"\0")
