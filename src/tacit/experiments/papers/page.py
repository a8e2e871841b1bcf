"""The page of a reproduced experiment: each claim with its verdict and numbers, in one file."""

from __future__ import annotations

from html import escape
from typing import Any

from tacit.experiments.papers.experiment import Claim, Experiment, Figure, Findings, Table
from tacit.results.report import CSS

QUICK = "The quick form: fewer settings and seeds and coarser choices, hence wider intervals."
VERDICTS_CSS = """
.claims { list-style: none; padding: 0; margin: 0; display: grid; gap: .6rem; }
.claims li { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--accent);
             border-radius: 6px; padding: .6rem .9rem; }
.claims li.fails { border-left-color: var(--warn); }
.claims strong { display: block; }
.claims p { max-width: none; margin: .25rem 0 0; font-size: .92rem; font-variant-numeric: tabular-nums; }
.verdict { float: right; font-size: .82rem; font-weight: 700; color: var(--accent); }
.fails .verdict { color: var(--warn); }
.plots { grid-template-columns: 1fr; }
"""


def page(experiment: Experiment, findings: Findings, summary: dict[str, Any], command: str) -> str:
    """Return the page."""
    held = sum(claim.holds for claim in findings.claims)
    title = escape(experiment.title)
    parts = [
        f"<header><h1>{title}</h1><p class='by'>{escape(experiment.source)}, run again by tacit</p></header>",
        *([f"<p class='warning'>{QUICK}</p>"] if summary["quick"] else []),
        f"<p>{held} of {len(findings.claims)} claims hold. {escape(findings.data['description'])}.</p>",
        "<h2>Claims</h2>",
        f"<ul class='claims'>{''.join(map(_claim, findings.claims))}</ul>",
        "<h2>Figures</h2>",
        f"<div class='plots'>{''.join(map(_figure, findings.figures))}</div>",
        "<h2>How it was done</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in findings.method),
        *map(_table, findings.tables),
        _footer(summary, command),
    ]
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{title}</title>\n<style>{CSS}{VERDICTS_CSS}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _claim(claim: Claim) -> str:
    kind, verdict = ("holds", "holds") if claim.holds else ("fails", "does not hold")
    return (
        f"<li class='{kind}'><span class='verdict'>{verdict}</span><strong>{escape(claim.claim)}</strong>"
        f"<p>{escape(claim.figure)}</p></li>"
    )


def _figure(figure: Figure) -> str:
    image = figure.svg.replace("<svg ", f"<svg role='img' aria-label='{escape(figure.title)}' ", 1)
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>"
    return f"<figure><h3>{escape(figure.title)}</h3>{image}{caption}</figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return (
        f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}</p><div class='scroll'><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _footer(summary: dict[str, Any], command: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return (
        f"<footer><p>Made by <code>{escape(command)}</code></p><p>Seed {summary['seed']} · "
        f"{'quick' if summary['quick'] else 'full'} · {summary['seconds']:.0f} s · {escape(versions)}</p>"
        "</footer>"
    )
