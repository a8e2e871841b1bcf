"""Rounds that in-neighbours claim to be in, and how far a peer that does not wait follows them.

Who was away has nothing but its neighbours' word for the round that the others are in, and one of them may lie. So:

- Where more than half of those that were heard of are, two at least, this peer follows at once.
- One that is ahead of that is followed by `LONGEST_LEAP` rounds at most, and then not for the `REST` rounds of this
  peer's own that follow, however short the leap was. In these others come after it: many small lies are no better.
- No receiver's position is followed: who only hears this peer moves it nowhere.

That is 64 rounds for each of its own. An honest peer that was away for n rounds and hears one neighbour is back after
about n / 64 of its own; a liar alone needs 33 million of them to use up all numbers of rounds.
"""

from __future__ import annotations

FURTHEST_AHEAD = 8
"""A peer gets at most this many rounds ahead of a neighbour that does not confirm them, if it must not lose messages;
otherwise it keeps them so long, and a peer that is further behind leaves rounds out."""
LONGEST_LEAP = 1024
"""Rounds that are left out at once, at most, on the word of one neighbour alone."""
REST = 16
"""Rounds that a peer does from one such leap to the next."""


class Claims:
    """The claims of one peer's in-neighbours."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._rest = 0

    @property
    def said(self) -> dict[str, int]:
        """Neighbour -> the round in which it says that it is, of those that were heard of."""
        return dict(self._said)

    @property
    def furthest(self) -> int:
        """The furthest round that anybody claims; 0 where nobody was heard of."""
        return max(self._said.values(), default=0)

    def greet(self, name: str, at_round: int) -> None:
        """Take what a neighbour says when it opens its link, in the place of all that it said before."""
        self._said[name] = at_round

    def raise_to(self, name: str, at_round: int) -> None:
        """Take the round of a neighbour's message; an older one, sent again, says nothing new."""
        self._said[name] = max(at_round, self._said.get(name, 0))

    def is_beyond(self, name: str, round_: int) -> bool:
        """Whether a neighbour is too far ahead to have kept its message of a round."""
        return self._said.get(name, 0) > round_ + FURTHEST_AHEAD

    def doubted(self, round_: int) -> dict[str, int]:
        """Return claims that lie further beyond a round, and beyond all other claims, than one leap leads."""
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
        """The round that more than half of those heard of have reached, two at least, by their own words."""
        said = sorted(self._said.values())
        return said[(len(said) - 1) // 2] if len(said) > 1 else 0
