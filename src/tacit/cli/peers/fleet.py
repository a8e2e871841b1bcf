"""`tacit peer fleet`: the peers of a federation at a glance, for people without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say

if TYPE_CHECKING:
    from tacit.config.fleet import Fleet

COLUMNS = ("peer", "state", "round", "lag", "links", "refused", "budget left", "certificate ends", "last error")


@reported
def fleet(
    file: Annotated[Path, typer.Argument(help="A fleet.toml: addresses of peers, and an observer's identity.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask all peers of a fleet for their status, by an observer's certificate; exit code 1 if one is not up."""
    import asyncio

    from tacit.config.fleet import load_fleet

    found = asyncio.run(_asked(load_fleet(file)))
    if as_json:
        say(json.dumps(found, indent=2))
    else:
        print_table(COLUMNS, [_row(one) for one in found])
    if any(one["state"] != "up" for one in found):
        raise typer.Exit(1)


async def _asked(fleet: Fleet) -> list[dict[str, Any]]:
    import asyncio

    from tacit.core.errors import MessageRefused, RemoteError
    from tacit.peer.identity.credentials import IdentityWatch
    from tacit.peer.observing.client import StatusClient

    watch = IdentityWatch(fleet.observer, lambda fault: None, "observer")

    async def one(name: str, address: str) -> dict[str, Any]:
        client = StatusClient(name, address, watch)
        try:
            status = await client.status()
            return {**status, "name": name, "state": "up", "said": status.get("state")}
        except MessageRefused as refusal:
            return {"name": name, "state": "refused", "errors": [f"{refusal.reason}: {refusal.detail}"]}
        except RemoteError as fault:
            return {"name": name, "state": "down", "errors": [str(fault)]}
        finally:
            client.close()

    return await asyncio.gather(*(one(name, peer.address) for name, peer in fleet.peers.items()))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    links, errors, budget = one.get("links", []), one.get("errors", []), one.get("budget", [])
    open_ = sum(link["state"] == "open" for link in links)
    left = f"{budget[0]['left']:.4g} of {budget[0]['limit']:.4g}" if budget else "-"
    return (
        one["name"],
        one["state"],
        str(one.get("round", "-")),
        str(one.get("lag", "-")),
        f"{open_} of {len(links)} open" if links else "-",
        str(sum(one.get("refusals", {}).values())) if "refusals" in one else "-",
        left,
        str(one.get("certificate_expires", "-"))[:10],
        errors[-1] if errors else "-",
    )
