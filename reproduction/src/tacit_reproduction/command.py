"""The command `tacit reproduce`: one experiment of the texts, or all of them with a gallery."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, and a gallery of what came out.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and repeats: a smoke test.")] = False,
    out: Annotated[
    Path | None, typer.Option(help="Directory to write, by default runs/NAME or runs/gallery.", show_default=False)
    ] = None, seed: Annotated[int, typer.Option(min=0, help="Seed of the first repeat.")] = 0, jobs: Annotated[
    int | None, typer.Option(min=1, help="With --all: experiments at a time.", show_default="one per core")
    ] = None,
    on: Annotated[str, typer.Option("--on", help="With --all: pool, ray, or ray://HOST with the same files.")] = "pool",
    stored: Annotated[
    bool, typer.Option("--stored", help="Judge again what is in --out, without running anything.") ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a claim of a text does not hold.")] = False,
) -> None:  # fmt: skip
    """Run an experiment of the texts and say what became of its results; one that is refuted is no error.

    With --all what --out holds already (same form, seed, code, versions, data) is kept: an interrupted run goes on.
    """
    from tacit_reproduction.console import run  # not above: tacit.cli, which it needs, loads this module

    run(name, everything, listed, quick, out, seed, jobs, strict, on, stored)


reproduce.epilog = "Example: tacit reproduce ops-occupancy --quick --out runs/ops-occupancy"  # type: ignore[attr-defined]
