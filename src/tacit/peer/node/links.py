"""Links of a running node: listener, dialers and key agreement, and the news that they bring between two steps."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tacit.core.errors import ConfigError, IdentityError, MessageRefused, PrivacyError, TacitError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.node.exchange import Arrival, Parcel, Position
from tacit.peer.node.node import Node
from tacit.peer.operations.logs import Log
from tacit.peer.transport.dialer import Dialer
from tacit.peer.transport.link import LinkEvents
from tacit.peer.transport.listener import Limits, Listener
from tacit.privacy.noise import hides
from tacit.runtime import MessageSpec

if TYPE_CHECKING:
    from tacit.peer.masking.key_exchange import PairwiseSecrets
    from tacit.peer.membership.epoch_talk import EpochTalk
    from tacit.peer.membership.members import Members
    from tacit.peer.membership.talk import LinkTalk


class NodeLinks:
    """All links of one node: the `Reception` and the `Dispatch` of its transport.

    The node is touched only while nobody else holds `turn`. Messages, greetings, rounds and confirmations are kept
    until `apply_news`, which lets them in all together: as soon as what has come at once is read, or after the step
    under way. A message that is early stays here, and its neighbour is not read, until its time has come.
    """

    def __init__(
        self,
        node: Node,
        watch: IdentityWatch,
        events: LinkEvents,
        log: Log,
        limits: Limits,
        on_fault: Callable[[TacitError], None],
    ) -> None:
        """Take the node; `on_fault` is told of errors after which the peer cannot go on."""
        self.node, self._watch, self._events, self.log, self._on_fault = node, watch, events, log, on_fault
        self.job = node.plan.job
        self.specs: Sequence[MessageSpec] = node.specs
        self.position_interval, self.patience = node.position_interval, node.patience
        self.turn = asyncio.Lock()
        self.frozen = False
        """Whether rounds have ended by a fault: the last commit is the truth, and no link changes any more."""
        self._looking = False
        self._lacking = 0
        """Messages that have to come before there is anything to do, where that is known."""
        # Of masked messages another version may come instead of one that is missing.
        self._counts = node.waits and not any(hides(phase.mechanism) for phase in node.plan.algorithm.phases)
        self._seen_commits, self._seen_position = 0, node.position
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._inbox: list[Arrival] = []
        self._greetings: dict[str, int] = {}
        self._claims: dict[str, int] = {}
        self._doubted: set[str] = set()
        self._confirmations: dict[str, list[Position]] = {}
        self.dialers: dict[str, Dialer] = {}
        self.listener = Listener(self, watch, events, limits)
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._epochs: EpochTalk | None = None
        self._talk = self._talk_of(node.members)
        self._secrets: list[PairwiseSecrets] = []
        self._on_key_message: dict[str, Callable[[str, bytes], None]] = {}
        self._revoked: frozenset[int] = frozenset()
        """Serial numbers on the list that was looked at last."""

    def _talk_of(self, members: Members | None) -> LinkTalk | EpochTalk | None:
        if members is None:
            return None if self.node.links.epochs is None else self.speak_of_epochs()
        from tacit.peer.membership.talk import LinkTalk

        return LinkTalk(self, members)

    def speak_of_epochs(self) -> EpochTalk:
        """Return the talk about the next epoch, of links that are fixed."""
        if self._epochs is None:
            from tacit.peer.membership.epoch_talk import EpochTalk

            self._talk = self._epochs = EpochTalk(self, self._watch.current)
        return self._epochs

    def dial(self, addresses: Mapping[str, str]) -> None:
        """Keep a link to every out-neighbour at its address."""
        known = {**self.node.links.addresses, **addresses}
        missing = self.node.sends_to - known.keys()
        if missing:
            raise ConfigError(f"no address for {', '.join(sorted(missing))}, to whom this peer sends; add it")
        for name in sorted(self.node.sends_to):
            self.dial_one(name, known[name])

    def dial_one(self, name: str, address: str) -> None:
        """Keep a link to one more neighbour."""
        self.dialers[name] = Dialer(self, name, address, self._watch, self._events)
        self._dialling[name] = asyncio.create_task(self.dialers[name].run())

    async def hang_up_on(self, name: str) -> None:
        """End the link to one neighbour, and dial it no more."""
        self.dialers.pop(name, None)
        task = self._dialling.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def hang_up(self) -> None:
        """End key agreement and the links to out-neighbours."""
        for secret in self._secrets:
            await secret.close()
        for name in tuple(self._dialling):
            self._dialling[name].cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked whenever there are news, with the node at rest."""
        if not self.turn.locked():
            self.apply_news()
            if condition():
                return
        waiter = condition, asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter[1]
        finally:
            self._waiters.remove(waiter)

    def look(self) -> None:
        """Have news let in and conditions checked, once, when all that has come at once is read."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        if self.turn.locked():
            return  # after the step, which ends with `progressed`
        self.apply_news()
        for condition, waiter in self._waiters:
            if not waiter.done() and condition():
                waiter.set_result(None)
        self._lacking = len(self.node.missing()) if self._counts else 0

    def undelivered(self, connected: bool) -> bool:
        """Whether any out-neighbour, or any that is `connected`, has messages to confirm, or needs one that leaves."""
        return (
            any(
                self.node.unconfirmed(name) and (dialer.connected or not connected)
                for name, dialer in self.dialers.items()
            )
            or self.node.links.lingers
        )

    def progressed(self) -> None:
        """Pass on that the node has done a step: early messages may fit now, and there may be new ones to send."""
        if self._talk is not None and not self.turn.locked():
            self._talk.take()
            self._talk.speak()
        self.look()
        if self._seen_position != self.node.position:
            self._seen_position = self.node.position
            self.listener.progressed()
        if self._talk is None and self._seen_commits == self.node.outbox.commits:
            return
        self._seen_commits = self.node.outbox.commits
        for dialer in self.dialers.values():
            dialer.wake()

    def apply_news(self) -> None:
        """Let in what was heard since the last time; called where nobody else has the turn."""
        news = self._inbox or self._confirmations or self._claims or self._greetings
        if not news and self._talk is None and self.node.waits:
            return
        greetings, self._greetings = self._greetings, {}
        for name, at_round in greetings.items():
            self.node.greeted(name, at_round)
        claims, self._claims = self._claims, {}
        for name, at_round in claims.items():
            self.node.announced(name, at_round)
        self._note_doubts()
        if self._talk is not None:
            self._talk.take()  # before messages: the last one of a link comes after the word that it is the last
        self._let_in()
        confirmations, self._confirmations = self._confirmations, {}
        for name, positions in confirmations.items():
            for position in positions:
                try:
                    self.node.confirmed(name, position)
                except MessageRefused as refusal:
                    self.refuse(name, refusal)
            if name in self.dialers:
                self.dialers[name].wake()  # it may be sent more now
        if self._talk is not None:
            self._talk.speak()

    def _let_in(self) -> None:
        """Let messages in; those that are early stay."""
        inbox, self._inbox = self._inbox, []
        for arrival in inbox:
            if arrival.is_open and self.node.too_early(arrival.name, arrival.sent):
                self._inbox.append(arrival)
            elif arrival.is_open:
                links = self.node.plan.algorithm.phases[arrival.phase].links
                try:
                    self.node.receive(arrival.name, links, arrival.phase, arrival.sent, arrival.message, arrival.masks)
                except MessageRefused as refusal:
                    if self.node.members is not None and arrival.name not in self.node.hears:
                        self.node.members.strangers.add(arrival.name)
                    arrival.decide(refusal)
                else:
                    arrival.decide(None)

    def _note_doubts(self) -> None:
        """Count and log neighbours that say they are far ahead, once each time that they begin to."""
        doubted = self.node.doubted()
        for name in doubted.keys() - self._doubted:
            self._events.refused(
                "ahead",
                name,
                f"round {doubted[name]} is far beyond this peer's {self.node.round}, and nobody else whom it hears "
                "says so: it is followed a little at a time",
            )
        self._doubted = set(doubted)

    # -- revocation ----------------------------------------------------------------------------------------------------

    def end_revoked(self) -> None:
        """Cut links by certificates that the list in use has come to hold, and tell of neighbours that it takes out."""
        listed = self._watch.current().revoked
        if listed is None or listed.entries.keys() <= self._revoked:
            return
        new, self._revoked = listed.entries.keys() - self._revoked, frozenset(listed.entries)
        self.listener.cut_revoked(listed)
        for dialer in self.dialers.values():
            dialer.cut_revoked(listed)
        # A link that is up was made with another certificate: its peer was renewed before the old one was revoked.
        renewed = self.listener.connected | {name for name, dialer in self.dialers.items() if dialer.connected}
        out = {listed.entries[serial].name for serial in new if not listed.entries[serial].replaced}
        for name in sorted((self.node.hears | self.node.sends_to) & out - renewed):
            try:
                self.revoked(name)
            except TacitError as error:
                self._on_fault(error)
        self.look()

    def revoked(self, name: str) -> None:
        """Take note of a neighbour that is a member no longer; where rounds would wait for it, end them."""
        self.log.warning("a neighbour's certificate was revoked", neighbour=name)
        if self.node.members is not None and self._talk is not None:
            self._talk.expel(name)
        elif self.node.waits:
            raise IdentityError(
                f"the authority has revoked the certificate of {name!r}, and {self.node.plan.algorithm.name!r} waits "
                "for every neighbour: begin a new epoch of the job without it. If it has a new certificate and stays, "
                "have the authority say so (tacit peer revoke --replaced), install that list and start this peer again"
            )

    # -- Reception -----------------------------------------------------------------------------------------------------

    def admit(self, name: str) -> None:
        """Refuse a name that this peer does not hear."""
        self.node.admit(name)

    def position(self, name: str) -> Position:
        """Return the position from which on messages are wanted."""
        return self.node.position

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that a neighbour names in its hello, for the next turn."""
        self.node.admit(name)
        self._greetings[name] = at_round
        self._claims.pop(name, None)
        self.look()

    def take(self, arrival: Arrival) -> None:
        """Keep a message for the next look; one that is early until its time has come."""
        name, phase, sent = arrival.name, arrival.phase, arrival.sent
        self.node.admit(name)
        self._claims[name] = max(sent, self._claims.get(name, 0))
        if self.log.detailed:  # without its values: the logs can show that no release has two forms
            links = self.node.plan.algorithm.phases[phase].links
            digest = hashlib.sha256(self.node.codec.pack(phase, arrival.message)).hexdigest()
            self.log.debug("message", neighbour=name, links=links, phase=phase, round=sent, digest=digest)
        self._inbox.append(arrival)
        self._lacking -= 1
        if self._lacking <= 0:
            self.look()

    def noticed(self, name: str, payload: bytes) -> None:
        """Keep a notice about a link for the next look; where links are fixed, one about the next epoch."""
        (self._talk or self.speak_of_epochs()).hear(name, payload)
        self.look()

    def parting(self, name: str) -> bytes:
        """Return the answer to a neighbour of a past epoch that is still in it."""
        return b"" if self._epochs is None else self._epochs.parting(name)

    def refuse(self, name: str, refusal: MessageRefused) -> None:
        """Count and log what a neighbour said that cannot be."""
        self._events.refused(refusal.reason, name, refusal.detail)

    def failed(self, event: str, error: TacitError) -> None:
        """Note an error after which the peer cannot go on."""
        self.frozen = True
        self._on_fault(error)
        self.log.error(event, reason=str(error))

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        """Pass on a sealed key-agreement message from one in-neighbour to another."""
        if recipient == name or recipient not in self.node.hears:
            raise MessageRefused("recipient", f"{recipient!r} is no other neighbour of {self.node.plan.name!r}")
        await self.listener.send_key_message(recipient, name, payload)

    # -- Dispatch ------------------------------------------------------------------------------------------------------

    def current_round(self) -> int:
        """Return the round in which this peer is."""
        return self.node.round

    def waiting(self, name: str) -> tuple[Parcel, ...]:
        """Return what a neighbour has not confirmed."""
        return () if self._talk is not None and not self._talk.may_send(name) else tuple(self.node.waiting(name))

    def confirmed(self, name: str, position: Position) -> None:
        """Note a neighbour's position, for the next turn."""
        self._confirmations.setdefault(name, []).append(position)
        self.look()

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        """Log what a neighbour did not accept."""
        where = {"neighbour": name, "round": parcel.round, "phase": parcel.phase}
        self.log.seldom(f"refused by {name} {reason}", "refused by a neighbour", reason=reason, detail=detail, **where)

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        """Hand a key-agreement message to the key agreement at its relay."""
        take = self._on_key_message.get(relay)
        if take is None:
            self._events.refused("recipient", sender, f"a letter relayed by {relay!r}, which nobody here expects")
            return
        try:
            take(sender, payload)
        except PrivacyError as error:  # the store could not keep a key, and is closed for good
            self.failed("a key could not be kept", error)

    # -- key agreement -------------------------------------------------------------------------------------------------

    def secrets(
        self,
        receiver: str,
        partners: Collection[str],
        changed: Callable[[], None] = lambda: None,
    ) -> PairwiseSecrets:
        """Share secrets with the other senders of an out-neighbour, which relays the messages and learns nothing."""
        from tacit.peer.masking.key_exchange import PairwiseSecrets

        # Secrets are kept in the store, and outlive the program as it does.
        job = self.node.plan.settings or self.job
        found = PairwiseSecrets(
            self,
            self._watch.current,
            job,
            receiver,
            partners,
            self.node.store,
            refused=self._events.refused,
            changed=changed,
        )
        self._secrets.append(found)
        return found

    def open_key_channel(
        self, relay: str, take: Callable[[str, bytes], None]
    ) -> Callable[[str, bytes], Awaitable[None]]:
        """Hand key-agreement messages that `relay` passes on to `take`; returns the function that sends them."""
        if relay not in self.dialers:
            raise ConfigError(f"{relay!r} is not among those to whom this peer sends, so it can pass nothing on")
        self._on_key_message[relay] = take
        return self.dialers[relay].send_key_message
