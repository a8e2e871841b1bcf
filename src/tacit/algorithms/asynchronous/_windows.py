"""Partial sharing: of a model of d numbers only `share` travel, a window that moves with the rounds.

    M_k(n)   the coordinates that the server sends to client k in round n      m (n + k) + 0 ... m - 1, modulo d
    S_k(n)   those that client k sends back                                    M_k(n + 1), or M_k(n)

(Gauthier (2023), ch. 4.) Coordinated windows leave out the k: all clients share the same ones. A window follows
from sender, round and settings, so that nothing of it travels: on a wire as in memory a message is m numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import proportion
from tacit.core.contract import Array, Inbox, Params, View
from tacit.core.errors import ConfigError

Order = Literal["shift", "random"]


class Windows(NamedTuple):
    """Windows of coordinates, by agent and round."""

    share: int | None
    """m, how many; None: all of them."""
    coordinated: bool = False
    """Whether all agents share the same ones."""
    order: Order = "shift"
    """The next window begins where the last one ended, or at a pseudo-random multiple of m."""
    seed: int = 0
    """Of random windows; all agents have the same one."""

    def validated(self) -> Windows:
        """Refuse settings that mean nothing."""
        if self.share is not None and (isinstance(self.share, bool) or self.share != int(self.share) or self.share < 1):
            raise ConfigError(f"share = {self.share!r}: expected a whole number of coordinates, from 1 on")
        if self.order not in ("shift", "random"):
            raise ConfigError(f"order = {self.order!r}: expected 'shift' or 'random'")
        return self

    def places(self, agent: Array, t: Array, size: int) -> Array:
        """Return the (m,) coordinates of an agent's window in round t, of a model of `size` numbers."""
        if self.share is None:
            return jnp.arange(size, dtype=jnp.int32)
        if self.share > size:
            raise ConfigError(f"share = {self.share}: the model has {size} numbers; share at most all of them")
        turn = t if self.coordinated else t + agent
        if self.order == "random":
            of_round = jax.random.fold_in(jax.random.key(self.seed), t)
            key = of_round if self.coordinated else jax.random.fold_in(of_round, agent)
            turn = jax.random.randint(key, (), 0, -(-size // self.share), jnp.int32)
        return (turn * self.share + jnp.arange(self.share, dtype=jnp.int32)) % size

    def taken(self, vector: Array, agent: Array, t: Array) -> Array:
        """Return an agent's window of a vector."""
        return vector if self.share is None else vector[self.places(agent, t, vector.size)]


def flat(params: Params) -> Array:
    """Return parameters as one vector."""
    leaves = [leaf.reshape(-1) for leaf in jax.tree.leaves(params)]
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


def shaped(vector: Array, like: Params) -> Params:
    """Return a vector in the form of parameters."""
    leaves, structure = jax.tree_util.tree_flatten(like)
    parts, first = [], 0
    for leaf in leaves:
        parts.append(vector[first : first + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        first += leaf.size
    found: Params = jax.tree_util.tree_unflatten(structure, parts)
    return found


class Late(NamedTuple):
    """Treatment of updates that come late, (4.13)-(4.14)."""

    decay: float = 1.0
    """alpha: what was under way for l rounds counts alpha**l."""
    by_age: bool = True
    """Whether updates of one age are averaged by themselves and the averages added up; otherwise all are averaged."""
    newest_only: bool = False
    """Of updates of one round that touch the same coordinate only the youngest count (the manuscript's rule)."""

    def validated(self) -> Late:
        """Refuse a weight that is none."""
        proportion("decay", self.decay, "what a round's delay leaves", zero=True, one=True)
        return self


class Sharing(NamedTuple):
    """Settings of a round in which windows are shared."""

    down: Windows
    up: Windows
    answer: Literal["next", "same"] = "next"
    """Whether clients send the window that the server will send in the next round, or the one that it just sent."""
    late: Late = Late()
    autonomous: bool = True
    """Whether clients that the server does not reach learn on."""
    fraction: float = 1.0
    """Probability with which a client that is there is called."""

    def validated(self) -> Sharing:
        """Refuse settings that mean nothing."""
        if self.answer not in ("next", "same"):
            raise ConfigError(f"answer = {self.answer!r}: expected 'next' or 'same', the window that clients send")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction = {self.fraction!r}: expected the share of the clients to call, up to 1")
        return self._replace(down=self.down.validated(), up=self.up.validated(), late=self.late.validated())


def gathered(inbox: Inbox, w: Array, view: View, sent: Callable[[Array, Array], Array], late: Late) -> Array:
    """Return the server's model after the updates that arrived; `sent(agent, round)` are an update's coordinates."""
    never = jnp.int32(2**31 - 1)

    def add(so_far: tuple[Array, Array], part: Array, slot: Array, age: Array) -> tuple[Array, Array]:
        total, youngest = so_far
        where = sent(view.into.agent[slot], view.round - age)
        alike = inbox.arrived & (inbox.age == age) if late.by_age else inbox.arrived
        scale = jnp.asarray(late.decay, w.dtype) ** age / jnp.sum(alike).astype(w.dtype)
        moved = scale * (part - w[where])
        if late.newest_only:
            moved = jnp.where(age <= youngest[where], moved, 0)
            youngest = youngest.at[where].min(age)
        return total.at[where].add(moved), youngest

    first = jnp.zeros_like(w), jnp.full(w.shape if late.newest_only else (0,), never)
    total: Array
    total, _ = inbox.fold(lambda so_far, message, slot, age: add(so_far, message.private, slot, age), first)
    return w + total
