"""Schemas of summary.json and config.toml of a run: results that are read back are checked against them first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tacit.core.errors import ResultError
from tacit.results.sealed import AGAIN, is_name

LONGEST_TEXT = 100_000
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1, lt=2**53)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rows = list[list[Number | None]]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


def refuse(words: str) -> PydanticCustomError:
    """Return the fault that a validator raises.

    Args:
      words: What is wrong.
    """
    return PydanticCustomError("unfit", "{words}", {"words": words})


class Figure(_Table):
    """A metric with its interval over the repeats."""

    mean: Number | None
    low: Number | None
    high: Number | None
    values: list[Number | None]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        known = [bound for bound in (self.low, self.mean, self.high) if bound is not None]
        if known != sorted(known) or (self.mean is None and known):
            raise refuse(f"low {self.low}, mean {self.mean}, high {self.high}, expected them in this order")
        return self


class Regret(_Table):
    """Regret curves."""

    rounds: list[Positive]
    per_agent_round: Rows
    one_node_per_agent_round: Rows | None
    comparator_gap: Number | None
    comparator_converged: bool

    @model_validator(mode="after")
    def _even(self) -> Self:
        for rows in (self.per_agent_round, self.one_node_per_agent_round or []):
            if any(len(row) != len(self.rounds) for row in rows):
                raise refuse(f"rows of other lengths than the {len(self.rounds)} rounds")
        if not self.per_agent_round or self.rounds != sorted(set(self.rounds)):
            raise refuse("expected a curve, and rounds in order")
        return self


class Privacy(_Table):
    """Privacy spent."""

    private: bool
    words: Text
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    delta: Annotated[float, Field(ge=0, lt=1)] | None
    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    theorem: Text
    unit: Text
    adjacency: Text
    composition: Text
    assumptions: list[Text]
    text_claims: Text
    holds: Text
    reads: Count | None
    public: list[Text]

    @model_validator(mode="after")
    def _told(self) -> Self:
        if self.private and (self.epsilon is None or self.delta is None):
            raise refuse("private, but epsilon or delta is not said")
        return self


class Timings(_Table):
    """Seconds."""

    seconds: Seconds
    compile_seconds: Seconds


class Reads(_Table):
    """How often records were read."""

    least: Count
    most: Count
    unread: Count
    records: Count | None


class Divergence(_Table):
    """Where a loss rose beyond that of a model that learns nothing."""

    model_config = ConfigDict(strict=True, extra="forbid")

    round: Positive
    repeats: Positive
    loss: Number | None
    untrained: Number | None


class Refused(_Table):
    """A method that could not run."""

    label: Text
    reason: Text


class OwnerScores(_Table):
    """Scores of one owner's model on its own held-out rows."""

    owner: Text
    rows: Count
    scores: dict[Text, Number | None]


class Evaluation(_Table):
    """Scores on held-out rows."""

    task: Literal["binary", "multiclass", "regression"]
    rows: Count
    how: Text
    shown: Literal["own", "each", "mean"]
    scores: dict[Literal["own", "each", "mean"], dict[Text, Figure]]
    constant: dict[Text, Figure]
    by_owner: list[OwnerScores]

    @model_validator(mode="after")
    def _there(self) -> Self:
        if self.shown not in self.scores:
            raise refuse(f"scores has no {self.shown}, which is to be shown")
        return self


class RunSummary(_Table):
    """summary.json of one run."""

    algorithm: Text
    label: Text
    metrics: dict[Text, Figure]
    score_name: Text | None
    regret: Regret | None
    privacy: Privacy
    references: dict[Text, Text] = {}
    reads: Reads | None = None
    constant: dict[Text, Figure] = {}
    evaluation: Evaluation | None = None
    timings: Timings
    versions: dict[Text, Text]
    objective: Text
    seed: Count
    rounds: Positive
    repeats: Positive
    agents: Positive
    dtype: Literal["float32", "float64"]
    graph: Text
    stream: Text
    partial: bool
    diverged: bool
    divergence: Divergence | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("average_loss", "bits_per_agent"):
            if name not in self.metrics:
                raise refuse(f"metrics has no {name}")
        bits = self.metrics["bits_per_agent"].mean
        if bits is None or bits < 0:
            raise refuse(f"metrics.bits_per_agent.mean is {bits}, expected a number from 0 on")
        judged = [] if self.evaluation is None else [*self.evaluation.scores.values(), self.evaluation.constant]
        figures = (figure for table in (self.metrics, self.constant, *judged) for figure in table.values())
        lengths = {len(figure.values) for figure in figures}
        lengths |= set() if self.regret is None else {len(self.regret.per_agent_round)}
        if lengths != {self.repeats}:
            raise refuse(f"metrics and regret have {lengths} values for {self.repeats} repeats")
        return self


class ComparisonSummary(_Table):
    """summary.json of several runs, of which each has a folder."""

    name: Text
    runs: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    refused: Annotated[list[Refused], Field(max_length=10_000)] = []

    @model_validator(mode="after")
    def _inside(self) -> Self:
        for name in self.runs:
            if not is_name(name):
                raise refuse(f"runs has {name[:80]!r}, expected names of folders beside it")
        return self


class _NamedRun(_Table):
    name: Text | None = None


class Settings(_Table):
    """Part of config.toml that is read."""

    run: _NamedRun = _NamedRun()
    algorithm: Annotated[list[dict[str, Any]], Field(min_length=1)] = [{}]


def check(kind: type[BaseModel], content: dict[str, Any], path: Path) -> None:
    """Refuse what does not fit, naming file and field."""
    try:
        kind.model_validate(content)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        missing = [_place(fault["loc"]) for fault in faults if fault["type"] == "missing"]
        if missing:
            words = f"has no {', '.join(missing[:12])}; it was written by another version or program, or changed"
        else:
            words = f"{_place(faults[0]['loc'])}: {faults[0]['msg']}; found {str(faults[0]['input'])[:60]!r}"
        raise ResultError(f"{path} {words}: {AGAIN}") from error


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:60] for part in location) or "all of it"
