"""Joining, leaving and changes of links within an epoch, for methods in which the sender splits what it holds.

The sender of a link opens and closes it; its receiver answers. What is under way is written in the book of links, which
is committed before a word of it is said, and is said again on each new connection until the answer comes::

    A: open(not before round s)      B: opened(first round f)    B waits for A's message from round f on
    A: close(last round l)           B: closed                   B has absorbed all that A ever pushed to it
                                     B: leave                    B asks A to close its link

A joiner begins with nothing when its first link is opened to it. A leaver asks those who send to it to close their
links, pushes all that it holds to those it sends to, and closes these links. What is held and what is under way stays
the same in sum, whoever is killed when: a receiver drops a link when its commit covers the last message, and a sender
when it has heard so. A method that waits absorbs every message once, so the round of the last one says it all. In one
with running totals the last message is kept until it is absorbed, in whichever round that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from tacit.core.contract import Batch
from tacit.core.errors import ConfigError, MessageRefused
from tacit.peer.machine.claims import LONGEST_LEAP
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.rounds import Views
from tacit.peer.membership.book import UNASSIGNED, InLink, LinkBook, OutLink
from tacit.peer.membership.fixed import PeerLinks
from tacit.peer.membership.notices import Kind, Notice
from tacit.peer.membership.states import give_slots, holds_enough, holds_nothing, membership_of, vacant_state
from tacit.peer.membership.terms import OpenLinks

if TYPE_CHECKING:
    from tacit.peer.node.node import Node

FURTHEST_ASKED = 2**30
"""Round from which on no link may be asked for, so that no liar carries a joiner to the end of all rounds."""


@dataclass(eq=False)
class Members(PeerLinks):
    """The changes of one node's links."""

    node: Node
    terms: OpenLinks
    book: LinkBook
    answers: dict[str, list[bytes]] = field(default_factory=dict)
    """In-neighbour -> answers that it has not been sent."""
    refusals: list[tuple[str, str]] = field(default_factory=list)
    """Links that their receivers refused, with the reason, for the log."""
    strangers: set[str] = field(default_factory=set)
    """Peers that send over a link which this one does not have (any more), and are asked to close it."""
    _closing: set[str] = field(default_factory=set)
    """In-neighbours that have asked to close their link, and wait for the answer."""
    _finals: dict[str, Envelope] = field(default_factory=dict)
    """In-neighbour -> the last total of its link, which counts in whichever round comes first."""
    _absorbed: set[str] = field(default_factory=set)
    """Those of which it was absorbed, and is not committed yet."""

    @property
    def hears(self) -> frozenset[str]:
        """Names of those whom this peer hears."""
        return frozenset(self.book.into)

    @property
    def ending(self) -> frozenset[str]:
        """In-neighbours that send one more message, which counts in whichever round it comes: none waits for it."""
        return self.book.ending

    @property
    def sends_to(self) -> frozenset[str]:
        """Names of those to whom this peer sends, or is about to."""
        return frozenset(self.book.out)

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses of out-neighbours."""
        return {name: link.address for name, link in self.book.out.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """The book as plain data."""
        return self.book.facts()

    def table(self) -> list[dict[str, Any]]:
        """Return all links as rows, for people."""
        return self.book.table()

    def expects(self, name: str) -> bool:
        """Whether a peer that is not heard may speak of links: whoever is certified, or none could be closed."""
        return True

    def began(self, first: bool) -> None:
        """Empty the state of a peer that joins, for the first time or again; take up what has changed in its file."""
        node, book = self.node, self.book
        if first and book.joining:
            node.machine.state = membership_of(node).vacant(node.machine.state)
            return
        if book.gone:
            self.book = book = self.terms.book(book.agent, book.waits, joins=True)
            node.machine.state = vacant_state(node, self.views(0))
            node.machine._revise(self.views(node.round))
        elif not (node.between_rounds and book.advance() if book.leaving else book.file_says(self.terms.out)):
            return  # a leaver may have died between the end of its last link and its own last step
        for name in book.out:
            node.outbox.add(name)
        node.flush()

    def place_of(self, name: str) -> tuple[str, int]:
        """Return role and id of an in-neighbour."""
        return self.node.plan.role, self.book.into[name].agent

    def name_of(self, role: str, agent: int) -> str:
        """Return the name of a neighbour."""
        return self.book.name_of(agent)

    # -- rounds --------------------------------------------------------------------------------------------------------

    def views(self, t: int) -> Views:
        """Return this peer's view of its links in a round."""
        with self.node.plan.precision():
            return {self.book.links: self.book.view(t, jnp.dtype(self.node.plan.dtype))}

    @property
    def learns(self) -> bool:
        """Whether the next round takes data: a leaver and a joiner that holds too little only pass on."""
        return holds_enough(self.node, self.book.new) and not (self.book.leaving or self.book.joining)

    @property
    def may_begin(self) -> bool:
        """Whether nothing about the links keeps the next round from beginning."""
        book, round_ = self.book, self.node.round
        if book.joining or book.gone or book.held_back_by(round_):
            return False
        return not (book.leaving and not book.into and self._handed_over)

    @property
    def hurries(self) -> bool:
        """Whether the next round begins as soon as it may.

        Without data of its own a peer that does not wait keeps pace with those it hears, or with its deadline.
        """
        leaves = self.book.leaving and not self.book.into
        return self.book.waits or leaves or self.learns or self.node.claims.furthest > self.node.round

    @property
    def _handed_over(self) -> bool:
        """Whether a leaver has nothing more to do than to hear that its links are closed."""
        return all(link.stage == "closing" and self.book.begun >= link.last for link in self.book.out.values())

    def begin(self, batch: Batch, records: Iterable[int] | None) -> list[Envelope]:
        """Begin the next round; where it cannot, for want of budget, the book stays as it was."""
        machine, before = self.node.machine, (self.book.facts(), self.node.machine.state)
        try:
            lean, t = not membership_of(self.node).ample(machine.state), machine.round + 1
            self.book.next_is(t, lean, self.node.outbox.silent(t))
            give_slots(self.node, self.book, self.views)
            return machine.begin(batch, self.views(machine.round + 1), records)
        except BaseException:
            self.book, machine.state = LinkBook.read(before[0]), before[1]
            raise

    def restart_at(self, round_: int) -> None:
        """Take links of absurd rounds back to the round that the peer is put to (`set_round.py`)."""
        self.book.restart_at(round_)
        self.node.outbox.pinned = {}

    def take_finals(self) -> None:
        """Put the last totals of closed links among the messages that are about to be absorbed."""
        machine = self.node.machine
        for name, envelope in self._finals.items():
            link = self.book.into.get(name)
            if link is not None and machine.phase == 0:
                machine._forget_slot(link.slot)
                machine.receive(envelope._replace(round=machine.round))
                self._absorbed.add(name)
        self._finals = {name: final for name, final in self._finals.items() if name not in self._absorbed}

    def after_phase(self) -> bool:
        """Look at what a phase has changed; whether it should be committed at once."""
        return bool(self._absorbed) or (self.node.between_rounds and self.book.advance())

    def committed(self) -> None:
        """Drop links whose last message the commit covers, and let their senders know."""
        over = [name for name in sorted(self._closing) if self._is_over(name, self.book.into[name])]
        lasts = [self._drop_in(name) for name in over]
        if over:
            self._update()
        if over or (self.node.between_rounds and self.book.advance()):
            self.node.flush()  # a sender that knows its link closed may open it anew
        for name, last in zip(over, lasts, strict=True):
            self._answer(name, Notice(Kind.CLOSED, last))

    def _is_over(self, name: str, link: InLink) -> bool:
        if link.last == 0:
            return True
        if self.book.waits:
            return link.last is not None and self.node.position.round > link.last
        return name in self._absorbed

    def _drop_in(self, name: str) -> int:
        """Drop a link from a neighbour, and return its last round."""
        link = self.book.into.pop(name)
        self._closing.discard(name)
        self._absorbed.discard(name)
        self._finals.pop(name, None)
        self.node.claims.forget(name)
        self.book.joining = not self.book.into and not self.book.has_promised and holds_nothing(self.node)
        return link.last or 0

    def keeps(self, name: str, envelope: Envelope) -> bool:
        """Whether a message is the last total of a link that is being closed, and is kept for the next phase."""
        link = self.book.into[name]
        if envelope.round < link.first:
            raise MessageRefused("stale", f"sent in round {envelope.round}, before this link was opened")
        final = not self.book.waits and name in self._closing and envelope.round == link.last
        if final:
            self._finals[name] = envelope
        return final

    def pinned(self) -> dict[str, int]:
        """Return the out-neighbours whose last message is kept until they have absorbed it, with its round."""
        last = {name: link.last for name, link in self.book.out.items() if link.stage == "closing"}
        return {} if self.book.waits else last

    def early(self, name: str) -> bool:
        """Whether a neighbour's messages have to wait for a slot."""
        link = self.book.into.get(name)
        return link is not None and link.slot == UNASSIGNED

    # -- acts of the operator ------------------------------------------------------------------------------------------

    def add(self, name: str, address: str, invitation: bytes = b"") -> None:
        """Add a link to a neighbour."""
        try:
            agent = self.terms.agent_of(name, invitation)
        except MessageRefused as refusal:
            raise ConfigError(refusal.detail) from None
        if name == self.node.plan.name:
            raise ConfigError(f"{name!r} is this peer itself, which it sends to anyway; name another")
        self.book.plan(name, agent, address)
        self.node.outbox.add(name)
        self.node.flush()

    def remove(self, name: str) -> None:
        """Close a link to a neighbour."""
        if self.book.leaving:
            raise ConfigError("this peer leaves, and closes its links by itself")
        self._close(name)
        self._update()
        self.node.flush()

    def _close(self, name: str) -> None:
        self.book.close(name)
        if name not in self.book.out:  # it was only planned
            self.node.outbox.remove(name)

    def leave(self) -> None:
        """Begin to leave."""
        book = self.book
        if not book.open_links:
            raise ConfigError(
                "this peer has no open link to hand on what it holds: add one (`tacit peer links add`), then leave"
            )
        for name in sorted(book.out.keys() - set(book.open_links)):
            self._close(name)
        book.leaving = True
        if self.node.between_rounds:
            book.advance()
        self._update()
        self.node.flush()

    def expel(self, name: str) -> None:
        """Drop all links with a peer that is no longer trusted; what is under way between them is given up."""
        if self.book.out.pop(name, None) is not None:
            self.node.outbox.remove(name)
        if name in self.book.into:
            self._drop_in(name)
        self._update()
        self.node.flush()

    # -- what is said --------------------------------------------------------------------------------------------------

    def reached(self, name: str) -> None:
        """Note that an out-neighbour can be reached: a planned link is opened."""
        if self.book.ask(name, self.node.round):
            self.node.flush()

    def to_receiver(self, name: str) -> list[bytes]:
        """Return what an out-neighbour is to be told, each once per connection."""
        link = self.book.out.get(name)
        if link is None:
            return []
        if link.stage == "opening":
            return [Notice(Kind.OPEN, link.first, self.terms.invitation).packed()]
        if link.stage == "closing" and self.book.begun >= link.last:
            return [Notice(Kind.CLOSE, link.last).packed()]
        return []

    def to_sender(self, name: str) -> list[bytes]:
        """Return what an in-neighbour is to be told beside its answers, each once per connection."""
        link = self.book.into.get(name)
        if link is None:
            return [Notice(Kind.LEAVE).packed()] if name in self.strangers else []
        unwanted = self.book.leaving or not self.terms.expects(name)
        return [Notice(Kind.LEAVE).packed()] if unwanted and link.last is None else []

    def _answer(self, name: str, notice: Notice) -> None:
        self.answers.setdefault(name, []).append(notice.packed())

    # -- what is heard -------------------------------------------------------------------------------------------------

    def heard(self, name: str, payload: bytes) -> None:
        """Take a notice of a neighbour, or of a peer that wants to be one."""
        notice = Notice.read(payload)
        if notice.kind is Kind.OPEN:
            self._asked_to_open(name, notice)
        elif notice.kind is Kind.CLOSE:
            self._asked_to_close(name, notice.round)
        elif name in self.book.out:
            self._heard_from_receiver(name, self.book.out[name], notice)

    def _asked_to_open(self, name: str, notice: Notice) -> None:
        book, node = self.book, self.node
        if name in book.into and book.into[name].asked != notice.round:
            self._drop_in(name)  # its sender has forgotten it, and what was under way on it
            self._update()
        if name not in book.into:
            try:
                if notice.round > FURTHEST_ASKED:
                    raise MessageRefused("round", f"round {notice.round} is further than any run gets")
                if book.leaving or not self.terms.expects(name):
                    why = "this peer leaves" if book.leaving else f"{node.plan.name!r} does not hear {name!r}"
                    raise MessageRefused("sender", why)
                agent = self.terms.agent_of(name, notice.text)
            except MessageRefused as refusal:
                self._answer(name, Notice(Kind.REFUSED, text=refusal.detail.encode()[:1000]))
                return
            self.strangers.discard(name)
            first = book.hear(name, agent, notice.round, node.round)
            if book.joining:
                book.joining, book.new = False, True
                if book.waits:
                    node.machine.skip_to(max(first - 1, node.round))
            node.flush()
        self._answer(name, Notice(Kind.OPENED, book.into[name].first))

    def _asked_to_close(self, name: str, last: int) -> None:
        if name not in self.book.into:
            self._answer(name, Notice(Kind.CLOSED, last))
            return
        self.book.close_in(name, last)
        self._closing.add(name)
        self._update()
        self.committed()

    def _heard_from_receiver(self, name: str, link: OutLink, notice: Notice) -> None:
        if notice.kind is Kind.OPENED:
            if self.book.waits and link.stage == "opening" and notice.round <= self.node.round:
                raise MessageRefused("round", f"a link from round {notice.round} on, and it is round {self.node.round}")
            if link.stage == "opening" and notice.round > link.first + LONGEST_LEAP:
                self.book.close(name)
                self.refusals.append((name, f"it would begin with round {notice.round}, which is far away"))
                self.node.flush()
            elif self.book.opened(name, notice.round, self.node.round):
                self.node.flush()
        elif notice.kind is Kind.CLOSED:
            if link.stage == "closing" and link.last == notice.round:
                self._drop_out(name)
        elif notice.kind is Kind.LEAVE:
            self._asked_to_stop(name, link)
        else:
            self._refused(name, link, notice.text)

    def _asked_to_stop(self, name: str, link: OutLink) -> None:
        if link.stage == "closing" or (self.book.leaving and self.book.open_links == [name]):
            return  # a leaver keeps its last link until all that it holds has gone over it
        self._close(name)
        self._update()
        self.node.flush()

    def _refused(self, name: str, link: OutLink, why: bytes) -> None:
        if link.stage == "opening":
            self.refusals.append((name, why.decode(errors="replace")))
            self._drop_out(name)

    def _drop_out(self, name: str) -> None:
        del self.book.out[name]
        self.node.outbox.remove(name)
        self.node.flush()

    def _update(self) -> None:
        """Let the round under way know which links it has still to wait for; slots stay."""
        if not self.node.between_rounds:
            self.node.machine._revise(self.views(self.node.round))
