"""Pages of the gallery: an index, one page per text with its experiments, and all verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.results.html import Html, document, html, joined
from tacit.results.pages.style import CSS as REPORT_CSS
from tacit.results.report import NOTHING
from tacit.results.sealed import put
from tacit_reproduction.catalogue import PARTS
from tacit_reproduction.experiment import command, pictures_of
from tacit_reproduction.gallery.schedule import Finished
from tacit_reproduction.gallery.texts import TEXTS, Text, text_of
from tacit_reproduction.gallery.verdicts import verdicts
from tacit_reproduction.page import STORY_CSS, counted, facts, held, how, quick_form, story

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
STYLES = (REPORT_CSS, STORY_CSS, CSS)


def write_pages(outcomes: Sequence[Finished], out: Path) -> Path:
    """Write the gallery of finished experiments into `out` and return its index."""
    told = {
        key: [outcome for outcome in outcomes if text_of(outcome.experiment.source) == text]
        for key, text in TEXTS.items()
    }
    pages = {_name(TEXTS[key]): _text_page(TEXTS[key], ours) for key, ours in told.items() if ours}
    files = {**pages, VERDICTS: verdicts(outcomes), INDEX: _index(outcomes, told)}
    put(out, {name: content.encode("utf-8") for name, content in files.items()}, last=INDEX)
    return out / INDEX


def _name(text: Text) -> str:
    return f"text-{text.key.lower()}.html"


def _index(outcomes: Sequence[Finished], told: Mapping[str, Sequence[Finished]]) -> str:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    claims, holding = sum(len(summary["claims"]) for summary in done), sum(map(held, done))
    missing = html("<p class='warning'>{} did not run; the table says why.</p>", len(outcomes) - len(done))
    parts = [
        html(
            "<header><h1>Five texts, run again</h1>"
            "<p class='by'>A gallery by tacit: every experiment, claim by claim</p></header>"
        ),
        *quick_form(done),
        html(
            "<p class='total'><b>{}</b> experiments, <b>{}</b> claims put to the test: <b>{}</b> hold, <b>{}</b> do "
            "not. A claim that does not come out stays, with the reason.</p>",
            len(done),
            claims,
            holding,
            claims - holding,
        ),
        *([missing] if len(done) < len(outcomes) else []),
        html("<div class='texts'>{}</div>", joined(_card(TEXTS[key], ours) for key, ours in told.items() if ours)),
        html("<h2>Experiments</h2>\n<div class='scroll'>{}</div>", _experiments(outcomes)),
        html("<footer>{}</footer>", _origin(done)),
    ]
    return document("tacit: five texts, run again", joined(parts, "\n"), *STYLES)


def _card(text: Text, outcomes: Sequence[Finished]) -> Html:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    score = f"{sum(map(held, done))} of {sum(len(summary['claims']) for summary in done)} claims hold"
    return html(
        "<a href='{}'><b>{} · {}</b><small>{}</small><small>{}, {}</small></a>",
        _name(text), text.cited, text.title, text.origin, _experiments_in_words(len(outcomes)), score,
    )  # fmt: skip


def _experiments_in_words(count: int) -> str:
    return "one experiment" if count == 1 else f"{count} experiments"


def _experiments(outcomes: Sequence[Finished]) -> Html:
    by_name = {outcome.experiment.name: outcome for outcome in outcomes}
    rows = []
    for number, part in enumerate(PARTS, start=1):
        ours = [by_name[experiment.name] for experiment in part.experiments if experiment.name in by_name]
        if ours:
            rows.append(html("<tr class='part'><th colspan='5'>Part {}. {}</th></tr>", number, part.name))
            rows += map(_row, ours)
    titles = ("experiment", "what it shows", "source", "claims that hold", "seconds")
    head = joined(html("<th>{}</th>", title) for title in titles)
    return html("<table class='index'><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", head, joined(rows))


def _row(outcome: Finished) -> Html:
    experiment = outcome.experiment
    link = f"{_name(text_of(experiment.source))}#{experiment.name}"
    if outcome.summary is None:
        score = html("<td colspan='2'>did not run: {}</td>", outcome.fault)
    else:
        count, total = held(outcome.summary), len(outcome.summary["claims"])
        bar = html(
            "<span class='score' aria-hidden='true'><i style='width:{:.1f}%'></i></span>", 100 * count / max(1, total)
        )
        score = html("<td>{} of {}{}</td><td>{:,.0f}</td>", count, total, bar, outcome.summary["seconds"])
    return html(
        "<tr><td><a href='{}'>{}</a></td><td>{}</td><td>{}</td>{}</tr>",
        link, experiment.name, experiment.title, experiment.source, score,
    )  # fmt: skip


def _text_page(text: Text, outcomes: Sequence[Finished]) -> str:
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    parts = [
        html(
            "<header><h1>{}</h1><p class='by'>{}: {} · <a href='{}'>all texts</a></p></header>",
            text.title,
            text.cited,
            text.origin,
            INDEX,
        ),
        *quick_form(done),
        html("<nav><ul>{}</ul></nav>", joined(map(_entry, outcomes))),
        *(_section(outcome) for outcome in outcomes),
        html("<footer>{}</footer>", _origin(done)),
    ]
    return document(f"{text.title}, run again", joined(parts, "\n"), *STYLES)


def _entry(outcome: Finished) -> Html:
    score = NOTHING if outcome.summary is None else html(" <small>({})</small>", counted(outcome.summary))
    return html("<li><a href='#{}'>{}</a>{}</li>", outcome.experiment.name, outcome.experiment.title, score)


def _section(outcome: Finished) -> Html:
    experiment, summary = outcome.experiment, outcome.summary
    heading = html(
        "<section id='{}'><h2>{}</h2><p class='by'>{}</p>", experiment.name, experiment.title, experiment.source
    )
    if summary is None:
        return html("{}<p class='warning'>Did not run: {}</p></section>", heading, outcome.fault)
    return html(
        "{}<p>{}. {}.</p><p class='facts'><code>{}</code> · {}</p>{}"
        "<details><summary>How it was done, and tables</summary>{}</details></section>",
        heading,
        counted(summary),
        summary["data"]["description"],
        command(summary, Path("runs") / experiment.name),
        facts(summary),
        story(summary, pictures_of(outcome.directory, summary)),
        how(summary),
    )


def _origin(done: Sequence[Mapping[str, Any]]) -> Html:
    """Return days, machines and versions of all summaries."""
    days = sorted({summary["date"] for summary in done})
    machines = sorted({summary["machine"] for summary in done})
    versions = sorted({", ".join(f"{k} {v}" for k, v in summary["versions"].items()) for summary in done})
    seconds = sum(summary["seconds"] for summary in done)
    lines = (" and ".join(days), *machines, *versions, f"{seconds:,.0f} s in all, several at a time")
    return joined(html("<p>{}</p>", line) for line in lines)
