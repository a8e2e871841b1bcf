"""Studies of no text: quick ones that end in every way there is."""

import functools
import os
import signal

import numpy as np

from tacit.core.errors import DataError
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Results, Row
from tacit_reproduction.verdict import Pair, below, headline, judged, within

SEEDS = 6


def found(team: Crew, quick: bool, first: int) -> Results:
    """Two methods, of which A & B is better by 0.5, at three steps."""
    rng = np.random.default_rng(first)
    print("as it goes")
    rows = [
        Row({"method": method, "step": step},
            {"rounds": np.arange(1, 21), "loss": level + 0.1 * rng.random((SEEDS, 20)),
             "end": level + rng.random(SEEDS) / 9})
        for method, level in (("A & B", 0.5), ("C | D", 1.0)) for step in (0.1, 0.2, 0.4)]  # fmt: skip
    return Results(rows, {"data": f"{len(os.sched_getaffinity(0))} core <made up>"})


def judge(results: Results, best: bool = True) -> Judgement:
    better, worse = (results.of("end", method=method, step=0.2) for method in results.levels("method"))
    holds = judged("A < B", Pair("", better, worse), below(), text="0.3 (table 1)", seen_in="picture")
    fails = judged("B | A <is> lower", Pair("", worse, better), below(), text="figure 2", seen_in="picture")
    own = judged("both are alike", Pair("", better, worse), within(0.1))
    words = {"text": "0.3 <here>", "ours": f"{better.mean():.2f}", "why": "as said", "seen_in": "picture"}
    place = "table 1"
    headlines = [
        headline("A is best | of all", place=place, claims=[holds if best else fails], **words),
        headline("It hangs on R", place=place, sweep={"R = 1 <&>": [holds], "R = 2": [fails]}, **words),
        headline("B is best", place=place, claims=[fails], **{**words, "seen_in": ""}),
    ]
    figures = [
        curves(results.where(step=0.2), "picture", "A <picture>", "Its caption", "loss", lines="method", log_x=True),
        dots(results, "steps", "By step", "Another", "end", x="method", lines="step"),
    ]
    return Judgement([holds, fails, own], headlines, figures)


def fails(team: Crew, quick: bool, first: int) -> Results:
    raise DataError("rows.csv is not there; put it there")


def dies(team: Crew, quick: bool, first: int) -> Results:
    os._exit(3)


def waits(team: Crew, quick: bool, first: int) -> Results:
    while True:
        signal.pause()


def study(name: str, source: str, minutes: float = 1, measure=found, best: bool = True) -> Study:
    judged = functools.partial(judge, best=best)
    return Study(name, f"The {name} <one>", source, minutes, measure, judged, "Done\nso.\n\nAnd so.", ("end",))


STUDIES = [
    study("fine", "OPS paper, sec. 5", 2),
    study("fails", "Rizk (2023), ch. 9", 1, fails),
    study("dies", "beyond Gauthier (2023), ch. 5", 3, dies),
]
FOR_EVER = study("waits", "Li et al.", measure=waits)


def named(name: str) -> Study:
    return next(each for each in (*STUDIES, FOR_EVER) if each.name == name)
