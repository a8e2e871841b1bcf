"""`tacit peer revoke` and `tacit peer invite`: what an authority signs beside certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import print_table, reported, say
from tacit.core.errors import ConfigError

app = typer.Typer()

Authority = Annotated[Path, typer.Option(help="The authority's directory.")]


@app.command(epilog="Example: tacit peer revoke hospital-c.crt --ca ca")
@reported
def revoke(
    certificates: Annotated[
        list[Path] | None, typer.Argument(help="Certificates that the authority issued.", show_default=False)
    ] = None,
    ca: Authority = Path("ca"),
    replaced: Annotated[
        bool, typer.Option("--replaced", help="The peer has a new certificate, and stays a member.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what was revoked, and change nothing.")] = False,
) -> None:
    """Take certificates back: the signed list goes to every peer, which cuts their links. Renewed ones stay good."""
    from tacit.peer.identity.authority import revoke as sign
    from tacit.peer.identity.pem_files import load_certificate
    from tacit.peer.identity.revocation import load_list

    if show == bool(certificates):
        raise ConfigError("expected the certificates to revoke, or --list alone")
    path = ca / "revoked.crl"
    if certificates:
        listed = sign(certificates, ca, replaced=replaced)
        say(f"{path} has number {listed.number} and {len(listed.entries)} certificate(s)")
        say("send it to every peer, and there: tacit peer install revoked.crl")
        return
    known = load_list(path, [load_certificate(ca / "ca.crt")])
    if known is None:
        say(f"nothing was revoked: there is no {path}")
        return
    say(f"{path} has number {known.number}")
    rows = [
        (one.name or "-", f"{serial:x}", f"{one.since:%Y-%m-%d %H:%M}", "replaced" if one.replaced else "")
        for serial, one in known.entries.items()
    ]
    print_table(("name", "serial number", "since (UTC)", ""), rows)


@app.command(epilog="Example: tacit peer invite hospital-d --job job.toml --ca ca")
@reported
def invite(
    name: Annotated[str, typer.Argument(help="The peer's name, as in its certificate.")],
    job: Annotated[Path, typer.Option(help="The job's file, as its members have it.")] = Path("job.toml"),
    ca: Authority = Path("ca"),
    out: Annotated[Path | None, typer.Option(help="File to write; by default NAME.invitation.")] = None,
    number: Annotated[
        int | None, typer.Option(min=0, help="Its number in the job; by default its own, or the next that is free.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="Until the time to join ends.")] = 30,
) -> None:
    """Invite a peer that is not among a job's members to join it within the epoch."""
    from tacit.config.job import load_job
    from tacit.peer.identity.invitation import invite as sign

    found = load_job(job)
    found.refuse_invited(name)
    role = found.algorithm.learner
    path = out or Path(f"{name}.invitation")
    made = sign(name, found.settings_hash, role, len(found.members[role]), ca, path, days, number)
    say(f"{name} is {role} {made.number} of {found.settings.name!r}, epoch {found.settings.epoch}")
    say(f'send {path} to it; there: invitation = "{path.name}" in [peer], until {made.until:%Y-%m-%d %H:%M} UTC')
