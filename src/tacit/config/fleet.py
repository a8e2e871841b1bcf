"""A fleet: the peers of a federation as an observer or operator looks at them, as one TOML file.

    identity = "board"      directory where `tacit peer install` put the observer's certificate
    operator = "ops"        that of an operator, who may stop and start; none: nobody may
    actions = "..."         file in which stops and starts are noted
    every = 1.0             seconds between two looks

    [peers.NAME]
    address = "host:port"   of its status door ([operations] status)
    start = [...]           command that starts it, for peers on this machine

Every path is taken to start beside the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from tacit.config.job import read_toml, refuse_unknown, table_of
from tacit.config.peer import validate_address
from tacit.config.sections import Place, Section, check, check_path, located, toml_text
from tacit.core.errors import ConfigError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import IdentityFiles, Role, identity_files, validate_peer_name

KEYS = ("identity", "operator", "actions", "every", "peers")
MOST = 1000
"""Peers of one fleet."""


class FleetTable(Section):
    """Keys at the top of the file."""

    identity: str
    operator: str | None = None
    actions: str = "actions.jsonl"
    every: float = Field(default=1.0, ge=0.2, le=60)


class FleetPeer(Section):
    """[peers.NAME]."""

    address: str
    start: list[str] | None = Field(default=None, min_length=1)


@dataclass(frozen=True)
class Fleet:
    """A checked fleet.toml."""

    file: Path
    observer: IdentityFiles
    operator: IdentityFiles | None
    actions: Path
    every: float
    peers: Mapping[str, FleetPeer]


def load_fleet(path: Path) -> Fleet:
    """Read a fleet, with identities that can be used; every fault names file, key and remedy.

    Args:
      path: The TOML file.
    """
    data, home = read_toml(path), path.parent.resolve()
    refuse_unknown(data, KEYS, path)
    settings = check(FleetTable, {key: data[key] for key in data if key != "peers"}, Place(str(path), ""))
    tables = table_of(data, "peers", path)
    if not 1 <= len(tables) <= MOST:
        raise ConfigError(f"{path}: [peers] names {len(tables)} peers, expected 1 to {MOST}; add [peers.NAME] for each")
    peers = {}
    for name, table in tables.items():
        place = Place(str(path), f"[peers.{name}]")
        with located(place):
            validate_peer_name(name)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: [peers] {name} = {toml_text(table)} is no table; write [peers.{name}]")
        peers[name] = check(FleetPeer, table, place)
        validate_address(peers[name].address, Place(str(path), f"[peers.{name}] address"))
    for key in ("identity", "operator", "actions"):
        check_path(getattr(settings, key), Place(str(path), key))
    return Fleet(
        path.resolve(),
        _identity(path, "identity", settings.identity, "observer"),
        None if settings.operator is None else _identity(path, "operator", settings.operator, "operator"),
        home / settings.actions,
        settings.every,
        peers,
    )


def _identity(path: Path, key: str, directory: str, role: Role) -> IdentityFiles:
    """Return the files of an identity, once they have been read."""
    files = identity_files(path.parent.resolve() / directory)
    with located(Place(str(path), key)):
        IdentityWatch(files, lambda fault: None, role)
    return files
