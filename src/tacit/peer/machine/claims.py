"""Rounds that in-neighbours claim to be in, and how far a peer that does not wait follows them.

A peer that was away has only its neighbours' word for the round that the others are in, and one of them may lie. So:

- A round that more than half of the neighbours heard from, two at least, have reached is followed at once.
- A single neighbour further ahead is followed by at most `LONGEST_LEAP` rounds, and then not for the next `REST` rounds
  of this peer, however short the leap was, so that many small lies gain nothing over a large one.
- No receiver's position is followed: a neighbour that only hears this peer cannot move it.

That is 64 rounds for each of its own. An honest peer that was away for n rounds and hears one neighbour is back after
about n / 64 of its own; a liar alone needs 33 million of them to use up all numbers of rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FURTHEST_AHEAD = 8
"""If no message may be lost, a peer gets at most this many rounds ahead of a neighbour that does not confirm them;
otherwise it keeps messages for so many rounds, and a peer that is further behind leaves rounds out."""
LONGEST_LEAP = 1024
"""Most rounds that are left out at once on the word of one neighbour alone."""
REST = 16
"""Rounds of a peer from one such leap to the next."""
GIVEN_UP_AFTER = 3
"""After this many phases without a message of a neighbour the next ones do not wait for it, until it is heard again.
More than one, or a peer that works through a backlog of data would leave behind neighbours that are only late."""


class Claims:
    """Claims of one peer's in-neighbours."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        """Neighbour -> round of its last message over the link that it has now."""
        self._rest = 0

    @property
    def said(self) -> dict[str, int]:
        """Neighbour -> the round that it claims, for those heard from."""
        return dict(self._said)

    @property
    def furthest(self) -> int:
        """The furthest round that is claimed; 0 before any claim."""
        return max(self._said.values(), default=0)

    def greet(self, name: str, at_round: int) -> None:
        """Take the round that a neighbour names when it opens its link, in place of all earlier claims."""
        self._said[name] = at_round
        self._sent.pop(name, None)

    def raise_to(self, name: str, at_round: int) -> None:
        """Take the round of a neighbour's message; an older one, sent again, says nothing new."""
        self._said[name] = max(at_round, self._said.get(name, 0))
        self._sent[name] = at_round

    def forget(self, name: str) -> None:
        """Take all claims of a neighbour back: it is heard no more."""
        self._said.pop(name, None)
        self._sent.pop(name, None)

    def is_beyond(self, name: str, round_: int) -> bool:
        """Whether no message of a round comes from a neighbour that is ahead.

        It has not kept it where it is too far ahead. Where it has left the round out, or its link began later, a
        message of a later one comes in its place: a link keeps the order.
        """
        return self._said.get(name, 0) > round_ + FURTHEST_AHEAD or self._sent.get(name, 0) > round_

    def doubted(self, round_: int) -> dict[str, int]:
        """Return claims further beyond a round, and beyond the agreed round, than one leap leads."""
        believed = max(round_ + 1, self._agreed) + LONGEST_LEAP
        return {name: said for name, said in self._said.items() if said > believed}

    def next_round(self, round_: int) -> int:
        """Return the round to begin when `round_` is over; asked once for each round."""
        goal = round_ + 1
        if self._agreed > goal + FURTHEST_AHEAD:
            goal = self._agreed
        ahead = self.furthest - goal
        if ahead > FURTHEST_AHEAD and self._rest == 0:
            goal += min(ahead, LONGEST_LEAP)
            self._rest = REST
        self._rest = max(0, self._rest - 1)
        return goal

    @property
    def _agreed(self) -> int:
        """The round that more than half of the claims reach, two at least."""
        said = sorted(self._said.values())
        return said[(len(said) - 1) // 2] if len(said) > 1 else 0


class Patience:
    """Neighbours of one peer for which its phases do not wait any more."""

    def __init__(self) -> None:
        self._missed: Counter[str] = Counter()
        """Neighbour -> phases that ended without it since its last sign of life."""
        self._greeted: set[str] = set()
        """Neighbours of which nothing but greetings has come since the first of these."""

    def greeted(self, name: str) -> None:
        """Wait for a neighbour that opens a link; for one that opens one after the other and sends nothing, once."""
        if name not in self._greeted:
            self._greeted.add(name)
            del self._missed[name]

    def heard(self, name: str) -> None:
        """Wait for a neighbour whose message has come."""
        self._greeted.discard(name)
        del self._missed[name]

    def missed(self, names: Iterable[str]) -> None:
        """Note a phase that ended without some neighbours."""
        self._missed.update(names)

    def is_over(self, name: str) -> bool:
        """Whether phases do not wait for a neighbour."""
        return self._missed[name] >= GIVEN_UP_AFTER
