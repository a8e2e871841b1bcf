"""What the network does to messages that were sent: it loses some and delays others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tacit.core.errors import ConfigError

LONGEST_DELAY = 100_000
"""Rounds: each possible delay is a number in the compiled program."""


@dataclass(frozen=True)
class Delay:
    """Geometric delay in rounds: P(delay >= l) = p ** l. What would be older than `longest` is lost.

    With a `step` above 1 delays come in whole steps: P(delay >= step * i) = p ** i, and nothing in between.
    """

    p: float = 0.2
    """Probability of one step more."""
    longest: int = 10
    step: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ConfigError(f"delay p is {self.p}: expected a number in [0, 1), for P(delay >= l) = p ** l")
        if self.longest < 0:
            raise ConfigError(f"longest delay is {self.longest}: expected a whole number of rounds, 0 or more")
        if self.step < 1:
            raise ConfigError(f"delay step is {self.step}: expected a whole number of rounds, 1 or more")
        if self.longest > LONGEST_DELAY:
            raise ConfigError(f"longest delay is {self.longest}: expected at most {LONGEST_DELAY:,} rounds")

    @property
    def possible(self) -> tuple[int, ...]:
        """The delays that occur, in rounds."""
        return tuple(range(0, self.longest + 1, self.step))

    def probabilities(self) -> tuple[float, ...]:
        """Return the probability of each of the `possible` delays; what is missing to 1 is lost."""
        return tuple(self.p**i * (1 - self.p) for i in range(len(self.possible)))


@dataclass(frozen=True, repr=False)
class Channel:
    """Loses each message with probability `loss`, independently, and delays those that get through."""

    loss: float = 0.0
    delay: Delay | None = None
    """Of those that get through; None: they arrive in the round in which they were sent."""
    links: tuple[str, ...] | None = None
    """The link sets that it is so on, e.g. ("uplink",); None: on all of them."""

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise ConfigError(f"channel loss is {self.loss}: expected a probability in [0, 1)")

    def __repr__(self) -> str:
        does = [f"loses {self.loss:g}"] if self.loss else []
        does += [] if self.delay is None else [f"delays up to {self.delay.longest} rounds"]
        where = "" if self.links is None else f" on {', '.join(self.links)}"
        return f"Channel({', '.join(does) or 'reliable'}{where})"

    @property
    def reliable(self) -> bool:
        """Whether every message arrives in the round in which it was sent."""
        return self.loss == 0 and self.delay is None

    @property
    def longest_delay(self) -> int:
        """Rounds that a message may be under way; 0 where nothing is delayed."""
        return 0 if self.delay is None else self.delay.longest

    @property
    def ages(self) -> tuple[int, ...]:
        """In how many rounds a message may arrive, of all that is possible."""
        return (0,) if self.delay is None else self.delay.possible

    def on(self, links: str) -> Channel:
        """Return what becomes of messages on one link set."""
        return self if self.links is None or links in self.links else Channel()

    def draw(self, key: jax.Array, edges: int) -> tuple[jax.Array, jax.Array]:
        """Return, for a message on each edge, (lost (E,) bool, delay in rounds (E,) int32)."""
        loss_key, delay_key = jax.random.split(key)
        # Always in single precision, so that one seed means one channel whatever the precision of the run.
        lost = jax.random.uniform(loss_key, (edges,), jnp.float32) < self.loss
        if self.delay is None or self.delay.p == 0:
            return lost, jnp.zeros(edges, jnp.int32)
        # A geometric variable is the floor of an exponential one: P(E / -log p >= l) = p ** l.
        steps = jax.random.exponential(delay_key, (edges,), jnp.float32) / -math.log(self.delay.p)
        rounds = self.delay.step * jnp.floor(jnp.minimum(steps, self.delay.longest + 1)).astype(jnp.int32)
        return lost | (rounds > self.delay.longest), jnp.minimum(rounds, self.delay.longest)
