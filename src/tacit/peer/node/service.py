"""A running peer: the sans-IO node, driven over TLS in real time.

The node is used by one task at a time. Short steps of a round are done by the event loop, longer ones by a worker
thread while the loop answers pings and reads messages, which are let in between two steps (`links.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.contract import Batch, Params
from tacit.core.errors import BudgetExceeded, ConfigError, PrivacyError, TacitError, said
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.node.assignment import Pace, Plan
from tacit.peer.node.closing import CloseOnce
from tacit.peer.node.links import NodeLinks
from tacit.peer.node.node import Node
from tacit.peer.node.resting import is_due, rest_of
from tacit.peer.node.steps import SHORT_STEP, Steps
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import LinkEventLog
from tacit.peer.operations.logs import Log
from tacit.peer.operations.prequential import Judged, Prequential
from tacit.peer.operations.status import CertificateWatch, distance, model_fault, predicted, publish_progress, status_of
from tacit.peer.operations.traces import NO_TRACES, Traces
from tacit.peer.sources.batches import Feed, RoundBatch, empty_round
from tacit.peer.transport.admission import DoorLimits
from tacit.peer.transport.listener import Limits
from tacit.privacy.ledger.open_files import shortage

if TYPE_CHECKING:
    from tacit.peer.machine.functions import AgentFunctions
    from tacit.peer.masking.key_exchange import PairwiseSecrets
    from tacit.peer.membership.members import Members
    from tacit.peer.operations.standing import StandingWatch


class PeerService(CloseOnce):
    """One running peer. Make it, `listen`, `start` it, and `stop` it or wait until it is `finished`."""

    def __init__(
        self,
        plan: Plan,
        store: PeerStore,
        watch: IdentityWatch,
        feed: Feed,
        pace: Pace,
        *,
        worker: Executor,
        counters: Counters,
        log: Log | None = None,
        doors: DoorLimits | None = None,
        after_round: Callable[[int, Params], None] | None = None,
        progress: int = 0,
        traces: Traces = NO_TRACES,
        continues: bool = False,
        functions: Callable[[Plan], AgentFunctions] | None = None,
        short_step: float = SHORT_STEP,
    ) -> None:
        """Take the parts of a peer; `after_round` is called in the worker with each round's model.

        The model is judged over the last `progress` rounds, and the log told as often; 0: it is not. One that
        `continues` takes over a feed in use, of an epoch before. Peers of one process share compiled `functions` by
        their job, and have the event loop do steps of up to `short_step` seconds.
        """
        name = watch.current().name
        if name != plan.name:
            raise ConfigError(f"the certificate names {name!r}, but this is {plan.name!r}; install its own certificate")
        self._watch, self._feed, self.pace = watch, feed, pace
        self.log, self.counters = log or Log(), counters
        self._after_round = after_round
        self._compared: Callable[[], tuple[Params, Params]] | None = None
        """Computes the model without and with its neighbours, of the last round."""
        self._steps, self._functions = Steps(worker, short_step), functions
        self._store = store
        self._pads: dict[str, PairwiseSecrets] = {}
        shared = None if functions is None else functions(plan)
        self.node = Node(plan, store, pace.deadline, time.monotonic(), shared, self._pads.get)
        self.node.refuse_exhausted()
        if self.node.cursor is not None and not continues:
            feed.resume(self.node.cursor)
        judges = plan.role == plan.algorithm.learner == plan.algorithm.predictor
        self.prequential = Prequential(
            plan.algorithm.objective, progress if judges else 0, counters, self.log, time.monotonic
        )
        self._stopping = asyncio.Event()
        self._rounds: asyncio.Task[None] | None = None
        self._coming: asyncio.Future[RoundBatch] | None = None
        """Data of the next round, while they are waited for."""
        self._certificate: asyncio.Task[None] | None = None
        self._traces = store.traces = traces
        self.events = LinkEventLog(counters, self.log, traces)
        self._standing: StandingWatch | None = None
        if hasattr(self.node.machine.state, "carried"):
            from tacit.peer.operations import standing

            self._standing = standing.StandingWatch(counters, self.log)
        limits = Limits(door=doors or DoorLimits(), neighbours=len(self.node.hears))
        self.links = NodeLinks(self.node, watch, self.events, self.log, limits, self._note_fault)
        self.port = 0
        self.parting = False
        """Whether store and feed stay open when it stops, for the service of the next epoch."""
        self.fault: TacitError | None = None
        """The error that ended the rounds early."""
        self.finished = asyncio.Event()
        """Set when the last round is over, or rounds ended with a fault."""

    # -- life ----------------------------------------------------------------------------------------------------------

    async def listen(self, address: str) -> int:
        """Listen for in-neighbours at "host:port"; returns the port."""
        await self._steps.in_worker(self._compile)
        self.port = await self.links.listener.start(address)
        return self.port

    def start(self, addresses: Mapping[str, str]) -> None:
        """Dial the neighbours at their addresses and begin, or go on with, the rounds."""
        self.links.dial(addresses)
        for name, partners in self.node.masker.partners().items():
            self._pads[name] = self.links.secrets(name, partners, changed=self.links.dialers[name].wake)
        self._certificate = asyncio.create_task(
            CertificateWatch(self._watch, self.counters, self.log).run(self.links.end_revoked)
        )
        self.prequential.start()
        self._rounds = asyncio.create_task(self._run())
        position = self.node.position
        self.log.info(
            "peer started", name=self.node.plan.name, job=self.node.plan.job, round=position.round, port=self.port
        )

    async def _close(self) -> None:
        self._stopping.set()
        if self._coming is not None:
            self._coming.cancel()
        self.links.look()
        async with contextlib.AsyncExitStack() as after:  # each even if another fails; the last first
            if not self.parting:
                after.push_async_callback(self.close_parts)
            after.push_async_callback(self.links.listener.close, min(1.0, self.pace.grace))
            after.push_async_callback(self._end_tasks)
            if self._rounds is not None:
                await self._rounds
            if self.fault is None:  # else the last commit is the truth: what came after it may be half done
                with contextlib.suppress(PrivacyError):  # a ledger that is closed for good has been reported
                    async with self.links.turn:
                        self.links.apply_news()
                        if self.node.between_rounds:
                            await self._steps.in_worker(self.node.flush)
                    self.links.listener.progressed()
                    await self.delivered(self.pace.grace, connected=True)
        self.log.info("peer stopped", name=self.node.plan.name, round=self.node.round)

    async def close_parts(self) -> None:
        """Close feed and store, which outlive a service that is `parting`."""
        try:
            await self._feed.close()
        finally:
            self._store.close()

    def successor(self, plan: Plan, pace: Pace, doors: DoorLimits, progress: int) -> PeerService:
        """Return the service of the next epoch, on the parts of this one, which has stopped."""
        parts: dict[str, Any] = {"worker": self._steps.worker, "counters": self.counters, "log": self.log}
        parts |= {"functions": self._functions, "short_step": self._steps.short}
        more: dict[str, Any] = {"after_round": self._after_round, "progress": progress, "traces": self._traces}
        given = {**parts, **more, "doors": doors, "continues": True}
        return PeerService(plan, self._store, self._watch, self._feed, pace, **given)

    async def _end_tasks(self) -> None:
        await self.links.hang_up()
        if self._certificate is not None:
            self._certificate.cancel()
            await asyncio.gather(self._certificate, return_exceptions=True)

    def _note_fault(self, fault: TacitError) -> None:
        self.fault = fault

    async def delivered(self, seconds: float, connected: bool = False) -> None:
        """Wait up to `seconds` until neighbours, or only those that are `connected`, have confirmed all messages."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.links.until(lambda: not self.links.undelivered(connected))

    # -- application --------------------------------------------------------------------------------------

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the prediction of the latest model for x, one finite number or several."""
        return predicted(self.node, x)

    def status(self) -> dict[str, Any]:
        """Return the status of this peer, as plain data."""
        return {
            **status_of(self.node, self._store.ledger, self._watch.current()),
            "pid": os.getpid(),
            "port": self.port,
            "doors": self.links.listener.doors,
            "links": self.link_table(),
            "hears": {name: name in self.links.listener.connected for name in sorted(self.node.hears)},
            "sends_to": {name: dialer.connected for name, dialer in sorted(self.links.dialers.items())},
            "prequential": self.prequential.status(),
            "fault": None if self.fault is None else str(self.fault),
            "stopping": self.stopping,
        }

    def link_table(self) -> list[dict[str, Any]]:
        """Return all links of this peer, as plain data."""
        return self.node.links.table()

    async def change(self, act: Callable[[Members], None]) -> None:
        """Change this peer's links, between two steps; what is refused is a ConfigError."""
        members = self.node.members
        if members is None:
            raise ConfigError(
                f"links of {self.node.plan.algorithm.name!r} are fixed within an epoch: change them in the peers' "
                "files, with the job's epoch counted up, and have all go on to it (`tacit peer epoch`)"
            )
        async with self.links.turn:
            act(members)  # here, and not in the worker: whoever asks may go away meanwhile
        self._moved()

    async def publish(self) -> None:
        """Set the figures that are computed when somebody asks for them."""
        from tacit.peer.observing.figures import publish_state

        publish_state(self)
        self.prequential.publish()
        compared = self._compared
        if compared is not None:
            await asyncio.to_thread(self._publish_distance, compared)

    def _publish_distance(self, compared: Callable[[], tuple[Params, Params]]) -> None:
        with self.node.plan.precision():
            self.counters.set("tacit_consensus_distance", distance(*compared()))

    @property
    def stopping(self) -> bool:
        """Whether the peer was told to end."""
        return self._stopping.is_set()

    def faults(self) -> list[str]:
        """Return what is wrong with the peer; nothing if it is well."""
        found = [] if self.fault is None else [str(self.fault)]
        found += ["the peer is stopping"] if self.stopping else []
        if self.node.releases_cut:
            found.append(
                f"{self.node.releases_cut} release(s) went beyond what {self.node.plan.algorithm.name!r} declares and "
                "were cut down to it: nothing leaked, but the method does not clip as it says; mend it"
            )
        more = (model_fault(self.node), shortage())
        found += [fault for fault in more if fault is not None]
        identity = self._watch.current()
        if identity.not_after <= datetime.now(UTC):
            found.append(f"the certificate expired at {identity.not_after.isoformat()}; install a new one")
        return found if identity.revocation is None else [*found, identity.revocation]

    # -- rounds --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set() and not self._is_over():
                with self._traces.span("round", round=self.node.round + self.node.between_rounds):
                    await self._one_round()
                if self.fault is not None:
                    raise self.fault
            if self._is_over():
                await self._step(self.node.flush)
        except TacitError as error:
            self.fault, self.links.frozen = error, True
            event = "the budget is spent" if isinstance(error, BudgetExceeded) else "rounds ended with a fault"
            self.log.error(event, reason=str(error))
        except Exception as error:
            self.fault = TacitError(f"an error in tacit or in the algorithm: {said(error)}")
            self.links.frozen = True
            self.log.error("rounds ended with a fault", fault=error)
        self.finished.set()
        await self._stopping.wait()  # what neighbours confirm is still taken in

    def _is_over(self) -> bool:
        last, following = self.pace.last_round, self.node.next_round
        return self.left or (
            self.node.between_rounds and (following is None or (last is not None and following > last))
        )

    @property
    def left(self) -> bool:
        """Whether the peer has left, and all that it held is with others, or has done all rounds of its epoch."""
        return self.node.links.over or (self.node.members is not None and self.node.members.book.gone)

    async def _one_round(self) -> None:
        node = self.node
        if node.between_rounds:
            began = time.monotonic()
            rest = rest_of(node, self.pace.interval)

            def due() -> bool:
                now = time.monotonic()
                return self.left or (node.ready(now) and is_due(node, now, began + rest))

            if not await self._until(due, began + rest) or self.left:
                return
            given = await self._given()
            if given is None:
                return
            await self._step(lambda: self._begin(given))
            earliest = began + self.pace.interval
        else:
            earliest = time.monotonic()
        while not node.between_rounds:
            since = time.monotonic()
            if not await self._until(lambda: node.due(time.monotonic())):
                return
            missing, waited = sorted(node.missing()), time.monotonic() - since
            at = {"round": node.round, "phase": node.machine.phase or 0, "missing": len(missing), "waited": waited}
            with self._traces.span("phase", **at):
                await self._step(self._proceed)
            self.log.debug("phase over", round=node.round, missing=missing, over=node.between_rounds)
        if time.monotonic() < earliest:
            await self._until(lambda: time.monotonic() >= earliest, earliest)

    async def _given(self) -> RoundBatch | None:
        """Return the next round's data; None where the peer stops."""
        if not self.node.links.learns:
            return empty_round(self.node.plan.batch, self.node.cursor)
        if self._stopping.is_set():
            return None
        return await self._unless_stopping(self._feed.next(self.node.next_round or 0))

    def _begin(self, given: RoundBatch) -> None:
        batch, records, cursor, used, seen = given.batch, given.records, given.cursor, given.used, given.seen
        judged = self._judged(batch)
        self.node.begin(batch, time.monotonic(), records=records, cursor=cursor, used=used, seen=seen)
        self.prequential.learnt(self.node.round, judged)
        self.counters.add("tacit_samples_total", given.samples, outcome="used")

    def _compile(self) -> None:
        self.node.compile()
        if self.prequential.rounds:
            batch = self.node.plan.batch
            self._judged(batch._replace(weight=np.ones_like(batch.weight)))

    def _judged(self, batch: Batch) -> Judged:
        """Return how well the model predicts a batch that it has not learnt from."""
        if not self.prequential.rounds:
            return Judged()
        with self.node.plan.precision():
            return self.prequential.judge(self.node.model(), batch)

    def _proceed(self) -> None:
        node = self.node
        node.proceed(time.monotonic())
        if node.between_rounds and node.predicts:
            self._compared = node.comparison()
            if self._after_round is not None:
                self._after_round(node.round, node.model())
        if node.between_rounds and self._standing is not None:
            self._standing.look(node)

    async def _step(self, work: Callable[[], None]) -> None:
        async with self.links.turn:
            self.links.apply_news()
            await self._steps.do(work)
        self._moved()

    def _moved(self) -> None:
        self.links.progressed()
        publish_progress(self.counters, self.node)

    async def _until(self, condition: Callable[[], bool], at: float | None = None) -> bool:
        """Wait until a condition holds; it is checked at news, at the deadline of the phase and at the time `at`."""
        while not condition():
            if self._stopping.is_set() or self.fault is not None:
                return False
            times = [due for due in (self.node.due_at(), at) if due is not None]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(times) - time.monotonic()) if times else None):
                    await self.links.until(lambda: self._stopping.is_set() or self.fault is not None or condition())
        return True

    async def _unless_stopping(self, coming: Any) -> RoundBatch | None:
        self._coming = asyncio.ensure_future(coming)
        try:
            given: RoundBatch = await self._coming
            return given
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            return None
