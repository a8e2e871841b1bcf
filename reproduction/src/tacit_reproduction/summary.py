"""Summary of a study, `summary.json`: how it is read back, and whether it is of the code and the data that are here."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, create_model, model_validator

from tacit.config.own_code import digest_of, package_digest
from tacit.results import schema
from tacit.results.pages.panels import HIGHEST
from tacit.results.record import versions
from tacit.results.sealed import FILES, SUMMARY, settled
from tacit_reproduction.datasets.fetch import digests, search_path
from tacit_reproduction.verdict import Outcome, Verdict

OUTCOMES = "outcomes.npz"  # file of the table of outcomes
Text = schema.Text
Numbers = list[Annotated[float, Field(ge=-HIGHEST, le=HIGHEST)] | None]


def _part(name: str, check: Callable[[Any], Any] | None = None, /, **fields: Any) -> Any:
    """Return the schema of a table with these fields, which may be given with a default, and perhaps others."""
    known: dict[str, Any] = {key: kind if isinstance(kind, tuple) else (kind, ...) for key, kind in fields.items()}
    checks: dict[str, Any] = {} if check is None else {"check": model_validator(mode="after")(check)}
    return create_model(name, __config__=ConfigDict(extra="allow", strict=True), __validators__=checks, **known)


def _even(line: Any) -> Any:
    if {len(values) for values in (line.mean, line.low, line.high) if values is not None} != {len(line.at)}:
        raise schema.refuse(f"{line.label!r}: as many values as places are expected")
    return line


def _placed(figure: Any) -> Any:
    places = {at for panel in figure.panels for line in panel.lines for at in line.at}
    if figure.axes.names and not places <= set(range(len(figure.axes.names))):
        raise schema.refuse(f"{figure.name!r}: places beyond the {len(figure.axes.names)} names of its axis")
    return figure


_several = list.__class_getitem__
_CLAIM = _part(
    "claim", claim=Text, holds=bool, figure=Text, headline=Text, verdict=Verdict | None, text=Text, ours=bool,
    seen_in=str, outcome=Outcome)  # fmt: skip
_HEADLINE = _part(
    "headline", headline=Text, verdict=Verdict, detail=Text, place=Text, text=Text, ours=Text, why=Text, seen_in=str,
    settings=dict[str, Outcome])  # fmt: skip
_BOUND = (Numbers | None, None)
_LINE = _part("line", _even, label=Text, at=Numbers, mean=Numbers, low=_BOUND, high=_BOUND)
_PANEL = _part("panel", title=Text, lines=_several(_LINE))
_AXES = _part("axes", x=Text, y=Text, log_x=bool, log_y=bool, names=list[Text])
_FIGURE = _part(
    "figure", _placed, name=str, title=Text, caption=Text, axes=_AXES, panels=_several(_PANEL), joined=bool
)  # fmt: skip
_SUMMARY = _part(
    "summary", experiment=Text, title=Text, source=Text, claims=_several(_CLAIM), headlines=_several(_HEADLINE),
    figures=_several(_FIGURE), table=_part("table", columns=list[Text], rows=list[list[Text]]), method=list[Text],
    data=Text, quick=bool, seed=schema.Count, seconds=schema.Seconds, date=Text, machine=Text, versions=dict[str, str],
    made_of=_part("made_of", code=str, data=dict[str, str | None]))  # fmt: skip


def read(directory: Path) -> dict[str, Any]:
    """Read the summary of a study."""

    summary = settled(directory, lambda files: {key: value for key, value in files.summary.items() if key != FILES})
    schema.check(_SUMMARY, summary, directory / SUMMARY)
    return summary


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
