"""One peer of a swarm, as a process: `python -m tacit.deploy.member DIRECTORY [FILE.py ...]`.

The launcher writes member.json into the directory, and an identity. Lines of JSON are exchanged::

    stdout: {"event": "listening", "port": 40123}
    stdin:  {"peer-0": "127.0.0.1:40123", ...}          the addresses of all; kept in addresses.json
    stdout: {"event": "round", "round": 1, "at": 12.3, ...}  a finished round, with `facts_of`: the first, then others
    stdout: {"event": "finished", ...}                  after the last one, or after a fault
    stdin:  end of file                                 stop

A member that finds addresses.json was here before: it listens at its own address there, goes on from its store, and
waits for no other. It never outlives the process at the other end of its standard input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.peer.node.service import PeerService

LONGEST_STOP = 20.0
"""Seconds after the end of standard input until the process ends itself, whatever it is doing."""
FAULT = 3
"""Exit code of a member whose rounds ended before their time."""


@dataclass(frozen=True)
class MemberSettings:
    """Content of member.json."""

    name: str
    experiment: str
    """Path of the experiment's file; that of a liar says who lies, and how."""
    algorithm: int
    """Its number in the file, from 0 on."""
    booked: bool
    epsilon: float | None
    delta: float | None
    record: bool
    """Whether the model of every round is written."""
    deadline: float | None

    def save(self, directory: Path) -> None:
        """Write member.json."""
        (directory / "member.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> MemberSettings:
        """Read member.json."""
        return cls(**json.loads((directory / "member.json").read_text(encoding="utf-8")))


class _Input:
    """Standard input, read in a thread of its own so that its end is noticed at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first_line: asyncio.Future[str] = self._loop.create_future()
        self.ended = asyncio.Event()
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def _read(self) -> None:
        line = sys.stdin.readline()
        if line:
            self._loop.call_soon_threadsafe(self._first_line.set_result, line)
            sys.stdin.read()
        self._loop.call_soon_threadsafe(self.ended.set)
        time.sleep(LONGEST_STOP)
        os._exit(FAULT)

    async def book(self) -> dict[str, str] | None:
        """Return the addresses, or None if the input ends before they come."""
        ended = asyncio.ensure_future(self.ended.wait())
        await asyncio.wait((self._first_line, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not self._first_line.done():
            return None
        addresses: dict[str, str] = json.loads(self._first_line.result())
        return addresses


EVERY = 0.5
"""Seconds from one report of a round to the next, at least."""


class _Recorder:
    """Writes models, and tells of the first round and of some later ones."""

    def __init__(self, directory: Path, record: bool) -> None:
        self._folder = directory / "models"
        self._record = record
        self.first: float | None = None
        self.last, self._told = 0.0, 0.0
        self.more: Callable[[], dict[str, Any]] = dict
        """Gives what is told with a round."""
        if record:
            self._folder.mkdir(exist_ok=True)

    def __call__(self, round_: int, model: Any) -> None:
        self.last = time.monotonic()
        self.write(round_, model)
        if self.first is None or self.last - self._told >= EVERY:
            self.first, self._told = self.first or self.last, self.last
            tell(event="round", round=round_, at=self.last, **self.more())

    def write(self, round_: int, model: Any) -> None:
        """Write the model of a round, where models are written."""
        if not self._record:
            return
        import jax
        import numpy as np

        target = self._folder / f"{round_:08d}.npz"
        part = target.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, *map(np.asarray, jax.tree.leaves(model)))
        part.replace(target)  # a process killed here leaves no half of a model behind


def tell(**facts: Any) -> None:
    """Report to the launcher; one that is gone is noticed at the end of standard input."""
    try:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(FAULT)


async def member(directory: Path) -> int:
    """Be the peer of a directory until standard input ends; returns the exit code."""
    heard = _Input()
    from tacit.deploy.rehearsal import plan_for, with_lies
    from tacit.experiments import build, load
    from tacit.peer.identity.credentials import IdentityWatch
    from tacit.peer.identity.identity import identity_files
    from tacit.peer.node.assignment import NOTHING_BOOKED, Pace
    from tacit.peer.node.service import PeerService
    from tacit.peer.node.store import PeerStore
    from tacit.peer.operations.counters import Counters
    from tacit.peer.operations.link_events import REFUSALS
    from tacit.peer.operations.logs import Log, configure
    from tacit.peer.sources.batches import StreamFeed
    from tacit.privacy.accounting import Budget

    configure("text")
    log = Log()
    settings = MemberSettings.load(directory)
    problem = build(load(settings.experiment))
    run = problem.config.run
    plan = plan_for(problem, settings.algorithm, settings.name, booked=settings.booked)
    plan, stream = with_lies(problem, plan)
    budget = Budget(epsilon=settings.epsilon, delta=settings.delta) if settings.booked else NOTHING_BOOKED
    path = directory / "store.sqlite"
    store = (PeerStore.open if path.exists() else PeerStore.create)(path, budget, plan.job)
    learns = plan.role == plan.algorithm.learner
    recorder = _Recorder(directory, settings.record and plan.role == plan.algorithm.predictor)
    service = PeerService(
        plan,
        store,
        IdentityWatch(identity_files(directory), lambda fault: log.error("identity", reason=str(fault))),
        StreamFeed(stream if learns else None, plan.agent, plan.dtype),
        Pace(deadline=settings.deadline, last_round=run.rounds, grace=2.0),
        worker=ThreadPoolExecutor(1),
        counters=Counters([name for names in plan.members.values() for name in names], REFUSALS),
        log=log,
        after_round=recorder,
    )
    recorder.more = lambda: facts_of(service)
    if service.node.round == 0 and service.node.predicts:
        recorder.write(0, service.node.model())
    try:
        await _take_part(service, settings, directory / "addresses.json", heard, recorder)
    finally:
        await service.stop()
    return 0 if service.fault is None else FAULT


def facts_of(service: PeerService) -> dict[str, Any]:
    """Return what the launcher is told with a round: bytes sent, budget spent, and whom it hears by links not open.

    Args:
      service: The running peer.
    """
    from tacit.peer.observing.link_states import link_states

    node = service.node
    sent = sum(service.counters.value("tacit_sent_bytes_total", to=name) or 0 for name in node.sends_to)
    use = node.store.ledger.use() if node.plan.booked else None
    heard = [row for row in link_states(service) if row["direction"] == "in" and row["state"] != "open"]
    return {
        "sent": int(sent),
        "spent": use.spent if use is not None and use.unit == "epsilon" else None,
        "not_open": {row["peer"]: row["state"] for row in heard},
    }


async def _take_part(
    service: PeerService, settings: MemberSettings, book: Path, heard: _Input, recorder: _Recorder
) -> None:
    """Run until standard input ends."""
    from tacit.peer.transport.sockets import tcp_bytes

    known: dict[str, str] | None = json.loads(book.read_text()) if book.exists() else None
    port = await service.listen("127.0.0.1:0" if known is None else known[settings.name])
    tell(event="listening", port=port)
    if known is None:
        known = await heard.book()
        if known is None:
            return
        _keep(book, known)
    gc.collect()
    gc.freeze()  # what was made so far stays
    service.start(known)
    await _first_of(service.finished, heard.ended)
    if service.finished.is_set():
        carried, status = tcp_bytes(), service.status()
        tell(
            event="finished",
            round=service.node.round,
            fault=None if service.fault is None else str(service.fault),
            first=recorder.first,
            last=recorder.last,
            privacy=status["privacy"],
            neighbours=status["neighbours"],
            sent_bytes=None if carried is None else carried.sent,
        )
        await heard.ended.wait()


def _keep(book: Path, addresses: dict[str, str]) -> None:
    part = book.with_suffix(".part")
    part.write_text(json.dumps(addresses))
    part.replace(book)


async def _first_of(*events: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def main() -> int:
    """Run the member whose directory is the first argument; the others are files that register algorithms."""
    from tacit.config.own_code import import_file
    from tacit.core.errors import TacitError
    from tacit.peer.node.steps import compute_at_once
    from tacit.privacy.ledger.open_files import raise_limit

    raise_limit()
    compute_at_once()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher gets Ctrl-C too, and says when to stop
    try:
        for file in sys.argv[2:]:
            import_file(Path(file))
        return asyncio.run(member(Path(sys.argv[1])))
    except TacitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
