"""A network in virtual time whose members come and go: links are opened and closed, and peers join, leave and are killed."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import jax
import numpy as np

from tacit.core.errors import MessageRefused
from tacit.peer.membership.book import InLink, OutLink
from tacit.peer.membership.terms import OpenLinks
from tests.peer.settings import Setting
from tests.peer.virtual import Network
from tests.peer.weather import Connection, Host, Killed, Weather


class ChurnNetwork(Network):
    """Peers of one setting that come and go by a plan of its own chance."""

    def __init__(self, setting: Setting, seed: int, directory: Path, weather: Weather, pause: float, degree: int = 3):
        self.pause, self.degree = pause, degree
        self.away: dict[str, float] = {}
        """Peers that have left -> when they come back."""
        self.left = self.joined = 0
        self.losses: list[tuple[int, float]] = []
        self._loss = jax.jit(setting.algorithm.objective.loss)
        self.moves = random.Random(f"moves {seed}")
        numbers = {name: plan.agent for name, plan in setting.plans.items()}
        self.numbers = numbers
        graph = setting.topology.links["peers"]
        names = sorted(numbers, key=numbers.get)
        self.terms = {
            name: OpenLinks(
                "peers",
                {names[k]: OutLink(int(k), "", first=1) for k in graph.neighbours_out(agent)},
                {names[k]: InLink(int(k), 1) for k in graph.neighbours_in(agent)},
                False,
                lambda other, _: numbers[other],
                lambda other: other in numbers,
            )
            for name, agent in numbers.items()
        }
        setting.plans = {
            name: dataclasses.replace(plan, open_links=self.terms[name]) for name, plan in setting.plans.items()
        }
        self.last_round = 10**9
        super().__init__(setting, seed, directory, weather)
        for name in numbers:
            for other in numbers:
                self.latencies.setdefault((name, other), self.weather.latency)
        self._at(self.pause, self._shuffle)

    def resume(self, seconds: float) -> None:
        """Let members come and go again, after a quiet point."""
        self.weather = dataclasses.replace(self.weather, until=self.now + seconds)
        self.last_round = 10**9
        self._at(self.now, self._part)
        self._at(self.now + self.pause, self._shuffle)
        for host in self.hosts.values():
            self._alarm(host, self.now)

    def _host(self, name: str, directory: Path) -> Host:
        host = super()._host(name, directory)
        host.ready = list(self.weather.data_gap * np.arange(20_000))
        return host

    # -- who comes and goes --------------------------------------------------------------------------------------------

    @property
    def churning(self) -> bool:
        """Whether members still come and go."""
        return self.now < self.weather.until

    def present(self) -> list[Host]:
        """Return the hosts that run, and neither join nor leave."""
        return [
            host
            for host in self.hosts.values()
            if host.node is not None and not host.node.members.book.leaving and not host.node.members.book.joining
        ]

    def _shuffle(self) -> None:
        """Let some peer leave, come back, or change a link."""
        if self.churning:
            self._at(self.now + self.pause * self.moves.uniform(0.5, 1.5), self._shuffle)
        for name, back in sorted(self.away.items()):
            if back <= self.now or not self.churning:
                self._come_back(name)
        if not self.churning:
            self._repair()
            if self.settled:
                self.last_round = max(host.node.round for host in self.hosts.values()) + 3
            else:
                self._at(self.now + self.pause, self._shuffle)
            return
        present = self.present()
        if len(present) > max(4, len(self.hosts) // 2) and self.moves.random() < 0.6:
            self._acting(self.moves.choice(present), self._leave)
        elif present:
            self._acting(self.moves.choice(present), self._rewire)
        self._repair()

    def _acting(self, host: Host, act) -> None:
        try:
            act(host)
        except Killed:
            self._kill(host)
            return
        self._moved(host)

    def _leave(self, host: Host) -> None:
        if host.node.members.book.open_links:
            host.node.members.leave()

    def _rewire(self, host: Host) -> None:
        book = host.node.members.book
        closable = book.open_links
        if len(closable) > self.degree:
            host.node.members.remove(self.moves.choice(closable))
        else:
            self._add_link(host)

    def _repair(self) -> None:
        """Have peers with too few links open more, and see to it that everybody is sent to."""
        present = self.present()
        for host in present:
            if host.node is not None and sum(one.stage != "closing" for one in host.node.members.book.out.values()) < 2:
                self._acting(host, self._add_link)
        for host in self.hosts.values():
            if host.node is None or host.node.members.book.leaving:
                continue
            others = [one for one in self.present() if one is not host and host.name not in one.node.members.book.out]
            senders = sum(
                one.node is not None and host.name in one.node.members.book.out for one in self.hosts.values()
            )
            if senders < 2 and others:
                chosen = self.moves.choice(others)
                self._acting(chosen, lambda one, name=host.name: one.node.members.add(name, ""))

    def _add_link(self, host: Host) -> None:
        book = host.node.members.book
        others = [one.name for one in self.present() if one is not host and one.name not in book.out]
        if others:
            host.node.members.add(self.moves.choice(others), "")

    def _come_back(self, name: str) -> None:
        del self.away[name]
        plan = self.setting.plans[name]
        terms = dataclasses.replace(self.terms[name], out={}, into={})
        self.setting.plans[name] = dataclasses.replace(plan, open_links=terms)
        try:
            self._start(self.hosts[name])
        except Killed:
            self._kill(self.hosts[name])
            return
        self.joined += 1
        self._repair()

    # -- hooks of the network ------------------------------------------------------------------------------------------

    def _restart(self, name: str) -> None:
        if name not in self.away:
            try:
                super()._restart(name)
            except Killed:
                self._kill(self.hosts[name])

    def _can_begin(self, host: Host) -> bool:
        book = host.node.members.book
        return host.node.ready(self.now) and (host.node.round < self.last_round or book.leaving)

    def _act(self, host: Host) -> None:
        node = host.node
        if not node.due(self.now) and self._can_begin(host) and not node.links.learns:
            try:
                empty = jax.tree.map(np.zeros_like, self.setting.plans[host.name].batch)
                node.begin(empty, self.now, cursor=node.cursor, records=(-1,) * np.size(empty.weight))
            except Killed:
                self._kill(host)
                return
            host.progressed = self.now
            self._moved(host)
            return
        if not node.due(self.now) and self._can_begin(host):
            used = node.cursor or 0
            if host.ready[used % len(host.ready)] <= self.now or used >= len(host.ready):
                self._note_loss(host, used)
        super()._act(host)

    def _note_loss(self, host: Host, used: int) -> None:
        batch = self.setting.batch(host.name, used)
        with self.setting.plans[host.name].precision():
            loss = self._loss(host.node.model(), batch)
        self.losses.append((host.node.round + 1, float(loss)))

    def _moved(self, host: Host) -> None:
        super()._moved(host)
        node = host.node
        if node is None:
            return
        if node.members.book.gone:
            self.left += 1
            self.away[host.name] = self.now + self.pause * self.moves.uniform(1, 4)
            host.store.close()
            host.node = host.store = None
            for connection in list(self.connections.values()):
                if host.name in (connection.sender, connection.receiver):
                    self._break(connection)
            return
        for name in node.sends_to:
            if (host.name, name) not in self.connections:
                self._at(self.now, self._dial, host.name, name)
        for connection in list(self.connections.values()):
            if connection.sender == host.name and connection.receiver not in node.sends_to:
                self._break(connection)
            elif connection.receiver == host.name and connection.greeted:
                for payload in node.members.answers.pop(connection.sender, []):
                    self._return(connection, self._back, payload)
                for payload in node.members.to_sender(connection.sender):
                    self._once(connection, payload, self._return, self._back)

    def _once(self, connection: Connection, payload: bytes, way, act) -> None:
        if ("notice", payload) not in connection.sent:
            connection.sent.add(("notice", payload))
            way(connection, act, payload)

    def _dial(self, sender: str, receiver: str) -> None:
        host = self.hosts[sender]
        if host.node is not None and receiver in host.node.sends_to:
            super()._dial(sender, receiver)

    def _welcome(self, connection: Connection, position) -> None:
        if connection.alive:
            host = self.hosts[connection.sender]
            try:
                host.node.members.reached(connection.receiver)
            except Killed:
                self._kill(host)
                return
            super()._welcome(connection, position)

    def _pump(self, connection: Connection) -> None:
        host = self.hosts[connection.sender]
        host.node.members.reached(connection.receiver)
        for payload in host.node.members.to_receiver(connection.receiver):
            self._once(connection, payload, self._forth, self._on)
        super()._pump(connection)

    def _on(self, connection: Connection, payload: bytes) -> None:
        """A notice of a sender arrives."""
        if connection.alive:
            host = self.hosts[connection.receiver]
            self._acting(host, lambda one: one.node.members.heard(connection.sender, payload))

    def _back(self, connection: Connection, payload: bytes) -> None:
        """A notice of a receiver arrives."""
        if connection.alive:
            host = self.hosts[connection.sender]
            self._acting(host, lambda one: one.node.members.heard(connection.receiver, payload))

    def _read(self, connection: Connection) -> None:
        if self.hosts[connection.receiver].node is not None:
            super()._read(connection)

    def _take(self, connection: Connection, parcel) -> None:
        try:
            super()._take(connection, parcel)
        except MessageRefused as refusal:
            if refusal.reason != "sender":
                raise

    # -- what must hold ------------------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Whether everybody is back, and no link is being opened or closed."""
        books = [host.node.members.book for host in self.hosts.values() if host.node is not None]
        quiet = all(len(book.open_links) == len(book.out) for book in books)
        return quiet and len(books) == len(self.hosts) and not any(book.joining or book.leaving for book in books)

    @property
    def finished(self) -> bool:
        """Whether everybody has done all rounds."""
        return self.last_round < 10**9 and all(
            host.node is not None and host.node.between_rounds and host.node.round >= self.last_round
            for host in self.hosts.values()
        )

    def mass(self, of_state) -> float:
        """Return what is held in sum; of a method with running totals, what is under way too."""
        held = sum(float(of_state(host.node.machine.state).mass) for host in self.hosts.values())
        return held if self.setting.waits else held + self._under_way()

    def _under_way(self) -> float:
        total = 0.0
        for host in self.hosts.values():
            for name, link in host.node.members.book.out.items():
                other = self.hosts[name].node.members.book.into.get(host.name)
                if link.slot and other is not None:
                    sent, heard = host.node.machine.state.sent, self.hosts[name].node.machine.state.heard
                    total += float(sent.high.mass[link.slot]) + float(sent.low.mass[link.slot])
                    if other.slot:
                        total -= float(heard.high.mass[other.slot]) + float(heard.low.mass[other.slot])
        return total
