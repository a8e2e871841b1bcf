"""Many peers in one process: one JAX, one event loop and a few threads, but an identity, store and ports for each.

Links between two of them are those of peers far apart: mutual TLS, the same bytes. Functions of a job are compiled once
for all its peers.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax

from tacit import runtime
from tacit.config.job import Job, load_job
from tacit.config.peer import PeerSettings, load_peer
from tacit.core.errors import ConfigError, LedgerError, TacitError, nearest, said
from tacit.deploy.assignment import plan_of
from tacit.deploy.peer import Peer
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.node.assignment import Plan
from tacit.peer.node.steps import SHORT_STEP
from tacit.peer.operations.logs import Log, name_peer
from tacit.peer.transport.admission import RESERVED
from tacit.privacy.ledger.open_files import descriptors_left
from tacit.privacy.ledger.store import WriterLock

T = TypeVar("T")

FILES = 8
"""Open files of a peer without links: two doors, the store with its log and lock, and one that is being replaced."""
LOOP_TIME = 1.0
"""Seconds for which the peers' short steps, one of each, may keep the event loop from the links."""
EVERYWHERE = frozenset({"0.0.0.0", "[::]"})


def find_peers(directory: Path, only: Sequence[str] = ()) -> list[PeerSettings]:
    """Return the settings of all peers of a folder, or of some by name; peers of one job share it.

    Args:
      directory: It holds a folder with a peer.toml for each of them.
      only: Names of those that are meant; none: all.

    Returns:
      Settings in the order of folders. What cannot run in one process is a ConfigError, and so is what cannot be read.
    """
    files = sorted(directory.glob("*/peer.toml"))
    if not files:
        raise ConfigError(
            f"{directory}: no folder in it has a peer.toml; name the folder that holds those of the peers, as `tacit "
            "new federation` makes it"
        )
    load = _loading_once()
    peers = {file: load_peer(file, load) for file in files}
    names = [one.peer.name for one in peers.values()]
    for name in only:
        if name not in names:
            raise ConfigError(f"--only {name}: {nearest(name, names)}peers of {directory} are {', '.join(names)}")
    found = [one for one in peers.values() if not only or one.peer.name in only]
    _refuse_common(found)
    for one in found:
        if one.store.exists():
            try:
                WriterLock(one.store).free()
            except LedgerError as error:
                raise ConfigError(f"{one.peer.name} runs already, or its store is in use: {error}") from error
    return found


class Host:
    """Peers of one process. Make it, and `run` it.

    Args:
      peers: Their settings, from `find_peers`. Faults of an assignment, and too few open files, are ConfigErrors.
    """

    def __init__(self, peers: Sequence[PeerSettings]) -> None:
        _check_files(peers)
        settle = _settling_once()
        self._plans = [(one, plan_of(one, settle)) for one in peers]
        self._functions: dict[str, AgentFunctions] = {}
        self.running: dict[str, Peer] = {}
        """Peers that were opened, by name."""
        self.faults: dict[str, TacitError] = {}
        """Name -> why a peer did not start, or why its rounds ended early."""

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Run all peers until each has done its last round or is stopped; one that fails is in `faults`.

        Args:
          stop: Set to stop all of them.
          ready: Called when all have begun.
        """
        with ThreadPoolExecutor(os.cpu_count(), "tacit-rounds") as pool:
            try:
                for settings, plan in self._plans:
                    if not stop.is_set():
                        await asyncio.create_task(self._open(settings, plan, pool))
                await asyncio.gather(*(self._noting(name, peer.begin()) for name, peer in self.running.items()))
                ready()
                well = [(name, peer) for name, peer in self.running.items() if name not in self.faults]
                await asyncio.gather(*(self._noting(name, peer.until_over(stop)) for name, peer in well))
            finally:
                await asyncio.gather(*(peer.stop() for peer in self.running.values()), return_exceptions=True)

    async def _open(self, settings: PeerSettings, plan: Plan, pool: Executor) -> None:
        """Open one peer, in a task of its own: whatever it logs carries its name."""
        name = settings.peer.name
        name_peer(name, settings.operations.level)
        short = min(SHORT_STEP, LOOP_TIME / len(self._plans))

        async def opened() -> None:
            self.running[name] = await Peer.opened(
                settings, plan, partial(Lane, pool), functions=self._functions_of, short_step=short
            )

        await self._noting(name, opened())
        if name in self.faults:
            Log().error("the peer does not start", reason=str(self.faults[name]))

    async def _noting(self, name: str, work: Any) -> None:
        try:
            await work
        except TacitError as fault:
            self.faults[name] = fault
        except Exception as error:
            self.faults[name] = TacitError(f"an error of the system or in tacit: {said(error)}")
            Log().error("an error of the system or in tacit", error, peer=name)

    def _functions_of(self, plan: Plan) -> AgentFunctions:
        if plan.job not in self._functions:
            self._functions[plan.job] = AgentFunctions(plan.algorithm, plan.specs)
        return self._functions[plan.job]


class Lane(Executor):
    """Worker of one peer on threads that many share: its work is done in order, one thing at a time.

    Args:
      pool: The threads; they outlive the lane.

    Example:
      >>> from concurrent.futures import ThreadPoolExecutor
      >>> done = []
      >>> with ThreadPoolExecutor(4) as pool, Lane(pool) as lane:
      ...     _ = [lane.submit(done.append, k) for k in range(5)]
      >>> done
      [0, 1, 2, 3, 4]
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = threading.Condition()
        self._busy = self._shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have something done after all that was submitted before."""
        future: Future[T] = Future()
        with self._idle:
            if self._shut:
                raise RuntimeError("this worker was shut down")
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            if not self._busy:
                self._busy = True
                self._pool.submit(self._next)
        return future

    def _next(self) -> None:
        future, work = self._waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
        with self._idle:  # another peer's work, if some waits, comes before the next of this one
            self._busy = bool(self._waiting)
            if self._busy:
                self._pool.submit(self._next)
            else:
                self._idle.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and wait until what was taken is done."""
        with self._idle:
            self._shut = True
            if cancel_futures:
                for future, _ in self._waiting:
                    future.cancel()
            if wait:
                self._idle.wait_for(lambda: not self._busy)


def _loading_once() -> Callable[[Path], Job]:
    """Return `load_job` for peers of which many have the same job, in one file or in copies."""
    known: dict[Hashable, Job] = {}

    def load(path: Path) -> Job:
        content: Hashable = path.read_bytes() if path.is_file() else path
        if content not in known:
            known[content] = load_job(path)
        return known[content]

    return load


def _settling_once() -> Callable[..., tuple[runtime.MessageSpec, ...]]:
    """Return `runtime.settle` for peers of which many have views of the same shapes."""
    known: dict[Hashable, tuple[runtime.MessageSpec, ...]] = {}

    def settle(algorithm: Any, params: Any, batch: Any, views: Mapping[str, Any]) -> tuple[runtime.MessageSpec, ...]:
        leaves, tree = jax.tree.flatten((params, batch, views))
        key = (id(algorithm), tree, *(jax.typeof(leaf) for leaf in leaves))  # held by the job of some peer
        if key not in known:
            known[key] = runtime.settle(algorithm, params, batch, views)
        return known[key]

    return settle


def _refuse_common(peers: Sequence[PeerSettings]) -> None:
    """Refuse peers of which two have what only one can have."""
    seen: dict[tuple[str, Any], PeerSettings] = {}
    for one in peers:
        for what, thing in _own(one):
            other = seen.setdefault((what, thing), one)
            if other is not one:
                raise ConfigError(f"{one.file}: {what} {thing} is that of {other.file} too; give each peer its own")
    doors = [(one, *door) for one in peers for door in _doors(one)]
    for k, (one, host, port) in enumerate(doors):
        for other, where, same in doors[:k]:
            if port == same and (host == where or {host, where} & EVERYWHERE):
                raise ConfigError(f"{one.file}: port {port} is used by {other.file} too; give each door its own")


def _own(one: PeerSettings) -> Iterator[tuple[str, Any]]:
    yield "[peer] name", one.peer.name
    yield "[peer] store", one.store
    yield "[identity] directory", one.identity.resolve()
    if one.witness is not None:
        yield "[privacy] witness", one.witness.resolve()


def _doors(one: PeerSettings) -> Iterator[tuple[str, int]]:
    """Return hosts and ports at which a peer will listen, but for those that the system chooses."""
    return ((host, port) for _, host, port in one.doors if port)


def _check_files(peers: Sequence[PeerSettings]) -> None:
    """Refuse more peers than there are open files for."""
    links = sum(len(side) for one in peers for table in one.links.values() for side in (table.sends_to, table.hears))
    doors = sum(len(one.doors) - 2 for one in peers)
    needed, left = FILES * len(peers) + doors + links + RESERVED, descriptors_left()
    if left is not None and left < needed:
        raise ConfigError(
            f"{len(peers)} peer(s) with {links} ends of links take {needed} open files, and this process may open "
            f"{left}: {needed - left} are missing; raise the limit (`ulimit -Hn`, LimitNOFILE= of systemd), or name "
            "fewer peers (--only)"
        )
