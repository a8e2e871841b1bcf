"""`tacit peer fleet`: the peers of a federation at a glance, for people without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import made_table, print_table, reported, say

if TYPE_CHECKING:
    from tacit.config.fleet import Fleet
    from tacit.peer.observing.client import StatusClient

COLUMNS = ("peer", "state", "round", "lag", "links", "refused", "budget left", "certificate ends", "last error")


@reported
def fleet(
    file: Annotated[Path, typer.Argument(help="A fleet.toml: addresses of peers, and an observer's identity.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, in place, until Ctrl-C.")] = False,
) -> None:
    """Ask all peers of a fleet for their status, by an observer's certificate; exit code 1 if one is not up."""
    import asyncio

    from tacit.config.fleet import load_fleet
    from tacit.core.errors import ConfigError

    if watch and as_json:
        raise ConfigError("--watch shows a table; leave --json out")
    fleet = load_fleet(file)
    if watch:
        asyncio.run(_watched(fleet))
    found = asyncio.run(_once(fleet))
    if as_json:
        say(json.dumps(found, indent=2))
    else:
        print_table(COLUMNS, [_row(one) for one in found])
    if any(one["state"] != "up" for one in found):
        raise typer.Exit(1)


async def _watched(fleet: Fleet) -> None:
    import asyncio

    from rich.console import Console
    from rich.live import Live

    clients = _clients(fleet)
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            found = await _asked(clients)
            live.update(made_table(COLUMNS, [_row(one) for one in found]), refresh=True)
            await asyncio.sleep(fleet.every)


async def _once(fleet: Fleet) -> list[dict[str, Any]]:
    clients = _clients(fleet)
    try:
        return await _asked(clients)
    finally:
        for client in clients:
            client.close()


def _clients(fleet: Fleet) -> list[StatusClient]:
    from tacit.peer.identity.credentials import IdentityWatch
    from tacit.peer.observing.client import StatusClient

    watch = IdentityWatch(fleet.observer, lambda fault: None, "observer")
    return [StatusClient(name, peer.address, watch) for name, peer in fleet.peers.items()]


async def _asked(clients: list[StatusClient]) -> list[dict[str, Any]]:
    """Return what each peer says, all asked at once, or why it says nothing."""
    import asyncio

    from tacit.core.errors import MessageRefused, RemoteError

    async def one(client: StatusClient) -> dict[str, Any]:
        try:
            status = await client.status()
        except MessageRefused as refusal:
            return {"name": client.name, "state": "refused", "errors": [f"{refusal.reason}: {refusal.detail}"]}
        except RemoteError as fault:
            return {"name": client.name, "state": "down", "errors": [str(fault)]}
        return {**status, "name": client.name, "state": "up", "said": status.get("state")}

    return await asyncio.gather(*(one(client) for client in clients))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    errors, budget = one.get("errors", []), one.get("budget", [])
    return (
        one["name"],
        one["state"],
        str(one.get("round", "-")),
        str(one.get("lag", "-")),
        _links(one.get("links", [])),
        str(sum(one["refusals"].values())) if "refusals" in one else "-",
        f"{budget[0]['left']:.4g} of {budget[0]['limit']:.4g}" if budget else "-",
        str(one.get("certificate_expires", "-"))[:10],
        errors[-1] if errors else "-",
    )


def _links(links: list[dict[str, Any]]) -> str:
    """Return how many links are open, and the worst of the others or the slowest."""
    if not links:
        return "-"
    words = f"{sum(link['state'] == 'open' for link in links)} of {len(links)} open"
    worst = max(links, key=lambda link: (link["state"] != "open", link["lag"]))
    if worst["state"] == "open" and not worst["lag"]:
        return words
    arrow = "from" if worst["direction"] == "in" else "to"
    return f"{words}; {arrow} {worst['peer']}: {worst['state']}, lag {worst['lag']}"
