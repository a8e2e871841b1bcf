"""Several runs on one problem, side by side."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import ResultError
from tacit.results import store
from tacit.results.pages.held_out import HeldOutTable, held_out_table
from tacit.results.plots import draw_overview
from tacit.results.record import Record, Refusal, figure, with_interval
from tacit.results.references import ALONE, findings, headline, uncompared
from tacit.results.sealed import SUMMARY, Sealed, put, seal, settled

SAME_PROBLEM = ("stream", "objective", "agents", "rounds", "repeats", "seed")
"""Facts of a run that must agree before figures can be compared."""


NOT_COMPARED = (
    "was not compared with the same without noise, with agents that stay alone or with a constant: tacit.compare does "
    "so in Python, and references = true in [run] of a file"
)
LONGEST_NAME = 80
"""Letters of a folder's name."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of several algorithms, to be shown in one table and in common plots.

    Example:
      >>> import tacit
      >>> graph, stream = tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3)
      >>> logistic = tacit.objectives.logistic()
      >>> methods = (tacit.algorithms.online_push_sum, tacit.algorithms.local_online)
      >>> runs = [tacit.simulate(method(logistic), graph, stream, rounds=5) for method in methods]
      >>> comparison = tacit.results.Comparison(tuple(run.record() for run in runs))
      >>> [row[0] for row in comparison.rows()]
      ['online_push_sum', 'local_online']
    """

    records: tuple[Record, ...]
    """The runs, in order."""
    name: str = "comparison"
    """Title of the report."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The experiment that they come from, where there is one: the config.toml of the directory."""
    refused: tuple[Refusal, ...] = ()
    """Methods of the experiment that could not run."""

    def __post_init__(self) -> None:
        if not self.records:
            raise ResultError("a comparison of no runs: give at least one")

    @classmethod
    def load(cls, directories: Iterable[str | os.PathLike[str]], name: str = "comparison") -> Comparison:
        """Read run directories; one that holds several runs brings them all.

        Args:
          directories: Directories that `save` or `tacit run` wrote.
          name: Title of the report.
        """
        found = [(str(each), *settled(Path(each), _content_of)) for each in directories]
        return cls(
            tuple(replace(record, beside=place) for place, records, _ in found for record in records),
            name,
            refused=tuple(refusal for *_, refused in found for refusal in refused),
        )

    @property
    def partial(self) -> bool:
        """Whether a run among them was interrupted."""
        return any(record.summary["partial"] for record in self.records)

    def differences(self) -> list[str]:
        """Say in what the runs differ besides the algorithm; where this is not empty, compare with care."""
        sentences = []
        for key in SAME_PROBLEM:
            found = {str(record.summary[key]) for record in self.records}
            if len(found) > 1:
                sentences.append(f"they differ in {key}: {'; '.join(sorted(found))}")
        return sentences

    def headline(self) -> str:
        """Say in one sentence who won, and what it cost in privacy and in bits."""
        return headline(self.records, self.differences())

    def sentences(self) -> list[str]:
        """Say of each private run who won: it, the same without noise, agents that stay alone, or a constant."""
        return [
            *(finding.sentence() for finding in findings(self.records, SAME_PROBLEM)),
            *(f"{record.label}, with {record.privacy}, {NOT_COMPARED}." for record in uncompared(self.records)),
        ]

    def cautions(self) -> list[str]:
        """Say which runs diverged, and which private ones are worse than a constant or than staying alone."""
        alone = {record.summary.get("references", {}).get(ALONE) for record in self.records}  # noise that nobody shares
        return [
            *(words for each in self.records if each.label not in alone and (words := each.divergence) is not None),
            *(words for finding in findings(self.records, SAME_PROBLEM) for words in finding.cautions()),
        ]

    def refusals(self) -> list[str]:
        """Say which methods could not run, and why."""
        return [f"{each.label} was refused: {each.reason}" for each in self.refused]

    def columns(self) -> tuple[str, ...]:
        """Return the titles of the table."""
        private = ("noise / signal; clipped",) if self._has_private else ()
        return (
            "algorithm",
            f"average loss{self._training}",
            f"{self._score_name or 'score'}{self._training}",
            *([f"held-out {self.held_out.first}"] if self.held_out else []),
            "regret / agent / round",
            "consensus distance",
            "bits / agent / round",
            "privacy",
            *private,
        )

    def readings(self) -> list[str]:
        """Say how often records were read, and what that makes of the figures."""
        found: dict[str, list[str]] = {}
        for record in self.records:
            if record.summary.get("reads") is not None:
                found.setdefault(_reading(record.summary["reads"]), []).append(record.label)
        if len(found) == 1:
            return [f"{next(iter(found))}."]
        return [f"{', '.join(labels)}: {words}." for words, labels in found.items()]

    def rows(self) -> list[tuple[str, ...]]:
        """Return one line of text per run; "±" is half a 95 % interval over the repeats."""
        return [self._row(record) for record in self.records]

    def further_rows(self) -> list[tuple[str, ...]]:
        """Return lines to stand below `rows`: a constant to judge the others by, and methods that could not run.

        In a round the constant is made of each agent's own labels so far; on held-out rows, of all that were learnt.
        """
        known = next((record.summary["constant"] for record in self.records if record.summary.get("constant")), None)
        first: list[tuple[str, ...]] = []
        if known is not None and all(record.summary["algorithm"] != "constant" for record in self.records):
            judged = [self.held_out.constant_cell()] if self.held_out else []
            figures = (known.get("average_loss"), known.get(self._score_name or ""))
            first = [("a constant", *map(with_interval, figures), *judged)]
        lines = [*first, *((each.label, "refused") for each in self.refused)]
        return [(*line, *["-"] * (len(self.columns()) - len(line))) for line in lines]

    @functools.cached_property
    def held_out(self) -> HeldOutTable | None:
        """Figures on held-out rows, as tables; None where no run has any."""
        return held_out_table(self.records)

    def against_lowest(self) -> list[str]:
        """Per run: its average loss minus the lowest one, paired by repeat, ± half a 95 % interval."""
        losses = [record.values("average_loss") for record in self.records]
        known = [loss for loss in losses if loss is not None and np.isfinite(loss).all()]
        if self.differences() or not known:
            return ["-"] * len(losses)
        with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest number
            lowest = min(known, key=lambda loss: float(loss.mean()))
            return [_against(loss, lowest) for loss in losses]

    def save(self, directory: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write a directory: each run's data in a folder of its own, common plots and a common report.

        Needs the extra `data`; without the extra `plots` the report has the only plots.

        Args:
          directory: Where to write; made if it is not there.
          command: Command line to print in the report.

        Returns:
          The directory.
        """
        folder = Path(directory)
        names = self.folders()
        files = store.shown_files(self, command)
        if self.settings:
            files[store.CONFIG] = store.config_bytes(self.settings)
        for name, record in zip(names, self.records, strict=True):
            own = seal(store.data_files(record, command), record.summary)
            files |= {f"{name}/{file}": content for file, content in own.items()}
        files |= self._asked_model(command)
        summary: dict[str, Any] = {
            "name": self.name,
            "runs": names,
            "metrics": {name: record.metrics for name, record in zip(names, self.records, strict=True)},
            "partial": self.partial,
            "refused": [each._asdict() for each in self.refused],
        }
        put(folder, seal(files, summary), stale=store.STALE)
        return folder

    def _asked_model(self, command: str | None) -> dict[str, bytes]:
        """Return the model of the one run that has one, on top; none where several have."""
        asked = [record for record in self.records if not isinstance(record.model, str)]
        return store.model_files(asked[0], command) if len(asked) == 1 else {}

    def folders(self) -> list[str]:
        """Return the name of each run's folder."""
        names: list[str] = []
        for record in self.records:
            name = base = re.sub(r"[^a-z0-9]+", "-", record.label.lower()).strip("-")[:LONGEST_NAME] or "run"
            number = 2
            while name in names:
                name, number = f"{base}-{number}", number + 1
            names.append(name)
        return names

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw all figures into one image; needs the extra `plots`.

        Args:
          path: File to write; its ending (.png, .svg, .pdf) is the format.

        Returns:
          The path.
        """
        return draw_overview(self.records, Path(path))

    @property
    def _score_name(self) -> str | None:
        names = {record.summary["score_name"] for record in self.records}
        return names.pop() if len(names) == 1 else None

    @property
    def _training(self) -> str:
        return " (training)" if any(record.training for record in self.records) else ""

    @property
    def _has_private(self) -> bool:
        return any("noise_to_signal" in record.metrics for record in self.records)

    def _row(self, record: Record) -> tuple[str, ...]:
        metrics, rounds = record.metrics, record.summary["rounds"]
        score = self._score_name
        bits = metrics["bits_per_agent"]["mean"]
        return (
            record.label + (" (interrupted)" if record.summary["partial"] else ""),
            _loss(record),
            with_interval(metrics.get(score or "")),
            *([self.held_out.cell(record)] if self.held_out else []),
            with_interval(metrics.get("regret_per_agent_round")),
            _short(metrics.get("final_consensus")),
            "nothing sent" if bits == 0 else f"{bits / rounds:,.0f}",
            record.privacy,
            *([_loudness(metrics)] if self._has_private else []),
        )


def load_all(directory: str | os.PathLike[str]) -> list[Record]:
    """Read a run directory, or all runs of a directory that `Comparison.save` wrote.

    Args:
      directory: Directory of one run or of several.

    Returns:
      One record per run, in the order in which they were saved.
    """
    return settled(Path(directory), _content_of)[0]


def _content_of(files: Sealed) -> tuple[list[Record], list[Refusal]]:
    """Return the runs of a directory, and the methods that could not run."""
    from tacit.results import schema

    if "runs" not in files.summary:
        return [store.record_of(files)], []
    schema.check(schema.ComparisonSummary, files.summary, files.folder / SUMMARY)
    refused = [Refusal(each["label"], each["reason"]) for each in files.summary.get("refused", [])]
    return [store.record_of(files.part(name)) for name in files.summary["runs"]], refused


def _against(loss: np.ndarray | None, lowest: np.ndarray) -> str:
    if loss is None or not np.isfinite(loss).all():
        return "-"
    if loss is lowest:
        return "lowest"
    return with_interval(figure(loss - lowest))


def _reading(reads: dict[str, Any]) -> str:
    """Say how often records were read."""
    least, most, unread, records = (reads[name] for name in ("least", "most", "unread", "records"))
    missed = f"; {unread:,} of {records:,} were not reached" if unread and records else ""
    if most > 1:
        often = f"{most}" if least == most else f"{least} to {most}"
        return (
            f"Records were read {often} times{missed}: loss and score of the rounds are training figures, which say "
            "how well models remember; figures of held-out rows say how well they predict"
        )
    return (
        f"Each record was read {'once' if not missed else 'at most once'}{missed}, and predicted before it was learnt"
    )


def _loss(record: Record) -> str:
    if record.summary["diverged"]:
        return "diverged"
    return with_interval(record.metrics["average_loss"]) + ("" if record.divergence is None else " (diverged)")


def _loudness(metrics: dict[str, Any]) -> str:
    """Write noise over signal, and the share of clipped gradients."""
    noise, clipped = (metrics.get(name, {}).get("mean") for name in ("noise_to_signal", "clipped"))
    return "-" if noise is None or clipped is None else f"{noise:.2g}; {clipped:.0%}"


def _short(found: dict[str, Any] | None) -> str:
    return "-" if found is None or found["mean"] is None else f"{found['mean']:.2g}"
