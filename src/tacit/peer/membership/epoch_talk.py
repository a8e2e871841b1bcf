"""Notices about epochs of a running peer: let in between two steps, and said once per connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tacit.core.errors import MessageRefused, TacitError
from tacit.peer.identity.identity import Identity
from tacit.peer.membership.epochs import read_notice
from tacit.peer.membership.fixed import FixedLinks
from tacit.peer.membership.proposals import Voice

if TYPE_CHECKING:
    from tacit.peer.node.links import NodeLinks


class EpochTalk:
    """Talk of one running node about its next epoch."""

    def __init__(self, links: NodeLinks, identity: Callable[[], Identity]) -> None:
        assert isinstance(links.node.links, FixedLinks)
        self._links, self._epochs = links, links.node.links.speak_of_epochs()
        self._epochs.speak_by(Voice(identity))
        self._heard: list[tuple[str, bytes]] = []
        self._most = 8 + 4 * len(self._epochs.members)
        """Notices of one neighbour that are kept until the node is at rest."""
        self._said: dict[str, tuple[object, set[bytes]]] = {}
        """Neighbour -> its connection, and what was said on it."""
        self._told = self._news()

    def hear(self, name: str, payload: bytes) -> None:
        """Keep a neighbour's notice until the node is at rest."""
        read_notice(payload)
        if sum(known == name for known, _ in self._heard) >= self._most:
            raise MessageRefused("busy", f"more than {self._most} notices before this peer could look at them")
        self._heard.append((name, payload))

    def take(self) -> None:
        """Let in what was heard; the node is at rest."""
        heard, self._heard = self._heard, []
        if self._links.frozen:
            return
        for name, payload in heard:
            try:
                self._epochs.heard(name, payload)
            except MessageRefused as refusal:
                self._links.refuse(name, refusal)
            except TacitError as error:  # the store could not keep it, and is closed for good
                self._links.failed("a change of epoch could not be kept", error)
                return

    def speak(self) -> None:
        """Say what is to be said; the node is at rest."""
        if self._links.frozen:
            return
        for name, dialer in self._links.dialers.items():
            connection = dialer.connection
            known, said = self._said.get(name, (None, set()))
            if connection is None:
                continue
            if known is not connection:
                said = set()
            self._said[name] = connection, said
            for payload in self._epochs.to_say(name):
                if payload not in said and dialer.notify(payload):
                    said.add(payload)
        self._report()

    def _news(self) -> tuple[bool, int, int]:
        return self._epochs.joining, len(self._epochs.proposed), self._epochs.agreed

    def _report(self) -> None:
        """Log what has changed."""
        told, epochs = self._told, self._epochs
        self._told = self._news()
        if told[0] and not epochs.joining:
            self._links.log.info("joined an epoch", first=epochs.began)
        coming = epochs.coming
        if coming is None or told == self._told:
            return
        if epochs.agreed:
            self._links.log.info("an epoch is agreed on", epoch=coming.epoch, last=epochs.last_round)
        else:
            missing = sorted(epochs.members - epochs.proposed.keys())
            self._links.log.info("an epoch is proposed", epoch=coming.epoch, last=coming.last, missing=missing)

    def may_send(self, name: str) -> bool:
        """Whether messages to a neighbour may leave: always."""
        return True

    def expel(self, name: str) -> None:
        """Links are fixed: rounds end instead."""

    def parting(self, name: str) -> bytes:
        """Return the answer to a neighbour of a past epoch."""
        return self._epochs.parting(name)
