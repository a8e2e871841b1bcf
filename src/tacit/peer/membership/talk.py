"""Notices of a running peer: let in between two steps, and said once per connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tacit.core.errors import MessageRefused, TacitError
from tacit.peer.membership.members import Members
from tacit.peer.membership.notices import Kind, Notice

if TYPE_CHECKING:
    from tacit.peer.node.links import NodeLinks


MOST_HEARD = 16
"""Notices of one neighbour that are kept until the node is at rest."""


class LinkTalk:
    """Talk about the links of one running node."""

    def __init__(self, links: NodeLinks, members: Members) -> None:
        self._links, self._members = links, members
        self._heard: list[tuple[str, bytes]] = []
        self._said: dict[tuple[str, str], tuple[object, set[bytes]]] = {}
        """Side and neighbour -> its connection, and what was said on it."""
        self._ending: set[asyncio.Task[None]] = set()
        self._told = self._states()
        self._expelled: set[str] = set()

    def hear(self, name: str, payload: bytes) -> None:
        """Keep a neighbour's notice until the node is at rest."""
        Notice.read(payload)
        if sum(known == name for known, _ in self._heard) >= MOST_HEARD:
            raise MessageRefused("busy", f"more than {MOST_HEARD} notices before this peer could look at them")
        self._heard.append((name, payload))

    def expel(self, name: str) -> None:
        """Drop all links with a peer, when the node is at rest."""
        self._expelled.add(name)

    def take(self) -> None:
        """Let in what was heard; the node is at rest."""
        heard, self._heard = self._heard, []
        if self._links.frozen:
            return
        try:
            for name, payload in heard:
                self._take(name, payload)
            expelled, self._expelled = self._expelled, set()
            for name in sorted(expelled):
                self._members.expel(name)
            for name, dialer in self._links.dialers.items():
                if dialer.connection is not None:
                    self._members.reached(name)
        except TacitError as error:  # the store could not keep it, and is closed for good
            self._links.failed("a change of links could not be kept", error)

    def speak(self) -> None:
        """Say what is to be said, and dial whom the book names; the node is at rest."""
        if self._links.frozen:
            return
        self._speak()
        self._dial()
        self._report()

    def _states(self) -> dict[tuple[str, str], str]:
        return {(row["way"], row["name"]): row["state"] for row in self._members.book.table()}

    def _report(self) -> None:
        """Log links whose state has changed."""
        states = self._states()
        for way, name in sorted(self._told.keys() | states.keys()):
            state = states.get((way, name), "gone")
            if self._told.get((way, name), "gone") != state:
                self._links.log.info("link changed", neighbour=name, direction=way, state=state)
        self._told = states

    def _take(self, name: str, payload: bytes) -> None:
        try:
            self._members.heard(name, payload)
        except MessageRefused as refusal:
            self._links.refuse(name, refusal)
        refusals, self._members.refusals = self._members.refusals, []
        for receiver, why in refusals:
            self._links.log.warning("a link was refused", neighbour=receiver, reason=why)

    def _speak(self) -> None:
        for name, dialer in self._links.dialers.items():
            for payload in self._members.to_receiver(name):
                if self._is_new("out", name, dialer.connection, payload) and dialer.notify(payload):
                    self._note("out", name, payload)
                    dialer.wake()
        listener = self._links.listener
        for name in list(self._members.answers):
            kept = [payload for payload in self._members.answers.pop(name) if not listener.notify(name, payload)]
            if kept and listener.connection(name) is not None:
                self._members.answers[name] = kept  # there was no room
        for name in self._members.hears | self._members.strangers:
            for payload in self._members.to_sender(name):
                if self._is_new("into", name, listener.connection(name), payload) and listener.notify(name, payload):
                    self._note("into", name, payload)

    def _is_new(self, side: str, name: str, connection: object, payload: bytes) -> bool:
        known, said = self._said.get((side, name), (None, set()))
        if known is not connection:
            self._said[side, name] = connection, set()
            return connection is not None
        return connection is not None and payload not in said

    def _note(self, side: str, name: str, payload: bytes) -> None:
        self._said[side, name][1].add(payload)

    def may_send(self, name: str) -> bool:
        """Whether messages to a neighbour may leave: the last of a link follows the notice that it is the last."""
        if name not in self._links.node.outbox.pinned:
            return True
        connection, said = self._said.get(("out", name), (None, set()))
        dialer = self._links.dialers.get(name)
        same = dialer is not None and dialer.connection is connection
        return same and any(Notice.read(payload).kind is Kind.CLOSE for payload in said)

    def _dial(self) -> None:
        wanted = self._members.book.out
        for name in wanted.keys() - self._links.dialers.keys():
            self._links.dial_one(name, wanted[name].address)
        for name in self._links.dialers.keys() - wanted.keys():
            task = asyncio.get_running_loop().create_task(self._links.hang_up_on(name))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
