"""A model's card as a page: what it does, what it cost in privacy, its figures, who took part and how it is used."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from tacit.models.card import COVERED, FIGURES_COST, MEAN, Card
from tacit.results.html import Html, document, html, joined
from tacit.results.pages.glossary import setting_in_words
from tacit.results.pages.style import CSS
from tacit.streams import Preprocessing
from tacit.streams.reading.preprocessing import Scale

STYLE = """
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
      overflow-x: auto; font: .9rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; max-width: 100%; }
.facts { grid-template-columns: minmax(8rem, 14rem) minmax(0, 1fr); }
.facts dd { overflow-wrap: anywhere; }
.narrow { width: auto; min-width: min(100%, 24rem); }
.narrow td:nth-child(n + 2), .narrow th:nth-child(n + 2) { padding-left: 1rem; }
.words td, .words th { text-align: left; white-space: normal; vertical-align: top; }
.words th:first-child, .words td:first-child { min-width: 4rem; }
.promise { border-left: 4px solid var(--accent); padding: .1rem .9rem; max-width: none; }
@media (max-width: 640px) {
  .facts { grid-template-columns: minmax(0, 1fr); gap: .1rem; } .facts dd { margin-bottom: .6rem; }
}
"""
LISTED = 200
"""Columns, classes and owners that a page lists, at most."""
NOTHING = Html("")


def page(card: Card, file: str) -> str:
    """Return the page about a model; `file` is how its file is called in the commands to copy."""
    title = f"Model card: {card.label or card.objective.name}"
    parts = [
        html("<header><h1>{}</h1><p class='by'>A model by tacit, {}</p></header>", title, _time(card.made.created)),
        html("<p class='verdict'>{}</p>", _purpose(card)),
        *(html("<p class='warning'>{}</p>", note) for note in _cautions(card)),
        html("<h2>Privacy</h2>\n{}", _privacy(card)),
        html("<h2>Figures</h2>\n{}", _figures(card)),
        html("<h2>Data</h2>\n{}", _data(card)),
        html("<h2>Who took part</h2>\n{}", _who(card)),
        html("<h2>How to use it</h2>\n{}", _use(card, file)),
        html("<h2>How it was made</h2>\n{}", _made(card)),
    ]
    return document(title, joined(parts, "\n"), CSS, STYLE)


def _purpose(card: Card) -> str:
    what = f"the column {card.label!r}" if card.label else "a label"
    kinds = {
        "binary": f"Tells two classes of {what} apart",
        "multiclass": f"Tells the classes of {what} apart",
        "regression": f"Predicts the number in {what}" if card.label else "Predicts a number",
    }
    does = kinds.get(card.task or "", "Predicts with an objective of the user's own")
    whose = f"the mean of {card.agents:,} owners' models" if card.which == MEAN else f"the model of {card.which}"
    return f"{does}, from {card.features} numbers per row. It is {whose}, after {card.made.rounds:,} rounds."


def _cautions(card: Card) -> list[str]:
    found = [] if card.privacy.model == COVERED else [card.privacy.model]
    if card.made.partial:
        found.append("The run was interrupted: the model is that of the rounds that were finished.")
    return [*found, *card.notes]


def _privacy(card: Card) -> Html:
    spent = card.privacy
    if not spent.private:
        return html("<p><strong>Not private.</strong> {}</p>", spent.words)
    facts = {
        "epsilon": f"{spent.epsilon:.4g}",
        "delta": "0" if not spent.delta else f"{spent.delta:.2g}",
        "protects": f"a {spent.unit}",
        "neighbours": spent.adjacency,
    }
    covered = html("<p class='promise'>{}</p>", spent.model) if spent.model == COVERED else NOTHING
    return html("{}{}<p>{}</p>", _facts(facts), covered, spent.words)


def _figures(card: Card) -> Html:
    if not card.figures:
        return html("<p>None are kept.</p>")
    rows = [(name, "-" if value is None else f"{value:.4g}") for name, value in card.figures.items()]
    cost = html("<p class='note'>{}</p>", FIGURES_COST) if card.privacy.private else NOTHING
    return html("{}{}", _table(("figure", "value"), rows), cost)


def _data(card: Card) -> Html:
    record = None if card.preprocessing is None else Preprocessing.from_json(card.preprocessing)
    facts: dict[str, Any] = {
        "what": card.data.description,
        "rows": "no end of them" if card.data.rows is None else f"{card.data.rows:,}",
        "columns as the model sees them": _listed(card.columns) or f"{card.features}, without names",
        **({"classes": _listed(card.classes)} if card.classes else {}),
        "done to them": "nothing: rows of numbers are taken as they are" if record is None else _reading(record),
        "fingerprint": card.data.fingerprint or _no_fingerprint(card),
    }
    return html("{}{}", _facts(facts), NOTHING if record is None else _inputs(record))


def _inputs(record: Preprocessing) -> Html:
    """Return the columns that a table needs, and what becomes of each."""
    scales = {scale.column: scale for scale in record.scales}
    rows = []
    for each in record.inputs[:LISTED]:
        kinds = {"number": "a number", "word": f"one of {_listed(each.categories)}", "time": "a time"}
        gaps = "may be missing" if each.indicated else "never"
        rows.append((each.name, kinds[each.kind], gaps, _scaling(scales.get(each.name))))
    table = _table(("column", "holds", "gaps", "scaled by"), rows, "narrow words")
    return html("<p>A table needs these columns, by name:</p>{}", table)


def _scaling(scale: Scale | None) -> str:
    if scale is None:
        return "-"
    if scale.by == "owner":
        return "mean and deviation of each owner"
    words = "bounds {:.4g} to {:.4g}" if scale.by == "bounds" else "mean {:.4g}, deviation {:.4g}"
    return words.format(*scale.numbers[0])


def _time(text: str) -> str:
    return text[:16].replace("T", " ") + " UTC"


def _no_fingerprint(card: Card) -> str:
    if card.privacy.private:
        return "none: a hash of the rows would let a reader test guesses about single records"
    return "none"


def _reading(record: Preprocessing) -> str:
    words = [f"{len(record.inputs)} columns are read by name"]
    if record.scales:
        words.append(f"{len(record.scales)} are scaled")
    if record.bias:
        words.append("a one is added")
    if record.unit:
        words.append("every row is brought to norm 1")
    return ", ".join(words)


def _who(card: Card) -> Html:
    if not card.took_part:
        return html("<p>{:,} owners, whose names are not kept.</p>", card.agents)
    shown = list(card.took_part.items())[:LISTED]
    rows = [(name, "not known" if rows is None else f"{rows:,}") for name, rows in shown]
    more = html("<p class='note'>and {:,} more</p>", card.agents - len(shown)) if card.agents > len(shown) else NOTHING
    own = "Each owner's own model is in the file too." if card.owners else "Owners' own models are not in the file."
    return html("<p>{}</p>{}{}", own, _table(("owner", "rows"), rows), more)


def _use(card: Card, file: str) -> Html:
    commands = [f"tacit predict {shlex.quote(file)} data.csv --out predictions.csv"]
    if card.owners:
        commands.append(f"tacit predict {shlex.quote(file)} data.csv --owner {shlex.quote(card.owners[0])}")
    given = '"data.csv"' if card.preprocessing is not None else "rows"
    loaded = ", objective=...)  # your own" if card.objective.own else ")"
    python = ["import tacit", f"model = tacit.load_model({json.dumps(file)}{loaded}", f"model.predict({given})"]
    if card.objective.name in ("logistic", "softmax", "cnn"):
        python.append(f"model.predict_proba({given})")
    if card.objective.name in ("logistic", "hinge", "softmax", "squared", "absolute"):
        python += ["model.to_sklearn()", 'model.to_onnx("model.onnx")']
    return html("<pre>{}</pre><p>In Python:</p><pre>{}</pre>", "\n".join(commands), "\n".join(python))


def _made(card: Card) -> Html:
    made = card.made
    own = {key: value for key, value in made.settings.items() if key not in ("name", "label", "alone")}
    settings = "; ".join(f"{key} {setting_in_words(value)}" for key, value in own.items())
    facts = {
        "objective": _call(card),
        "algorithm": made.algorithm + (f" ({settings})" if settings else ""),
        "rounds": f"{made.rounds:,}",
        **({"links": made.graph} if made.graph else {}),
        **({} if made.seed is None else {"seed": str(made.seed)}),
        **({"command": html("<code>{}</code>", made.command)} if made.command else {}),
        "made": _time(made.created),
        "versions": ", ".join(f"{name} {version}" for name, version in made.versions.items()),
    }
    return _facts(facts)


def _call(card: Card) -> str:
    if card.objective.own:
        return f"{card.objective.name}, the user's own"
    return f"{card.objective.name}({', '.join(f'{key}={value}' for key, value in card.objective.arguments.items())})"


def _facts(facts: dict[str, Any]) -> Html:
    items = (html("<dt>{}</dt><dd>{}</dd>", name, value) for name, value in facts.items())
    return html("<dl class='facts'>{}</dl>", joined(items))


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], kind: str = "narrow") -> Html:
    head = joined(html("<th>{}</th>", title) for title in columns)
    body = joined(html("<tr>{}</tr>", joined(html("<td>{}</td>", cell) for cell in row)) for row in rows)
    table = html("<table class='{}'><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", kind, head, body)
    return html("<div class='scroll' tabindex='0'>{}</div>", table)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return f"{shown}, and {len(names) - LISTED:,} more" if len(names) > LISTED else shown
