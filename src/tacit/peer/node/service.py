"""A running peer: the sans-IO node, driven over gRPC in real time.

All that touches the node happens in turn: steps of a round run in one worker thread while the event loop answers
pings and reads messages, which are let in between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tacit.core.contract import Message, Params
from tacit.core.errors import BudgetExceeded, ConfigError, MessageRefused, PrivacyError, TacitError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.masking.key_exchange import PairwiseSecrets
from tacit.peer.node.assignment import Pace, Plan
from tacit.peer.node.closing import StopsOnce
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import LinkTally
from tacit.peer.operations.logs import Log
from tacit.peer.operations.status import distance, model_fault, predicted, spending, standing, watch_certificate
from tacit.peer.sources.batches import Feed, Given
from tacit.peer.transport.admission import DoorLimits
from tacit.peer.transport.dialer import Dialer
from tacit.peer.transport.listener import Limits, Listener
from tacit.privacy.ledger.open_files import shortage
from tacit.runtime import MessageSpec


class PeerService(StopsOnce):
    """One peer at work. Make it, `start` it, and `stop` it or wait until it is `finished`."""

    def __init__(
        self,
        plan: Plan,
        store: PeerStore,
        watch: IdentityWatch,
        feed: Feed,
        pace: Pace,
        *,
        worker: ThreadPoolExecutor,
        counters: Counters,
        log: Log | None = None,
        doors: DoorLimits | None = None,
        after_round: Callable[[int, Params], None] = lambda round_, model: None,
    ) -> None:
        """Take all that a peer is made of; `after_round` is called in the worker with each round's model."""
        name = watch.current().name
        if name != plan.name:
            raise ConfigError(f"the certificate names {name!r}, but this is {plan.name!r}; install its own certificate")
        self._watch, self._feed, self.pace = watch, feed, pace
        self.log, self.counters = log or Log(), counters
        self._after_round = after_round
        self._worker = worker
        self._store = store
        self._pads: dict[str, PairwiseSecrets] = {}
        self.node = Node(plan, store, pace.deadline, time.monotonic(), pads=self._pads.get)
        self.node.refuse_exhausted()
        if self.node.cursor is not None:
            feed.resume(self.node.cursor)
        self.job = plan.job
        self.specs: Sequence[MessageSpec] = self.node.specs
        self.told_every = self.node.told_every
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._progress, self._stopping = asyncio.Event(), asyncio.Event()
        self._greetings: dict[str, int] = {}
        self._heard_of: dict[str, int] = {}
        self._doubted: set[str] = set()
        self._confirmations: dict[str, list[Position]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._rounds: asyncio.Task[None] | None = None
        self._dialers: dict[str, Dialer] = {}
        self._tally = LinkTally(counters, self.log)
        limits = Limits(door=doors or DoorLimits(), neighbours=len(self.node.hears))
        self._listener = Listener(self, watch, self._tally, limits)
        self._secrets: list[PairwiseSecrets] = []
        self._letter_boxes: dict[str, Callable[[str, bytes], None]] = {}
        self.port = 0
        self.fault: TacitError | None = None
        """Why the rounds ended before their time."""
        self.finished = asyncio.Event()
        """Set when the last round is over, or rounds ended with a fault."""

    # -- life ----------------------------------------------------------------------------------------------------------

    async def listen(self, address: str) -> int:
        """Take messages at "host:port"; returns the port."""
        await self._in_worker(self.node.compile)
        self.port = await self._listener.start(address)
        return self.port

    def start(self, addresses: Mapping[str, str]) -> None:
        """Dial the neighbours at their addresses and begin, or go on with, the rounds."""
        missing = self.node.sends_to - addresses.keys()
        if missing:
            raise ConfigError(f"no address for {', '.join(sorted(missing))}, to whom this peer sends; add it")
        for name in sorted(self.node.sends_to):
            dialer = Dialer(self, name, addresses[name], self._watch, self._tally)
            self._dialers[name] = dialer
            self._tasks.append(asyncio.create_task(dialer.run()))
        for name, partners in self.node.masker.partners().items():
            self._pads[name] = self.secrets(name, partners, changed=self._dialers[name].wake)
        self._tasks.append(asyncio.create_task(watch_certificate(self._watch, self.counters, self.log)))
        self._rounds = asyncio.create_task(self._run())
        position = self.node.position
        self.log.info("peer started", name=self.node.plan.name, job=self.job, round=position.round, port=self.port)

    async def _close(self) -> None:
        self._stopping.set()
        self._wake.set()
        async with contextlib.AsyncExitStack() as after:  # each of them whatever became of the others, the last first
            after.callback(self._store.close)
            after.push_async_callback(self._feed.close)
            after.push_async_callback(self._listener.close, min(1.0, self.pace.grace))
            after.push_async_callback(self._end_tasks)
            if self._rounds is not None:
                await self._rounds
            if self.fault is None:  # else the last commit is the truth: what came after it may be half done
                with contextlib.suppress(PrivacyError):  # a ledger that is closed for good has been reported
                    async with self._turn:
                        self._apply_news()
                        if self.node.between_rounds:
                            await self._in_worker(self.node.flush)
                    self._listener.progressed()
                    await self.delivered(self.pace.grace, connected=True)
        self.log.info("peer stopped", name=self.node.plan.name, round=self.node.round)

    async def _end_tasks(self) -> None:
        for secret in self._secrets:
            await secret.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def delivered(self, seconds: float, connected: bool = False) -> None:
        """Wait until neighbours, or only those that are `connected`, have confirmed all, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    self._wake.clear()  # before the news are looked at, or some that come meanwhile would wake nobody
                    async with self._turn:
                        self._apply_news()
                    if not any(
                        self.node.unconfirmed(name) and (dialer.connected or not connected)
                        for name, dialer in self._dialers.items()
                    ):
                        return
                    await self._wake.wait()

    # -- what an application asks --------------------------------------------------------------------------------------

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return what the model of the last step says of x, a finite number or several."""
        return predicted(self.node, x)

    def status(self) -> dict[str, Any]:
        """Return where this peer stands, as plain data."""
        return {
            **standing(self.node, self._store.ledger, self._watch.current()),
            "pid": os.getpid(),
            "port": self.port,
            "doors": self._listener.doors,
            "hears": {name: name in self._listener.connected for name in sorted(self.node.hears)},
            "sends_to": {name: dialer.connected for name, dialer in sorted(self._dialers.items())},
            "fault": None if self.fault is None else str(self.fault),
            "stopping": self._stopping.is_set(),
        }

    def note_handshake(self, reason: str, line: str) -> None:
        """Count a TLS handshake that gRPC refused."""
        self._tally.refused(reason, None, line)

    def faults(self) -> list[str]:
        """Return what is wrong, nothing if the peer is well."""
        found = [] if self.fault is None else [str(self.fault)]
        if self._stopping.is_set():
            found.append("the peer is stopping")
        if self.node.releases_cut:
            found.append(
                f"{self.node.releases_cut} release(s) went beyond what {self.node.plan.algorithm.name!r} declares and "
                "were cut down to it: nothing leaked, but the method does not clip as it says; mend it"
            )
        more = (model_fault(self.node), shortage(), self._listener.fault)
        found += [fault for fault in more if fault is not None]
        identity = self._watch.current()
        if identity.not_after <= datetime.now(UTC):
            found.append(f"the certificate expired at {identity.not_after.isoformat()}; install a new one")
        return found

    # -- what the transport asks: Reception ----------------------------------------------------------------------------

    def admit(self, name: str) -> None:
        """Refuse whoever this peer does not hear."""
        self.node.admit(name)

    def position(self, name: str) -> Position:
        """Return from where on messages are wanted."""
        return self.node.position

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that a neighbour names in its hello, for the next turn."""
        self.node.admit(name)
        self._greetings[name] = at_round
        self._heard_of.pop(name, None)
        self._wake.set()

    async def take(self, name: str, phase: int, sent: int, message: Message | None, masks: bytes) -> None:
        """Let a message in between two steps; one that is early is held until its time has come."""
        self.node.admit(name)
        self._heard_of[name] = max(sent, self._heard_of.get(name, 0))
        self._wake.set()
        links = self.node.plan.algorithm.phases[phase].links
        if self.log.detailed:  # what came, without its values: that no release has two forms can be seen in the logs
            digest = hashlib.sha256(self.node.codec.pack(phase, message)).hexdigest()
            self.log.debug("message", neighbour=name, links=links, phase=phase, round=sent, digest=digest)
        while self.node.too_early(sent):
            await self._progress.wait()
        async with self._turn:
            self.node.receive(name, links, phase, sent, message, masks)
        self._wake.set()

    async def letter(self, name: str, recipient: str, payload: bytes) -> None:
        """Pass on a sealed letter from one in-neighbour to another."""
        if recipient == name or recipient not in self.node.hears:
            raise MessageRefused("recipient", f"{recipient!r} is no other neighbour of {self.node.plan.name!r}")
        await self._listener.send_letter(recipient, name, payload)

    # -- Dispatch ------------------------------------------------------------------------------------------------------

    def standing(self) -> int:
        """Return the round in which this peer is."""
        return self.node.round

    def waiting(self, name: str) -> tuple[Parcel, ...]:
        """Return what a neighbour has not confirmed."""
        return tuple(self.node.waiting(name))

    def confirmed(self, name: str, position: Position) -> None:
        """Note a neighbour's position, for the next turn."""
        self._confirmations.setdefault(name, []).append(position)
        self._wake.set()

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        """Log what a neighbour did not accept."""
        where = {"neighbour": name, "round": parcel.round, "phase": parcel.phase}
        self.log.seldom(f"refused by {name} {reason}", "refused by a neighbour", reason=reason, detail=detail, **where)

    def letter_from(self, relay: str, sender: str, payload: bytes) -> None:
        """Hand a letter to whoever opened the letter box of its relay."""
        box = self._letter_boxes.get(relay)
        if box is None:
            self._tally.refused("recipient", sender, f"a letter relayed by {relay!r}, which nobody here expects")
            return
        try:
            box(sender, payload)
        except PrivacyError as error:  # the store could not keep a key, and is closed for good
            self.fault = error
            self.log.error("a key could not be kept", reason=str(error))

    # -- letters -------------------------------------------------------------------------------------------------------

    def secrets(
        self,
        receiver: str,
        partners: Collection[str],
        changed: Callable[[], None] = lambda: None,
    ) -> PairwiseSecrets:
        """Share secrets with the other senders of an out-neighbour, who carries the letters and learns nothing."""
        identity, refused = self._watch.current, self._tally.refused
        # Secrets are kept in the store, and outlive the program as it does.
        job = self.node.plan.settings or self.job
        found = PairwiseSecrets(self, identity, job, receiver, partners, self._store, refused=refused, changed=changed)
        self._secrets.append(found)
        return found

    def open_letter_box(self, relay: str, box: Callable[[str, bytes], None]) -> Callable[[str, bytes], Awaitable[None]]:
        """Hear letters that the out-neighbour `relay` passes on; returns what sends them through it."""
        if relay not in self._dialers:
            raise ConfigError(f"{relay!r} is not among those to whom this peer sends, so it can pass nothing on")
        self._letter_boxes[relay] = box
        return self._dialers[relay].send_letter

    # -- rounds --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set() and not self._is_over():
                await self._one_round()
            if self._is_over():
                await self._step(self.node.flush)
        except TacitError as error:
            self.fault = error
            event = "the budget is spent" if isinstance(error, BudgetExceeded) else "rounds ended with a fault"
            self.log.error(event, reason=str(error))
        except Exception as error:
            self.fault = TacitError(f"an error in tacit or in the algorithm: {error!r}")
            self.log.error("rounds ended with a fault", fault=error)
        self.finished.set()
        await self._until(lambda: False)  # what neighbours confirm is still taken in, until the peer is stopped

    def _is_over(self) -> bool:
        last = self.pace.last_round
        return last is not None and self.node.between_rounds and self.node.round >= last

    async def _one_round(self) -> None:
        node = self.node
        if node.between_rounds:
            began = time.monotonic()
            if not await self._until(lambda: node.ready_to_begin):
                return
            given = await self._unless_stopping(self._feed.next(node.round + 1))
            if given is None:
                return
            await self._step(lambda: self._begin(given))
            earliest = began + self.pace.interval
        else:
            earliest = time.monotonic()
        while not node.between_rounds:
            if not await self._until(lambda: node.due(time.monotonic())):
                return
            missing = sorted(node.missing())
            await self._step(self._proceed)
            self.log.debug("phase over", round=node.round, missing=missing, over=node.between_rounds)
        if time.monotonic() < earliest:
            await self._until(lambda: time.monotonic() >= earliest, earliest)

    def _begin(self, given: Given) -> None:
        batch, records, cursor, used, seen = given.batch, given.records, given.cursor, given.used, given.seen
        self.node.begin(batch, time.monotonic(), records=records, cursor=cursor, used=used, seen=seen)
        self.counters.add("tacit_samples_total", given.samples, outcome="used")

    def _proceed(self) -> None:
        node = self.node
        node.proceed(time.monotonic())
        if node.between_rounds and node.predicts:
            model = node.model()
            self._after_round(node.round, model)
            self.counters.set("tacit_consensus_distance", distance(node.model_alone(), model))

    async def _step(self, work: Callable[[], None]) -> None:
        async with self._turn:
            self._apply_news()
            await self._in_worker(work)
        self._moved()

    async def _in_worker(self, work: Callable[[], None]) -> None:
        # Not to be left half-way: the turn is over when the thread is.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._worker, work))

    def _moved(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
        self._listener.progressed()
        for dialer in self._dialers.values():
            dialer.wake()
        self.counters.set("tacit_round", self.node.round)
        self.counters.set("tacit_lag_rounds", self.node.lag())
        if self.node.plan.booked:
            unit, spent, left, _ = spending(self._store.ledger.budget, self._store.ledger.spent())
            self.counters.set(f"tacit_{unit}_spent", spent)
            self.counters.set(f"tacit_{unit}_left", left)
            self.counters.set("tacit_releases_cut", self.node.releases_cut)

    async def _until(self, condition: Callable[[], bool], at: float | None = None) -> bool:
        """Wait until a condition holds, which news, the deadline of the phase or the time `at` may bring about."""
        while True:
            self._wake.clear()
            async with self._turn:
                self._apply_news()
                if condition():
                    return True
            if self._stopping.is_set():
                return False
            times = [due for due in (self.node.due_at(), at) if due is not None and due > time.monotonic()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(times) - time.monotonic() if times else None):
                    await self._wake.wait()

    async def _unless_stopping(self, coming: Any) -> Given | None:
        task, stop = asyncio.ensure_future(coming), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            given: Given | None = task.result() if task.done() else None
            return given
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def _apply_news(self) -> None:
        """Let in what was heard since the last turn; called with the turn taken."""
        greetings, self._greetings = self._greetings, {}
        for name, at_round in greetings.items():
            self.node.greeted(name, at_round)
        heard, self._heard_of = self._heard_of, {}
        for name, at_round in heard.items():
            self.node.announced(name, at_round)
        self._note_doubts()
        confirmations, self._confirmations = self._confirmations, {}
        for name, positions in confirmations.items():
            for position in positions:
                try:
                    self.node.confirmed(name, position)
                except MessageRefused as refusal:
                    self._tally.refused(refusal.reason, name, refusal.detail)
            if name in self._dialers:
                self._dialers[name].wake()  # it may be sent more now

    def _note_doubts(self) -> None:
        """Count and log neighbours that say they are far ahead, once each time that they begin to."""
        doubted = self.node.doubted()
        for name in doubted.keys() - self._doubted:
            self._tally.refused(
                "ahead",
                name,
                f"round {doubted[name]} is far beyond this peer's {self.node.round}, and nobody else whom it hears "
                "says so: it is followed a little at a time",
            )
        self._doubted = set(doubted)
