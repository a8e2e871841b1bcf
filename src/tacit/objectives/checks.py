"""Checks of the numbers that constructors take."""

from __future__ import annotations

import math

from tacit.core.errors import ConfigError


def nonnegative(name: str, value: float, remedy: str) -> float:
    """Return `value` as a float, or refuse it when it is not a finite number >= 0."""
    number = _number(name, value, "a finite number >= 0", remedy)
    if not (math.isfinite(number) and number >= 0):
        raise ConfigError(f"{name} = {value!r}: expected a finite number >= 0; {remedy}")
    return number


LARGEST = 1e38
"""Below it a number is one of single precision."""


def positive(name: str, value: float, remedy: str) -> float:
    """Return `value` as a float, or refuse it when it is not a finite number > 0, in single precision too."""
    number = _number(name, value, "a finite number > 0", remedy)
    if not 0 < number < LARGEST:
        raise ConfigError(f"{name} = {value!r}: expected a finite number > 0, below {LARGEST:.0e}; {remedy}")
    return number


def bound(name: str, value: float, remedy: str) -> float:
    """Return `value` as a float, infinities included, or refuse it when it is not a number."""
    number = _number(name, value, "a number, or an infinity for no bound", remedy)
    if math.isnan(number):
        raise ConfigError(f"{name} = {value!r}: expected a number, or an infinity for no bound; {remedy}")
    return number


def _number(name: str, value: float, expected: str, remedy: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} = {value!r}: expected {expected}; {remedy}") from error
