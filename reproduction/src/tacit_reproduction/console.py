"""Work and printed lines of `tacit reproduce`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from tacit.cli.common import keep_to_itself, print_table, reported, say
from tacit.core.errors import ConfigError, nearest

OUTCOMES = {"holds": "holds", "open": "open", "fails": "DOES NOT HOLD"}


@reported
def run(
    name: str | None, everything: bool, listed: bool, quick: bool, out: Path | None, seed: int, jobs: int | None,
    strict: bool, on: str, stored: bool,
) -> None:  # fmt: skip
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
    studies = all_studies()
    if listed or name is None:
        rows = [(s.name, s.title, s.source, f"{s.minutes:.0f}".replace("inf", "hours")) for s in studies.values()]
        print_table(("name", "what it shows", "source", "minutes"), rows)
        say("minutes: on two cores, the full form. --quick takes a minute; --all runs every one and makes a gallery")
        return
    if name not in studies:
        hint = nearest(name, studies)
        raise ConfigError(f"there is no experiment {name!r}; {hint}expected one of: {', '.join(studies)}")
    directory = out or Path("runs") / name
    summary = studies[name].judge_again(directory) if stored else studies[name].run(quick, directory, seed)
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


def _all(out: Path, quick: bool, seed: int, jobs: int | None, strict: bool, on: str, stored: bool) -> None:
    from tacit.results.locks import writing
    from tacit_reproduction.catalogue import all_studies
    from tacit_reproduction.gallery import judge_all, reproduce_all, write_pages
    from tacit_reproduction.page import counted

    studies, told = list(all_studies().values()), 0

    def tell(outcome: Any) -> None:
        """Print a line for each study that ended."""
        nonlocal told
        told += 1
        words = f"did not run: {outcome.fault}"
        if outcome.summary is not None:
            seconds = "done before" if outcome.kept else f"{outcome.summary['seconds']:.0f} s"
            words = f"{counted([outcome.summary])}, {seconds}"
        say(f"[{told:>2}/{len(studies)}] {outcome.study.name}: {words}")

    keep_to_itself()
    with writing(out):
        outcomes = judge_all(studies, out) if stored else reproduce_all(studies, out, tell, quick, seed, jobs, on)
        index = write_pages(outcomes, out)
    done = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    say(f"{len(done)} of {len(outcomes)} studies are there; {counted(done)}")
    say(f"gallery: {index}")
    failed = [outcome for outcome in outcomes if outcome.summary is None]
    for outcome in failed:
        say(f"error: {outcome.study.name} did not run: {outcome.fault}", err=True)
    if failed or (strict and not _all_hold(done)):
        raise typer.Exit(1)
