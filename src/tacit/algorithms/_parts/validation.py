"""Validation of constructor arguments."""

from __future__ import annotations

import math

from tacit.core.errors import ConfigError


def whole_number(name: str, value: int, meaning: str) -> int:
    """Return a count; refuse one that is no whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} = {value!r}: expected a whole number from 1 on, {meaning}")
    return value


def positive_number(name: str, value: float, meaning: str) -> float:
    """Return a number above 0; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} = {value!r}: expected a positive number, {meaning}")
    return float(value)


def fraction(name: str, value: float, meaning: str) -> float:
    """Return a number from 0 on and below 1; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"{name} = {value!r}: expected a number from 0 on and below 1, {meaning}")
    return float(value)
