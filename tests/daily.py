"""Parameters of which some run every day, and all with `make test-slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(
    params: Iterable[Any], by: str, *, daily: Collection[str] | None = None, covered: Collection[str] = ()
) -> list[Any]:
    """Give all parameters; mark as covered by `by` those of `covered`, or those that `daily` leaves out.

    A parameter is known by its id, by its name, or as itself; a name that is none of theirs is refused.
    """
    each = [p if hasattr(p, "marks") else pytest.param(p) for p in params]
    names = [p.id or getattr(p.values[0], "name", p.values[0]) for p in each]
    if unknown := {*covered, *(daily or ())} - set(names):
        raise ValueError(f"no parameter is called {min(unknown)!r}; there are {', '.join(map(str, names))}")
    mark = pytest.mark.covered_by(by)
    left = set(covered) if daily is None else set(names) - set(daily)
    return [
        pytest.param(*p.values, marks=[*p.marks, mark], id=p.id) if name in left else p
        for name, p in zip(names, each, strict=True)
    ]
