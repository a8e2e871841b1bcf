"""Pages of studies: headlines with their figures and verdicts, then every claim, the table and the procedure.

Pages are made of summaries alone, so that the gallery tells the same story.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit.results.html import Html, document, html, joined
from tacit.results.pages.charts import chart
from tacit.results.pages.panels import Axis, Curve, Panel
from tacit.results.pages.script import SCRIPT
from tacit.results.pages.style import CSS
from tacit.results.report import NOTHING
from tacit_reproduction.summary import command
from tacit_reproduction.verdict import VERDICTS, WORST_LAST, Verdict

FEW = 40  # points of a line of a small figure
QUICK = "{} quick form: fewer settings and seeds, hence wider intervals, and verdicts that the full form may change."
MARKS = dict(zip(VERDICTS, ("✓", "↗", "◐", "✗", "–"), strict=True))
KEYS = dict(zip(VERDICTS, ("yes", "direction", "depends", "no", "untested"), strict=True))
MEANINGS: Mapping[Verdict, str] = {
    "reproduced": "Everything that was claimed holds here, at every setting that was tried, and so does its size.",
    "direction only": "The direction is the text's and nothing speaks against it, but the size is another, or some "
    "interval is too wide to be sure.",
    "depends on an open setting": "It holds at some values of a setting that the text leaves open, not at all of them.",
    "refuted": "It fails here, at every setting that was tried.",
    "not tested": "Nothing can be told: the data are not available, or intervals are too wide; it says which.",
}
"""Verdict -> what it means, for readers; `tacit_reproduction.verdict.verdict` is the rule."""
OUTCOMES = {"holds": "✓ holds", "open": "○ open", "fails": "✗ fails"}
STUDY_CSS = """
.result { background: var(--card); border: 1px solid var(--line); border-left: 6px solid var(--v); border-radius: 8px;
  padding: 1rem 1.1rem; margin: 1.2rem 0; scroll-margin-top: 1rem; }
.result h3 { margin: 0 0 .4rem; font-size: 1.05rem; line-height: 1.35; } .result p { max-width: 90ch; }
.badge { display: inline-block; border: 1.5px solid var(--v); color: var(--v); border-radius: 99px; font-weight: 700;
  padding: 0 .6rem; font-size: .8rem; background: var(--page); }
.result h4 { margin: 1.1rem 0 .3rem; font-size: .98rem; }
.yes { --v: #00845f; } .direction { --v: #0072b2; } .depends { --v: #8a6100; } .no { --v: #b03a00; }
.untested { --v: var(--soft); }
@media screen and (prefers-color-scheme: dark) { .yes { --v: #21bd8e; } .direction { --v: #56b4e9; }
  .depends { --v: #eeb33c; } .no { --v: #f5915a; } }
.versus { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); gap: .6rem 1.2rem;
  margin: .6rem 0; } .versus div { min-width: 0; } .versus b { color: var(--soft); display: block; font-size: .82rem; }
.swept { list-style: none; padding: 0; margin: .5rem 0; display: flex; flex-wrap: wrap; gap: .3rem; font-size: .82rem; }
.swept li { border: 1px solid var(--line); border-radius: 5px; padding: 0 .45rem; background: var(--page); }
.result .plots { margin-top: .8rem; } .result figure { background: var(--page); }
.drawn { margin: 1rem 0; } .drawn > figcaption { max-width: 90ch; }
.facts { color: var(--soft); font-size: .88rem; max-width: none; }
.claims td { text-align: left; white-space: normal; vertical-align: top; }
.claims td:last-child { white-space: nowrap; }
.claims th { text-align: left; } .claims td:nth-child(3) { min-width: 16rem; } .own td { color: var(--soft); }
"""


def page(summary: Mapping[str, Any]) -> str:
    """Return the page of one study."""
    title, made_by = summary["title"], command(summary)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(summary["versions"].items()))
    parts = [
        html("<header><h1>{}</h1><p class='by'>{}, run again by tacit</p></header>", title, summary["source"]),
        *quick_form([summary]), html("<p>{}.</p>", counted([summary])), body(summary),
        html("<footer><p>Made by <code>{}</code></p><p>{} · {}</p></footer>", made_by, facts(summary), versions),
    ]  # fmt: skip
    return document(title, joined(parts, "\n"), CSS, STUDY_CSS, script=SCRIPT)


class Stated(NamedTuple):
    """One headline, and the studies that state it."""

    parts: Sequence[tuple[Mapping[str, Any], int]]  # summary, and number of the headline in it

    @property
    def each(self) -> list[Mapping[str, Any]]:
        """The headline as each study has it."""
        return [summary["headlines"][number] for summary, number in self.parts]

    @property
    def worst(self) -> Mapping[str, Any]:
        """The one of these whose verdict counts."""
        return max(self.each, key=_badness)

    @property
    def words(self) -> str:
        """Verdict, or the verdicts of its studies where they differ, the one that counts first."""
        found: dict[str, list[str]] = {}
        for (summary, _), each in sorted(zip(self.parts, self.each, strict=True), key=lambda of: -_badness(of[1])):
            found.setdefault(verdict_words(each), []).append(summary["experiment"])
        return next(iter(found)) if len(found) == 1 else "; ".join(f"{w}: {', '.join(of)}" for w, of in found.items())

    @property
    def places(self) -> str:
        """Where the text has it."""
        return "; ".join(dict.fromkeys(one["place"] for one in self.each))

    @property
    def anchor(self) -> str:
        """Id on the page of the text."""
        return _id(*self.parts[0])


def _id(summary: Mapping[str, Any], number: int) -> str:
    return f"{summary['experiment']}-{number + 1}"


def _badness(each: Mapping[str, Any]) -> int:
    return WORST_LAST.index(each["verdict"])


def stated(summaries: Iterable[Mapping[str, Any]]) -> list[Stated]:
    """Return the headlines of studies in order; one that several of a text state is there once."""
    found: dict[tuple[str, str], list[tuple[Mapping[str, Any], int]]] = {}
    for summary in summaries:
        for number, each in enumerate(summary["headlines"]):
            found.setdefault((summary["source"].split(",")[0], each["headline"]), []).append((summary, number))
    return [Stated(parts) for parts in found.values()]


def body(summary: Mapping[str, Any], results: Iterable[Html] | None = None) -> Html:
    """Return headlines (or what takes their place), and for a press figures, claims, the table and the procedure."""
    told = {each["seen_in"] for each in summary["headlines"]}
    rest = [figure for figure in summary["figures"] if figure["name"] not in told]
    more = [drawn(summary["experiment"], figure) for figure in rest]
    folded = html("<details><summary>More figures: {}</summary>{}</details>", len(rest), joined(more))
    count, table = len(summary["claims"]), claims(summary)
    parts = [
        *(map(result, stated([summary])) if results is None else results),
        *(([folded] if summary["headlines"] else more) if rest else []),
        html("<details><summary>{} claims, one by one</summary>{}</details>", count, table),
        html("<details><summary>How it was done</summary>{}</details>", _how(summary)),
    ]
    return joined(parts, "\n")


def result(told: Stated) -> Html:
    """Return one headline with its verdict, and of each study that states it numbers, reason and figure."""
    worst = told.worst
    return html(
        "<article class='result {}' id='{}' data-verdict='{}'><h3>{} {}</h3>{}</article>",
        KEYS[worst["verdict"]], told.anchor, worst["verdict"], worst["headline"], badge(worst),
        joined(_part(told, *part) for part in told.parts))  # fmt: skip


def _part(told: Stated, summary: Mapping[str, Any], number: int) -> Html:
    each, prefix = summary["headlines"][number], _id(summary, number)
    figures = [figure for figure in summary["figures"] if figure["name"] == each["seen_in"]]
    swept = joined(html("<li>{}: {}</li>", name, OUTCOMES[outcome]) for name, outcome in each["settings"].items())
    heading = html("<h4 class='{}'>{} {}</h4>", KEYS[each["verdict"]], summary["title"], badge(each))
    return html(
        "{}{}<p>{}</p>{}{}<p class='facts'><code>{}</code></p>",
        heading if len(told.parts) > 1 else NOTHING, versus(each), each["why"],
        html("<ul class='swept' aria-label='Settings that the text leaves open'>{}</ul>", swept) if swept else NOTHING,
        joined(drawn(prefix, figure) for figure in figures), command(summary))  # fmt: skip


def badge(each: Mapping[str, Any]) -> Html:
    """Return a headline's verdict as a badge of glyph and words."""
    return html("<span class='badge'>{}</span>", verdict_words(each))


def verdict_words(each: Mapping[str, Any]) -> str:
    """Return glyph, verdict, and how often it holds or why nothing can be told."""
    said = f"{MARKS[each['verdict']]} {each['verdict']}"
    return f"{said} ({each['detail']})" if each["detail"] else said


def versus(headline: Mapping[str, Any]) -> Html:
    """Return the text's numbers beside ours."""
    return html(
        "<div class='versus'><div><b>Text, {}</b>{}</div><div><b>Here</b>{}</div></div>",
        headline["place"], headline["text"], headline["ours"])  # fmt: skip


class _Named(NamedTuple):
    label: str
    diverged: bool = False


def drawn(prefix: str, figure: Mapping[str, Any], small: bool = False) -> Html:
    """Return a figure: one plot per panel, which share colours and switches; a small one has the first panel only."""
    labels = list(dict.fromkeys(line["label"] for panel in figure["panels"] for line in panel["lines"]))
    axes, group = figure["axes"], f"{prefix}-{figure['name']}-"
    x, y = Axis(axes["x"], axes["log_x"], counts=axes["x"], names=tuple(axes["names"])), Axis(axes["y"], axes["log_y"])
    plots = []
    for k, panel in enumerate(figure["panels"][: 1 if small else None]):
        curves = tuple(_curve(labels.index(line["label"]), line, small) for line in panel["lines"])
        plot = Panel(f"{group}{k}", panel["title"], "", x, y, curves, scattered=not figure["joined"], group=group)
        plots.append(chart(plot, [_Named(label) for label in labels]))
    if small:
        return joined(plots)
    return html(
        "<figure class='drawn'><h3>{}</h3><div class='plots'>{}</div><figcaption>{}</figcaption></figure>",
        figure["title"], joined(plots), figure["caption"])  # fmt: skip


def _curve(number: int, line: Mapping[str, Any], small: bool) -> Curve:
    every = np.arange(len(line["at"]))
    kept = every if not small else np.unique(np.linspace(0, every.size - 1, min(every.size, FEW)).round().astype(int))
    values = {key: _numbers(line[key])[kept] for key in ("at", "mean", "low", "high") if line.get(key) is not None}
    return Curve(number, values["at"], values["mean"], values.get("low"), values.get("high"), kept)


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def claims(summary: Mapping[str, Any]) -> Html:
    """Return all claims as a table; questions of our own are marked."""
    found = [
        ("own" if each["ours"] else "",
         (each["claim"], each["text"] or "our own question", each["figure"], OUTCOMES[each["outcome"]]))
        for each in summary["claims"]]  # fmt: skip
    return _table("Claims", "claims", ("claim", "text", "found", "outcome"), found)


def _table(label: str, kind: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> Html:
    """Return a table that can be scrolled; rows are (class, cells)."""
    head = joined(html("<th scope='col'>{}</th>", column) for column in columns)
    lines = (html("<tr class='{}'>{}</tr>", of, joined(html("<td>{}</td>", cell) for cell in row)) for of, row in rows)
    return html(
        "<div class='scroll' role='region' aria-label='{}' tabindex='0'><table class='{}'><thead><tr>{}</tr></thead>"
        "<tbody>{}</tbody></table></div>",
        label, kind, head, joined(lines))  # fmt: skip


def _how(summary: Mapping[str, Any]) -> Html:
    paragraphs = joined(html("<p>{}</p>", words) for words in (summary["data"], *summary["method"]) if words)
    table = summary["table"]
    if not table["rows"]:
        return paragraphs
    cells = _table("Cells", "", table["columns"], (("", row) for row in table["rows"]))
    return html("{}<p class='note'>Means over seeds; ± is half of a 95 % interval.</p>{}", paragraphs, cells)


def quick_form(summaries: Iterable[Mapping[str, Any]]) -> list[Html]:
    """Return a warning where one of them is of the quick form."""
    quick = [summary["quick"] for summary in summaries]
    which = "The" if all(quick) else f"{sum(quick)} of {len(quick)} studies are here in the"
    return [html("<p class='warning'>{}</p>", QUICK.format(which))] if any(quick) else []


def counted(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return "8 headline results: 5 reproduced, 2 direction only, 1 refuted"."""
    found = [told.worst["verdict"] for told in stated(summaries)]
    parts = [f"{found.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in found]
    count = "one headline result" if len(found) == 1 else f"{len(found)} headline results"
    return f"{count}: {', '.join(parts)}" if found else "no headline result of a text"


def facts(summary: Mapping[str, Any]) -> str:
    """Return seed, form, time, day and machine."""
    form = "quick" if summary["quick"] else "full"
    words = (f"seed {summary['seed']}", form, f"{summary['seconds']:,.0f} s", summary["date"], summary["machine"])
    return " · ".join(words)
