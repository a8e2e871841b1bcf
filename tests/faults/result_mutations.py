"""Damaged and hostile run directories: whatever is in them, the commands that read them end with figures or one message.

    python -m tests.faults.result_mutations                       10,000 directories (minutes)
    python -m tests.faults.result_mutations --count 300 --seed 3

Directories of a run, of a comparison, of a reproduced experiment, and checkpoints, are changed: bytes flipped, files cut
off, missing, swapped, linked; values of other types, huge, markup, control characters. Of most of them the digests are
then set right, as somebody would who wants to be read. Looked for: a traceback, markup that reaches a page, a control
character that reaches the terminal. The exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from reproduction.tests import made_up

from tacit import algorithms, graphs, objectives, privacy, simulate, streams
from tacit.cli import main
from tacit.core.errors import ResultError
from tacit.results import Comparison
from tacit.results.pages.script import SCRIPT
from tacit.results.report import page
from tacit_reproduction.gallery import Finished, schedule, write_pages
from tacit_reproduction.gallery.script import FILTER
from tacit_reproduction.summary import outcomes
from tacit_reproduction.table import loaded

MARKUP = "<tacit-evil onclick='x'>"
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**30, 2**63, 0.5, "", [], {}, [[]], [None], {"mean": None}, {"a": [1]},
    MARKUP, "'><script>alert(1)</script>", "\" onload=\"x", "</title></style>" + MARKUP, "<!--><script>--></script>",
    "\x1b[2J\x1b]0;owned\x07", "a\rb\x00c\x08", "\u202egnp.exe", "\u2066x\u2069", "\x9b31m", "\ud800", "\u2028", "$\\frac{$",
    "$x_{$", "%s{0}{x}", "../../../etc/passwd", "x" * 5000, "a\nerror: b", "nan", "Infinity",
)  # fmt: skip
RAW = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 3000 + "]" * 3000, '"\\ud800"', "1e-400", "-0", "tru")
"""To stand in JSON as they are."""
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OWN = tuple(f"<script>{script}</script>" for script in (SCRIPT, SCRIPT + FILTER))
"""The script of every report, and that of the gallery."""
DRAWN_EVERY = 100
"""Of the directories that are read, one in so many is drawn too, which takes a second."""


class Tags(HTMLParser):
    """The names of elements and attributes of a page, and of those inside a <script>."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attributes)}


@dataclass
class Figures:
    """What was seen."""

    outcomes: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    """Subject -> how often it was taken for results."""
    by_kind: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    drawn: int = 0


# -- the subjects ------------------------------------------------------------------------------------------------------


def make_subjects(folder: Path) -> dict[str, Path]:
    """Write one directory of each kind."""
    stream, graph = streams.logistic_drift(3, 2, seed=0), graphs.directed_ring(3)
    noise = privacy.laplace(clip=1.0, epsilon=1.0)
    problem: dict[str, Any] = {"rounds": 12, "repeats": 2, "progress": False}
    made = algorithms.online_push_sum(objectives.logistic(), mechanism=noise)
    run = simulate(made, graph, stream, **problem, record_every=3, checkpoint=folder / "state" / "state.npz")
    run.regret(points=2)
    other = simulate(algorithms.local_online(objectives.logistic()), graph, stream, **problem)
    run.settings = {
        "run": {"name": "one"},
        "algorithm": [{"name": "online_push_sum", "step": {"kind": "fixed", "value": 1}}],
    }
    run.save(folder / "run")
    Comparison((run.record(), other.record()), "two", run.settings).save(folder / "both")
    made_up.named("fine").run(True, folder / "fine", 0)
    for picture in (*folder.glob("*/*.png"), *folder.glob("run/*.html"), *folder.glob("both/*.html")):
        picture.unlink()  # nobody reads them back
    return {name: folder / name for name in ("run", "both", "fine", "state")}


# -- the changes -------------------------------------------------------------------------------------------------------


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def flip(chance: random.Random, directory: Path) -> None:
    """Flip bits of a file."""
    path = chance.choice(files_in(directory))
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 3, 20))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut(chance: random.Random, directory: Path) -> None:
    """Cut a file off, or add to it."""
    path = chance.choice(files_in(directory))
    content = path.read_bytes()
    keep = chance.randrange(len(content))
    path.write_bytes(chance.choice((content[:keep], content[keep:], content + chance.randbytes(50), content * 2, b"")))


def lose(chance: random.Random, directory: Path) -> None:
    """Remove a file, or put others beside it."""
    if chance.random() < 0.6:
        chance.choice(files_in(directory)).unlink()
    else:
        (directory / chance.choice((".tacit-lock", "runs", "a.json", MARKUP.replace("/", "")))).write_text("0\n")


def link(chance: random.Random, directory: Path) -> None:
    """Put something else in a file's place."""
    path = chance.choice(files_in(directory))
    path.unlink()
    kind = chance.randrange(5)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    else:
        path.symlink_to(chance.choice((path, "/dev/zero", "/dev/null", "/etc/passwd", directory, "nowhere")))


def swap(chance: random.Random, directory: Path) -> None:
    """Exchange two files."""
    one, other = chance.choice(files_in(directory)), chance.choice(files_in(directory))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value of a JSON document."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def value(chance: random.Random, directory: Path) -> None:
    """Change, remove or rename values of a summary."""
    path = chance.choice([file for file in files_in(directory) if file.name == "summary.json"])
    content = json.loads(path.read_bytes())
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        *way, last = chance.choice([place for place in places(content) if place] or [("x",)])
        inside = content
        try:
            for key in way:
                inside = inside[key]
            change = chance.random()
            if change < 0.1:
                del inside[last]
            elif change < 0.2 and isinstance(inside, dict):
                inside[chance.choice(("", MARKUP, "\x1b[2J", "x" * 300))] = inside.pop(last)
            else:
                inside[last] = chance.choice(NASTY)
        except (KeyError, IndexError, TypeError):
            continue
    path.write_text(json.dumps(content), encoding="utf-8")


def raw(chance: random.Random, directory: Path) -> None:
    """Put what is hardly JSON into a summary."""
    path = chance.choice([file for file in files_in(directory) if file.name == "summary.json"])
    text = path.read_text()
    numbers = list(re.finditer(r"(?<=: )-?[0-9.e-]+|(?<=: )\"[^\"]*\"", text))
    found = chance.choice(numbers)
    path.write_text(text[: found.start()] + chance.choice(RAW) + text[found.end() :])


def config(chance: random.Random, directory: Path) -> None:
    """Change config.toml, where there is one."""
    found = [file for file in files_in(directory) if file.name == "config.toml"]
    if not found:
        return value(chance, directory)
    words = json.dumps(chance.choice([word for word in NASTY if isinstance(word, str) and word != "\ud800"]))
    lines = (
        f"[run]\nname = {words}", f"[[algorithm]]\nname = {words}\n{words} = {words}", "run = 1", "algorithm = []",
        f"[[algorithm]]\nstep = {{kind = {words}, x = [1, nan]}}", "algorithm = [1]", f"[run]\nname = [{words}]",
        "x = " + "[" * 400 + "]" * 400, "[[algorithm]]\nkind = 1979-05-27\nx = {kind = 3}", "a" * 10000, "[" + "a." * 300 + "b]",
    )  # fmt: skip
    chance.choice(found).write_text(chance.choice(lines) + "\n")
    return None


def trace(chance: random.Random, directory: Path) -> None:
    """Write a trace of another shape, or with other numbers."""
    found = [file for file in files_in(directory) if file.name == "trace.parquet"]
    if not found:
        return flip(chance, directory)
    path = chance.choice(found)
    columns: dict[str, Any] = {name: column.to_numpy().copy() for name, column in _columns(path).items()}
    name = chance.choice(list(columns))
    kind = chance.randrange(7)
    if kind == 0:
        del columns[name]
    elif kind == 1:
        columns = {key: column[:-1] for key, column in columns.items()}
    elif kind == 2:
        columns[name] = columns[name].astype(chance.choice((np.float32, np.int32, np.uint64, str)))
    elif kind == 3:
        columns[name][chance.randrange(len(columns[name]))] = chance.choice((-1, 0, 2**62))
    elif kind == 4 and columns[name].dtype == np.float64:
        columns[name][:] = chance.choice((np.nan, np.inf, 1e308, -1e308, 0.0, 5e-324))
    elif kind == 5:
        columns[MARKUP] = columns.pop(name)
    else:
        times = chance.choice((0, 2, 50))
        columns = {key: np.repeat(column, times) for key, column in columns.items()}
    parquet.write_table(pa.table(columns), path)
    return None


def _columns(path: Path) -> dict[str, Any]:
    table = parquet.read_table(path, use_threads=False)
    return {name: table.column(name) for name in table.column_names}


def picture(chance: random.Random, directory: Path) -> None:
    """Put markup into an SVG, where there is one."""
    found = [file for file in files_in(directory) if file.suffix == ".svg"]
    if not found:
        return value(chance, directory)
    text = found[0].read_text()
    evil = (
        "<script>alert(1)</script>", "<!--><script>alert(1)</script>-->", "<g onload='x'/>", f"</svg>{MARKUP}<svg>",
        "<image href='http://a.b/c.png'/>", "<foreignObject><tacit-evil/></foreignObject>", "<use href='file:///x'/>",
        "<style>@import 'x'</style>", "<g style='background:url(http://a.b)'/>", "<![CDATA[<script>]]>", "<?xml-stylesheet?>",
        "<a xmlns:xlink='http://www.w3.org/1999/xlink' xlink:href='javascript:x'/>", "<g xmlns='x'/>",
    )  # fmt: skip
    found[0].write_text(text.replace("</svg>", f"{chance.choice(evil)}</svg>"))
    return None


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "bits": flip, "cut": cut, "missing": lose, "links": link, "swapped": swap, "values": value, "raw": raw,
    "config": config, "trace": trace, "picture": picture,
}  # fmt: skip
WEIGHTS = (8, 6, 5, 5, 4, 34, 8, 10, 12, 8)


def refit(directory: Path) -> None:
    """Set the digests right, those of parts before that of the whole."""
    for path in sorted(directory.rglob("summary.json"), key=lambda path: -len(path.parts)):
        with contextlib.suppress(Exception):
            summary = json.loads(path.read_bytes()) if path.stat().st_size < 10**6 and path.is_file() else None
            for name in summary["files"]:
                file = path.parent / name
                if file.is_file() and file.stat().st_size < 10**6:
                    summary["files"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
            path.write_text(json.dumps(summary), encoding="utf-8")


# -- the readers -------------------------------------------------------------------------------------------------------


def command(*arguments: str) -> tuple[int, str]:
    """Run a command here; returns its exit code and all that it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as left:
            return int(str(left.code)), said.getvalue()


def look(subject: str, directory: Path, draw: bool) -> tuple[str, list[str]]:
    """Read a directory in all ways that there are; returns how it ended, and what a page or a terminal would get."""
    if subject == "state":
        return resume(directory / "state.npz")
    if subject == "fine":
        return gallery(directory)
    code, said = command("compare", str(directory))
    if code != 0:
        return f"refused ({code})", [said]
    text = page(Comparison.load([directory]), f"tacit compare {directory}")
    if draw:
        code, more = command("compare", str(directory), "--out", str(directory.parent / "out"))
        said += more + (directory.parent / "out" / "report.html").read_text()
    return f"read ({code})", [said, text]


def gallery(directory: Path) -> tuple[str, list[str]]:
    """Read what `tacit reproduce --all` would keep, and make its pages."""
    study = made_up.named("fine")
    summary = schedule._kept(study, directory, True, 0)
    if summary is None:
        return "refused (done anew)", []
    with contextlib.suppress(ResultError):
        loaded(outcomes(directory))
    write_pages([Finished(study, directory, summary)], directory.parent / "pages")
    return "read (0)", [path.read_text() for path in (directory.parent / "pages").iterdir()]


def resume(path: Path) -> tuple[str, list[str]]:
    """Read a checkpoint as `simulate` does, up to the comparison with its own run."""
    from tacit.simulator import checkpoint

    log = checkpoint.Log({"algorithm": "online_push_sum"}, ["consensus"])
    try:
        checkpoint.load(path, log, None)  # type: ignore[arg-type]
    except ResultError as error:
        return "refused (2)", [str(error).encode("unicode_escape").decode()]
    return "read (0)", []


def judge(texts: list[str]) -> str:
    """Say what is wrong with what was printed or written; "" if nothing is."""
    for text in texts:
        if HIDDEN.search(text):
            return f"a control character: {HIDDEN.search(text)!r}"
        tags = Tags(text.replace(OWN[0], "", 1).replace(OWN[1], "", 1)).found if text.startswith("<!doctype") else set()
        evil = {tag for tag in tags if tag in {"script", "tacit-evil", "foreignobject"} or tag.startswith("on")}
        if evil:
            return f"markup: {evil}"
    return ""


def campaign(count: int, seed: int) -> Figures:
    """Change, read and judge so many directories."""
    figures, chance = Figures(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tacit-mutations-") as folder:
        subjects = make_subjects(Path(folder) / "subjects")
        for number in range(count):
            subject = chance.choices(list(subjects), (40, 35, 20, 5))[0]
            kind = "bits" if subject == "state" else chance.choices(list(KINDS), WEIGHTS)[0]
            place = Path(folder) / "now"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(subjects[subject], place / "x")
            KINDS[kind](chance, place / "x")
            fitted = chance.random() < 0.75
            if fitted:
                refit(place / "x")
            wrong = one(figures, subject, kind, place / "x")
            if wrong:
                figures.violations.append(f"number {number}, {subject}, {kind}: {wrong}")
    return figures


def one(figures: Figures, subject: str, kind: str, directory: Path) -> str:
    """Read one directory and note how it went."""
    draw = figures.outcomes["read (0)"] % DRAWN_EVERY == DRAWN_EVERY - 1
    figures.drawn += draw
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font of a plot lacks
        try:
            outcome, texts = look(subject, directory, draw)
        except Exception:
            outcome, texts = "traceback", []
            wrong = traceback.format_exc(limit=-3)
        else:
            wrong = judge(texts) if outcome.endswith(("(0)", "(2)", "anew)")) else outcome
    figures.outcomes[outcome] += 1
    figures.read[subject] += outcome == "read (0)"
    figures.by_kind[kind] += 1
    return wrong


def report(figures: Figures, seconds: float) -> str:
    """Return the figures as text."""
    lines = [
        f"{sum(figures.outcomes.values()):,} directories in {seconds:.0f} s, {figures.drawn} of them drawn",
        f"how they ended: {dict(figures.outcomes)}",
        f"read: {dict(figures.read)}",
        f"by kind: {dict(figures.by_kind)}",
        f"violations: {len(figures.violations)}",
        *figures.violations[:20],
    ]
    return "\n".join(lines)


def run() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    begun = time.monotonic()
    figures = campaign(asked.count, asked.seed)
    print(report(figures, time.monotonic() - begun))
    return int(bool(figures.violations))


if __name__ == "__main__":
    sys.exit(run())
