"""The network in virtual time with masked messages: real parties, whose letters the receivers carry, and real stores.

A peer may die at any letter and before or after any commit, those that keep keys included. Links keep the order here, as
TLS does.
"""

from __future__ import annotations

import dataclasses

from tacit.core.errors import MessageRefused
from tacit.peer.masking.agreement import PairwiseParty
from tacit.peer.masking.masker import partners_of
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tests.peer.pairs import JOB, NOW, identified, identity
from tests.peer.virtual import Network
from tests.peer.weather import DEADLINE, Killed, Weather

RETRY = 0.1


class MaskedNetwork(Network):
    """See the top of this file."""

    def __init__(self, setting, seed, directory, weather=None, verbose=False):
        self.parties: dict[str, dict[str, PairwiseParty]] = {}
        self.sent_again = 0
        self.groups: dict[str, dict[str, set[str]]] = {
            name: {receiver: set(partners_of(name, senders)[0]) for (_, receiver), senders in plan.co_senders.items()}
            for name, plan in setting.plans.items()
        }
        super().__init__(setting, seed, directory, weather, verbose)
        self.weather: Weather = dataclasses.replace(self.weather, ghosts=0.0, overtakes=0.0, lies=0.0)

    def _start(self, host):
        name = host.name
        make = PeerStore.open if host.path.exists() else PeerStore.create
        host.store = make(host.path, NOTHING_BOOKED, "job")
        plan, self.parties[name] = self.setting.plans[name], {}
        host.node = Node(plan, host.store, DEADLINE, self.now, self.setting.functions, self.parties[name].get)
        host.life += 1
        host.alarm = float("inf")
        self._watch_commits(host)
        host.progressed = self.now
        self._moved(host)
        self._at(self.now, self._enrol, name, host.life)

    def _enrol(self, name, life):
        """Make the parties of a process, with keys that are on the disk before anybody hears of them."""
        host, own = self.hosts[name], identified(name, *identity(name))
        if host.life != life or host.node is None:
            return
        try:
            for receiver, partners in self.groups[name].items():
                self.parties[name][receiver] = PairwiseParty(own, JOB, receiver, partners, host.store, NOW)
        except Killed:
            self._kill(host)
            return
        for receiver in self.groups[name]:
            self._at(self.now + self.chance.uniform(0, 2 * RETRY), self._offer, name, receiver, life)

    def _watch_commits(self, host):
        super()._watch_commits(host)
        keep = host.store.keep_keys

        def fragile(pairs):
            struck = self.stormy and self.chance.random() < self.weather.crashes_at_commit
            if struck and self.chance.random() < 0.5:
                self.faults["killed before a key was kept"] += 1
                raise Killed
            keep(pairs)
            if struck:
                self.faults["killed after a key was kept"] += 1
                raise Killed

        host.store.keep_keys = fragile

    def _offer(self, name, receiver, life):
        """Say this end's key to those whose own is not known, and again a little later."""
        host = self.hosts[name]
        if host.life != life or host.node is None:
            return
        party = self.parties[name][receiver]
        for partner in party.unsettled():
            self._post(name, partner, receiver, party.offer(partner))
        if party.unsettled():
            self._at(self.now + RETRY, self._offer, name, receiver, life)

    def _post(self, sender, to, receiver, payload):
        late = self.now + self.chance.uniform(0, 3 * RETRY)
        self._at(late, self._letter, sender, to, receiver, payload)

    def _letter(self, sender, to, receiver, payload):
        """A letter arrives, if its relay is there, and its recipient."""
        hosts = self.hosts
        if any(hosts[name].node is None for name in (to, receiver)) or receiver not in self.parties[to]:
            return
        if self._cut(sender, receiver) or self._cut(to, receiver):
            return
        try:
            reply = self.parties[to][receiver].accept(payload, NOW).reply
        except MessageRefused as refusal:
            self.fail(f"{to} refuses a letter of {sender} at {receiver}: {refusal}")
        except Killed:
            self._kill(hosts[to])
            return
        if reply is not None:
            self._post(to, sender, receiver, reply)
        connection = self.connections.get((to, receiver))
        if connection is not None and connection.welcomed:
            self._pump(connection)

    def _handed_out(self, host, parcel):
        key = (host.name, parcel.links, parcel.round, parcel.phase, parcel.receiver)
        self.sent_again += key in self.released
        super()._handed_out(host, parcel)  # which fails if one value is ever sent as two contents
        kept = next(
            p for p in host.node.outbox.parcels[parcel.receiver] if (p.round, p.phase) == (parcel.round, parcel.phase)
        )
        if not parcel.masks or parcel.content == kept.content:
            self.fail(f"round {parcel.round} left {host.name} without a mask")

    def _take(self, connection, parcel):
        host = self.hosts[connection.receiver]
        receive = host.node.receive
        host.node.receive = lambda *arguments: receive(*arguments, parcel.masks)
        try:
            super()._take(connection, parcel)
        finally:
            del host.node.receive
