"""Figures on held-out rows, as tables: runs beside a constant, and owner by owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tacit.metrics.held_out import WORDS
from tacit.metrics.scores import score_names
from tacit.results.html import Html, html, joined
from tacit.results.record import Record, short_number, with_interval

MOST_OWNERS = 40
"""Owners that the table by owner lists."""


class HeldOutTable(NamedTuple):
    """Scores of several runs on held-out rows."""

    records: tuple[Record, ...]
    """Runs; those without an evaluation are left out of the table."""
    names: tuple[str, ...]
    """Scores, in order."""

    @property
    def first(self) -> str:
        """Name of the score that stands in the table of all figures."""
        return self.names[0]

    @property
    def evaluated(self) -> list[tuple[str, dict[str, Any]]]:
        """Label and evaluation of each run that has one."""
        return [(record.label, record.summary["evaluation"]) for record in self.records if _has(record)]

    @property
    def title(self) -> str:
        """What is shown, in words."""
        rows = {evaluation["rows"] for _, evaluation in self.evaluated}
        facts = self.evaluated[0][1]
        same = len({evaluation["how"] for _, evaluation in self.evaluated}) == 1 and len(rows) == 1
        how = f"{facts['rows']:,} rows that no model learnt from ({facts['how']})" if same else "rows of each run's own"
        return f"Held-out figures of the final models on {how}; {WORDS[facts['shown']]}."

    def cell(self, record: Record) -> str:
        """Return the first score of a run, or of a run that is the constant."""
        if _has(record):
            found = record.summary["evaluation"]
            return with_interval(found["scores"][found["shown"]].get(self.first))
        return self.constant_cell() if record.summary["algorithm"] == "constant" else "-"

    def constant_cell(self) -> str:
        """Return the first score of the constant."""
        return with_interval(self.evaluated[0][1]["constant"].get(self.first))

    def columns(self) -> tuple[str, ...]:
        """Return the titles of the table."""
        return ("algorithm", *self.names)

    def rows(self) -> list[tuple[str, ...]]:
        """Return one line for each run, and one for the constant of the labels that were learnt from."""
        lines = [(label, found["scores"][found["shown"]]) for label, found in self.evaluated]
        lines.append(("a constant", self.evaluated[0][1]["constant"]))
        return [(label, *(with_interval(scores.get(name)) for name in self.names)) for label, scores in lines]

    def of_others(self) -> list[tuple[str, ...]]:
        """Return the first score of each run by whose model predicts, also where that is not what is shown."""
        return [
            (label, *(with_interval(found["scores"].get(whose, {}).get(self.first)) for whose in WORDS))
            for label, found in self.evaluated
        ]

    def by_owner(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return titles and lines of the first score owner by owner: each owner's model on its own rows."""
        found = [{each["owner"]: each for each in facts["by_owner"]} for _, facts in self.evaluated]
        owners = list(dict.fromkeys(owner for one in found for owner in one))[:MOST_OWNERS]
        lines = []
        for owner in owners:
            values = [one.get(owner, {}).get("scores", {}).get(self.first) for one in found]
            rows = next(one[owner]["rows"] for one in found if owner in one)
            lines.append((owner, f"{rows:,}", *("-" if value is None else short_number(value) for value in values)))
        return ("owner", "held-out rows", *(f"{self.first}: {label}" for label, _ in self.evaluated)), lines


def held_out_table(records: Sequence[Record]) -> HeldOutTable | None:
    """Return the figures of runs on held-out rows; None where no run has any, or their labels differ in kind.

    Args:
      records: Runs.
    """
    tasks = {record.summary["evaluation"]["task"] for record in records if _has(record)}
    return HeldOutTable(tuple(records), score_names(tasks.pop())) if len(tasks) == 1 else None


def held_out_section(table: HeldOutTable | None) -> Html:
    """Return the section of a report on held-out rows; nothing where there are none."""
    if table is None:
        return Html("")
    by_whom = ("algorithm", *(f"{table.first}, {words}" for words in WORDS.values()))
    titles, owners = table.by_owner()
    private = any(record.summary["privacy"]["private"] for record in table.records)
    parts = [
        html("<h2>Held-out rows</h2><p>{}</p>", table.title),
        _table("Held-out figures", table.columns(), table.rows()),
        html(
            "<p class='note'>The constant predicts the class frequencies, or the mean, of all labels learnt from.</p>"
        ),
        html("<details><summary>By whose model predicts</summary>{}</details>", _table("", by_whom, table.of_others())),
    ]
    if owners:
        parts.append(html("<details><summary>Owner by owner</summary>{}</details>", _table("", titles, owners)))
    if private:
        words = (
            "These figures are made of records that no noise protects and no account covers: publishing them tells "
            "something of the held-out records, as publishing any statistic of them would."
        )
        parts.append(html("<p class='note'>{}</p>", words))
    return joined(parts, "\n")


def _table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    head = joined(html("<th scope='col'>{}</th>", title) for title in columns)
    lines = (html("<tr>{}</tr>", joined(html("<td>{}</td>", cell) for cell in row)) for row in rows)
    return html(
        "<div class='scroll' role='region' aria-label='{}' tabindex='0'>"
        "<table class='results'><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        name or columns[0],
        head,
        joined(lines),
    )


def _has(record: Record) -> bool:
    return record.summary.get("evaluation") is not None
