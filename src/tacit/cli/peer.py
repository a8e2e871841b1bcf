"""`tacit peer`: certificates for peers, and peers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say
from tacit.cli.peers import authority, epoch, fleet, links, monitoring, processes
from tacit.cli.peers.init import init_peer
from tacit.cli.peers.running import ConfigFile, asked, control_of, runs, told
from tacit.core.errors import ConfigError, TacitError

if TYPE_CHECKING:
    from tacit.config.peer import PeerSettings
    from tacit.peer.identity.identity import Role

app = typer.Typer(help="Run peers over mutual TLS: identities, start, look, change links, stop.")
app.add_typer(authority.app)
app.add_typer(links.app, name="links")
app.command(epilog="Example: tacit peer leave hospital-d/peer.toml")(links.leave)
app.command(epilog="Example: tacit peer epoch peer.toml --next peer-2.toml")(epoch.epoch)

LONGEST_STOP = 60.0
"""Seconds that `stop` waits for a peer to end."""


app.command("init", epilog="Example: tacit peer init hospital-a --stream kafka")(init_peer)


@app.command("init-ca", epilog='Example: tacit peer init-ca ca --name "ward study"')
@reported
def init_ca(
    directory: Annotated[Path, typer.Argument(help="Where to put the authority; keep it on a host of its own.")],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "tacit federation",
    days: Annotated[int, typer.Option(min=1, help="Until it expires.")] = 3650,
) -> None:
    """Make the certificate authority of a federation."""
    from tacit.peer.identity.authority import init_ca as make

    certificate = make(directory, name, days)
    say(f"authority made: {certificate} goes to every peer, the key beside it stays here")


@app.command(epilog="Example: tacit peer request hospital-a --out identity")
@reported
def request(
    name: Annotated[str, typer.Argument(help="The peer's name in the federation.")],
    out: Annotated[Path, typer.Option(help="The peer's identity directory.")] = Path("identity"),
) -> None:
    """Make a key, which stays here, and a request for a certificate; also to renew one."""
    from tacit.peer.identity.enrolment import request as ask

    asked = ask(name, out)
    say(f"send {asked.csr} to the authority; the key {asked.key} stays here")
    say(f"there: tacit peer issue {name} --csr {asked.csr.name} --ca CA-DIRECTORY")


@app.command(epilog="Example: tacit peer issue hospital-a --csr hospital-a.csr --ca ca")
@reported
def issue(
    name: Annotated[str, typer.Argument(help="The peer's name; the request must ask for just this one.")],
    csr: Annotated[Path | None, typer.Option(help="The request; by default NAME.csr.")] = None,
    ca: Annotated[Path, typer.Option(help="The authority's directory.")] = Path("ca"),
    out: Annotated[Path | None, typer.Option(help="The certificate; by default NAME.crt.")] = None,
    days: Annotated[int, typer.Option(min=1, help="Until it expires.")] = 90,
    observer: Annotated[bool, typer.Option("--observer", help="No peer: it may read the status of all.")] = False,
    operator: Annotated[bool, typer.Option("--operator", help="No peer: it may stop all, too.")] = False,
) -> None:
    """Sign a peer's request. Make sure first that it came from that peer: from now on it is believed to be it."""
    from tacit.peer.identity.authority import issue as sign

    if observer and operator:
        raise ConfigError("--observer and --operator: an operator may read as well; leave --observer out")
    role: Role = "operator" if operator else "observer" if observer else "peer"
    certificate = sign(csr or Path(f"{name}.csr"), name, ca, out or Path(f"{name}.crt"), days, role)
    say(f"send {certificate} and {ca / 'ca.crt'} back to {name}, and there: tacit peer install {certificate.name}")


@app.command(epilog="Example: tacit peer install hospital-a.crt --ca ca.crt --out identity")
@reported
def install(
    certificate: Annotated[Path, typer.Argument(help="Certificate, or revocation list, that the authority sent.")],
    ca: Annotated[
        Path | None, typer.Option(help="The authority's certificate; by default ca.crt, or the one in use.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The peer's identity directory.")] = Path("identity"),
) -> None:
    """Put a certificate beside its key, or a newer revocation list; a running peer takes it up without a restart."""
    from tacit.peer.identity.enrolment import install as put
    from tacit.peer.identity.identity import identity_files
    from tacit.peer.identity.pem_files import read_file
    from tacit.peer.identity.revocation import install_list, is_list

    if certificate.exists() and is_list(read_file(certificate)):
        listed = install_list(certificate, out)
        say(f"revocation list {listed.number}: {', '.join(listed.names)}")
        return
    sent = (Path("ca.crt"), identity_files(out).ca) if ca is None else (ca,)
    authority = next((path for path in sent if path.exists()), None)
    if authority is None:
        raise ConfigError(f"{sent[0]}, the authority's certificate, is not there; name it: --ca FILE")
    identity = put(certificate, authority, out)
    role = "" if identity.role == "peer" else f" ({identity.role})"
    say(f"{identity.name}{role}: valid until {identity.not_after:%Y-%m-%d %H:%M} UTC")


@app.command(epilog="Example: tacit peer check a/peer.toml b/peer.toml c/peer.toml")
@reported
def check(
    files: Annotated[list[Path], typer.Argument(help="One peer's file, or those of all peers.", show_default=False)],
) -> None:
    """Check settings before anything runs; with the files of all peers also that they agree and fit the algorithm."""
    from tacit.deploy.check import check_peers

    report = check_peers(files)
    for line in report.lines:
        say(line)
    if report.faults:
        raise ConfigError("\n".join(report.faults))


app.command(epilog="Example: tacit peer run hospital-a/peer.toml")(processes.run)
app.command(epilog="Example: tacit peer host federation --only hospital-a --only hospital-b")(processes.host)


app.command(epilog="Example: tacit peer fleet fleet.toml")(fleet.fleet)
app.command(epilog="Example: tacit peer monitoring monitoring --fleet fleet.toml")(monitoring.monitoring)


@app.command("new-ledger", epilog="Example: tacit peer new-ledger peer.toml --instead-of 5f0c...")
@reported
def new_ledger(
    file: ConfigFile,
    instead_of: Annotated[str, typer.Option(help="The ledger that is lost, as `tacit peer run` names it.")],
) -> None:
    """Let the next start begin a new ledger in this epoch of the job, because the one it had is lost."""
    from tacit.deploy.ledger_register import give_up

    settings = _settings(file)
    give_up(settings, instead_of)
    say(
        f"the next `tacit peer run` begins a new ledger with the budget {settings.budget.words()}; what ledger "
        f"{instead_of} released stays released: the budget has to be what was left of it at most"
    )


@app.command(epilog="Example: tacit peer status hospital-a/peer.toml")
@reported
def status(
    file: ConfigFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say where a running peer on this host stands."""
    found = asked(_settings(file))
    if as_json:
        say(json.dumps(found, indent=2))
        return
    print_table(("", found["name"]), [(key, _shown(value)) for key, value in found.items() if key != "name"])


@app.command(epilog="Example: tacit peer model hospital-a/peer.toml --out hospital-a.safetensors")
@reported
def model(
    file: ConfigFile,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("model.safetensors"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
) -> None:
    """Write the model of a peer's last commit, with the ledger's spending in its card; the peer may be running."""
    from tacit.deploy.model import peer_model

    found = peer_model(file, shlex.join(["tacit", *sys.argv[1:]]))
    os.umask(0o077)  # it may hold what was never released
    found.save(out, force=force)
    say(f"model of round {found.card.made.rounds:,}: {out}; `tacit predict {out} data.csv` uses it")
    say(found.card.privacy.model)


@app.command(epilog="Example: tacit peer stop hospital-a/peer.toml")
@reported
def stop(file: ConfigFile) -> None:
    """Stop a running peer on this host: it commits, lets neighbours confirm, and ends."""
    settings = _settings(file)
    found = asked(settings)
    name, pid = found["name"], found["pid"]
    try:
        if control_of(settings).get("hosted"):
            told(file, act="stop")  # its process has others too
        else:
            os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise ConfigError(f"process {pid} of {name} belongs to another user; stop it as that user or as root") from None
    deadline = time.monotonic() + LONGEST_STOP
    while settings.control.exists() and runs(pid):
        if time.monotonic() > deadline:
            raise TacitError(f"process {pid} of {name} still runs after {LONGEST_STOP:g} s; see its log")
        time.sleep(0.05)
    say(f"{name} stopped in round {found['round']} or later")


@app.command("set-round", epilog="Example: tacit peer set-round hospital-a/peer.toml")
@reported
def set_round(
    file: ConfigFile,
    next_round: Annotated[
        int | None,
        typer.Option(
            "--round", help="Round to go on with; by default the one after the last before it was carried off."
        ),
    ] = None,
) -> None:
    """Put a stopped peer that others carried to an absurd round back to a sane one; all that was charged stays."""
    from tacit.deploy.peer import set_round as move

    done = move(file, next_round)
    say(
        f"{done.name}: was in round {done.before}, goes on with round {done.next}; {done.releases:,} release(s) stay "
        f"booked, {done.dropped:,} undelivered message(s) are dropped"
    )


def _settings(file: Path) -> PeerSettings:
    from tacit.config.peer import load_peer

    return load_peer(file)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "words" in value:
        return str(value["words"])
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(inner)}" for key, inner in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
