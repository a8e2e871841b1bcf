"""The gallery: an index, and a page for each text that shows every experiment of it; plus all verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tacit.errors import ResultError
from tacit.experiments.gallery.schedule import Finished
from tacit.experiments.gallery.texts import TEXTS, Text, text_of
from tacit.experiments.gallery.verdicts import verdicts
from tacit.experiments.papers import PARTS
from tacit.experiments.papers.experiment import command
from tacit.experiments.papers.page import QUICK, counted, document, facts, held, how, story
from tacit.results.store import put

INDEX, VERDICTS = "index.html", "verdicts.md"
CSS = """
.texts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 310px), 1fr)); gap: .9rem;
  margin: 1.2rem 0; }
.texts a, .texts div { display: block; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .9rem 1rem; color: inherit; text-decoration: none; }
.texts a:hover, .texts a:focus { border-color: var(--accent); }
.texts b { display: block; line-height: 1.3; } .texts small { color: var(--soft); display: block; margin-top: .3rem; }
.total { font-size: 1.15rem; }
a { color: var(--accent); }
.index :is(td, th):is(:nth-child(2), :nth-child(3)) { text-align: left; white-space: normal; }
.index td:first-child { white-space: nowrap; }
.index td[colspan] { white-space: normal; text-align: left; min-width: 18rem; overflow-wrap: anywhere; }
.index td:nth-child(2) { min-width: 17rem; } .index td:nth-child(3) { min-width: 11rem; }
.index tr.part th { text-align: left; color: var(--ink); font-size: 1rem; padding-top: 1.3rem; }
.score { display: inline-flex; width: 8.5rem; height: .7rem; border: 1px solid var(--ink); border-radius: 3px;
  overflow: hidden; vertical-align: middle; margin-left: .6rem; background: var(--page); }
.score i { background: var(--accent); display: block; }
section { border-top: 1px solid var(--line); margin-top: 2.6rem; padding-top: .4rem; }
nav { font-size: .95rem; } nav ul { columns: 2; padding-left: 1.2rem; } nav li { break-inside: avoid; }
@media (max-width: 640px) { nav ul { columns: 1; } .score { display: none; } }
"""


def write_pages(outcomes: Sequence[Finished], out: Path) -> Path:
    """Write the gallery of finished experiments into `out` and return its index."""
    told = {
        text.number: [outcome for outcome in outcomes if text_of(outcome.experiment.source) == text]
        for text in TEXTS.values()
    }
    pages = {_name(TEXTS[number]): _text_page(TEXTS[number], ours) for number, ours in told.items() if ours}
    files = {**pages, VERDICTS: verdicts(outcomes), INDEX: _index(outcomes, told)}
    put(out, {name: content.encode("utf-8") for name, content in files.items()})
    return out / INDEX


def _name(text: Text) -> str:
    return f"text-{text.number}.html"


def _index(outcomes: Sequence[Finished], told: Mapping[str, Sequence[Finished]]) -> str:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    claims, holding = sum(len(summary["claims"]) for summary in done), sum(map(held, done))
    cards = "".join(_card(TEXTS[number], ours) for number, ours in told.items() if ours)
    parts = [
        "<header><h1>Five texts, run again</h1>"
        "<p class='by'>A gallery by tacit: every experiment, claim by claim</p></header>",
        *([f"<p class='warning'>{QUICK}</p>"] if any(summary["quick"] for summary in done) else []),
        f"<p class='total'><b>{len(done)}</b> experiments, <b>{claims}</b> claims put to the test: <b>{holding}</b> "
        f"hold, <b>{claims - holding}</b> do not. A claim that does not come out stays, with the reason.</p>",
        *(
            [f"<p class='warning'>{len(outcomes) - len(done)} did not run; the table says why.</p>"]
            if len(done) < len(outcomes)
            else []
        ),
        f"<div class='texts'>{cards}</div>",
        "<h2>Experiments</h2>",
        f"<div class='scroll'>{_experiments(outcomes)}</div>",
        f"<footer>{_origin(done)}</footer>",
    ]
    return document("tacit: five texts, run again", "\n".join(parts), CSS)


def _card(text: Text, outcomes: Sequence[Finished]) -> str:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    score = f"{sum(map(held, done))} of {sum(len(summary['claims']) for summary in done)} claims hold"
    return (
        f"<a href='{_name(text)}'><b>{text.number} · {escape(text.title)}</b><small>{escape(text.origin)}</small>"
        f"<small>{_experiments_in_words(len(outcomes))}, {score}</small></a>"
    )


def _experiments_in_words(count: int) -> str:
    return "one experiment" if count == 1 else f"{count} experiments"


def _experiments(outcomes: Sequence[Finished]) -> str:
    by_name = {outcome.experiment.name: outcome for outcome in outcomes}
    rows = []
    for number, part in enumerate(PARTS, start=1):
        ours = [by_name[experiment.name] for experiment in part.experiments if experiment.name in by_name]
        if ours:
            rows.append(f"<tr class='part'><th colspan='5'>Part {number}. {escape(part.name)}</th></tr>")
            rows += map(_row, ours)
    head = "<tr><th>experiment</th><th>what it shows</th><th>source</th><th>claims that hold</th><th>seconds</th></tr>"
    return f"<table class='index'><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _row(outcome: Finished) -> str:
    experiment = outcome.experiment
    link = f"{_name(text_of(experiment.source))}#{experiment.name}"
    if outcome.summary is None:
        score = f"<td colspan='2'>did not run: {escape(outcome.fault)}</td>"
    else:
        count, total = held(outcome.summary), len(outcome.summary["claims"])
        bar = f"<span class='score' aria-hidden='true'><i style='width:{100 * count / max(1, total):.1f}%'></i></span>"
        score = f"<td>{count} of {total}{bar}</td><td>{outcome.summary['seconds']:,.0f}</td>"
    return (
        f"<tr><td><a href='{link}'>{experiment.name}</a></td><td>{escape(experiment.title)}</td>"
        f"<td>{escape(experiment.source)}</td>{score}</tr>"
    )


def _text_page(text: Text, outcomes: Sequence[Finished]) -> str:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    entries = "".join(
        f"<li><a href='#{o.experiment.name}'>{escape(o.experiment.title)}</a>"
        f"{'' if o.summary is None else f' <small>({counted(o.summary)})</small>'}</li>"
        for o in outcomes
    )
    parts = [
        f"<header><h1>{escape(text.title)}</h1><p class='by'>Text {text.number}: {escape(text.origin)} · "
        f"<a href='{INDEX}'>all texts</a></p></header>",
        *([f"<p class='warning'>{QUICK}</p>"] if any(summary["quick"] for summary in done) else []),
        f"<nav><ul>{entries}</ul></nav>",
        *(_section(outcome) for outcome in outcomes),
        f"<footer>{_origin(done)}</footer>",
    ]
    return document(f"{text.title}, run again", "\n".join(parts), CSS)


def _section(outcome: Finished) -> str:
    experiment, summary = outcome.experiment, outcome.summary
    heading = (
        f"<section id='{experiment.name}'><h2>{escape(experiment.title)}</h2>"
        f"<p class='by'>{escape(experiment.source)}</p>"
    )
    if summary is None:
        return f"{heading}<p class='warning'>Did not run: {escape(outcome.fault)}</p></section>"
    line = escape(command(summary, Path("runs") / experiment.name))
    return (
        f"{heading}<p>{counted(summary)}. {escape(summary['data']['description'])}.</p>"
        f"<p class='facts'><code>{line}</code> · {facts(summary)}</p>"
        f"{story(summary, _pictures(summary, outcome.directory))}"
        f"<details><summary>How it was done, and tables</summary>{how(summary)}</details></section>"
    )


def _pictures(summary: Mapping[str, Any], directory: Path) -> dict[str, str]:
    pictures = {}
    for figure in summary["figures"]:
        path = directory / f"{figure['name']}.svg"
        try:
            pictures[figure["name"]] = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{path} cannot be read ({error}); remove {directory} and run it again") from error
    return pictures


def _origin(done: Sequence[Mapping[str, Any]]) -> str:
    """Return days, machines and versions of all summaries."""
    days = sorted({summary["date"] for summary in done})
    machines = sorted({summary["machine"] for summary in done})
    versions = sorted({", ".join(f"{k} {v}" for k, v in summary["versions"].items()) for summary in done})
    seconds = sum(summary["seconds"] for summary in done)
    lines = (" and ".join(days), *machines, *versions, f"{seconds:,.0f} s in all, several at a time")
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
