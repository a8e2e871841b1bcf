"""A page about runs in one file: it asks for nothing from anywhere, and is readable in light and dark."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.results.comparison import Comparison
from tacit.results.html import Html, document, html, joined
from tacit.results.pages.charts import charts
from tacit.results.pages.glossary import explained, glossary, setting_in_words
from tacit.results.pages.held_out import held_out_section
from tacit.results.pages.script import SCRIPT
from tacit.results.pages.style import CSS
from tacit.results.record import Record

NOTHING = Html("")
HINT = (
    "Point at a plot to read its values, or go there with the tabulator key and use the arrow keys. A press on a name "
    "switches its line off, and on again, in every plot."
)


def page(comparison: Comparison, command: str | None = None) -> str:
    """Return the page about one run, or about several side by side.

    Args:
      comparison: The runs, and the title.
      command: Command line that made them, to be printed.
    """
    records = comparison.records
    shown = charts(records)
    parts = [
        html("<header><h1>{}</h1><p class='by'>A report by tacit</p></header>", comparison.name),
        _headline(comparison),
        *(html("<p class='verdict'>{}</p>", sentence) for sentence in comparison.sentences()),
        *_warnings(comparison),
        html("<p>{}</p>", _in_words(records)),
        html("<h2>Results</h2>\n{}", _table(comparison)),
        held_out_section(comparison.held_out),
        html("<h2>Privacy</h2>\n{}", _privacy(records)),
        html("<h2>Plots</h2>\n<p class='note hint' hidden>{}</p><div class='plots'>{}</div>", HINT, shown)
        if shown
        else NOTHING,
        _footer(records, command),
    ]
    return document(comparison.name, joined(parts, "\n"), CSS, script=SCRIPT)


def _headline(comparison: Comparison) -> Html:
    who, _, rest = comparison.headline().partition("; ")
    return html("<p class='headline'><strong>{}</strong>{}</p>", who, f"; {rest}" if rest else "")


def _warnings(comparison: Comparison) -> list[Html]:
    warnings = []
    for record in comparison.records:
        rounds = f"{record.summary['rounds']:,}"
        if record.summary["partial"]:
            warnings.append(f"{record.label} was interrupted: its figures are those of its first {rounds} rounds.")
        regret = record.summary["regret"]
        if regret is not None and not regret["comparator_converged"]:
            warnings.append(f"{record.label}: the solver of the comparator did not reach its tolerance.")
    warnings += [f"Warning: {words}." for words in (*comparison.cautions(), *comparison.refusals())]
    if comparison.differences():
        warnings.append(f"These runs are not of one problem: {'. '.join(comparison.differences())}.")
    return [html("<p class='warning'>{}</p>", warning) for warning in warnings]


def _in_words(records: Sequence[Record]) -> str:
    facts = records[0].summary
    runs = "One algorithm" if len(records) == 1 else f"A comparison of {len(records)} algorithms"
    repeats = "once" if facts["repeats"] == 1 else f"{facts['repeats']} times, each with its own random numbers"
    return (
        f"{runs} learning online on {facts['agents']:,} agents for {facts['rounds']:,} rounds, "
        f"run {repeats}, from seed {facts['seed']}. In each round every agent predicts on its new "
        f"samples, pays the {facts['objective']} loss, takes a step and talks to its neighbours. "
        f"Graph: {facts['graph']}. Data: {facts['stream']}. Lower loss, regret and disagreement are better."
    )


def _table(comparison: Comparison) -> Html:
    several = len(comparison.records) > 1
    columns = [*comparison.columns(), *(["loss above the lowest (paired)"] if several else [])]
    head = joined(map(_heading, columns))
    against = comparison.against_lowest()
    lines = []
    for record, (first, *rest), difference in zip(comparison.records, comparison.rows(), against, strict=True):
        name = html("<td>{}{}</td>", _breaking(first), _exactly(record))
        shown = zip(columns[1:], (*rest, *([difference] if several else [])), strict=True)
        cells = (html("<td class='{}'>{}</td>", "words" if column == "privacy" else "", cell) for column, cell in shown)
        lines.append(html("<tr>{}{}</tr>", name, joined(cells)))
    for first, *rest in comparison.further_rows():
        cells = (html("<td>{}</td>", cell) for cell in (first, *rest, *(["-"] if several else [])))
        lines.append(html("<tr>{}</tr>", joined(cells)))
    note = (
        "One repeat, so that figures have no interval; differences are judged by blocks of rounds."
        if comparison.records[0].summary["repeats"] == 1
        else "Means over the repeats; ± is half of a 95 % confidence interval (Student's t)."
    )
    note += " Average loss and score are taken at prediction time, over all agents and rounds."
    note += "".join(f" {words}" for words in comparison.readings())
    note += _certificate(comparison.records)
    return html(
        "<div class='scroll' role='region' aria-label='Table of results' tabindex='0'>"
        "<table class='results'><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div><p class='note'>{}</p>{}",
        head,
        joined(lines),
        note,
        _terms([*columns, *(comparison.held_out.columns() if comparison.held_out else ())], comparison.records),
    )


def _heading(column: str) -> Html:
    meaning = explained(column)
    words = html("<abbr title='{}'>{}</abbr>", meaning, column) if meaning else html("{}", column)
    return html("<th scope='col'>{}</th>", words)


def _terms(columns: Sequence[str], records: Sequence[Record]) -> Html:
    """Return what the columns and short names mean, for a press: a title is out of reach of fingers and keys."""
    words = (text for record in records for text in (record.label, str(record.summary["algorithm"]), record.privacy))
    items = (html("<dt>{}</dt><dd>{}.</dd>", *item) for item in glossary(columns, words).items())
    return html("<details><summary>What the words mean</summary><dl class='terms'>{}</dl></details>", joined(items))


def _breaking(name: str) -> Html:
    """Return a name that breaks where a reader would break it."""
    return joined((html("{}", part) for part in name.split("_")), "_<wbr>")


def _exactly(record: Record) -> Html:
    """Return the algorithm's full name and, for a press, its parameters, where a configuration gave them."""
    tables = record.settings.get("algorithm", [{}])
    own = {key: value for key, value in tables[0].items() if key not in ("name", "label", "alone")}
    algorithm = str(record.summary["algorithm"])
    name = NOTHING if algorithm == record.label else html("<br><small>{}</small>", _breaking(algorithm))
    if not own:
        return name
    settings = joined((html("{} {}", key, setting_in_words(value)) for key, value in own.items()), "<br>")
    return html("{}<details><summary>settings</summary>{}</details>", name, settings)


def _certificate(records: Sequence[Record]) -> str:
    known = [record.summary["regret"] for record in records if record.summary["regret"] is not None]
    if not known:
        return ""
    gaps = [regret["comparator_gap"] for regret in known]
    if None in gaps:
        return " Regret is against the best fixed model that a solver found; its optimality is not certified."
    return (
        " Regret is against the best fixed model on all the data, found by a solver; its average loss is "
        f"certified to be within {max(gaps):.1g} of the optimum."
    )


def _privacy(records: Sequence[Record]) -> Html:
    """Say what each run spent, and with which words; runs of which the same is to be said stand together."""
    by_words: dict[tuple[str, str], list[str]] = {}
    for record in records:
        by_words.setdefault((record.privacy, record.summary["privacy"]["words"]), []).append(record.label)
    items = (
        html(
            "<dt>{}</dt><dd><strong>{}.</strong> {}</dd>",
            ", ".join(who),
            _sentence_case(short),
            _without(short, words),
        )
        for (short, words), who in by_words.items()
    )
    return html("<dl class='privacy'>{}</dl>", joined(items))


def _sentence_case(words: str) -> str:
    return words[:1].upper() + words[1:]


def _without(beginning: str, words: str) -> str:
    """Return words that do not repeat what was said before them."""
    rest = words.removeprefix(f"{_sentence_case(beginning)}: ")
    return _sentence_case(rest)


def _footer(records: Sequence[Record], command: str | None) -> Html:
    facts = records[0].summary
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    seconds = sum(record.summary["timings"]["seconds"] for record in records)
    compiling = sum(record.summary["timings"]["compile_seconds"] for record in records)
    made = html("<p>Made by <code>{}</code></p>", command) if command else NOTHING
    return html(
        "<footer>{}<p>Seed {} · {} · {} · {:.1f} s of running and {:.1f} s of compiling</p></footer>",
        made, facts["seed"], facts["dtype"], versions, seconds, compiling,
    )  # fmt: skip
