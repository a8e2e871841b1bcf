"""`tacit peer run` and `tacit peer host`: a process of one peer, and one of many."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import reported
from tacit.cli.peers.running import ConfigFile
from tacit.core.errors import BudgetExceeded, ConfigError, TacitError

if TYPE_CHECKING:
    from tacit.config.peer import OperationsTable
    from tacit.deploy.host import Host

LogFormat = Annotated[str | None, typer.Option(help="json or text, instead of the file's.")]


@reported
def run(file: ConfigFile, log: LogFormat = None) -> None:
    """Run a peer until it is stopped (SIGTERM or Ctrl-C), or has done its last round."""
    import asyncio

    with _long_lived():
        from tacit.config.peer import load_peer

        settings = load_peer(file)
        _prepare(settings.operations, log, settings.programs)
        asyncio.run(_serve(file))


@reported
def host(
    directory: Annotated[Path, typer.Argument(help="It holds a folder with a peer.toml for each peer.")],
    only: Annotated[list[str] | None, typer.Option(help="Name of a peer that is meant; may be given again.")] = None,
    log: LogFormat = None,
) -> None:
    """Run many peers in one process, each with its own identity, store and ports, until each is stopped or done."""
    import asyncio

    with _long_lived():
        from tacit.deploy.host import Host, find_peers

        peers = find_peers(directory, only or ())
        formats = sorted({one.operations.log for one in peers})
        if log is None and len(formats) > 1:
            raise ConfigError(f"{directory}: [operations] log of its peers is {' and '.join(formats)}; choose: --log")
        _prepare(peers[0].operations, log, directory / ".programs")
        hosted = Host(peers)
        asyncio.run(_serve_all(hosted))
    if hosted.faults:
        said = "\n".join(f"{name}: {fault}" for name, fault in hosted.faults.items())
        raise TacitError(f"{len(hosted.faults)} of {len(peers)} peer(s) failed\n{said}")


@contextlib.contextmanager
def _long_lived() -> Iterator[None]:
    """Surround a process that makes much at its start, which stays."""
    from tacit.privacy.ledger.open_files import raise_limit

    raise_limit()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _prepare(operations: OperationsTable, log: str | None, programs: Path) -> None:
    """Set up the log, the rights of new files, the folder of compiled programs and how they are run."""
    from tacit.peer.node.steps import compute_at_once
    from tacit.peer.operations.logs import Log, configure
    from tacit.runtime.program_cache import keep_programs

    if log not in (None, "json", "text"):
        raise ConfigError(f"--log {log!r}: expected json or text")
    configure(log or operations.log, operations.level)  # type: ignore[arg-type]
    compute_at_once()
    os.umask(0o077)  # the store holds samples, and a model without noise
    try:
        keep_programs(programs)
    except ConfigError as error:
        Log().warning("compiled programs are not kept", reason=str(error))


class _Stop:
    """The end of the process, which its service manager is told of as soon as it is asked for."""

    def __init__(self) -> None:
        import asyncio

        self.event, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.set)

    def set(self) -> None:
        """Have the process end."""
        from tacit.peer.operations.service_manager import notify

        if not self.event.is_set():
            notify("STOPPING=1")
            self.event.set()


def _ready() -> None:
    from tacit.peer.operations.service_manager import notify

    gc.freeze()
    gc.enable()
    notify("READY=1")


async def _serve(file: Path) -> None:
    from tacit.deploy.peer import Peer

    stop = _Stop()
    peer = await Peer.start(file)
    _ready()
    with contextlib.suppress(BudgetExceeded):  # it has been reported, and the peer went on to predict
        await peer.until_over(stop.event)
    stop.set()


async def _serve_all(hosted: Host) -> None:
    stop = _Stop()
    await hosted.run(stop.event, _ready)
    stop.set()
