"""Agreement on the end of an epoch, while the peers run and without a server.

For methods whose weights must agree at both ends of a link. A peer that is given the job of the next epoch proposes a
last round of this one, some rounds ahead, commits that, and tells its neighbours, who pass it on (`proposals.py`)::

    proposal(member, job, next job, last round)    signed; every member passes on all that it knows
    known(next job)                                I hold the proposals of all members, by a commit
    done(next job)                                 my last round is over, and all my messages are confirmed
    moved(jobs)                                    I am in the next epoch: the answer to a hello of an earlier one
    began(round)                                   to neighbours of the new epoch: this is its first round

The last round is the largest proposal. **Nobody is ever beyond it**: before it knows the proposals of *all* members for
the same next job no peer goes past its own, and afterwards past the largest. A member proposes once per epoch, by a
commit, so that it says the same after a crash, and no two jobs can both be proposed by all.

A peer goes on to the next epoch when its last round is over, its messages are confirmed, and each neighbour knows all
proposals or has moved. So whoever is left behind lacks nothing but a last word (a confirmation, `known`), and instead
of it hears `moved` when it dials. A member that lies or is missing can hold others up. It cannot have a round released
twice: rounds go on counting, in the same ledger, in every epoch.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tacit.core.errors import ConfigError, MessageRefused
from tacit.peer.membership.proposals import Proposal, Voice
from tacit.peer.transport.codec import LAST_ROUND

if TYPE_CHECKING:
    from tacit.peer.node.node import Node

MARGIN = 8
"""Rounds from a peer's own to the one that it proposes as the last."""
FURTHEST = 2**30
"""Round from which on no last round may be proposed and no epoch begin: liars do not use up the numbers of rounds."""
NEXT_JOBS = 2
"""Next jobs for which proposals of one member are kept."""
EPOCHS_NAMED = 64
"""Past epochs whose peers still hear that this one has moved."""


class Kind(IntEnum):
    """Kinds of notices about epochs; none is one about links (`notices.py`)."""

    PROPOSAL = 16
    KNOWN = 17
    DONE = 18
    MOVED = 19
    BEGAN = 20

    def said(self, text: bytes) -> bytes:
        """Return a notice as bytes."""
        return bytes((self,)) + text


@dataclass(frozen=True)
class Coming:
    """The next epoch, as this peer has proposed it."""

    next: str
    """Hash of its job's settings."""
    epoch: int
    file: str
    """Its settings: a peer's file, or the job's where this peer is no member of it."""
    part: str
    """Name under which the store goes on; "" where this peer leaves."""
    last: int
    """Own proposal."""

    @property
    def leaves(self) -> bool:
        """Whether this peer is no member of the next epoch."""
        return not self.part


class Epochs:
    """The epochs of one node: the one that it is in, and what is said about the next."""

    def __init__(self, node: Node, facts: dict[str, Any] | None = None, joining: bool = False) -> None:
        """Go on from what a snapshot holds; `joining`: begin when a neighbour tells the first round."""
        self.node, given = node, facts or {}
        self.joining = joining or "joining" in given
        plan = node.plan
        self.job = plan.settings or plan.job
        self.members = frozenset(name for names in plan.members.values() for name in names)
        self.neighbours = node.links.hears | node.links.sends_to
        self.began: int = given.get("began", 0)
        """First round of this epoch; 0: it did not follow from another."""
        self.past: list[str] = given.get("past", [])
        """Jobs that this peer has left behind, the latest last."""
        self.former: frozenset[str] = frozenset(given.get("former", ()))
        """Neighbours of past epochs."""
        coming = given.get("coming")
        self.coming = None if coming is None else Coming(**coming)
        self._proposals = {(p.next, p.member): p for p in (Proposal(*each) for each in given.get("proposals", ()))}
        self._texts = {
            (proposal.next, proposal.member): base64.b64decode(text)
            for proposal, text in zip(self._proposals.values(), given.get("texts", ()), strict=True)
        }
        self._knowing: dict[str, str] = {}
        self._done: dict[str, str] = {}
        self._moved: dict[str, list[str]] = {}
        self.disputed: set[str] = set(given.get("disputed", ()))
        """Members that have signed two proposals for one job."""
        self.voice: Voice | None = None
        self.agreed = self._is_complete()
        """Whether the proposals of all members are here, by a commit."""

    def facts(self) -> dict[str, Any] | None:
        """Return what the next process has to know, as plain data; None where there is nothing."""
        found: dict[str, Any] = {"joining": True} if self.joining else {}
        if self.began:
            found |= {"began": self.began, "past": self.past, "former": sorted(self.former)}
        if self.coming is not None:
            kept = [key for key in self._proposals if key[0] == self.coming.next]
            found |= {
                "coming": asdict(self.coming),
                "disputed": sorted(self.disputed),
                "proposals": [list(self._proposals[key]) for key in kept],
                "texts": [base64.b64encode(self._texts[key]).decode() for key in kept],
            }
        return found or None

    # -- rounds --------------------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """Round beyond which this peer does not go."""
        if self.coming is None:
            return LAST_ROUND
        return self.last_round if self.agreed else self.coming.last

    @property
    def may_begin(self) -> bool:
        """Whether nothing about epochs keeps the next round from beginning."""
        return not self.joining and self.node.round < self.limit

    @property
    def last_round(self) -> int:
        """The largest of the proposals for the next epoch."""
        return max((p.last for p in self._proposals.values() if self._is_next(p.next)), default=0)

    @property
    def proposed(self) -> dict[str, int]:
        """Member -> its proposal for the next epoch."""
        return {p.member: p.last for p in self._proposals.values() if self._is_next(p.next)}

    def _is_next(self, job: str) -> bool:
        return self.coming is not None and job == self.coming.next

    def _is_complete(self) -> bool:
        return not self.disputed and self.proposed.keys() == self.members

    @property
    def is_over(self) -> bool:
        """Whether this epoch is over for this peer, so that it may go on to the next, or end."""
        node = self.node
        if self.coming is None or not self.agreed or not node.between_rounds:
            return False
        if node.waits:
            undelivered = any(node.unconfirmed(name) for name in node.sends_to if not self._has_moved(name))
            at_end = node.round == self.last_round and not undelivered
        else:  # what it missed is lost to it, as it may be in any round
            at_end = node.round >= self.last_round or any(map(self._has_moved, self.neighbours))
        return at_end and not self._unknowing()

    @property
    def goes_on(self) -> bool:
        """Whether this peer may go on to the next epoch."""
        return self.coming is not None and not self.coming.leaves and self.is_over

    @property
    def lingers(self) -> bool:
        """Whether a peer that leaves is still needed by a neighbour."""
        leaves = self.coming is not None and self.coming.leaves and self.is_over
        return leaves and not all(
            self._is_next(self._done.get(name, "")) or self._has_moved(name) for name in self.neighbours
        )

    def _unknowing(self) -> set[str]:
        """Return the neighbours that may not know the proposals of all."""
        heard = {name for name, job in self._knowing.items() if self._is_next(job)}
        return {name for name in self.neighbours - heard if not self._has_moved(name)}

    def _has_moved(self, name: str) -> bool:
        return self.coming is not None and self.coming.next in self._moved.get(name, ())

    # -- acts ----------------------------------------------------------------------------------------------------------

    def propose(self, coming: Coming) -> None:
        """Propose the end of this epoch; when this returns the proposal is on the disk."""
        if self.coming is not None:
            same = (self.coming.next, self.coming.part) == (coming.next, coming.part)
            if same:
                return
            raise ConfigError(
                f"epoch {self.coming.epoch} ({self.coming.file}) is proposed already, and what others may have agreed "
                "to is not taken back: let it come, and then change the job again"
            )
        if self.joining:
            raise ConfigError("this peer waits for the first round of its own epoch: let it begin, and then change it")
        self.coming = coming
        self._add_own()
        self._commit()

    def speak_by(self, voice: Voice) -> None:
        """Sign, and look at signatures, with an identity from now on."""
        self.voice = voice
        if self.coming is not None:
            self._add_own()

    def _add_own(self) -> None:
        assert self.coming is not None
        own = Proposal(self.node.plan.name, self.job, self.coming.next, self.coming.last)
        self._proposals[own.next, own.member] = own
        self._texts[own.next, own.member] = b"" if self.voice is None else self.voice.signed(own)

    def _commit(self) -> None:
        """Make it durable; the proposals of all are agreed on when they are."""
        complete = self._is_complete()
        self.node.flush()
        self.agreed = self.agreed or complete

    # -- what is said --------------------------------------------------------------------------------------------------

    def to_say(self, name: str) -> list[bytes]:
        """Return what a neighbour is to be told, each once per connection."""
        said = [Kind.PROPOSAL.said(text) for text in self._texts.values() if text]
        if self.agreed and self.coming is not None:
            said.append(Kind.KNOWN.said(self.coming.next.encode()))
            if self.is_over:
                said.append(Kind.DONE.said(self.coming.next.encode()))
        if self.began and not self.joining:
            said.append(Kind.BEGAN.said(str(self.began).encode()))
        return said

    def parting(self, name: str) -> bytes:
        """Return the answer to a neighbour of a past epoch that is still in it; nothing for others."""
        if name not in self.former:
            return b""
        return Kind.MOVED.said(json.dumps([*self.past[-EPOCHS_NAMED:], self.job]).encode())

    # -- what is heard -------------------------------------------------------------------------------------------------

    def heard(self, name: str, payload: bytes) -> None:
        """Take a notice of a neighbour; `name` comes from a certificate."""
        if name not in self.neighbours:
            raise MessageRefused("sender", f"{name!r} is no neighbour in this epoch")
        kind, text = read_notice(payload)
        if kind is Kind.PROPOSAL:
            self._take_proposal(text)
        elif kind is Kind.MOVED:
            self._moved[name] = _jobs(text)
        elif kind is Kind.BEGAN:
            self._take_first_round(name, text)
        else:
            (self._knowing if kind is Kind.KNOWN else self._done)[name] = text.decode("ascii", "replace")

    def _take_proposal(self, text: bytes) -> None:
        if text in self._texts.values():
            return
        assert self.voice is not None
        proposal = self.voice.read(text)
        if proposal.job != self.job:
            raise MessageRefused("job", f"a proposal of {proposal.member!r} for another epoch, {proposal.job[:16]}")
        if proposal.member not in self.members:
            raise MessageRefused("sender", f"a proposal of {proposal.member!r}, which is no member of this epoch")
        if not 1 <= proposal.last <= FURTHEST:
            raise MessageRefused("round", f"{proposal.member!r} proposes round {proposal.last}, at most {FURTHEST}")
        key = (proposal.next, proposal.member)
        known = self._proposals.get(key)
        if known is not None and known.last != proposal.last:
            if proposal.member not in self.disputed:
                self.disputed.add(proposal.member)
                self._commit()
            raise MessageRefused(
                "signature",
                f"{proposal.member!r} has signed two last rounds, {known.last} and {proposal.last}: this peer goes on "
                "to no other epoch on its word",
            )
        if known is not None:
            return
        if sum(member == proposal.member for _, member in self._proposals) >= NEXT_JOBS:
            raise MessageRefused("busy", f"proposals of {proposal.member!r} for more than {NEXT_JOBS} next jobs")
        self._proposals[key], self._texts[key] = proposal, text
        if not self.agreed and self._is_complete():
            self._commit()

    def _take_first_round(self, name: str, text: bytes) -> None:
        first = int(text) if text.isdigit() and len(text) < 12 else 0
        if not 1 <= first <= FURTHEST:
            raise MessageRefused("round", f"an epoch that begins with round {text[:12]!r}, at most {FURTHEST}")
        if self.joining and name in self.node.hears:
            self.joining, self.began = False, first
            self.node.machine.skip_to(first - 1)
            self.node.flush()
        elif self.began != first:
            raise MessageRefused(
                "round",
                f"{name!r} began this epoch with round {first}, this peer with {self.began or 1}: a member that is new "
                "in an epoch has joins = true in [peer], and a store of its own that is begun so",
            )

    def status(self) -> dict[str, Any] | None:
        """Return the next epoch, as far as it is known, as plain data; None where there is none."""
        if self.coming is None:
            others = sorted({(job, member) for job, member in self._proposals})
            return {"proposed_by": {member: job[:16] for job, member in others}} if others else None
        return {
            "epoch": self.coming.epoch,
            "job": self.coming.next,
            "file": self.coming.file,
            "leaves": self.coming.leaves,
            "last_round": self.last_round if self.agreed else None,
            "proposed": dict(sorted(self.proposed.items())),
            "missing": sorted(self.members - self.proposed.keys()),
            "disputed": sorted(self.disputed),
            "waits_for": sorted(self._unknowing()) if self.agreed else [],
        }


def read_notice(payload: bytes) -> tuple[Kind, bytes]:
    """Return the kind and the text of a notice; refuse what is none."""
    try:
        return Kind(payload[0]), bytes(payload[1:])
    except (IndexError, ValueError) as error:
        raise MessageRefused("malformed", f"{len(payload)} bytes that are no notice of an epoch") from error


def _jobs(text: bytes) -> list[str]:
    try:
        found = json.loads(text)
        if isinstance(found, list) and len(found) <= 1 + EPOCHS_NAMED and all(isinstance(job, str) for job in found):
            return found
    except (ValueError, RecursionError):
        pass
    raise MessageRefused("malformed", f"{len(text)} bytes that name no jobs")
