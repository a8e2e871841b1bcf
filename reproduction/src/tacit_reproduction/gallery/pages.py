"""Pages of the gallery: an index by headline, one page per text with its studies, and the same as Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.results.html import Html, document, html, joined
from tacit.results.pages.script import SCRIPT
from tacit.results.pages.style import CSS as REPORT_CSS
from tacit.results.report import NOTHING
from tacit.results.sealed import put
from tacit_reproduction import page
from tacit_reproduction.catalogue import TEXTS, Text
from tacit_reproduction.gallery.markdown import CLAIMS, HEADLINES, claims, headlines
from tacit_reproduction.gallery.schedule import Finished, summaries
from tacit_reproduction.gallery.script import FILTER
from tacit_reproduction.gallery.style import CSS

INDEX = "index.html"
ACROSS = 8  # cells in a row of the table of headlines
APPENDIX = html("<p>An appendix: no headline rests on it.</p>")


def write_pages(outcomes: Sequence[Finished], out: Path) -> Path:
    """Write the gallery of finished studies into `out` and return its index."""
    told = [(text, ours) for text in TEXTS if (ours := [each for each in outcomes if text.cited in each.study.source])]
    pages = {_name(text): _text_page(text, ours) for text, ours in told}
    words = {HEADLINES: headlines(told), CLAIMS: claims(told)}
    files = {**pages, **words, INDEX: _index(told)}
    put(out, {name: content.encode("utf-8") for name, content in files.items()}, last=INDEX)
    return out / INDEX


def _name(text: Text) -> str:
    return f"text-{text.key}.html"


def _document(title: str, *parts: Html) -> str:
    return document(title, joined(parts, "\n"), REPORT_CSS, page.STUDY_CSS, CSS, script=SCRIPT + FILTER)


def _index(told: Sequence[tuple[Text, Sequence[Finished]]]) -> str:
    outcomes = [each for _, ours in told for each in ours]
    done, failed = summaries(outcomes), (each for each in outcomes if each.summary is None)
    lost = (html("<p class='warning'>{} did not run: {}</p>", each.study.name, each.fault) for each in failed)
    return _document(
        "tacit: five texts, run again",
        html(
            "<header><h1>Five texts, run again</h1><p class='by'>A gallery by tacit: what the texts found, and what "
            "became of it here</p></header>"),
        *page.quick_form(done), html("<p class='total'>{}.</p>", page.counted(done)), *lost,
        _front(told), _meanings(), _filter(done), *(_section(text, ours) for text, ours in told),
        html("<footer>{}</footer>", _origin(done)))  # fmt: skip


def _front(told: Sequence[tuple[Text, Sequence[Finished]]]) -> Html:
    """Return the table of texts and their headlines: a cell for each, by colour, glyph and words."""
    rows = []
    for text, ours in told:
        cells = _cells(text, ours)
        lines = [cells[k : k + ACROSS] for k in range(0, max(1, len(cells)), ACROSS)]
        names = (len(lines), _name(text), text.cited, text.title)
        head = html("<th scope='row' rowspan='{}'><a href='{}'>{}</a><small>{}</small></th>", *names)
        for line in lines:
            blank = [html("<td></td>")] * (ACROSS - len(line))
            rows.append(html("<tr>{}{}</tr>", head if line is lines[0] else NOTHING, joined([*line, *blank])))
    label = "Headline results, text by text"
    return html("<table class='front' aria-label='{}'><tbody>{}</tbody></table>", label, joined(rows))


def _cells(text: Text, outcomes: Sequence[Finished]) -> list[Html]:
    cell = "<td class='{}' data-verdict='{}'><a href='{}' title='{}'><b>{}</b><span class='said'>{}</span></a></td>"
    lost = "<td class='untested'><div><b>did not run</b>{}</div></td>"
    cells = []
    for told in page.stated(summaries(outcomes)):
        place, worst = f"{_name(text)}#{told.anchor}", told.worst
        title = f"{worst['headline']} ({told.places})"
        words = page.KEYS[worst["verdict"]], worst["verdict"], place, title, page.verdict_words(worst)
        cells.append(html(cell, *words, worst["headline"]))
    return cells + [html(lost, each.study.name) for each in outcomes if each.summary is None]


def _meanings() -> Html:
    item = "<dt class='{}'>{} {}</dt><dd>{}</dd>"
    items = joined(html(item, page.KEYS[v], page.MARKS[v], v, words) for v, words in page.MEANINGS.items())
    return html("<details><summary>What the verdicts mean</summary><dl class='meaning'>{}</dl></details>", items)


def _filter(done: Sequence[Mapping[str, Any]]) -> Html:
    """Return the buttons, which the script shows: all, and one for each verdict that there is."""
    found = [told.worst["verdict"] for told in page.stated(done)]
    button = "<button type='button' class='{}' value='{}'>{} {} ({})</button>"
    buttons = (html(button, page.KEYS[v], v, mark, v, found.count(v)) for v, mark in page.MARKS.items() if v in found)
    return html(
        "<p class='filter' role='group' aria-label='Show results by verdict' hidden><button type='button' value=''>all "
        "({})</button>{}<output aria-live='polite'></output></p>",
        len(found), joined(buttons))  # fmt: skip


def _section(text: Text, outcomes: Sequence[Finished]) -> Html:
    done = summaries(outcomes)
    cards = [_card(text, told) for told in page.stated(done)]
    return html(
        "<section id='{}'><h2><a href='{}'>{}: {}</a></h2><p class='by'>{}. {}.</p><div class='cards'>{}</div>"
        "</section>",
        text.key, _name(text), text.cited, text.title, text.origin, page.counted(done), joined(cards))  # fmt: skip


def _card(text: Text, told: page.Stated) -> Html:
    """Return a headline, and of each study that states it a small figure, the text's numbers and ours."""
    worst, parts = told.worst, []
    for (summary, number), each in zip(told.parts, told.each, strict=True):
        figures = (figure for figure in summary["figures"] if figure["name"] == each["seen_in"])
        small = (page.drawn(f"{summary['experiment']}-{number + 1}", figure, small=True) for figure in figures)
        parts += [*small, page.versus(each)]
    return html(
        "<article class='result {}' data-verdict='{}'><h3>{}</h3><p>{} <small>{}</small></p>{}"
        "<p class='more'><a href='{}'>Why, every claim, how it was done</a></p></article>",
        page.KEYS[worst["verdict"]], worst["verdict"], worst["headline"], page.badge(worst), told.places,
        joined(parts), f"{_name(text)}#{told.anchor}")  # fmt: skip


def _text_page(text: Text, outcomes: Sequence[Finished]) -> str:
    done = summaries(outcomes)
    sections = (_study(each, page.stated(done)) for each in outcomes)
    return _document(
        f"{text.title}, run again",
        html(
            "<header><h1>{}</h1><p class='by'>{}: {} · <a href='{}'>all texts</a></p></header>",
            text.title, text.cited, text.origin, INDEX),
        *page.quick_form(done), html("<p class='total'>{}.</p>", page.counted(done)), _front([(text, outcomes)]),
        _filter(done), *sections, html("<footer>{}</footer>", _origin(done)))  # fmt: skip


def _study(outcome: Finished, headlines: Sequence[page.Stated]) -> Html:
    study, summary = outcome.study, outcome.summary
    heading = html("<section id='{}'><h2>{}</h2><p class='by'>{}</p>", study.name, study.title, study.source)
    if summary is None:
        return html("{}<p class='warning'>Did not run: {}</p></section>", heading, outcome.fault)
    own = [told for told in headlines if any(part is summary for part, _ in told.parts)]
    told = [page.result(one) if one.parts[0][0] is summary else _elsewhere(one) for one in own] or [APPENDIX]
    return html("{}<p class='facts'>{}</p>{}</section>", heading, page.facts(summary), page.body(summary, told))


def _elsewhere(told: page.Stated) -> Html:
    return html("<p>It belongs to the headline <a href='#{}'>{}</a>.</p>", told.anchor, told.worst["headline"])


def _origin(done: Sequence[Mapping[str, Any]]) -> Html:
    """Return days, machines and versions of all summaries."""
    days = sorted({summary["date"] for summary in done})
    machines = sorted({summary["machine"] for summary in done})
    versions = sorted({", ".join(f"{k} {v}" for k, v in sorted(summary["versions"].items())) for summary in done})
    seconds = sum(summary["seconds"] for summary in done)
    lines = (" and ".join(days), *machines, *versions, f"{seconds:,.0f} s in all, several at a time")
    return joined(html("<p>{}</p>", line) for line in lines)
