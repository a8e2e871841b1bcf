"""Links of a peer whose method lets members come and go: who is linked, in which rounds, through which slot.

The book is part of each snapshot, so that it changes in the commit of charge, state and messages. A link is first
planned, then opening (its receiver is asked), open, closing (its receiver is told the last round), and gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, cast

import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Links, View
from tacit.core.errors import ConfigError, ContractError, StoreError
from tacit.runtime.slots import NO_SLOT, Side

FEWEST_SLOTS = 4
"""Of each side, beside the own one."""
UNASSIGNED = 0
"""In the place of a slot: it is assigned when the next round begins."""
SETTLING = 16
"""Rounds after a link to a peer was opened or closed in which it keeps what it has until that is ample."""
AHEAD = 2
"""Rounds for which a sender that asks for a link goes on before it waits for the answer."""
Stage = Literal["planned", "opening", "open", "closing"]
"""Of a link to a neighbour: its receiver is not asked yet, is asked, has agreed, is told that it ends."""


@dataclass(frozen=True)
class OutLink:
    """A link to a neighbour."""

    agent: int
    address: str
    stage: Stage = "open"
    first: int = 0
    """Its first round; while it is opening, the round after which this peer waits for the receiver's answer."""
    last: int = 0
    """While it is closing: its last round, in which nothing is pushed any more; 0: it was never agreed on."""
    slot: int = UNASSIGNED

    @property
    def is_agreed(self) -> bool:
        """Whether its receiver has agreed to it, so that it has a slot, or gets one."""
        return self.stage == "open" or self.last > 0

    def is_live(self, t: int) -> bool:
        """Whether a message leaves over it in a round."""
        return self.is_agreed and self.first <= t and (self.stage == "open" or t <= self.last)


@dataclass(frozen=True)
class InLink:
    """A link from a neighbour."""

    agent: int
    first: int
    last: int | None = None
    slot: int = UNASSIGNED
    asked: int = 0
    """Round that its sender named when it asked for it; 0: it is there from the beginning."""
    is_agreed: ClassVar[bool] = True


@dataclass
class LinkBook:
    """All links of one peer."""

    links: str
    """Name of the link set."""
    agent: int
    """Own id."""
    waits: bool
    """Whether a round waits for every neighbour, so that both ends of a link count its rounds alike."""
    out: dict[str, OutLink] = field(default_factory=dict)
    into: dict[str, InLink] = field(default_factory=dict)
    size: dict[Side, int] = field(default_factory=lambda: {"out": 1, "into": 1})
    """Slots of each side, the own one included."""
    filed: list[str] = field(default_factory=list)
    """Out-neighbours that the peer's file named at its last start."""
    begun: int = 0
    """The last round that was begun."""
    changed: int = 0
    """The round in which a link to this peer was last opened or closed; 0: none was."""
    keeping: bool = False
    """Whether nothing is pushed in the last round that was begun."""
    silent: list[str] = field(default_factory=list)
    """Out-neighbours to which nothing is pushed in it: they have confirmed nothing for long."""
    joining: bool = False
    """Whether it holds nothing yet and nobody sends to it."""
    new: bool = False
    """Whether it has joined and has yet to hold an ample share; until then it neither learns nor pushes."""
    leaving: bool = False
    handed_on: int | None = None
    """Of a leaver: the round in which all that it holds leaves."""
    gone: bool = False

    @classmethod
    def first(
        cls,
        links: str,
        agent: int,
        waits: bool,
        out: Mapping[str, OutLink],
        into: Mapping[str, InLink],
        filed: list[str],
    ) -> LinkBook:
        """Return the book of a founder, with slots in the order of ids."""
        book = cls(links, agent, waits, dict(out), dict(into), filed=filed)
        book.assign()
        return book

    def __post_init__(self) -> None:
        self._view: View | None = None
        self._sides: dict[str, tuple[Links, tuple[np.ndarray, ...]]] = {}
        """View and links that were made last: mostly they stay from round to round."""

    # -- as plain data -------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return the book as plain data."""
        plain = {part.name: copy(getattr(self, part.name)) for part in fields(self)}
        out, into = ({name: dict(vars(link)) for name, link in side.items()} for side in (self.out, self.into))
        return {**plain, "out": out, "into": into}

    def table(self) -> list[dict[str, Any]]:
        """Return all links as rows, for people."""
        rows: list[dict[str, Any]] = [
            {"way": "out", "name": name, "state": link.stage, "since": link.first, "address": link.address}
            for name, link in sorted(self.out.items())
        ]
        for name, heard in sorted(self.into.items()):
            state = "open" if heard.last is None else "closing"
            rows.append({"way": "in", "name": name, "state": state, "since": heard.first})
        return rows

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> LinkBook:
        """Return a book from its plain data."""
        try:
            out = {name: OutLink(**link) for name, link in facts["out"].items()}
            into = {name: InLink(**link) for name, link in facts["into"].items()}
            return cls(**{**facts, "out": out, "into": into})
        except (KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"a book of links that cannot be read ({error}): it was written by another version"
            ) from error

    # -- rounds --------------------------------------------------------------------------------------------------------

    def held_back_by(self, round_: int) -> set[str]:
        """Return the neighbours whose answer has to come before the round after `round_` may begin."""
        return {
            name for name, link in self.out.items() if self.waits and link.stage == "opening" and link.first <= round_
        }

    def next_is(self, t: int, lean: bool = False, silent: Sequence[str] = ()) -> None:
        """Begin a round; what was to happen in the next one happens in it, for rounds may have been left out.

        A member to whom nobody pushes keeps what it has, and so does one that is `lean` where it is new or links to it
        have changed: otherwise its mass shrinks round by round, and the noise of its model grows as much. Nothing is
        pushed to those that are `silent`, but by a leaver: all mass would end up under way to one that is dead.
        """
        if self.handed_on is not None and self.handed_on > self.begun:
            self.handed_on = self._first_push(t)
            self.leaving = self.handed_on is not None
        for name, link in self.out.items():
            if link.last > self.begun:
                self.out[name] = replace(link, last=max(t, link.first))
        fed = any(link.first <= t and (link.last is None or t < link.last) for link in self.into.values())
        self.new = self.new and lean
        self.keeping = not self.leaving and (not fed or self.new or (lean and 0 < self.changed >= t - SETTLING))
        self.silent = [] if self.leaving or self.waits else sorted(silent)
        self.begun = t

    def assign(self) -> dict[Side, list[int]]:
        """Give slots to links that have none.

        Returns:
          Side -> for each slot the one that it was before, `NO_SLOT` where a new link begins; empty where none does.
        """
        kept: dict[Side, list[int]] = {}
        for side in ("out", "into"):
            links: dict[str, Any] = getattr(self, side)
            new = [name for name, link in links.items() if link.slot == UNASSIGNED and link.is_agreed]
            if not new:
                continue
            taken = {link.slot for link in links.values()}
            free = [slot for slot in range(1, self.size[side]) if slot not in taken]
            room = FEWEST_SLOTS
            while room < len(taken - {UNASSIGNED}) + len(new):
                room *= 2
            if 1 + room > self.size[side]:  # few sizes, since functions are compiled for each
                free += range(self.size[side], 1 + room)
                self.size[side] = 1 + room
            kept[side] = [slot if slot == 0 or slot in taken else NO_SLOT for slot in range(self.size[side])]
            for name, slot in zip(sorted(new, key=lambda name: links[name].agent), free, strict=False):
                links[name] = replace(links[name], slot=slot)
        return kept

    def view(self, t: int, dtype: jnp.dtype) -> View:
        """Return this peer's view of its links in a round; round 0 is for first states, with every link."""
        there = {name: link for name, link in self.out.items() if link.slot and (t == 0 or link.is_live(t))}
        pushing = [
            link.slot
            for name, link in there.items()
            if t == 0 or (link.stage == "open" and name not in self.silent) or t < link.last
        ]
        keeps = not (self.leaving and pushing and (self.handed_on is None or t <= self.handed_on))
        heard = [link for link in self.into.values() if link.slot and (t == 0 or self._hears(link, t))]
        weights = dict.fromkeys(pushing, 0.0 if self.keeping else 1 / (len(pushing) + keeps))
        own = 1 - sum(weights.values()) if keeps else 0.0
        out = self._side("out", self.out, list(there.values()), weights, own, dtype)
        into = self._side("into", self.into, heard, {}, own, dtype)
        if self._view is None or self._view.out is not out or self._view.into is not into:
            self._view = runtime.make_view(agent=self.agent, round=t, out=out, into=into)
        return self._view._replace(round=cast("Array", np.int32(t)))  # not put on the device before it is used

    def _hears(self, link: InLink, t: int) -> bool:
        # The last total of a method that does not wait counts whenever it comes.
        return link.first <= t and (link.last is None or t <= link.last or (link.last > 0 and not self.waits))

    def _side(
        self,
        side: Side,
        links: Mapping[str, OutLink] | Mapping[str, InLink],
        live_links: Sequence[OutLink] | Sequence[InLink],
        weights: Mapping[int, float],
        own: float,
        dtype: jnp.dtype,
    ) -> Links:
        size = self.size[side]
        agent, live, weight = np.full(size, -1, np.int32), np.zeros(size, np.bool_), np.zeros(size)
        agent[0], live[0], weight[0] = self.agent, True, own
        for link in links.values():
            if link.slot:
                agent[link.slot] = link.agent
        live[[link.slot for link in live_links]] = True
        for slot, share in weights.items():
            weight[slot] = share
        found = agent, live, weight.astype(dtype)
        before = self._sides.get(side)
        if before is None or not all(map(np.array_equal, found, before[1])):
            before = self._sides[side] = Links(*map(jnp.asarray, found)), found
        return before[0]

    # -- changes -------------------------------------------------------------------------------------------------------

    def file_says(self, out: Mapping[str, OutLink]) -> bool:
        """Take up what has changed in the peer's file since its last start; whether anything has."""
        before = self.facts()
        for name in [name for name in self.filed if name not in out and name in self.out]:
            self.close(name)
        for name in [name for name in out if name not in self.filed and name not in self.out]:
            self.plan(name, out[name].agent, out[name].address)
        for name in out.keys() & self.out.keys():
            self.out[name] = replace(self.out[name], address=out[name].address)
        self.filed = sorted(out)
        return before != self.facts()

    def plan(self, name: str, agent: int, address: str) -> None:
        """Plan a link to a neighbour."""
        if name in self.out:
            stage = self.out[name].stage
            remedy = "; wait until `tacit peer links list` no longer shows it" if stage == "closing" else ""
            raise ConfigError(f"there is a link to {name!r}, which is {stage}{remedy}")
        if self.leaving:
            raise ConfigError("this peer leaves: no link is added to it any more")
        self.out[name] = OutLink(agent, address, "planned")

    def ask(self, name: str, round_: int) -> bool:
        """Begin to open a planned link whose receiver can be reached; whether there was one to open."""
        link = self.out.get(name)
        if link is None or link.stage != "planned" or self.joining or self.leaving:
            return False
        self.out[name] = replace(link, stage="opening", first=round_ + AHEAD)
        return True

    def opened(self, name: str, first: int, round_: int) -> bool:
        """Take the receiver's answer; whether it changes anything."""
        link = self.out.get(name)
        if link is None or link.stage != "opening":
            return False
        self.out[name] = replace(link, stage="open", first=max(first, round_ + 1))
        return True

    def hear(self, name: str, agent: int, not_before: int, round_: int) -> int:
        """Begin to hear a neighbour that asks for it, and return the first round of its link."""
        if name not in self.into:
            first = max(not_before, round_) + 1 if self.waits else round_ + 1
            self.into[name] = InLink(agent, first, asked=not_before)
            self.changed = first
        return self.into[name].first

    def close(self, name: str) -> None:
        """Begin to close a link: the next round is its last, and pushes nothing over it."""
        link = self.out.get(name)
        if link is None:
            raise ConfigError(f"there is no link to {name!r}; it has {', '.join(sorted(self.out)) or 'none'}")
        if link.stage == "planned":
            del self.out[name]
        elif link.stage != "closing":
            last = max(self.begun + 1, link.first) if link.stage == "open" else 0
            self.out[name] = replace(link, stage="closing", last=last)

    def close_in(self, name: str, last: int) -> None:
        """Note the last round of a link from a neighbour."""
        self.changed = max(self.begun, 1)
        self.into[name] = replace(self.into[name], last=last)

    def advance(self) -> bool:
        """Take a leaver's next step, between two rounds; whether there was one."""
        if not self.leaving or self.gone or self.into:
            return False
        if self.handed_on is None or (self.handed_on > self.begun and not self.out):
            self.handed_on = self._first_push(self.begun + 1)
            self.leaving = self.handed_on is not None  # else there is nobody left to hand anything to
            return True
        if self.begun < self.handed_on:
            return False
        if not self.out:
            self.gone = True
            return True
        still = self.open_links
        for name in still:
            self.close(name)
        return bool(still)

    def _first_push(self, t: int) -> int | None:
        """Return the first round from t on in which something can be pushed; None where no link is open."""
        return max(t, min(self.out[name].first for name in self.open_links)) if self.open_links else None

    @property
    def has_promised(self) -> bool:
        """Whether others count on its next rounds, so that it may leave none out."""
        return self.leaving or (self.waits and any(link.stage != "planned" for link in self.out.values()))

    def name_of(self, agent: int) -> str:
        """Return the name of a neighbour."""
        for links in (self.out, self.into):
            for name, link in links.items():
                if link.agent == agent:
                    return name
        raise ContractError(f"agent {agent} is no neighbour")

    @property
    def ending(self) -> frozenset[str]:
        """In-neighbours that send one more message, which counts in whichever round it comes; under `wait` none."""
        return frozenset(name for name, link in self.into.items() if link.last is not None and not self.waits)

    @property
    def open_links(self) -> list[str]:
        """Out-neighbours whose links are neither opening nor closing."""
        return [name for name, link in self.out.items() if link.stage == "open"]

    def restart_at(self, t: int) -> None:
        """Take the rounds of all links back to one that begins before them."""
        for name, link in self.out.items():
            self.out[name] = replace(link, first=min(link.first, t), last=min(link.last, t))
        self.into = {name: replace(link, first=min(link.first, t)) for name, link in self.into.items()}
        self.begun, self.changed = t - 1, min(self.changed, t)
