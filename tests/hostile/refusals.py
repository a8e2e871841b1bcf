"""A refusal that costs nothing: an error of ours that names what it should, before memory was asked for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tacit.core.errors import TacitError

CHEAP = 48 * 2**20
"""Bytes that a refusal may take: libraries that it imports, and a buffer to read by."""


def refusal(action: Callable[..., Any], *arguments: Any, **settings: Any) -> str:
    """Return the words of a refusal, having seen that nothing large was allocated for it."""
    tracemalloc.start()
    try:
        with pytest.raises(TacitError) as caught:
            action(*arguments, **settings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < CHEAP, f"{peak / 2**20:.0f} MiB were taken before: {caught.value}"
    return str(caught.value)
