"""Streams whose samples come now and then: an agent has a limited number of them, spread over the rounds at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.contract import Tree
from tacit.core.errors import ConfigError
from tacit.streams.stream import Batch, Stream, leaf_spec
from tacit.streams.validate import check_count


class ArrivalStream(Stream):
    """A finite stream that brings an agent one sample in some of its rounds, in order, and none in the others."""

    def __init__(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        sizes: NDArray[np.int64],
        rounds: int,
        rng: np.random.Generator,
        *,
        name: str,
        description: str,
    ) -> None:
        """Take samples (sum of sizes, d), agent after agent; `rng` draws the rounds in which they come."""
        self.arrivals = spread(sizes, rounds, rng)
        self.agents, self.rounds, self.period = len(sizes), rounds, rounds
        self.data_size = sizes.astype(np.int32)
        self.name, self.description = name, description
        # Where there is no sample the last row is read, which holds zeros.
        self._x = np.concatenate([x, np.zeros_like(x[:1])])
        self._y = np.concatenate([y, np.zeros_like(y[:1])])
        first = np.cumsum(sizes) - sizes
        number = first + np.cumsum(self.arrivals, axis=0, dtype=np.int32) - 1
        self._row = np.where(self.arrivals, number, len(x)).astype(np.int32)

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        lead = leaf_spec((), np.float32)
        return Batch(leaf_spec(self._x.shape[1:], np.float32), lead, lead)

    def backing(self) -> tuple[NDArray[Any], ...]:
        """Return the samples and the rounds in which they come."""
        return self._x, self._y, self._row

    def chunk(self, start: int, stop: int) -> Tree:
        """Return rounds start..stop-1; where there is no sample, weight, x and y are 0."""
        self.refuse_outside(start, stop)
        assert self.arrivals is not None
        row = self._row[start:stop]
        return Batch(self._x[row], self._y[row], self.arrivals[start:stop].astype(np.float32))


def spread(sizes: NDArray[np.int64], rounds: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw (rounds, agents) in which rounds each agent's samples come: any set of that many rounds is as likely."""
    check_rounds(rounds, len(sizes))
    if sizes.max() > rounds:
        agent = int(np.argmax(sizes))
        raise ConfigError(
            f"agent {agent} has {sizes[agent]} samples, but there are {rounds} rounds and each brings one at most; "
            f"expected at least {sizes.max()} rounds: run longer, or use fewer samples"
        )
    return np.ascontiguousarray(rng.permuted(np.arange(rounds) < sizes[:, None], axis=1).T)


def group_sizes(agents: int, samples: Sequence[int]) -> NDArray[np.int64]:
    """Return (agents,) how many samples each has: agent k belongs to data group k mod the number of groups."""
    check_count("agents", agents)
    limits.refuse_beyond(40 * agents, f"{agents:,} agents")
    if not isinstance(samples, Sequence) or len(samples) == 0:
        raise ConfigError(f"samples={samples!r}: expected one whole number per data group, (500, 1000) for two")
    for group, count in enumerate(samples):
        check_count(f"samples[{group}]", count)
    limits.refuse_beyond(40 * max(samples) * agents, f"up to {max(samples):,} samples of {agents:,} agents")
    return np.resize(np.array(samples, np.int64), agents)


def check_rounds(rounds: int, agents: int) -> None:
    """Refuse more rounds than a table of them and the agents may have."""
    check_count("rounds", rounds)
    limits.refuse_beyond(16 * rounds * agents, f"{rounds:,} rounds of {agents:,} agents")
