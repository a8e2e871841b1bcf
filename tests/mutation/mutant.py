"""One fault, and what a series of them in one module looks like."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    module: str
    """Path below src/tacit."""
    breaks: str
    """In words."""
    old: str
    """Stands in the module exactly once."""
    new: str
    tests: tuple[str, ...]
    """Files, or single tests (file::name), that should notice."""

    @property
    def name(self) -> str:
        return f"{self.stem}: {self.breaks}"

    @property
    def stem(self) -> str:
        return Path(self.module).stem

    def path(self, root: Path = ROOT) -> Path:
        return root / "src" / "tacit" / self.module

    def applied(self, source: str) -> str:
        """Return the module's text with the fault in it."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: expected {self.old!r} once in {self.module}, found it {count} times")
        return source.replace(self.old, self.new)

    def missing_tests(self, root: Path = ROOT) -> list[str]:
        """Return the tests that are named here and do not exist."""
        found = []
        for node in self.tests:
            file, _, test = node.partition("::")
            path = root / file
            if not path.is_file() or (test and not re.search(rf"^def {test}\(", path.read_text("utf-8"), re.M)):
                found.append(node)
        return found


def of(module: str, file: str, rows: Iterable[tuple[str, ...]]) -> tuple[Mutant, ...]:
    """Make mutants of one module from rows (what it breaks, old, new, test...); no test stands for the whole file."""
    return tuple(
        Mutant(module, breaks, old, new, tuple(test if "/" in test else f"{file}::{test}" for test in tests) or (file,))
        for breaks, old, new, *tests in rows
    )
