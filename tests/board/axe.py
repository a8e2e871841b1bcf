"""axe-core in a page of the board: faults of accessibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FOUND = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map((fault) =>
  `${fault.id} (${fault.impact}): ${fault.nodes.map((node) => `${node.target}: ${node.failureSummary}`).join("; ")}`)"""


def script() -> str:
    """Return axe-core; without its package the test is skipped."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra dev)")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Any, axe: str) -> list[str]:
    """Return what axe finds, of whatever weight; pages may have no scripts but the board's, so that this one is evaluated."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    found: list[str] = page.evaluate(FOUND)
    return found
