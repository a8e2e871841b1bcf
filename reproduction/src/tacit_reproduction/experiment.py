"""An experiment run again: claims with verdicts, figures, and the directory that holds them.

A claim of a text is put to the test as it stands. One that does not come out is reported as not holding, with
the numbers; it is never dropped, and nothing is tuned until it holds.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tacit.config.own_code import digest_of, package_digest
from tacit.core.errors import TacitError
from tacit.results import schema
from tacit.results.locks import writing
from tacit.results.record import machine, versions
from tacit.results.sealed import FILES, SUMMARY, Sealed, put, seal, settled
from tacit.results.store import REPORT
from tacit.results.svg import check_svg
from tacit_reproduction.datasets.fetch import search_path
from tacit_reproduction.datasets.looked_for import digests, looked_for


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
    run: Callable[[bool, Path, int], dict[str, Any]]
    """(quick, out, seed) -> the summary, which is also written to out/summary.json."""


def reproducible(name: str, title: str, source: str, investigate: Investigation) -> Experiment:
    """Make an experiment of an investigation: time it and write its directory."""

    def run(quick: bool, out: Path, seed: int) -> dict[str, Any]:
        with writing(out):
            begun = time.perf_counter()
            code = code_digest()
            findings = investigate(quick, seed)
            summary = summarise(experiment, findings, quick, seed, time.perf_counter() - begun, code)
            write(findings, summary, out)
        return summary

    experiment = Experiment(name, title, source, run)
    return experiment


def summarise(
    experiment: Experiment, findings: Findings, quick: bool, seed: int, seconds: float, code: str
) -> dict[str, Any]:
    """Return what summary.json holds: all of the findings but the pictures, and where they come from."""
    _check_pictures(findings)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "claims": [claim._asdict() for claim in findings.claims],
        "metrics": findings.metrics,
        "data": findings.data,
        "method": list(findings.method),
        "tables": [table._asdict() for table in findings.tables],
        "figures": [{"name": f.name, "title": f.title, "caption": f.caption} for f in findings.figures],
        "quick": quick,
        "seed": seed,
        "seconds": round(seconds, 2),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "made_of": {"code": code, "data": digests(looked_for(), search_path())},
    }


@functools.cache
def code_digest() -> str:
    """Return a digest of the source of tacit and of the reproduction, as it was when first asked for."""
    own = digest_of(Path(__file__).parent)
    return hashlib.sha256(f"{package_digest()} {own}".encode()).hexdigest()


def is_current(summary: dict[str, Any]) -> bool:
    """Whether the code, the versions and the data files that a summary came from are those that are here now."""
    here = {"code": code_digest(), "data": digests(summary["made_of"]["data"], search_path())}
    return bool(summary["versions"] == versions() and summary["made_of"] == here)


def command(summary: dict[str, Any], out: Path) -> str:
    """Return the command line that makes this directory again."""
    quick = ["--quick"] if summary["quick"] else []
    parts = ["tacit reproduce", summary["experiment"], *quick, f"--seed {summary['seed']}", f"--out {out}"]
    return " ".join(parts)


def write(findings: Findings, summary: dict[str, Any], out: Path) -> None:
    """Write summary.json, report.html and the plots, whole or not at all."""
    from tacit_reproduction.page import page

    pictures = {figure.name: figure.svg for figure in findings.figures}
    text = page(summary, pictures, command(summary, out))
    files = {
        **{f"{figure.name}.png": figure.png for figure in findings.figures},
        **{f"{figure.name}.svg": figure.svg.encode("utf-8") for figure in findings.figures},
        REPORT: text.encode("utf-8"),
    }
    put(out, seal(files, summary))


def read(directory: Path) -> dict[str, Any]:
    """Read the summary of an experiment, having seen that its pictures belong to it and can stand in a page."""
    return settled(directory, _summary_of)


def pictures_of(directory: Path, summary: dict[str, Any]) -> dict[str, str]:
    """Read the SVGs of the figures that a summary names."""
    return settled(directory, lambda files: _pictures_of(files, summary))


def _summary_of(files: Sealed) -> dict[str, Any]:
    summary = {key: value for key, value in files.summary.items() if key != FILES}
    schema.check(schema.ExperimentSummary, summary, files.folder / SUMMARY)
    _pictures_of(files, summary)
    return summary


def _pictures_of(files: Sealed, summary: dict[str, Any]) -> dict[str, str]:
    names = [figure["name"] for figure in summary["figures"]]
    return {name: check_svg(files.file(f"{name}.svg"), files.folder / f"{name}.svg") for name in names}


def _check_pictures(findings: Findings) -> None:
    drawn = {figure.name for figure in findings.figures}
    for claim in findings.claims:
        if claim.seen_in and claim.seen_in not in drawn:
            raise TacitError(
                f"the claim {claim.claim!r} is said to be seen in {claim.seen_in!r}; expected a figure of this "
                f"experiment: {', '.join(sorted(drawn))}"
            )
