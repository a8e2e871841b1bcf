"""A page about runs in one file: it asks for nothing from anywhere, and is readable in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.results.comparison import Comparison
from tacit.results.html import Html, document, html, joined
from tacit.results.plots import PANELS, Drawn
from tacit.results.record import Record

CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #ffffff; --card: #f6f8fa;
        --line: #d6dbe1;
        --accent: #0072b2; --warn: #9a4b00; --warn-card: #fff4e5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #a0a8b2; --page: #15181c; --card: #1e2227; --line: #363c44;
          --accent: #56b4e9; --warn: #f0b060; --warn-card: #33270f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; }
header { border-bottom: 3px solid var(--accent); padding-bottom: .9rem; margin-bottom: 1.4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .7rem; }
p { max-width: 76ch; margin: .6rem 0; }
.by { color: var(--soft); margin: 0; }
.warning { background: var(--warn-card); color: var(--warn); border-left: 4px solid var(--warn);
           padding: .6rem .9rem; border-radius: 4px; max-width: none; }
.verdict { border-left: 4px solid var(--accent); padding: .1rem .9rem; max-width: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .5rem .4rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; vertical-align: bottom;
        white-space: normal; }
th:first-child, td:first-child { text-align: left; font-weight: 600; white-space: normal;
  min-width: 8.5rem; }
td small { color: var(--soft); font-weight: 400; }
.note { color: var(--soft); font-size: .88rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 1.1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
        padding: 1rem; }
figure h3 { font-size: 1rem; margin: 0 0 .5rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .6rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; margin: .6rem 0; }
dt { font-weight: 600; } dd { margin: 0; max-width: 76ch; }
.privacy { grid-template-columns: minmax(8.5rem, 15rem) 1fr; gap: .6rem 1rem; }
footer { margin-top: 2.6rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft);
        font-size: .88rem; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--card);
       border: 1px solid var(--line); border-radius: 4px; padding: .05rem .35rem; overflow-wrap: anywhere; }
@media print { :root { --page: #fff; --ink: #000; } figure { break-inside: avoid; } }
"""

NOTHING = Html("")


def page(
    records: Sequence[Record],
    drawn: Mapping[str, Drawn],
    command: str | None = None,
    title: str | None = None,
) -> str:
    """Return the page about one run, or about several side by side; `drawn` are their plots."""
    comparison = Comparison(tuple(records), title or _name(records))
    parts = [
        html("<header><h1>{}</h1><p class='by'>A report by tacit</p></header>", comparison.name),
        *(html("<p class='verdict'>{}</p>", sentence) for sentence in comparison.sentences()),
        *_warnings(comparison),
        html("<p>{}</p>", _in_words(records)),
        html("<h2>Results</h2>\n{}", _table(comparison)),
        html("<h2>Privacy</h2>\n{}", _privacy(records)),
        html("<h2>Plots</h2>\n<div class='plots'>{}</div>", joined(_plots(drawn))),
        _footer(records, command),
    ]
    return document(comparison.name, joined(parts, "\n"), CSS)


def _name(records: Sequence[Record]) -> str:
    named = records[0].settings.get("run", {}).get("name")
    return str(named or records[0].label)


def _warnings(comparison: Comparison) -> list[Html]:
    warnings = []
    for record in comparison.records:
        rounds = f"{record.summary['rounds']:,}"
        if record.summary["partial"]:
            warnings.append(f"{record.label} was interrupted: its figures are those of its first {rounds} rounds.")
        if record.summary["diverged"]:
            warnings.append(f"{record.label} diverged: its loss is not finite. A smaller step may help.")
        regret = record.summary["regret"]
        if regret is not None and not regret["comparator_converged"]:
            warnings.append(f"{record.label}: the solver of the comparator did not reach its tolerance.")
    warnings += [f"Warning: {words}." for words in comparison.cautions()]
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
    extra = ["loss above the lowest (paired)"] if several else []
    head = joined(html("<th>{}</th>", title) for title in [*comparison.columns(), *extra])
    against = comparison.against_lowest()
    lines = []
    for record, (first, *rest), difference in zip(comparison.records, comparison.rows(), against, strict=True):
        name = html("<td>{}<br><small>{}</small></td>", first, _exactly(record))
        cells = (html("<td>{}</td>", cell) for cell in (*rest, *([difference] if several else [])))
        lines.append(html("<tr>{}{}</tr>", name, joined(cells)))
    note = (
        "Means over the repeats; ± is half of a 95 % confidence interval (Student's t). Average loss and "
        "score are taken at prediction time, over all agents and rounds."
    )
    table = html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", head, joined(lines))
    if any("noise_to_signal" in record.metrics for record in comparison.records):
        note += (
            " Noise / signal: expected norm of the noise over that of the values released, as a mean over the rounds; "
            "clipped: share of the records whose gradient was above the clip."
        )
    note += _certificate(comparison.records)
    return html("<div class='scroll'>{}</div><p class='note'>{}</p>", table, note)


def _exactly(record: Record) -> Html:
    """Return the algorithm's full name and parameters, where a configuration gave them."""
    tables = record.settings.get("algorithm", [{}])
    own = {key: value for key, value in tables[0].items() if key not in ("name", "label", "alone")}
    words = [record.summary["algorithm"], *(f"{key} {_plain(value)}" for key, value in own.items())]
    return joined((html("{}", word) for word in words), "<br>")


def _plain(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    if "kind" not in value:
        return " ".join(str(part) for part in value.values())
    return ", ".join([str(value["kind"]), *(f"{key} {part}" for key, part in value.items() if key != "kind")])


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


def _plots(drawn: Mapping[str, Drawn]) -> list[Html]:
    return [picture(PANELS[name].title, PANELS[name].caption, image.svg) for name, image in drawn.items()]


def picture(title: str, caption: str, svg: str, below: Html = NOTHING) -> Html:
    """Return a figure; the SVG is one that was drawn here, or checked (`tacit.results.svg`)."""
    label = html("<svg role='img' aria-label='{}' ", title)
    return html(
        "<figure><h3>{}</h3>{}<figcaption>{}</figcaption>{}</figure>",
        title,
        Html(svg.replace("<svg ", label, 1)),
        caption,
        below,
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
