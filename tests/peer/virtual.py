"""A network in virtual time: real nodes and real stores, and links that break, repeat, overtake, delay and part.

Everything that happens is an event on one heap, and all chance comes from one seed, so that a run can be had again.
Links behave as the transport does. The sender of an edge dials. The receiver welcomes it with its position; the sender
confirms that and sends all that waits, each parcel once per connection. The receiver reads one after the other, holds
one that is too early and reads nothing behind it, and tells its position when `KnownPosition` says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import heapq
import itertools
import random
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from tacit.core.errors import MessageRefused
from tacit.peer.machine.snapshots import Memories
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.exchange import KnownPosition, Position
from tacit.peer.node.node import Node
from tacit.peer.node.resting import is_due, rest_of
from tacit.peer.node.store import PeerStore
from tests.peer.liar import Liar
from tests.peer.settings import Setting
from tests.peer.weather import (
    BACKOFF,
    BUDGET,
    DEADLINE,
    LIFETIME,
    SLOWEST,
    BrokenInvariantError,
    Connection,
    Host,
    Killed,
    Weather,
    described,
)


class Network:
    """Peers of one setting under one seed."""

    budget = BUDGET

    def __init__(self, setting: Setting, seed: int, directory: Path, weather: Weather | None = None, verbose=False):
        self.setting, self.seed, self.verbose = setting, seed, verbose
        self.chance = random.Random(f"{setting.name} {seed}")
        self.liar = Liar(f"{setting.name} {seed}", setting.plans)
        if weather is None:
            weather = dataclasses.replace(Weather.drawn(self.chance), lies=self.liar.rate)
        self.weather = weather
        self.now, self.events = 0.0, 0
        self.trace = hashlib.sha256()
        self.heap: list = []
        self.order = itertools.count()
        self.refusals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.released: dict[tuple, bytes] = {}
        """(sender, links, round, phase, receiver) -> content, of all that was ever handed out."""
        self.committed: set[tuple] = set()
        """The same keys, of all that was ever committed."""
        self.parted: set[str] = set()
        self.connections: dict[tuple[str, str], Connection] = {}
        self.latencies: dict[tuple[str, str], float] = {}
        self.hosts = {name: self._host(name, directory) for name in setting.plans}
        self.in_time: dict[tuple[str, str], float] = {}
        """Edge -> when a message was last accepted over it."""
        for host in self.hosts.values():
            self._start(host)
        for host in self.hosts.values():
            for other in sorted(host.node.sends_to):
                slow = self.chance.random() < self.weather.slow_links
                slower = self.chance.uniform(5, 20) if slow else 1.0
                self.latencies[host.name, other] = min(self.weather.latency * slower, SLOWEST)
                self._at(self.now, self._dial, host.name, other)
        self._at(0.0, self._part)
        self._at(0.0, self._lie)

    def _host(self, name: str, directory: Path) -> Host:
        slow = self.chance.random() < 0.2
        ready, when = [], 0.0
        while len(ready) < 3000 and when < 60:
            pause = when < self.weather.until and self.chance.random() < self.weather.data_pauses
            if when > self.weather.until:
                when += self.weather.data_gap * self.chance.uniform(0.8, 1.2)
            else:
                when += self.chance.uniform(0.3, 1.5) if pause else self.chance.expovariate(1 / self.weather.data_gap)
            ready.append(when)
        return Host(name, directory / f"{name}.db", self.weather.work * (3 if slow else 1), ready)

    # -- the run -------------------------------------------------------------------------------------------------------

    @property
    def stormy(self) -> bool:
        """Whether there are faults at this time."""
        return self.now < self.weather.until

    def run(self, limit: float, check=lambda network: None) -> None:
        """Let things happen until everybody has finished or the clock has run out; `check` after each event."""
        while self.heap and self.heap[0][0] <= limit and not self.finished:
            self.step()
            check(self)
        if not self.heap or self.heap[0][0] > limit:
            self.now = limit

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, _, act, arguments = heapq.heappop(self.heap)
        self.events += 1
        said = f"{self.now:.6f} {act.__name__.strip('_')} {' '.join(map(described, arguments))}"
        self.trace.update(said.encode())
        if self.verbose:
            print(f"{self.events:6d} {said}", flush=True)
        act(*arguments)

    @property
    def finished(self) -> bool:
        """Whether everybody that waits for everybody has done all rounds."""
        if not self.setting.waits:
            return False
        return all(
            host.node is not None and host.node.between_rounds and not self._has_more(host)
            for host in self.hosts.values()
        )

    def _has_more(self, host: Host) -> bool:
        following = host.node.next_round
        return following is not None and (not self.setting.waits or following <= self.setting.rounds)

    def close(self) -> None:
        """Close all stores."""
        for host in self.hosts.values():
            if host.store is not None:
                host.store.close()

    def fail(self, what: str) -> None:
        """Say which seed and event it was."""
        raise BrokenInvariantError(
            f"{self.setting.name}, seed {self.seed}, event {self.events} at {self.now:.3f} s: {what}"
        )

    def _at(self, when: float, act, *arguments) -> None:
        heapq.heappush(self.heap, (when, next(self.order), act, arguments))

    # -- peers ---------------------------------------------------------------------------------------------------------

    def _start(self, host: Host) -> None:
        budget = self.budget if self.setting.booked else NOTHING_BOOKED
        make = PeerStore.open if host.path.exists() else PeerStore.create
        host.store = make(host.path, budget, "job")
        host.node = Node(self.setting.plans[host.name], host.store, DEADLINE, self.now, self.setting.functions)
        host.life += 1
        host.alarm = float("inf")
        self._watch_commits(host)
        if host.memories is not None and not _same(host.memories, host.node.machine.memories):
            self.fail(f"{host.name} came back with another memory of its noise than it had committed")
        if host.node.position < host.position or host.node.round < host.round:
            self.fail(f"{host.name} came back at {tuple(host.node.position)}, and was at {tuple(host.position)}")
        host.progressed = self.now
        self._moved(host)

    def _watch_commits(self, host: Host) -> None:
        write, odds = host.store.commit, self.weather.crashes_at_commit

        def commit(**what) -> None:
            write(**what)
            self.committed |= {(host.name, p.links, p.round, p.phase, p.receiver) for p in what["parcels"]}
            host.memories = host.node.machine.memories

        def fragile(**what) -> None:
            if self.stormy and self.chance.random() < odds:
                if self.chance.random() < 0.5:
                    self.faults["killed before a commit"] += 1
                    raise Killed
                commit(**what)
                self.faults["killed after a commit"] += 1
                raise Killed
            commit(**what)

        host.store.commit = fragile

    def _restart(self, name: str) -> None:
        host = self.hosts[name]
        if host.node is None:
            self._start(host)
            for other in sorted(host.node.sends_to) if host.node is not None else ():  # it may have been over
                self._at(self.now, self._dial, name, other)

    def _kill(self, host: Host) -> None:
        host.store.close()
        host.node = host.store = None
        for connection in list(self.connections.values()):
            if host.name in (connection.sender, connection.receiver):
                self._break(connection)
        self._at(self.now + self.chance.uniform(0.01, 1.5), self._restart, host.name)

    def _strike(self, name: str) -> None:
        """A crash, or a stop in good order, while nothing else happens to that peer."""
        host = self.hosts[name]
        if host.node is not None and self.stormy:
            if self.chance.random() < 0.3:
                self.faults["stopped"] += 1
                with contextlib.suppress(Killed):
                    host.node.flush()
            else:
                self.faults["killed"] += 1
            self._kill(host)

    def _wake(self, name: str, life: int, when: float) -> None:
        host = self.hosts[name]
        if host.life == life and host.node is not None and host.alarm == when:
            host.alarm = float("inf")
            self._act(host)

    def _act(self, host: Host) -> None:
        """One step of a peer's loop, if there is one to make."""
        node = host.node
        try:
            if node.due(self.now):
                node.proceed(self.now)
            elif self._can_begin(host):
                used = node.cursor or 0
                if host.ready[used] > self.now:
                    self._alarm(host, host.ready[used])
                    return
                # Under `wait` the rounds are those of the reference, some of which a peer may rest in.
                batch = self.setting.batch(host.name, node.next_round - 1 if self.setting.waits else used)
                node.begin(batch, self.now, cursor=used + 1)
                host.began.append((self.now, node.round))
            else:
                due = node.due_at() if rested(host) <= self.now else rested(host)
                if due is not None:
                    self._alarm(host, max(due, self.now))
                return
        except Killed:
            self._kill(host)
            return
        host.progressed = self.now
        self._moved(host)

    def _can_begin(self, host: Host) -> bool:
        return is_due(host.node, self.now, rested(host)) and self._has_more(host)

    def _moved(self, host: Host) -> None:
        """Something may have changed at a peer: look at its position, tell it, send, read on, and go on."""
        node = host.node
        if node.position < host.position:
            self.fail(f"{host.name} went back from {tuple(host.position)} to {tuple(node.position)}")
        if node.round < host.round:
            self.fail(f"{host.name} went back from round {host.round} to {node.round}")
        host.position, host.round = node.position, node.round
        for connection in list(self.connections.values()):
            if connection.receiver == host.name and connection.greeted and connection.told.is_due(host.position):
                connection.told.tell(host.position)
                self._return(connection, self._confirm, host.position)
            if connection.sender == host.name and connection.welcomed:
                self._pump(connection)
        for connection in list(self.connections.values()):
            if connection.receiver == host.name:
                self._read(connection)
        self._alarm(host, self.now + host.work)
        if self.stormy and self.chance.random() < self.weather.crashes * 0.05:
            self._at(self.now + self.chance.random() * 0.05, self._strike, host.name)

    def _alarm(self, host: Host, when: float) -> None:
        if when < host.alarm:
            host.alarm = when
            self._at(when, self._wake, host.name, host.life, when)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _cut(self, a: str, b: str) -> bool:
        return (a in self.parted) != (b in self.parted)

    def _dial(self, sender: str, receiver: str) -> None:
        host = self.hosts[sender]
        if host.node is None or (sender, receiver) in self.connections:
            return
        if self.hosts[receiver].node is None or self._cut(sender, receiver):
            self._at(self.now + BACKOFF * self.chance.uniform(0.5, 2), self._dial, sender, receiver)
            return
        connection = Connection(self.events, sender, receiver)
        self.connections[sender, receiver] = connection
        self._forth(connection, self._greet, host.node.round)
        life = LIFETIME * self.chance.uniform(0.8, 1.2)
        if self.stormy and self.weather.breaks:
            life = min(life, self.chance.expovariate(self.weather.breaks))
        self._at(self.now + life, self._break, connection)

    def _break(self, connection: Connection) -> None:
        if connection.alive:
            connection.alive = connection.greeted = connection.welcomed = False
            connection.queue.clear()
            del self.connections[connection.sender, connection.receiver]
            wait = BACKOFF * self.chance.uniform(0.1, 2)
            self._at(self.now + wait, self._dial, connection.sender, connection.receiver)

    def _part(self) -> None:
        if not self.stormy:
            self.parted = set()
            return
        if self.parted:
            self.parted = set()
        elif self.chance.random() < self.weather.partings:
            self.faults["parted"] += 1
            names = sorted(self.hosts)
            self.parted = set(self.chance.sample(names, self.chance.randint(1, len(names) - 1)))
            for connection in list(self.connections.values()):
                if self._cut(connection.sender, connection.receiver):
                    self._break(connection)
        self._at(min(self.now + self.chance.uniform(0.3, 1.5), self.weather.until), self._part)

    def _lie(self) -> None:
        if self.stormy and self.weather.lies:
            self._at(self.now + self.liar.lie(self), self._lie)

    def _delay(self, connection: Connection) -> float:
        return self.latencies[connection.sender, connection.receiver] * self.chance.uniform(0.5, 2.0)

    def _forth(self, connection: Connection, act, *arguments) -> None:
        when = self.now + self._delay(connection)
        if not (act == self._arrive and self.stormy and self.chance.random() < self.weather.overtakes):
            when = connection.arrives = max(when, connection.arrives)
        self._at(when, act, connection, *arguments)

    def _return(self, connection: Connection, act, *arguments) -> None:
        when = self.now + self._delay(connection)
        if not (act == self._confirm and self.stormy and self.chance.random() < self.weather.overtakes):
            when = connection.returns = max(when, connection.returns)
        self._at(when, act, connection, *arguments)

    def _greet(self, connection: Connection, at_round: int) -> None:
        if connection.alive:
            node = self.hosts[connection.receiver].node
            node.greeted(connection.sender, at_round)
            connection.greeted = True
            connection.told = KnownPosition(node.position, node.position_interval)
            self._return(connection, self._welcome, node.position)

    def _welcome(self, connection: Connection, position: Position) -> None:
        if connection.alive:
            connection.welcomed = True
            self._confirm(connection, position)

    def _confirm(self, connection: Connection, position: Position) -> None:
        if not connection.alive:
            return
        host = self.hosts[connection.sender]
        try:
            host.node.confirmed(connection.receiver, position)
        except MessageRefused as refusal:
            if refusal.reason != "position" or (self.setting.waits and not self.weather.overtakes):
                raise
            self.refusals["position"] += 1  # told late by one that was overtaken, or too far to be believed
        if connection.welcomed:
            self._pump(connection)
        self._alarm(host, self.now + host.work)

    def _pump(self, connection: Connection) -> None:
        """Send what waits and was not sent on this connection."""
        host = self.hosts[connection.sender]
        for parcel in host.node.waiting(connection.receiver):
            key = (parcel.links, parcel.round, parcel.phase)
            if key in connection.sent:
                continue
            connection.sent.add(key)
            self._handed_out(host, parcel)
            self._forth(connection, self._arrive, parcel)
            if self.stormy and self.chance.random() < self.weather.repeats:
                self.faults["repeated"] += 1
                self._forth(connection, self._arrive, parcel)

    def _handed_out(self, host: Host, parcel) -> None:
        key = (host.name, parcel.links, parcel.round, parcel.phase, parcel.receiver)
        if key not in self.committed:
            self.fail(f"{key} left before it was committed")
        if self.released.setdefault(key, parcel.content) != parcel.content:
            self.fail(f"{key} was sent with two contents")
        if self.setting.books(parcel.phase):
            name = self.setting.release(host.name, parcel.round, parcel.phase)
            if not host.store.ledger.read(
                lambda c: c.execute("SELECT count(*) FROM entry WHERE release = ?", (name,)).fetchone()[0] == 1
            ):
                self.fail(f"{key} left and is not booked once")

    def _arrive(self, connection: Connection, parcel) -> None:
        if connection.alive:
            connection.queue.append(parcel)
            self._read(connection)
        elif self.stormy and self.hosts[connection.receiver].node is not None and self._haunts():
            self.faults["ghost"] += 1
            self._take(connection, parcel)

    def _haunts(self) -> bool:
        return self.chance.random() < self.weather.ghosts

    def _read(self, connection: Connection) -> None:
        while connection.queue:
            node = self.hosts[connection.receiver].node
            node.announced(connection.sender, connection.queue[0].round)
            if node.too_early(connection.sender, connection.queue[0].round):
                return
            self._take(connection, connection.queue.popleft())

    def _take(self, connection: Connection, parcel) -> None:
        host = self.hosts[connection.receiver]
        message = host.node.codec.unpack(parcel.phase, parcel.content)
        try:
            host.node.receive(connection.sender, parcel.links, parcel.phase, parcel.round, message)
        except MessageRefused as refusal:
            self.refusals[refusal.reason] += 1
            if refusal.reason not in ("stale", "repeated", "early"):
                raise
            if refusal.reason == "repeated" and connection.greeted:
                connection.told.holds(parcel.round, parcel.phase)
        else:
            if connection.greeted:
                connection.told.holds(parcel.round, parcel.phase)
            self.in_time[connection.sender, connection.receiver] = self.now
        self._alarm(host, self.now + host.work)


def rested(host: Host) -> float:
    """Return until when a peer rests at most, between two rounds."""
    return host.progressed + (rest_of(host.node) if host.node.between_rounds else 0.0)


def _same(one: Memories, other: Memories) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one, other)))
