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
