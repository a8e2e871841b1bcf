"""The network in virtual time with masked messages: sessions that are made, lost with a process, and made anew.

Both ends of a pair get a new session at different times, through a receiver that has to be up, so that for a while they
name different ones. Links keep the order here, as TLS does.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from tacit.peer.masks import partners_of
from tacit.peer.node import Node
from tacit.peer.plan import NOTHING_BOOKED
from tacit.peer.store import PeerStore
from tests.peer.masked import HandPads, session_name
from tests.peer.virtual import Network
from tests.peer.weather import DEADLINE, Weather

RETRY = 0.1


class MaskedNetwork(Network):
    """See the top of this file."""

    def __init__(self, setting, seed, directory, weather=None, verbose=False):
        self.pads: dict[str, dict[str, HandPads]] = {}
        self.pairs = [
            (name, partner, receiver)
            for name, plan in setting.plans.items()
            for (_, receiver), senders in plan.co_senders.items()
            for partner in partners_of(name, senders)[0]
        ]
        self.versions: dict[tuple, set[bytes]] = defaultdict(set)
        super().__init__(setting, seed, directory, weather, verbose)
        self.weather: Weather = dataclasses.replace(self.weather, ghosts=0.0, overtakes=0.0)

    def _start(self, host):
        name = host.name
        self.pads[name] = {other: HandPads() for other in self.setting.plans}
        make = PeerStore.open if host.path.exists() else PeerStore.create
        host.store = make(host.path, NOTHING_BOOKED, "job")
        plan, pads = self.setting.plans[name], self.pads[name].get
        host.node = Node(plan, host.store, DEADLINE, self.now, self.setting.functions, pads)
        host.life += 1
        host.alarm = float("inf")
        self._watch_commits(host)
        host.progressed = self.now
        self._moved(host)
        for own, other, receiver in self.pairs:
            if own == name:
                self._at(self.now + self.chance.uniform(0, 2 * RETRY), self._exchange, own, other, receiver, host.life)

    def _exchange(self, own, other, receiver, life):
        """The last letter but one: the end that began anew gets the session, the other a little later."""
        hosts = self.hosts
        if hosts[own].life != life or hosts[own].node is None:
            return
        up = hosts[other].node is not None and hosts[receiver].node is not None
        if not up or self._cut(own, receiver) or self._cut(other, receiver):
            self._at(self.now + RETRY, self._exchange, own, other, receiver, life)
            return
        self._stands(own, other, receiver, life, self.events)
        late = self.now + self.chance.uniform(0, 3 * RETRY)
        self._at(late, self._stands, other, own, receiver, hosts[other].life, self.events)

    def _stands(self, own, other, receiver, life, number):
        """One end has a session; of two that cross, both ends take the same. An end that dies begins another."""
        host, pads = self.hosts[own], self.pads[own][receiver]
        if host.life != life or host.node is None or number < pads.numbers.get(other, -1):
            return
        pads.numbers[other] = number
        pads.sessions[other] = session_name(receiver, number, *sorted((own, other)))
        connection = self.connections.get((own, receiver))
        if connection is not None and connection.welcomed:
            self._pump(connection)

    def _pump(self, connection):
        host = self.hosts[connection.sender]
        for parcel in host.node.waiting(connection.receiver):
            key = (parcel.links, parcel.round, parcel.phase, parcel.masks)
            if key not in connection.sent:
                connection.sent.add(key)
                self._handed_out(host, parcel)
                self._forth(connection, self._arrive, parcel)

    def _handed_out(self, host, parcel):
        key = (host.name, parcel.links, parcel.round, parcel.phase, parcel.receiver)
        if key not in self.committed:
            self.fail(f"{key} left before it was committed")
        if self.released.setdefault((*key, parcel.masks), parcel.content) != parcel.content:
            self.fail(f"{key} was sent with two contents under the same sessions")
        kept = next(p for p in host.node._outbox[parcel.receiver] if (p.round, p.phase) == (parcel.round, parcel.phase))
        if not parcel.masks or parcel.content == kept.content:
            self.fail(f"{key} left without a mask")
        self.versions[key].add(parcel.masks)

    def _take(self, connection, parcel):
        host = self.hosts[connection.receiver]
        receive = host.node.receive
        host.node.receive = lambda *arguments: receive(*arguments, parcel.masks)
        try:
            super()._take(connection, parcel)
        finally:
            del host.node.receive
