"""Acts of a running peer's operator: links are added and removed, the peer leaves, the next epoch is proposed."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.config.peer import PeerSettings, validate_address
from tacit.config.sections import Place, located
from tacit.core.errors import DataError, TacitError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.pem_files import replace_file
from tacit.peer.node.service import PeerService

if TYPE_CHECKING:
    from tacit.peer.observing.door import StatusDoor

ACTS = ("list", "add", "remove", "leave", "epoch", "stop")


async def obeyed(
    service: PeerService,
    asked: Mapping[str, Any],
    token: str,
    settings: PeerSettings,
    stop: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Carry out what the operator asks for, and return the links as they are then; a fault is a DataError.

    Args:
      service: The running peer.
      asked: ``token``, ``act`` (one of `ACTS`), and ``name``, ``address``, ``invitation`` and ``next`` where it needs
        them.
      token: From the control file, which only the peer's user can read.
      settings: The peer's own.
      stop: Has a peer end that shares its process with others; None: its process is stopped by a signal.
    """
    given = {key: value for key, value in asked.items() if isinstance(value, str)}
    if not hmac.compare_digest(given.get("token", "").encode(), token.encode()):
        raise DataError("the token is not the one in the control file: ask as the user that runs the peer")
    act, name = given.get("act"), given.get("name", "")
    try:
        if act == "add":
            address, invitation = validate_address(given.get("address"), "--address"), given.get("invitation", "")
            await service.change(lambda members: members.add(name, address, invitation.encode()))
        elif act == "remove":
            await service.change(lambda members: members.remove(name))
        elif act == "leave":
            await service.change(lambda members: members.leave())
        elif act == "epoch":
            from tacit.deploy.epochs import propose

            return {"next_epoch": await propose(service, settings, Path(given.get("next", "")))}
        elif act == "stop" and stop is not None:
            stop()
        elif act != "list":
            raise DataError(f"act = {act!r}: expected one of {', '.join(ACTS)}")
    except DataError:
        raise
    except TacitError as fault:
        raise DataError(str(fault)) from fault
    return {"links": service.link_table()}


def write_control(path: Path, **said: Any) -> None:
    """Tell commands on this host how to reach a running peer; only its user may read it."""
    replace_file(path, (json.dumps({"pid": os.getpid(), **said}) + "\n").encode(), 0o600)


async def status_door(
    settings: PeerSettings,
    address: str,
    service: Callable[[], PeerService],
    watch: IdentityWatch,
    stop: Callable[[], None],
) -> StatusDoor:
    """Open the door at which observers and operators read a peer's status; see `tacit.peer.observing.door`.

    Args:
      settings: The peer's own.
      address: Where it listens.
      service: Returns the running service.
      watch: The peer's identity.
      stop: Has the peer end, for an operator.
    """
    from tacit.peer.observing.door import StatusDoor
    from tacit.peer.observing.report import Report

    now = service()
    report = Report(service, settings.store, settings.witness, watch, settings.shows_loss, now.log)
    door = StatusDoor(report, watch, now.events.refused, settings.limits, stop, now.log)
    with located(Place(str(settings.file), "[operations] status")):
        await door.start(address)
    return door
