"""Work and printed lines of `tacit reproduce`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.common import keep_to_itself, print_table, reported, say
from tacit.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from tacit_reproduction.gallery import Finished
    from tacit_reproduction.study import Study

OUTCOMES = {"holds": "holds", "open": "open", "fails": "DOES NOT HOLD"}


@reported
def run(
    name: str | None,
    everything: bool,
    listed: bool,
    quick: bool,
    out: Path | None,
    seed: int,
    jobs: int | None,
    strict: bool,
    on: str,
    stored: bool,
) -> None:
    """Do what the command's options say."""
    from tacit_reproduction.catalogue import all_studies

    if everything:
        if name is not None:
            raise ConfigError(f"reproduce takes a name ({name!r}) or --all, not both: leave one of them out")
        _all(out or Path("runs/gallery"), quick, seed, jobs, strict, on, stored)
        return
    if jobs is not None or on != "pool":
        what = "--on" if jobs is None else "--jobs"
        raise ConfigError(f"{what} goes with --all; one experiment uses all cores of this machine by itself")
    if listed or name is None:
        _list()
        return
    studies = all_studies()
    if name not in studies:
        hint = nearest(name, studies)
        raise ConfigError(f"there is no experiment {name!r}; {hint}expected one of: {', '.join(studies)}")
    directory = out or Path("runs") / name
    study = studies[name]
    summary = study.judge_again(directory) if stored else study.run(quick, directory, seed)
    if summary["headlines"]:
        rows = [(each["headline"], each["verdict"], each["text"], each["ours"]) for each in summary["headlines"]]
        print_table(("headline", "verdict", "text", "here"), rows)
    found = [(claim["claim"], OUTCOMES[claim["outcome"]], claim["figure"]) for claim in summary["claims"]]
    print_table(("claim", "outcome", "found"), found)
    say(f"written to {directory}")
    if strict and not _all_hold([summary]):
        raise typer.Exit(1)


def _all_hold(summaries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every claim of a text holds; questions of our own do not count."""
    return all(claim["holds"] for summary in summaries for claim in summary["claims"] if not claim["ours"])


def _list() -> None:
    from tacit_reproduction.catalogue import all_studies

    rows = [(each.name, each.title, each.source, _minutes(each.minutes)) for each in all_studies().values()]
    print_table(("name", "what it shows", "source", "minutes"), rows)
    say("minutes: on two cores, for the full form. --quick takes a minute; --all runs every one and makes a gallery")


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f}" if math.isfinite(minutes) else "hours"


def _all(out: Path, quick: bool, seed: int, jobs: int | None, strict: bool, on: str, stored: bool) -> None:
    from tacit.results.locks import writing
    from tacit_reproduction.catalogue import all_studies
    from tacit_reproduction.gallery import judge_all, reproduce_all, write_pages
    from tacit_reproduction.page import counted

    studies = list(all_studies().values())
    keep_to_itself()
    with writing(out):
        if stored:
            outcomes = judge_all(studies, out)
        else:
            with _Display(len(studies)) as display:
                outcomes = reproduce_all(studies, out, display, quick, seed, jobs, on)
        index = write_pages(outcomes, out)
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    say(f"{len(done)} of {len(outcomes)} studies are there; {counted(done)}")
    say(f"gallery: {index}")
    failed = [outcome for outcome in outcomes if outcome.summary is None]
    for outcome in failed:
        say(f"error: {outcome.study.name} did not run: {outcome.fault}", err=True)
    if failed or (strict and not _all_hold(done)):
        raise typer.Exit(1)


class _Display:
    """A line for each study that ended, and on a terminal also what runs now and how far it all is."""

    def __init__(self, total: int) -> None:
        self._total, self._ended, self._began = total, 0, time.monotonic()
        self._running: dict[str, float] = {}
        self._live: Any = None

    def __enter__(self) -> _Display:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *fault: object) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, study: Study) -> None:
        self._running[study.name] = time.monotonic()
        self.tick()

    def finished(self, outcome: Finished) -> None:
        from tacit_reproduction.page import counted

        self._ended += 1
        self._running.pop(outcome.study.name, None)
        words = f"did not run: {outcome.fault}"
        if outcome.summary is not None:
            seconds = "done before" if outcome.kept else f"{outcome.summary['seconds']:.0f} s"
            words = f"{counted([outcome.summary])}, {seconds}"
        say(f"[{self._ended:>2}/{self._total}] {outcome.study.name}: {words}")
        self.tick()

    def tick(self) -> None:
        if self._live is not None:
            from rich.text import Text

            now = time.monotonic()
            lines = [f"  {name}  {_clock(now - began)}" for name, began in self._running.items()]
            lines.append(f"{self._ended} of {self._total} studies, {_clock(now - self._began)}")
            self._live.update(Text("\n".join(lines)))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
