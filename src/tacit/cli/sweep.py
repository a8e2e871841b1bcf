"""The command `tacit sweep`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import check_directory, counted, keep_to_itself, print_table, reported, say

On = Annotated[str, typer.Option("--on", help="Who runs it: pool, ray, or ray://HOST.")]
SHOWN = 20
"""Settings that are printed; the report and the table have all."""
LINES = 20
"""That say how far a rung is, at most."""
PRIVATE = (
    "each epsilon is that of one setting alone. Whoever tries several on the same private records, and chooses by what "
    "comes out, spends more than any of them: sweep on public or made-up data"
)


@reported
def sweep(
    file: Annotated[
        Path,
        typer.Argument(help="An experiment with a table for the sweep, see examples/sweep.toml.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the table, by default runs/NAME-OF-THE-FILE.", show_default=False)
    ] = None,
    on: On = "pool",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Settings are run by so many workers.", show_default="one per core")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of the file's.")] = None,
) -> None:
    """Run an experiment with many settings and seeds: a Parquet table, and a report that plots it.

    What the table in DIRECTORY holds already is kept: a sweep that was interrupted goes on.
    """
    from tacit.sweeps import load_sweep, run_sweep
    from tacit.sweeps.run import table_rows

    keep_to_itself()
    chosen = load_sweep(file, rounds=rounds)
    directory = out or Path("runs") / file.stem
    check_directory(directory)
    say(
        f"{chosen.file.stem}: {counted(len(chosen.each), 'setting')} ({chosen.settings.kind}), "
        f"{counted(len(chosen.seeds), 'seed')} of each, up to {counted(chosen.rounds, 'round')}"
    )
    begun, said = time.monotonic(), [0]

    def told(done: int, total: int) -> None:
        if done in (0, total) or done >= said[0] + total / LINES:
            said[0] = done
            say(f"  {done} of {total} settings, {time.monotonic() - begun:.0f} s")

    result = run_sweep(chosen, directory, on=on, workers=workers, told=told)
    columns, lines = table_rows(result)
    print_table(columns, lines[:SHOWN])
    if len(lines) > SHOWN:
        say(f"the best {SHOWN} of {len(lines)}; the report has all")
    if any(each.config.privacy is not None or "mechanism" in each.config.algorithms[0].tables for each in chosen.each):
        say(f"warning: {PRIVATE}", err=True)
    say(f"table: {result.table}")
    say(f"report: {result.report}")
    if result.failed:
        reasons = "; ".join(dict.fromkeys(each.error for each in result.failed))
        say(
            f"error: {counted(len(result.failed), 'setting')} failed ({reasons}); the same command tries again",
            err=True,
        )
        raise typer.Exit(1)
