"""A study: one experiment of a text as declarations, and the directory that holds its outcome.

Cells say what is run, claims what is asked of the table of outcomes, headlines what became of the text's results,
figures which columns are drawn. All can be made again of the stored table (`tacit reproduce --stored`).
"""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tacit.core.errors import ResultError, TacitError
from tacit.results import Run
from tacit.results.live import LiveFile, LiveLog
from tacit.results.locks import writing
from tacit.results.record import machine, versions
from tacit.results.sealed import put, seal
from tacit.results.store import REPORT
from tacit.simulator import simulate
from tacit.sweeps.workers import Lost, in_parallel
from tacit_reproduction.datasets.fetch import digests, looked_for, search_path
from tacit_reproduction.figures import Figure
from tacit_reproduction.summary import OUTCOMES, code_digest, outcomes, read
from tacit_reproduction.table import Results, cells_of, loaded
from tacit_reproduction.verdict import Claim, Headline, shown

Crew = Callable[[str, Callable[[Any], Any], Sequence[Any]], list[Any]]
"""(words for the display, function of a task, tasks) -> results in the order of the tasks."""


_live: list[Path] = []  # directory of the study whose task this process does, for live files of its runs


@contextmanager
def watching() -> Iterator[tuple[LiveFile, ...]]:
    """Give who watches a run of a task: a live file for the board, by its process, gone when the run is over."""
    if not _live:
        yield ()
        return
    with LiveLog(_live[0], os.getpid()) as log:
        yield (LiveFile(log, f"under way in process {os.getpid()}", {}, agents=False),)
    if log.path is not None:
        log.path.unlink(missing_ok=True)


def crew(
    workers: int | None = None, told: Callable[[int, int], object] = lambda done, total: None, live: Path | None = None
) -> Crew:
    """Return what does tasks in `workers` processes (default: one per usable core, at most eight; one: this process).

    A result depends on its task only, so the number of processes changes no figure. Give long tasks first. `told` hears
    how many tasks of all that were given so far are done, and of how many; `live` is for live files of their runs.
    """
    done = total = 0

    def do_all(what: str, do: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        from rich.console import Console
        from rich.progress import track

        nonlocal done, total
        total += len(tasks)
        told(done, total)
        found: dict[int, Any] = {}
        look: dict[str, Any] = {"total": len(tasks), "transient": True, "disable": not sys.stderr.isatty()}
        with closing(in_parallel(partial(_noting, do, live), tasks, workers=workers)) as results:  # type: ignore[type-var]
            for ended in track(results, what, console=Console(stderr=True), **look):
                if isinstance(ended.result, Lost):
                    raise TacitError(ended.result.reason)
                found[ended.task], asked = ended.result
                looked_for(asked)
                done += 1
                told(done, total)
        return [found[k] for k in range(len(tasks))]

    return do_all


def _noting(do: Callable[[Any], Any], live: Path | None, task: Any) -> tuple[Any, frozenset[str]]:
    """Return the result, and the data files that were asked for; say where a fault that nobody meant came from."""
    _live[:] = [] if live is None else [live]
    try:
        return do(task), looked_for()
    except TacitError:
        raise
    except Exception:
        traceback.print_exc()
        raise
    finally:
        _live.clear()


SEEDS_APART = 1000  # between the first seeds of two runs of a study
ORIGIN = ("quick", "seed", "seconds", "date", "machine", "versions", "made_of")
"""What stays as it was where stored outcomes are judged again."""


class Judgement(NamedTuple):
    """What a study makes of its table."""

    claims: Sequence[Claim]
    headlines: Sequence[Headline]
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Study:
    """An experiment of a text that can be run again."""

    name: str
    title: str
    source: str  # text and place, e.g. "OPS paper, sec. 5".
    minutes: float  # that the full form takes on two cores
    measure: Callable[[Crew, bool, int], Results]  # (crew, quick, first seed) -> all outcomes; see `over`
    judge: Callable[[Results], Judgement]  # Claims, headlines and figures of a table, whether just measured or stored
    method: str  # the procedure and what the text leaves open; paragraphs are apart by an empty line
    tabled: Sequence[str] = ()  # measures of (seeds,) that the page's table has, cell by cell

    def run(self, quick: bool, out: Path, seed: int, workers: int | None = None) -> dict[str, Any]:
        """Run the study, write its directory and return the summary; for `workers` see `crew`."""
        with writing(out), LiveLog(out) as log:
            begun, code = time.perf_counter(), code_digest()
            log.begin(self.name, "study", {"algorithm": self.source, "seed": seed}, {"quick": quick}, self.title)
            team = crew(workers, lambda done, total: log.rows(done, [], {}, rounds=total), out)
            results = self.measure(team, quick, SEEDS_APART * seed)
            origin = {
                "quick": quick, "seed": seed, "seconds": round(time.perf_counter() - begun, 2),
                "date": datetime.now(UTC).date().isoformat(), "machine": machine(), "versions": versions(),
                "made_of": {"code": code, "data": digests(looked_for(), search_path())}}  # fmt: skip
            summary = self._write(results.content(), origin, out)
            log.end("done", len(results.rows))
            return summary

    def judge_again(self, out: Path) -> dict[str, Any]:
        """Judge the stored outcomes of a directory by the code that is here now, and write its pages anew."""
        old = read(out)
        if old["experiment"] != self.name:
            raise ResultError(f"{out} holds {old['experiment']}, expected {self.name}; name its directory with --out")
        with writing(out):
            return self._write(outcomes(out), {key: old[key] for key in ORIGIN}, out)

    def _write(self, content: bytes, origin: Mapping[str, Any], out: Path) -> dict[str, Any]:
        from tacit_reproduction.page import page

        summary = self.summary(content, origin)
        put(out, seal({OUTCOMES: content, REPORT: page(summary).encode("utf-8")}, summary))
        return summary

    def summary(self, content: bytes, origin: Mapping[str, Any]) -> dict[str, Any]:
        """Judge a table of outcomes, and add where it comes from (`ORIGIN`)."""
        results = loaded(content)  # also where they are fresh: what is judged is what is stored
        judgement = self.judge(results)
        _check(judgement)
        return {
            "experiment": self.name, "title": self.title, "source": self.source,
            "claims": [_row(claim, judgement.headlines) for claim in judgement.claims],
            "headlines": [{**each._asdict(), "claims": list(each.claims)} for each in judgement.headlines],
            "figures": [figure.as_json() for figure in judgement.figures], "table": self._table(results),
            "method": [" ".join(paragraph.split()) for paragraph in self.method.split("\n\n")],
            "data": str(results.facts.get("data", "")), **origin}  # fmt: skip

    def _table(self, results: Results) -> dict[str, Any]:
        rows = [row for row in results.rows if any(name in row.measures for name in self.tabled)]
        factors = list(dict.fromkeys(name for row in rows for name in row.factors))
        cells = [[str(row.factors.get(name, "")) for name in factors]
                 + [shown(row.measures[name]) if name in row.measures else "" for name in self.tabled]
                 for row in rows]  # fmt: skip
        return {"columns": [*factors, *self.tabled], "rows": cells}


def over(
    cells: Callable[[bool], Sequence[Any]],  # quick -> NamedTuples, the long ones first; fields are the table's factors
    run: Callable[[Any], Any],  # (cell, seeds, first seed) -> measures by name; or rows, where it is several of these
    seeds: tuple[int, int],  # of the full and of the quick form
    facts: Callable[[bool], Mapping[str, Any]] = lambda quick: {},  # quick -> further facts; "data" describes the data
) -> Callable[[Crew, bool, int], Results]:
    """Return the usual `Study.measure`: every cell by itself, in as many processes as there are cores.

    `run` is a function of a module, which other processes can import. `facts` are asked first, so that missing data are
    told before anything runs.
    """

    def measure(team: Crew, quick: bool, first: int) -> Results:
        known, wanted = facts(quick), list(cells(quick))
        return cells_of(wanted, team("running", run, [(cell, seeds[quick], first) for cell in wanted]), known)

    return measure


def finished_run(*problem: Any, **settings: Any) -> Run:
    """Simulate as `tacit.simulate` does; a run that was interrupted is no evidence, and ends the experiment too."""
    with watching() as watch:
        run = simulate(*problem, **settings, progress=False, watch=watch)
    if run.partial:
        raise KeyboardInterrupt
    return run


def _row(claim: Claim, headlines: Sequence[Headline]) -> dict[str, Any]:
    """Return a claim with the headline that rests on it; one of no headline and no text is a question of our own."""
    of = next((each for each in headlines if claim.claim in each.claims), None)
    named = {"headline": of.headline, "verdict": of.verdict} if of else {"headline": "", "verdict": None}
    text = claim.text or (f"{of.text} ({of.place})" if of else "")
    return {**claim._asdict(), **named, "text": text, "ours": not text}


def _check(judgement: Judgement) -> None:
    drawn = {"", *(figure.name for figure in judgement.figures)}
    seen = [(claim.claim, claim.seen_in) for claim in judgement.claims]
    for words, figure in (*seen, *((each.headline, each.seen_in) for each in judgement.headlines)):
        if figure not in drawn:
            raise TacitError(f"{words!r} is said to be seen in {figure!r}; expected one of {sorted(drawn)}")
