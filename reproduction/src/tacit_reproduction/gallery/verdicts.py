"""All verdicts as Markdown, the form of docs/reproduction.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.core.text import visible
from tacit_reproduction.gallery.schedule import Finished
from tacit_reproduction.page import held


def verdicts(outcomes: Sequence[Finished]) -> str:
    """Return a table of the experiments, and for each experiment the table of its claims."""
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    rows = [
        f"| [{s['experiment']}](#{s['experiment']}) | {_cell(s['source'])} | {held(s)} of {len(s['claims'])} | "
        f"{s['seconds']:,.0f} | {_cell(s['date'])} | {_cell(s['machine'])} |"
        for s in done
    ]
    failed = [f"- {o.experiment.name} did not run: {_cell(o.fault)}" for o in outcomes if o.summary is None]
    claims, holding = sum(len(s["claims"]) for s in done), sum(map(held, done))
    parts = [
        f"{len(done)} experiments, {claims} claims: {holding} hold, {claims - holding} do not.",
        "| experiment | source | claims that hold | seconds | date | machine |\n|---|---|---|---|---|---|\n"
        + "\n".join(rows),
        *(["\n".join(failed)] if failed else []),
        *map(_experiment, done),
    ]
    return "\n\n".join(parts) + "\n"


def _experiment(summary: Mapping[str, Any]) -> str:
    form = " --quick" if summary["quick"] else ""
    rows = [
        f"| {_cell(c['claim'])} | {_cell(c['text']) or '–'} | {_cell(c['figure'])} | "
        f"{'holds' if c['holds'] else '**does not hold**'} |"
        for c in summary["claims"]
    ]
    return (
        f"## {summary['experiment']}\n\n{_cell(summary['title'])} ({_cell(summary['source'])}). "
        f"{_cell(summary['data']['description'])}. "
        f"`tacit reproduce {summary['experiment']}{form} --seed {summary['seed']}`, {summary['seconds']:,.0f} s.\n\n"
        "| claim | the text has | found | verdict |\n|---|---|---|---|\n" + "\n".join(rows)
    )


def _cell(text: str) -> str:
    plain = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", visible(text))
    return plain.replace("|", "\\|").replace("\n", " ")
