"""Summary of a study, `summary.json`: how it is read back, and whether it is of the code and the data that are here."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tacit.config.own_code import digest_of, package_digest
from tacit.results import schema
from tacit.results.pages.panels import HIGHEST
from tacit.results.record import versions
from tacit.results.sealed import FILES, SUMMARY, Sealed, settled
from tacit_reproduction.datasets.fetch import search_path
from tacit_reproduction.datasets.looked_for import digests
from tacit_reproduction.verdict import Outcome, Verdict

OUTCOMES = "outcomes.npz"
"""File of the table of outcomes."""
Text = schema.Text
Numbers = list[Annotated[float, Field(ge=-HIGHEST, le=HIGHEST)] | None]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Claim(_Part):
    claim: Text
    holds: bool
    figure: Text
    headline: Text
    verdict: Verdict | None
    text: Text
    ours: bool
    seen_in: str
    outcome: Outcome


class _Headline(_Part):
    headline: Text
    verdict: Verdict
    place: Text
    text: Text
    ours: Text
    why: Text
    seen_in: str
    settings: dict[str, Outcome]


class _Line(_Part):
    label: Text
    at: Numbers
    mean: Numbers
    low: Numbers | None = None
    high: Numbers | None = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        if {len(values) for values in (self.mean, self.low, self.high) if values is not None} != {len(self.at)}:
            raise schema.refuse(f"{self.label!r}: as many values as places are expected")
        return self


class _Panel(_Part):
    title: Text
    lines: list[_Line]


class _Axes(_Part):
    x: Text
    y: Text
    log_x: bool
    log_y: bool
    names: list[Text]


class _Figure(_Part):
    name: str
    title: Text
    caption: Text
    axes: _Axes
    panels: list[_Panel]
    joined: bool

    @model_validator(mode="after")
    def _named(self) -> Self:
        places = {at for panel in self.panels for line in panel.lines for at in line.at}
        if self.axes.names and not places <= set(range(len(self.axes.names))):
            raise schema.refuse(f"{self.name!r}: places beyond the {len(self.axes.names)} names of its axis")
        return self


class _Cells(_Part):
    columns: list[Text]
    rows: list[list[Text]]


class _Made(_Part):
    code: str
    data: dict[str, str | None]


class _Summary(_Part):
    experiment: Text
    title: Text
    source: Text
    claims: list[_Claim]
    headlines: list[_Headline]
    figures: list[_Figure]
    table: _Cells
    method: list[Text]
    data: Text
    quick: bool
    seed: schema.Count
    seconds: schema.Seconds
    date: Text
    machine: Text
    versions: dict[str, str]
    made_of: _Made


def read(directory: Path) -> dict[str, Any]:
    """Read the summary of a study."""

    def summary_of(files: Sealed) -> dict[str, Any]:
        summary = {key: value for key, value in files.summary.items() if key != FILES}
        schema.check(_Summary, summary, files.folder / SUMMARY)
        return summary

    return settled(directory, summary_of)


def outcomes(directory: Path) -> bytes:
    """Read the table of outcomes of a study as it is stored, having seen that it belongs to the summary."""
    return settled(directory, lambda files: files.file(OUTCOMES))


@functools.cache
def code_digest() -> str:
    """Return a digest of the source of tacit and of the reproduction, as it was when first asked for."""
    own = digest_of(Path(__file__).parent)
    return hashlib.sha256(f"{package_digest()} {own}".encode()).hexdigest()


def is_current(summary: Mapping[str, Any]) -> bool:
    """Whether the code, the versions and the data files that a summary came from are those that are here now."""
    here = {"code": code_digest(), "data": digests(summary["made_of"]["data"], search_path())}
    return bool(summary["versions"] == versions() and summary["made_of"] == here)


def command(summary: Mapping[str, Any]) -> str:
    """Return the command line that makes these results again."""
    quick = ["--quick"] if summary["quick"] else []
    return " ".join(["tacit reproduce", summary["experiment"], *quick, f"--seed {summary['seed']}"])
