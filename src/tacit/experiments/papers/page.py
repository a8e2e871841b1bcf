"""The page of a reproduced experiment: each figure with the claims that it shows, what the text has, and the verdict.

Pages are made of what a directory holds, the summary and the pictures, so that the gallery tells the same story.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tacit.results.report import CSS

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
        f"<header><h1>{escape(summary['title'])}</h1><p class='by'>{escape(summary['source'])}, run again by tacit</p>"
        "</header>",
        *([f"<p class='warning'>{QUICK}</p>"] if summary["quick"] else []),
        f"<p>{counted(summary)}. {escape(summary['data']['description'])}.</p>",
        story(summary, pictures),
        f"<h2>How it was done</h2>{how(summary)}",
        f"<footer><p>Made by <code>{escape(command)}</code></p><p>{facts(summary)} · {escape(versions)}</p></footer>",
    ]
    return document(summary["title"], "\n".join(parts))


def document(title: str, body: str, css: str = "") -> str:
    """Return a page that asks for nothing from anywhere."""
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{CSS}{STORY_CSS}{css}</style>\n</head>\n<body>\n<main>\n{body}\n"
        "</main>\n</body>\n</html>\n"
    )


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
    return escape(" · ".join(words))


def story(summary: Mapping[str, Any], pictures: Mapping[str, str]) -> str:
    """Return the figures, each with the claims that it shows, and then the claims that only numbers show."""
    claims = summary["claims"]
    figures = [
        _figure(figure, pictures[figure["name"]], [c for c in claims if c["seen_in"] == figure["name"]])
        for figure in summary["figures"]
    ]
    rest = [claim for claim in claims if not claim["seen_in"]]
    shown = f"<div class='plots'>{''.join(figures)}</div>" if figures else ""
    return shown + (f"<h3>Claims told by numbers</h3>{_claims(rest)}" if rest else "")


def how(summary: Mapping[str, Any]) -> str:
    """Return the method in paragraphs, and the tables."""
    paragraphs = (f"<p>{escape(paragraph)}</p>" for paragraph in summary["method"])
    return "".join([*paragraphs, *map(_table, summary["tables"])])


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    return f"<ul class='claims'>{''.join(map(_claim, claims))}</ul>" if claims else ""


def _claim(claim: Mapping[str, Any]) -> str:
    kind, verdict = ("holds", "✓ holds") if claim["holds"] else ("fails", "✗ does not hold")
    text = f"<p><b>Text:</b> {escape(claim['text'])}</p>" if claim["text"] else ""
    return (
        f"<li class='{kind}'><span class='verdict'>{verdict}</span><strong>{escape(claim['claim'])}</strong>"
        f"{text}<p><b>Here:</b> {escape(claim['figure'])}</p></li>"
    )


def _figure(figure: Mapping[str, str], svg: str, claims: Sequence[Mapping[str, Any]]) -> str:
    image = svg.replace("<svg ", f"<svg role='img' aria-label='{escape(figure['title'])}' ", 1)
    caption = f"<figcaption>{escape(figure['caption'])}</figcaption>"
    return f"<figure><h3>{escape(figure['title'])}</h3>{image}{caption}{_claims(claims)}</figure>"


def _table(table: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table["columns"])
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table["rows"])
    return (
        f"<h3>{escape(table['title'])}</h3><p>{escape(table['note'])}</p><div class='scroll'><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
