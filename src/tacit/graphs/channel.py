"""Network channel: loss and delay of messages that were sent."""

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
    """Geometric delay in rounds: P(delay >= l) = p ** l. A message that would be older than `longest` is lost.

    Args:
      p: Probability of one step more, 0 <= p < 1.
      longest: Longest delay in rounds, 0 to 100,000.
      step: Rounds per step: P(delay >= step * i) = p ** i, and no delay in between.

    Example:
      >>> import tacit
      >>> tacit.graphs.Delay(p=0.5, longest=2).probabilities()
      (0.5, 0.25, 0.125)
    """

    p: float = 0.2
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


@dataclass(frozen=True)
class Channel:
    """Channel that loses each message with one probability, independently, and delays those that get through.

    Args:
      loss: Probability that a message is lost, 0 <= loss < 1.
      delay: Delay of messages that get through; None: they arrive in the round in which they were sent.
      links: Link sets that it acts on, e.g. ``("uplink",)``; None: all of them.

    Example:
      >>> import tacit
      >>> tacit.graphs.Channel(loss=0.1, delay=tacit.graphs.Delay(0.2, longest=5)).longest_delay
      5
    """

    loss: float = 0.0
    delay: Delay | None = None
    links: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise ConfigError(f"channel loss is {self.loss}: expected a probability in [0, 1)")

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
        """The possible numbers of rounds between sending and arrival."""
        return (0,) if self.delay is None else self.delay.possible

    def on(self, links: str) -> Channel:
        """Return the channel of one link set.

        Args:
          links: Name of the link set, e.g. "uplink".
        """
        return self if self.links is None or links in self.links else Channel()

    def draw(self, key: jax.Array, edges: int) -> tuple[jax.Array, jax.Array]:
        """Return, for a message on each edge, (lost (E,) bool, delay in rounds (E,) int32).

        Args:
          key: Key of the round and phase.
          edges: Number of links E, 0 or more.
        """
        loss_key, delay_key = jax.random.split(key)
        # Always in single precision, so that one seed means one channel whatever the precision of the run.
        lost = jax.random.uniform(loss_key, (edges,), jnp.float32) < self.loss
        if self.delay is None or self.delay.p == 0:
            return lost, jnp.zeros(edges, jnp.int32)
        # A geometric variable is the floor of an exponential one: P(E / -log p >= l) = p ** l.
        steps = jax.random.exponential(delay_key, (edges,), jnp.float32) / -math.log(self.delay.p)
        rounds = self.delay.step * jnp.floor(jnp.minimum(steps, self.delay.longest + 1)).astype(jnp.int32)
        return lost | (rounds > self.delay.longest), jnp.minimum(rounds, self.delay.longest)
