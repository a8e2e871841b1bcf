"""Checks of settings, refused in one form: NAME = VALUE: expected ...; REMEDY.

A check returns the setting as a plain number. What is no number (a bool, text, a table) is refused like one that is out
of range. A number that JAX traces has no value to be checked: it is taken as it is, and whoever traces checks values.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from tacit.core.errors import ConfigError, nearest

LARGEST = 2**63 - 1
"""Whole number that is taken anywhere."""
SINGLE = 1e38
"""Below it a number is one of single precision."""


def whole_number(name: str, value: Any, remedy: str = "", *, least: int = 1, most: int = LARGEST) -> int:
    """Return a whole number from `least` to `most`.

    Example:
      >>> whole_number("rounds", 3)
      3
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        limits = f"of at least {least}" if most == LARGEST > number else f"from {least} to {most:,}"
        _refuse(name, value, f"a whole number {limits}", remedy)
    return number


def positive(name: str, value: Any, remedy: str = "", *, most: float = math.inf) -> float:
    """Return a finite number above 0, and up to `most` where that is finite."""
    if _is_traced(value):
        return value  # type: ignore[no-any-return]
    found = number(value)
    if not (0 < found < math.inf and found <= most):
        _refuse(name, value, "a finite number above 0" + (f", up to {most:g}" if most < math.inf else ""), remedy)
    return found


def nonnegative(name: str, value: Any, remedy: str = "") -> float:
    """Return a finite number from 0 on."""
    if _is_traced(value):
        return value  # type: ignore[no-any-return]
    found = number(value)
    if not 0 <= found < math.inf:
        _refuse(name, value, "a finite number from 0 on", remedy)
    return found


def proportion(name: str, value: Any, remedy: str = "", *, zero: bool = False, one: bool = False) -> float:
    """Return a number between 0 and 1.

    Example:
      >>> proportion("momentum", 0, zero=True)
      0.0
    """
    if _is_traced(value):
        return value  # type: ignore[no-any-return]
    found = number(value)
    if not (0 < found < 1 or (zero and found == 0) or (one and found == 1)):
        low, high = "from 0 on" if zero else "above 0", "at most 1" if one else "below 1"
        _refuse(name, value, f"a number {low} and {high}", remedy)
    return found


def bound(name: str, value: Any, remedy: str = "") -> float:
    """Return a number or an infinity."""
    if _is_traced(value):
        return value  # type: ignore[no-any-return]
    found = number(value)
    if math.isnan(found):
        _refuse(name, value, "a number, or an infinity for no bound", remedy)
    return found


def one_of(name: str, value: Any, known: Iterable[str], remedy: str = "") -> None:
    """Refuse a word that is none of those known."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        guess = nearest(value, words) if isinstance(value, str) else ""
        _refuse(name, value, f"one of {', '.join(words)}", remedy, guess)


def number(value: Any) -> float:
    """Return a number as a float, and NaN for anything else."""
    try:
        return math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_traced(value: Any) -> bool:
    """Whether a value is a number of a program that is being traced; without JAX there is none."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer) and not value.shape


def _refuse(name: str, value: Any, expected: str, remedy: str, guess: str = "") -> NoReturn:
    raise ConfigError(f"{name} = {value!r}: {guess}expected {expected}" + (f"; {remedy}" if remedy else ""))
