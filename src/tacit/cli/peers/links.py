"""`tacit peer links` and `tacit peer leave`: members that come and go while peers run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say
from tacit.cli.peers.running import ConfigFile, asked, runs, told
from tacit.core.errors import ConfigError

app = typer.Typer(help="Links of a running peer: look, add, remove.")

Name = Annotated[str, typer.Argument(help="Name of the neighbour.", show_default=False)]


@app.command("list", epilog="Example: tacit peer links list hospital-a/peer.toml")
@reported
def list_links(file: ConfigFile) -> None:
    """Show the links of a running peer, with those that are being opened or closed."""
    _show(told(file, act="list")["links"])


@app.command(epilog="Example: tacit peer links add hospital-a/peer.toml hospital-d --address 10.0.0.4:7443")
@reported
def add(
    file: ConfigFile,
    name: Name,
    address: Annotated[str, typer.Option(help="Where it listens: host:port.")],
    invitation: Annotated[
        Path | None, typer.Option(help="Its invitation, where it is not among the job's members.")
    ] = None,
) -> None:
    """Send to one more neighbour, from a round on which both agree."""
    try:
        shown = "" if invitation is None else invitation.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--invitation {invitation}: cannot be read ({error}); name the authority's file") from error
    _show(told(file, act="add", name=name, address=address, invitation=shown)["links"])


@app.command(epilog="Example: tacit peer links remove hospital-a/peer.toml hospital-d")
@reported
def remove(file: ConfigFile, name: Name) -> None:
    """Send to a neighbour no more; what is on its way to it arrives."""
    _show(told(file, act="remove", name=name)["links"])


@reported
def leave(
    file: ConfigFile,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is gone.")] = 60.0,
) -> None:
    """Have a running peer leave: those who send to it stop, it hands on what it holds, and ends.

    Its ledger stays. Started again, it joins anew, with nothing but what is left of its budget.
    """
    from tacit.config.peer import load_peer

    settings = load_peer(file)
    pid = asked(settings)["pid"]
    told(file, act="leave")
    deadline = time.monotonic() + wait
    while settings.control.exists() and runs(pid):
        if time.monotonic() > deadline:
            say(f"{settings.peer.name} is leaving: `tacit peer links list {file}` shows for whom it waits")
            return
        time.sleep(0.05)
    say(f"{settings.peer.name} has left")


def _show(links: list[dict[str, Any]]) -> None:
    rows = [(one["way"], one["name"], one["state"], one.get("since", "-"), one.get("address", "-")) for one in links]
    print_table(("way", "neighbour", "state", "since round", "address"), [tuple(map(str, row)) for row in rows])
