"""Limits on what an input may ask for: memory, and the number of rounds.

A few bytes can ask for any amount of memory: a zip archive of zeros, an edge list with one large number, a setting with
six zeros too many. Whatever reads or makes something says first what it will take, and is refused here. The limit is a
fixed number, not a share of the machine's memory, so that a file is refused everywhere or nowhere. Three ways raise it,
in GiB: `[run] memory = 16` in an experiment, `with tacit.limits.memory(16):` in Python, and the environment variable
TACIT_MEMORY for any command. Figures are estimates, which count the largest arrays alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tacit.core.errors import ConfigError, TacitError

DEFAULT_GIB, MOST_GIB = 4.0, 1e6
MOST_ROUNDS = 2**31 - 2
"""Rounds are counted in 32 bits."""
MOST_SEED = 2**63 - 2**32
"""Seeds are counted in 64 bits; what is left above is for the repeats, which count on from the seed."""
LARGEST_SETTINGS = 2**24
"""Bytes of a TOML file."""
VARIABLE = "TACIT_MEMORY"
GIB = 2**30

_asked_for: ContextVar[float | None] = ContextVar("tacit_memory", default=None)


@contextmanager
def memory(gib: float | None) -> Iterator[None]:
    """Let inputs ask for as much as this, instead of 4 GiB; None leaves the limit as it is.

    Args:
      gib: The new limit in GiB (2^30 bytes), above 0.

    Example:
      >>> import tacit
      >>> with tacit.limits.memory(16):
      ...     graph = tacit.graphs.ring(100)
    """
    token = _asked_for.set(_asked_for.get() if gib is None else _checked(gib, "memory"))
    try:
        yield
    finally:
        _asked_for.reset(token)


def limit() -> int:
    """Return the limit in force, in bytes."""
    asked = _asked_for.get()
    if asked is None:
        asked = _checked(os.environ.get(VARIABLE, DEFAULT_GIB), VARIABLE)
    return int(asked * GIB)


def refuse_beyond(wanted: float, what: str, error: type[TacitError] = ConfigError) -> None:
    """Refuse what would take more bytes than the limit; `what` begins the message."""
    if wanted > limit():
        raise error(
            f"{what}: that takes about {in_gib(wanted)}, and the limit is {in_gib(limit())}; ask for less, or "
            f"raise the limit: [run] memory = {_enough(wanted)} in an experiment, tacit.limits.memory(...) in Python, "
            f"or the environment variable {VARIABLE} (GiB)"
        )


def in_gib(size: float) -> str:
    """Return a size in words."""
    return f"{size / GIB:,.1f} GiB" if size < 1e6 * GIB else f"{float(min(size, 10**300)) / GIB:.0e} GiB"


def _enough(wanted: float) -> str:
    return f"{math.ceil(wanted / GIB) + 1}" if wanted < 1e6 * GIB else "..."


def _checked(gib: float | str, name: str) -> float:
    try:
        number = math.nan if isinstance(gib, bool) else float(gib)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= MOST_GIB:
        raise ConfigError(f"{name} = {gib!r}: expected a number of GiB above 0 and up to {MOST_GIB:,.0f}, e.g. 16")
    return number
