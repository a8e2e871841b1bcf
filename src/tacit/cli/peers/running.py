"""Running peers of this host, as commands reach them: through the control file that each of them writes."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.core.errors import ConfigError, TacitError

if TYPE_CHECKING:
    from tacit.config.peer import PeerSettings

ConfigFile = Annotated[Path, typer.Argument(help="The peer's TOML file.", show_default=False)]
ANSWER_TIME = 5.0
"""Seconds for a running peer to say where it stands."""


def runs(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def control_of(settings: PeerSettings) -> dict[str, Any]:
    """Return what a running peer has written of itself: process, port, name and token."""
    name, path = settings.peer.name, settings.control
    try:
        control = json.loads(path.read_text(encoding="utf-8"))
        return {**control, "pid": int(control["pid"]), "port": int(control["port"]), "token": str(control["token"])}
    except FileNotFoundError:
        raise ConfigError(f"{name} does not run here: there is no {path}; start it with `tacit peer run`") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); ask as the user that runs the peer") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} was not written by a peer; remove it, and start the peer again") from error


def asked(settings: PeerSettings) -> dict[str, Any]:
    """Ask the running peer for its status, and make sure that it is the one that is meant."""
    import http.client
    import urllib.request

    name, control = settings.peer.name, control_of(settings)
    pid, port = control["pid"], control["port"]
    found: Any = None
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with (
        contextlib.suppress(OSError, ValueError, http.client.HTTPException),
        no_proxy.open(f"http://127.0.0.1:{port}/status", timeout=ANSWER_TIME) as answer,
    ):
        found = json.load(answer)
    if not isinstance(found, dict) or (found.get("name"), found.get("pid")) != (name, pid):
        raise ConfigError(
            f"{name} does not answer: process {pid} was killed, or is frozen; start it again with `tacit peer run`, "
            "and it goes on from its store"
        )
    return found


def told(file: Path, **what: str) -> dict[str, Any]:
    """Have a running peer do something; returns its answer."""
    import http.client
    import urllib.error
    import urllib.request

    from tacit.config.peer import load_peer

    settings = load_peer(file)
    asked(settings)
    control = control_of(settings)
    request = urllib.request.Request(
        f"http://127.0.0.1:{control['port']}/control",
        json.dumps({"token": control["token"], **what}).encode(),
        {"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=6 * ANSWER_TIME) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise ConfigError(f"{settings.peer.name}: {json.load(refusal)['error']}") from None
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        raise TacitError(f"{settings.peer.name} did not answer ({error}): see its log, and ask again") from error
