"""Defaults as `tacit algorithms` lists them."""

from __future__ import annotations

import inspect

from tacit.algorithms import inverse_sqrt
from tacit.cli.algorithms import _parameter


def own_schedule(t):
    return 1.0 / t


def test_a_schedule_is_called_by_the_function_that_made_it():
    def listed(default: object) -> object:
        kind = inspect.Parameter.KEYWORD_ONLY
        return _parameter("step", inspect.Parameter("step", kind, default=default), None)["default"]

    assert [listed(inverse_sqrt(0.5)), listed(own_schedule), listed(0.5)] == ["inverse_sqrt", "own_schedule", 0.5]
