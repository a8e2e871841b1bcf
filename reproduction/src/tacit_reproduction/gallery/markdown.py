"""Headlines as one table and claims as lists, in Markdown: the generated parts of docs/reproduction.md."""

import re
import string
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.core.text import visible
from tacit_reproduction.catalogue import Text
from tacit_reproduction.gallery.schedule import Finished, summaries
from tacit_reproduction.page import OUTCOMES, counted, stated, verdict_words
from tacit_reproduction.summary import command

HEADLINES, CLAIMS = "headlines.md", "claims.md"
WIDTH = 120
Told = Sequence[tuple[Text, Sequence[Finished]]]


def headlines(told: Told) -> str:
    """Return the table of all headlines, a line for each, then the machines, and what did not run."""
    outcomes = [each for _, ours in told for each in ours]
    done = summaries(outcomes)
    machines = dict(zip(sorted({summary["machine"] for summary in done}), string.ascii_uppercase, strict=False))
    table = ["| text | headline | verdict | run |", "|---|---|---|---|"]
    for text, ours in told:
        name = f"**{_plain(text.cited)}**"
        for one in stated(summaries(ours)):
            runs, places = [], []
            for (summary, _), each in zip(one.parts, one.each, strict=True):
                where, form = machines.get(summary["machine"], "other"), "quick" if summary["quick"] else "full"
                runs.append(f"{_plain(summary['date'])}, {where}, {summary['seconds']:,.0f} s, {form}")
                places.append(f"[{_plain(each['place'])}]({CLAIMS}#{_plain(summary['experiment'])})")
            words = f"{_plain(one.worst['headline'])} ({', '.join(places)})"
            table.append(f"| {name} | {words} | {one.words} | {'; '.join(runs)} |")
            name = ""
    legend = "; ".join(f"{letter}: {_plain(machine)}" for machine, letter in machines.items())
    lost = [f"- {each.study.name} did not run: {_plain(each.fault)}" for each in outcomes if each.summary is None]
    parts = [f"{counted(done)}.", "\n".join(table), f"Machines: {legend}.", "\n".join(lost)]
    return "\n\n".join(part for part in parts if part) + "\n"


def claims(told: Told) -> str:
    """Return every claim of every study, as lists of lines that are no longer than a screen is wide."""
    parts = [
        "# Every claim",
        "What each study asked and found: headlines with the text's numbers, ours and the reason, then every claim.\n"
        "Questions that no text asks are marked *ours*; they count for nothing.",
    ]
    for summary in summaries(each for _, ours in told for each in ours):
        held = [each["outcome"] for each in summary["claims"] if not each["ours"]]
        about = (
            f"{_plain(summary['title'])} ({_plain(summary['source'])}). `{command(summary)}`, "
            f"{summary['seconds']:,.0f} s, {_plain(summary['date'])}, {_plain(summary['machine'])}. "
            f"{held.count('holds')} of {len(held)} claims of the text hold, {held.count('open')} are open."
        )
        data = [_wrapped(_plain(summary["data"]))] if summary["data"] else []
        told_of = [*map(_headline, summary["headlines"]), *map(_claim, summary["claims"])]
        parts += [f"## {_plain(summary['experiment'])}", _wrapped(about), *data, *told_of]
    return "\n\n".join(parts) + "\n"


def _headline(each: Mapping[str, Any]) -> str:
    at = "; ".join(f"{_plain(setting)}: {OUTCOMES[outcome]}" for setting, outcome in each["settings"].items())
    words = {"Text": each["text"], "Here": each["ours"], "Why": each["why"]}
    told = " ".join(f"{name}: {_plain(said).removesuffix('.')}." for name, said in words.items())
    swept = f" Swept: {at}." if at else ""
    return _wrapped(f"**{verdict_words(each)}: {_plain(each['headline'])}** ({_plain(each['place'])}). {told}{swept}")


def _claim(each: Mapping[str, Any]) -> str:
    said = "*ours*" if each["ours"] else f"Text: {_plain(each['text'])}"
    return _wrapped(
        f"- **{OUTCOMES[each['outcome']]}**: {_plain(each['claim'])}. {said}. Found: {_plain(each['figure'])}."
    )


def _wrapped(words: str) -> str:
    inside = "  " if words.startswith("- ") else ""
    lines = textwrap.wrap(words, WIDTH, subsequent_indent=inside, break_long_words=False, break_on_hyphens=False)
    # A further line that begins like a heading or an item of a list would be taken for one.
    return "\n".join([*lines[:1], *(re.sub(r"^(\s*\d*)([-+#.)]+\s)", r"\1\\\2", line) for line in lines[1:])])


def _plain(text: str) -> str:
    """Return text in which nothing is taken for markup or breaks a cell of a table."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(visible(text).split()))
