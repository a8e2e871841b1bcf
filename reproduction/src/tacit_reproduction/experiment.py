"""An experiment run again: claims with verdicts, figures, and the directory that holds them.

A claim of a text is put to the test as it stands. One that does not come out is reported as not holding, with
the numbers; it is never dropped, and nothing is tuned until it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Claim(NamedTuple):
    """One statement of a text and what was found."""

    claim: str
    holds: bool
    figure: str
    """The numbers behind the verdict, with intervals; where it fails, also the reason if one was found."""
    text: str = ""
    """Statement of the text, with its place: "93.28 % (table 5.1)"; empty for a question that the text does not ask."""
    seen_in: str = ""
    """Name of the figure that shows it; empty if only numbers do."""


def seen_in(figure: str, *claims: Claim, text: str = "") -> list[Claim]:
    """Return claims that a figure shows, with what the text has of them (unless they say so themselves)."""
    return [claim._replace(seen_in=claim.seen_in or figure, text=claim.text or text) for claim in claims]


class Figure(NamedTuple):
    """One picture."""

    name: str
    """Of the file, without its ending."""
    title: str
    caption: str
    png: bytes
    svg: str
    """To stand inside a page."""


class Table(NamedTuple):
    """One table of a report."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Findings(NamedTuple):
    """Results of an experiment."""

    claims: Sequence[Claim]
    metrics: dict[str, Any]
    """Numbers that depend on the seed and the machine only: no times, no paths."""
    data: dict[str, Any]
    """Description of the data."""
    method: Sequence[str]
    """The procedure, in paragraphs."""
    tables: Sequence[Table]
    figures: Sequence[Figure]


Investigation = Callable[[bool, int], Findings]
"""(quick, seed) -> findings."""


@dataclass(frozen=True)
class Experiment:
    """A text's experiment that can be run again."""

    name: str
    title: str
    source: str
    """Text and place, e.g. "OPS paper, sec. 5"."""
    run: Investigation


def reproducible(name: str, title: str, source: str, investigate: Investigation) -> Experiment:
    """Make an experiment of an investigation."""
    return Experiment(name, title, source, investigate)
