"""A peer from its TOML file, for `tacit peer run` and for applications that embed one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit import runtime
from tacit.config.peer import PeerSettings, load_peer
from tacit.config.sections import Place, located
from tacit.core.errors import BudgetExceeded, ConfigError, DataError, IdentityError, TacitError, said
from tacit.deploy.assignment import plan_of
from tacit.deploy.control import obeyed, status_door, write_control
from tacit.deploy.feeds import feed_of
from tacit.deploy.ledger_register import open_store
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.node.assignment import Pace, Plan
from tacit.peer.node.closing import CloseOnce
from tacit.peer.node.service import PeerService
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import REFUSALS
from tacit.peer.operations.local_http import Handlers, LocalServer
from tacit.peer.operations.logs import Log
from tacit.peer.operations.predictions import named_prediction
from tacit.peer.operations.traces import NO_TRACES, Traces, traces_of
from tacit.peer.sources.batches import Feed, SampleFeed, with_one
from tacit.peer.sources.queue import SampleQueue

if TYPE_CHECKING:
    from tacit.peer.node.set_round import Moved
    from tacit.peer.observing.door import StatusDoor

LONGEST_DELIVERY, SHORT_DELIVERY = 60.0, 5.0
"""Seconds for which a peer whose last round is over waits for neighbours to confirm, if they cannot do without it, and
if they can."""


class Peer(CloseOnce):
    """A running peer: it learns from its own samples, with its neighbours, and predicts.

    `await Peer.start(...)` makes it; `await peer.stop()`, or the end of ``async with``, ends it. Its model, its
    ledger and its undelivered messages are on the disk: a peer that is started again goes on from there.

    Args:
      settings: A checked peer.toml with its job.
      service: Rounds and links.
      feed: Source of samples.
      worker: Where rounds are computed, one step at a time.
      traces: Where spans of its work go.
      hosted: Whether its process has others too, so that it is stopped by a word and not by a signal.

    Example:
      >>> async def application():
      ...     async with await tacit.Peer.start("peer.toml") as peer:
      ...         await peer.learn([0.5, 1.0], 1)  # returns when the sample is on the disk
      ...         return peer.predict([0.5, 1.0])
    """

    def __init__(
        self,
        settings: PeerSettings,
        service: PeerService,
        feed: Feed,
        worker: Executor,
        traces: Traces = NO_TRACES,
        hosted: bool = False,
    ) -> None:
        self.settings, self._service, self._feed, self._worker = settings, service, feed, worker
        self._traces, self._hosted = traces, hosted
        self.told_to_stop = asyncio.Event()
        """Set when the operator of a hosted peer has asked for its end."""
        source = feed.source if isinstance(feed, SampleFeed) else None
        self._queue = source if isinstance(source, SampleQueue) else None
        self._source = source
        self._token = secrets.token_hex(16)
        self._changing = asyncio.Lock()
        """Held while it goes on to another epoch."""
        self._following: asyncio.Task[None] | None = None
        self._status_door: StatusDoor | None = None
        self.operations_port = self.status_port = 0
        """Ports for programs on this host, and for observers elsewhere; 0: none."""
        self._local = LocalServer(
            Handlers(
                health=self._health,
                status=self._status,
                metrics=self._metrics,
                learn=self._push,
                predict=self._predict,
                control=self._control,
            )
        )

    @classmethod
    async def start(cls, path: str | os.PathLike[str]) -> Peer:
        """Start a peer: it listens, dials, and goes on from where its store says that it was.

        Args:
          path: Its TOML file; the job's file, identity and store are found from there.

        Returns:
          The running peer. A fault of the settings is a ConfigError, before anything is opened or sent.
        """
        settings = load_peer(Path(path))
        peer = await cls.opened(settings, plan_of(settings), partial(ThreadPoolExecutor, 1, "tacit-rounds"))
        await peer.begin()
        return peer

    @classmethod
    async def opened(
        cls, settings: PeerSettings, plan: Plan, make_worker: Callable[[], Executor], **shared: Any
    ) -> Peer:
        """Open a peer: its store is open and it listens; its rounds wait for `begin`.

        Args:
          settings: A checked peer.toml with its job.
          plan: Its assignment.
          make_worker: Makes what computes its rounds, one step at a time.
          shared: Further parts of its service, where its process has other peers too.

        Returns:
          The peer; where it is refused, nothing is left open.
        """
        if settings.rounds.last is not None:
            runtime.check_horizon(plan.algorithm, settings.rounds.last)
        if checked := settings.booked or settings.stream.kind != "push":  # else there is nothing to check
            from tacit.deploy.readiness import check_budget, check_data

            if not settings.store.exists():
                list(check_budget(settings, plan))  # the store fixes it for good
        log, counters = Log(), Counters({name for names in settings.job.members.values() for name in names}, REFUSALS)
        worker = make_worker()
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(worker.shutdown)
            watch = IdentityWatch(identity_files(settings.identity), partial(_report_identity, log))
            store = open_store(settings)
            undo.callback(store.close)
            feed = feed_of(settings, plan, store, worker, counters, log)
            try:
                list(check_data(settings, plan) if checked else ())
            except DataError as fault:  # it may come later
                log.warning("the data file cannot be used yet", reason=str(fault))
            traces = traces_of(settings.operations.traces, settings.peer.name)
            undo.callback(traces.close)
            pace = Pace(settings.rounds.deadline, settings.rounds.interval, last_round=settings.rounds.last)
            service = PeerService(
                plan,
                store,
                watch,
                feed,
                pace,
                worker=worker,
                counters=counters,
                log=log,
                doors=settings.limits,
                progress=settings.operations.progress,
                traces=traces,
                **shared,
            )
            undo.push_async_callback(service.stop)
            peer = cls(settings, service, feed, worker, traces, hosted=bool(shared))
            undo.push_async_callback(peer._close_doors)
            await service.listen(settings.peer.listen)
            with located(Place(str(settings.file), "[operations] port")):
                await peer._local.start(port=settings.operations.port)
            peer.operations_port = peer._local.port
            if settings.operations.status is not None:
                stop, now = peer.told_to_stop.set, lambda: peer._service
                peer._status_door = await status_door(settings, settings.operations.status, now, watch, stop)
                peer.status_port = peer._status_door.port
            undo.pop_all()
        return peer

    async def begin(self) -> None:
        """Dial the neighbours, and begin or go on with the rounds; called once."""
        try:
            self._service.start(self.settings.addresses)
            self._write_control()
        except BaseException:
            await self.stop()
            raise
        self._following = asyncio.create_task(self._follow_epochs())
        address, control = f"http://127.0.0.1:{self.operations_port}", str(self.settings.control)
        self._service.log.info("operations", address=address, status=control)

    async def until_over(self, stop: asyncio.Event) -> None:
        """Run until the last round is over, or `stop` is set, and stop; raises the fault that ended its rounds.

        A peer whose budget is spent goes on to predict, and says in /health why it learns no more.

        Args:
          stop: Set when the process ends.
        """
        working = asyncio.create_task(self.finished())
        asked = [asyncio.create_task(event.wait()) for event in (stop, self.told_to_stop)]
        try:
            await asyncio.wait((working, *asked), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and isinstance(working.exception(), BudgetExceeded):
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self.stop()
            for task in (working, *asked):
                task.cancel()
        if working.done() and not working.cancelled():
            working.result()

    @property
    def name(self) -> str:
        """Own name."""
        return self.settings.peer.name

    @property
    def round(self) -> int:
        """The round under way, or the last one."""
        return self._service.node.round

    @property
    def port(self) -> int:
        """Where neighbours are heard."""
        return self._service.port

    @property
    def counters(self) -> Counters:
        """The figures that /metrics shows."""
        return self._service.counters

    async def learn(self, x: Any, y: Any) -> None:
        """Give the peer a sample: returns when it is on the disk, and waits while too many are waiting.

        Args:
          x: As many finite numbers as the job has features.
          y: Label: -1 or 1 (binary), 0, 1, ... (multiclass), one of the job's `class_names`, or a number (regression).
        """
        await self._queued().learn(x, y)
        self.counters.add("tacit_samples_total", outcome="queued")

    def predict(self, x: Any) -> np.ndarray:
        """Return the model's score for one sample: a number, or one per class.

        Of logistic and hinge it is one number, above 0 for class 1 (the second of `class_names`); of softmax one per
        class, the largest for the class that is predicted; of a regression the value itself. `prediction` says the
        same with names.

        Args:
          x: As many finite numbers as the job has features.
        """
        job = self.settings.job
        features = job.form.check_features(x).astype(job.settings.dtype)
        return self._service.predict(with_one(features) if job.settings.bias else features)

    def prediction(self, x: Any) -> dict[str, Any]:
        """Return what the model says of one sample, by name, as /predict answers it.

        Args:
          x: As many finite numbers as the job has features.

        Returns:
          ``{"class": ..., "probability": {class: share}, "score": ...}``; without probability for hinge, and
          ``{"value": ...}`` for a regression. Classes have their names where the job gives `class_names`.
        """
        job = self.settings.job
        return named_prediction(job.form, job.algorithm.objective, self.predict(x))

    def status(self) -> dict[str, Any]:
        """Return round, links, budget and queues of the peer, as plain data."""
        found = self._service.status()
        not_learnt = getattr(self._source, "not_learnt", None)
        return {
            **found,
            "job_made_of": self.settings.job.ingredients,
            "operations_port": self.operations_port,
            "status_port": self.status_port or None,
            "samples_waiting": getattr(self._source, "depth", None),
            "rows_not_learnt": None if not_learnt is None else {"bad": not_learnt.bad, "known": not_learnt.known},
        }

    async def finished(self) -> None:
        """Wait until the last round is over and neighbours have its messages; raises the fault that ended rounds."""
        if self._following is not None:
            await asyncio.wait([self._following])
        if self._service.fault is not None:
            raise self._service.fault
        await self._service.delivered(LONGEST_DELIVERY if self._service.node.waits else SHORT_DELIVERY)

    async def _close(self) -> None:
        async with contextlib.AsyncExitStack() as after:  # each of them whatever became of the others, the last first
            after.callback(self.settings.control.unlink, missing_ok=True)
            after.push_async_callback(asyncio.to_thread, self._traces.close)
            after.callback(self._worker.shutdown)
            after.push_async_callback(self._close_doors)
            async with self._changing:  # to go on to another epoch is not left half-way
                if self._following is not None:
                    self._following.cancel()
            await self._service.stop()

    async def _follow_epochs(self) -> None:
        """Go on to each epoch that is agreed on, until rounds end for good."""
        while True:
            await self._service.finished.wait()
            epochs = self._service.node.links.epochs
            if self._service.fault is not None or epochs is None or not epochs.goes_on:
                return
            async with self._changing:
                await self._go_on()

    async def _go_on(self) -> None:
        from tacit.deploy.epochs import go_on

        before, log = self.settings, self._service.log
        port = self._service.port
        try:
            self._service, self.settings = await go_on(self._service, before)
            listen = self.settings.peer.listen
            host, _, given = listen.rpartition(":")
            await self._service.listen(f"{host}:{port}" if listen == before.peer.listen and given == "0" else listen)
            self._service.start(self.settings.addresses)
        except Exception as error:
            fault = error if isinstance(error, TacitError) else TacitError(f"an error in tacit: {said(error)}")
            self._service.fault = fault
            self._service.finished.set()
            log.error("the next epoch cannot begin", reason=str(fault))
        else:
            number, round_ = self.settings.job.settings.epoch, self._service.node.round + 1
            log.info("an epoch began", epoch=number, round=round_, file=str(self.settings.file))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ------------------------------------------------------------------------------------------------------------------

    def _queued(self) -> SampleQueue:
        if self._queue is None:
            kind = self.settings.stream.kind
            raise DataError(
                f'this peer has a source of its own ([stream] kind = {kind!r}); put samples there, or set kind = "push"'
            )
        return self._queue

    async def _health(self) -> Sequence[str]:
        fault = self._feed.fault if isinstance(self._feed, SampleFeed) else None
        return [*self._service.faults(), *([] if fault is None else [f"the stream cannot be used: {fault}"])]

    async def _status(self) -> dict[str, Any]:
        return self.status()

    async def _metrics(self) -> str:
        await self._service.publish()
        return self.counters.render()

    async def _push(self, samples: Sequence[tuple[object, object]]) -> bool:
        taken = await self._queued().push(samples)
        self.counters.add("tacit_samples_total", len(samples), outcome="queued" if taken else "turned_away")
        return taken

    async def _predict(self, x: object) -> dict[str, Any]:
        return await asyncio.to_thread(self.prediction, x)

    async def _control(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        stop = self.told_to_stop.set if self._hosted else None
        return await obeyed(self._service, asked, self._token, self.settings, stop)

    def _write_control(self) -> None:
        said = {"port": self.operations_port, "name": self.name, "token": self._token, "hosted": self._hosted}
        write_control(self.settings.control, **said)

    async def _close_doors(self) -> None:
        await self._local.close()
        if self._status_door is not None:
            await self._status_door.close()


def set_round(path: Path, next_round: int | None) -> Moved:
    """Have a peer that does not run go on with another round; see `tacit.peer.node.set_round`."""
    from tacit.peer.node.set_round import set_round as moved_to

    settings = load_peer(path)
    if not settings.store.exists():
        raise ConfigError(f"{settings.peer.name} has no store at {settings.store}: it begins with round 1 when it runs")
    plan = plan_of(settings)
    with open_store(settings) as store:
        return moved_to(plan, store, next_round)


def _report_identity(log: Log, fault: IdentityError) -> None:
    log.error("new identity files cannot be used, the old ones stay", reason=str(fault))
