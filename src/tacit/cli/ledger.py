"""`tacit ledger`: look at a ledger, verify it, write it out; it is never changed, and a peer may be appending to it."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.privacy.events import Loss
    from tacit.privacy.ledger import Replay

app = typer.Typer(help="Releases and their costs: read the durable ledger.")

SHOWN_ENTRIES = 5
COLUMNS = (
    "sequence",
    "release",
    "mechanism",
    "distribution",
    "sensitivity",
    "scale",
    "coordinates",
    "bound",
    "adjacency",
    "records",
    "observers",
    "calibration",
    "series",
    "epsilon",
    "rho",
    "delta",
    "hash",
)

LedgerPath = Annotated[Path, typer.Argument(help="A ledger.", show_default=False)]
Witness = Annotated[Path | None, typer.Option(help="The ledger's witness: shows that it was not rolled back.")]


class Format(StrEnum):
    """Formats of `export`."""

    CSV = "csv"
    JSON = "json"


@app.command(epilog="Example: tacit ledger show peer/ledger.db --observer alice")
@reported
def show(
    path: LedgerPath,
    observer: Annotated[str, typer.Option(help="Observer; * stands for all observers together.")] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what is spent, what is left and what was released last, having verified the ledger."""
    from tacit.privacy.ledger import inspect

    facts = inspect(path, lambda replay: _facts(replay, observer))
    if as_json:
        say(json.dumps(facts, indent=2))
        return
    allowed, use = ", ".join(f"{name} = {value:g}" for name, value in facts["budget"].items() if value), facts["use"]
    say(f"ledger {facts['ledger']}, job {facts['job'] or '(none)'}, {facts['releases']:,} release(s)")
    say(f"budget: {allowed}, over all observers together")
    say(f"unit: {facts['unit']}; neighbours: {facts['neighbours']}")
    say(use["words"])
    dearest = "spent" if use["charged"] == "every record" else f"dearest {use['per']}"
    shares = [(dearest, facts["spent"]), ("left" if use["runs_out"] else f"allowed per {use['per']}", facts["left"])]
    if facts["may_be_too_low"]:
        say(
            "warning: written by tacit 0.1.0, whose peers booked too little where records came again, where a method "
            "charges every record, and where a data file was rewritten; the last row is what it can be at most, if no "
            "record stood twice in one batch (SECURITY.md)"
        )
        shares.append(("at most", facts["at_most"]))
    print_table(
        ("observer " + observer, "epsilon (pure)", "rho (zCDP)", "delta"),
        [(name, *(_figure(loss[key]) for key in ("epsilon", "rho", "delta"))) for name, loss in shares],
    )
    print_table(
        ("entry", "release", "mechanism", "sensitivity", "scale", "records", "observers"),
        [
            (
                str(entry["sequence"]),
                entry["release"],
                entry["mechanism"],
                f"{entry['sensitivity']:g}",
                f"{entry['scale']:g}",
                entry["records"] or "(all)",
                ", ".join(entry["observers"]),
            )
            for entry in facts["last"]
        ],
    )


@app.command(epilog="Example: tacit ledger verify peer/ledger.db --witness /mnt/other/ledger.witness")
@reported
def verify(path: LedgerPath, witness: Witness = None) -> None:
    """Verify every entry, and against the witness the last one; the first fault is named and the exit code is 2."""
    from tacit.privacy.ledger import inspect

    replay = inspect(path, lambda replay: replay.run(), witness)
    say(f"{path}: {replay.last.sequence:,} release(s), whole and unchanged; last hash {replay.last.hash.hex()}")
    if witness is None:
        say("note: without --witness an old copy of the ledger looks the same as the ledger")


@app.command(epilog="Example: tacit ledger export peer/ledger.db --format csv --out ledger.csv")
@reported
def export(
    path: LedgerPath,
    form: Annotated[Format, typer.Option("--format", help="Format to write.")] = Format.CSV,
    out: Annotated[Path | None, typer.Option(help="File to write; by default it is printed.")] = None,
) -> None:
    """Write every release with its cost, having verified the ledger; the file appears when it is complete."""
    from tacit.privacy.ledger import inspect

    target = Path(tempfile.gettempdir()) if out is None else out.absolute().parent
    if out is not None and (out.is_dir() or not target.is_dir()):
        raise ConfigError(f"--out {out}: expected a file name in a directory that exists")
    if out is not None and out.exists() and out.samefile(path):
        raise ConfigError(f"--out {out} is the ledger itself: name another file")
    # Also what is printed goes through a file first: nothing is printed of a ledger that turns out to be damaged.
    descriptor, name = tempfile.mkstemp(prefix=".tacit-export-", dir=target)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w+", encoding="utf-8", newline="") as file:
            releases = inspect(path, lambda replay: _write(replay, form, file))
            file.flush()
            if out is None:
                file.seek(0)
                for line in file:
                    say(line, nl=False)
                return
            os.fsync(descriptor)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    say(f"{releases:,} release(s) written to {out}")


def _facts(replay: Replay, observer: str) -> dict[str, Any]:
    from dataclasses import asdict

    from tacit.privacy.accounting import NEIGHBOURS
    from tacit.privacy.ledger.budget_use import budget_use
    from tacit.privacy.ledger.entries import UNDERCOUNTING

    last = deque(replay, maxlen=SHOWN_ENTRIES)
    genesis, spent = replay.genesis, replay.account.spent(observer)
    adjacency = replay.account.adjacency
    use = budget_use(genesis.budget, replay.account)
    return {
        "ledger": genesis.ledger,
        "job": replay.jobs[-1],
        "witnessed": genesis.witnessed,
        "releases": replay.last.sequence,
        "unit": NEIGHBOURS[adjacency][0] if adjacency else "(nothing was released)",
        "adjacency": adjacency,
        "neighbours": NEIGHBOURS[adjacency][1] if adjacency else "(nothing was released)",
        "budget": asdict(genesis.budget),
        "observer": observer,
        "spent": _shown(spent),
        "at_most": _shown(replay.at_most.loss),
        "may_be_too_low": replay.format == UNDERCOUNTING,
        "left": _sums(genesis.budget.left(spent) if use.runs_out else genesis.budget.limit),
        "use": use._asdict(),
        "last": [{"sequence": entry.sequence, "release": entry.release, **asdict(event)} for entry, event in last],
        "hash": replay.last.hash.hex(),
    }


def _shown(loss: Loss) -> dict[str, float | None]:
    """Return what a loss says: no rho where no zCDP holds."""
    return _sums(loss._replace(rho=loss.zcdp))


def _sums(loss: Loss) -> dict[str, float | None]:
    """Return the sums, None for infinity: JSON has no number for it."""
    return {name: None if value == float("inf") else value for name, value in loss._asdict().items()}


def _figure(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.6g}"


def _write(replay: Replay, form: Format, file: IO[str]) -> int:
    from dataclasses import asdict

    file.seek(0)
    file.truncate()
    table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    if form is Format.CSV:
        table.writeheader()
    else:
        file.write("[")
    for entry, event in replay:
        row: dict[str, Any] = {"sequence": entry.sequence, "release": entry.release, **asdict(event)}
        series = None if event.series is None else event.series._asdict()
        row |= {**_shown(event.loss), "series": series, "hash": entry.hash.hex()}
        if form is Format.CSV:
            words = " ".join(map(str, event.series or ()))
            table.writerow({**row, "observers": " ".join(event.observers), "series": words})
        else:
            file.write((",\n " if entry.sequence > 1 else "\n ") + json.dumps(row))
    if form is Format.JSON:
        file.write("\n]\n")
    return replay.last.sequence
