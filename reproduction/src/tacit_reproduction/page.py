"""The page of an experiment: each figure with its claims, the statement of the text, and the verdict.

Pages are made of what a directory holds, the summary and the pictures, so that the gallery tells the same story.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tacit.results.html import Html, document, html, joined
from tacit.results.pages.style import CSS
from tacit.results.report import NOTHING, picture

QUICK = "The quick form: fewer settings and seeds and coarser choices, hence wider intervals."
STORY_CSS = """
.claims { list-style: none; padding: 0; margin: .9rem 0 0; display: grid; gap: .6rem; }
.claims li { background: var(--page); border: 1px solid var(--line); border-left: 5px solid var(--accent);
             border-radius: 6px; padding: .6rem .9rem; }
.claims li.fails { border-left-color: var(--warn); border-left-style: double; }
.claims strong { display: block; }
.claims p { max-width: none; margin: .25rem 0 0; font-size: .92rem; font-variant-numeric: tabular-nums; }
.claims p b { color: var(--soft); font-weight: 600; }
.verdict { float: right; margin-left: 1rem; font-size: .82rem; font-weight: 700; color: var(--accent); }
.fails .verdict { color: var(--warn); }
.plots { grid-template-columns: minmax(0, 1fr); }
figure svg { width: auto; max-width: 100%; margin: 0 auto; }
.facts { color: var(--soft); font-size: .88rem; max-width: none; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
details table { margin: .4rem 0 1rem; }
"""


def page(summary: Mapping[str, Any], pictures: Mapping[str, str], command: str) -> str:
    """Return the page of one experiment; `pictures` are SVGs by the names of the figures."""
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    parts = [
        html(
            "<header><h1>{}</h1><p class='by'>{}, run again by tacit</p></header>", summary["title"], summary["source"]
        ),
        *quick_form([summary]),
        html("<p>{}. {}.</p>", counted(summary), summary["data"]["description"]),
        story(summary, pictures),
        html("<h2>How it was done</h2>{}", how(summary)),
        html("<footer><p>Made by <code>{}</code></p><p>{} · {}</p></footer>", command, facts(summary), versions),
    ]
    return document(summary["title"], joined(parts, "\n"), CSS, STORY_CSS)


def quick_form(summaries: Iterable[Mapping[str, Any]]) -> list[Html]:
    """Return a warning where one of them is of the quick form."""
    return [html("<p class='warning'>{}</p>", QUICK)] if any(summary["quick"] for summary in summaries) else []


def held(summary: Mapping[str, Any]) -> int:
    """Return how many claims hold."""
    return sum(claim["holds"] for claim in summary["claims"])


def counted(summary: Mapping[str, Any]) -> str:
    """Return "3 of 4 claims hold"."""
    return f"{held(summary)} of {len(summary['claims'])} claims hold"


def facts(summary: Mapping[str, Any]) -> str:
    """Return seed, form, time, day and machine."""
    form = "quick" if summary["quick"] else "full"
    words = (f"seed {summary['seed']}", form, f"{summary['seconds']:,.0f} s", summary["date"], summary["machine"])
    return " · ".join(words)


def story(summary: Mapping[str, Any], pictures: Mapping[str, str]) -> Html:
    """Return the figures, each with the claims that it shows, and then the claims that only numbers show."""
    claims = summary["claims"]
    figures = [
        picture(
            figure["title"],
            figure["caption"],
            pictures[figure["name"]],
            _claims([c for c in claims if c["seen_in"] == figure["name"]]),
        )
        for figure in summary["figures"]
    ]
    rest = [claim for claim in claims if not claim["seen_in"]]
    shown = html("<div class='plots'>{}</div>", joined(figures)) if figures else NOTHING
    told = html("<h3>Claims told by numbers</h3>{}", _claims(rest)) if rest else NOTHING
    return joined([shown, told])


def how(summary: Mapping[str, Any]) -> Html:
    """Return the method in paragraphs, and the tables."""
    paragraphs = (html("<p>{}</p>", paragraph) for paragraph in summary["method"])
    return joined([*paragraphs, *map(_table, summary["tables"])])


def _claims(claims: Sequence[Mapping[str, Any]]) -> Html:
    return html("<ul class='claims'>{}</ul>", joined(map(_claim, claims))) if claims else NOTHING


def _claim(claim: Mapping[str, Any]) -> Html:
    kind, verdict = ("holds", "✓ holds") if claim["holds"] else ("fails", "✗ does not hold")
    text = html("<p><b>Text:</b> {}</p>", claim["text"]) if claim["text"] else NOTHING
    return html(
        "<li class='{}'><span class='verdict'>{}</span><strong>{}</strong>{}<p><b>Here:</b> {}</p></li>",
        kind, verdict, claim["claim"], text, claim["figure"],
    )  # fmt: skip


def _table(table: Mapping[str, Any]) -> Html:
    head = joined(html("<th>{}</th>", column) for column in table["columns"])
    rows = (html("<tr>{}</tr>", joined(html("<td>{}</td>", cell) for cell in row)) for row in table["rows"])
    return html(
        "<h3>{}</h3><p>{}</p><div class='scroll'><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        table["title"], table["note"], head, joined(rows),
    )  # fmt: skip
