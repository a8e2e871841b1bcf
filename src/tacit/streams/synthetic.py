"""Synthetic streams with a true parameter that drifts: linear regression and logistic regression.

Features have entries of mean 0 and variance 1/dim, so that a row's length is about 1. The true parameter has length
sqrt(dim), so that <x, w*> has variance 1 in any dimension, and turns by `drift` radians each round::

    w*(t) = cos(drift t) u + sin(drift t) v,  u and v orthogonal (in one dimension v = 0), t = 0, 1, ...

This closed form, and random numbers keyed by (seed, block of rounds), make any round computable by itself.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.checks import whole_number
from tacit.core.contract import Tree
from tacit.core.errors import ConfigError
from tacit.streams.batch import Batch
from tacit.streams.stream import INT32_MAX, Stream, leaf_spec

# What a random stream is for: labels' noise must not depend on how many features were drawn before it.
TRUTH, OFFSET, FEATURES, LABELS = range(4)

LARGEST = float(np.finfo(np.float32).max)
BLOCK_VALUES = 1 << 16
"""Features per block of rounds, about: seeding a generator costs as much as some thousand features."""
PIECE_VALUES = 1 << 20
"""Features that are drawn at once where most of them belong to agents that nobody asked for."""


class DriftStream(Stream):
    """A synthetic stream with a known truth. Make it with `linear_drift` or `logistic_drift`.

    Args:
      agents: Number of agents, at least 1.
      dim: Number of features, at least 1.
      noise: Scale of the labels' noise, 0 or more.
      drift: Angle by which the truth turns each round, in radians, 0 or more.
      heterogeneity: Scale of the agents' own offsets, 0 or more.
      batch: Samples per agent and round, at least 1.
      rounds: Length of the stream; None: endless.
      repeat_every: Number of rounds after which the stream repeats; None: never.
      seed: Seed of all draws, 0 or more.
    """

    kind: str
    """logistic or linear."""

    def __init__(
        self,
        agents: int,
        dim: int,
        *,
        noise: float,
        drift: float,
        heterogeneity: float,
        batch: int,
        rounds: int | None,
        repeat_every: int | None,
        seed: int,
    ) -> None:
        for setting, count in (("agents", agents), ("dim", dim), ("batch", batch)):
            whole_number(setting, count)
        for setting, limit in (("rounds", rounds), ("repeat_every", repeat_every)):
            if limit is not None:
                whole_number(setting, limit)
        whole_number("seed", seed, least=0)
        for setting, strength in (("noise", noise), ("drift", drift), ("heterogeneity", heterogeneity)):
            if not 0 <= strength <= LARGEST:
                raise ConfigError(f"{setting}={strength!r}: expected a finite 32-bit number of at least 0")
        # The plane in which the truth turns, the agents' offsets, and one round as words, features and products.
        round_bytes = agents * (20 * batch + 4) * dim
        limits.refuse_beyond(64 * dim + round_bytes, f"a round of {agents:,} agents x batch {batch:,} x dim {dim:,}")
        self.agents, self.rounds = agents, rounds
        self.period = min((limit for limit in (rounds, repeat_every) if limit is not None), default=None)
        own = 0 if self.period is None else min(self.period * batch, INT32_MAX)
        self.data_size = np.full(agents, own, np.int32)
        self.name = f"{self.kind}_drift"
        cycle = "" if repeat_every is None else f", repeating every {repeat_every} rounds"
        self.description = (
            f"synthetic {self.kind} data in {dim} dimensions (noise {noise:g}, drift {drift:g} rad/round, "
            f"heterogeneity {heterogeneity:g}, seed {seed}){cycle}"
        )
        self._shape, self._repeat, self._seed = (agents, batch, dim), repeat_every, seed
        self._noise, self._drift = np.float32(noise), drift
        self._block_rounds = max(1, BLOCK_VALUES // math.prod(self._shape))
        self._u, self._v = self._plane(dim)
        self._offset: NDArray[np.float32] | None = None
        if heterogeneity > 0:
            offset = self._generator(OFFSET).standard_normal((agents, dim), dtype=np.float32)
            self._offset = np.float32(heterogeneity) * offset

    @abstractmethod
    def _disturbance(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Draw what stands between <x, w> and the label, at noise 1."""

    @abstractmethod
    def _observe(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        """Turn the disturbed <x, w> into the label."""

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        _, batch, dim = self._shape
        lead = () if batch == 1 else (batch,)
        return Batch(leaf_spec((*lead, dim), np.float32), leaf_spec(lead, np.float32))

    def chunk(self, start: int, stop: int) -> Tree:
        """Generate rounds start..stop-1."""
        return self._batches(start, stop, None)

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Generate rounds start..stop-1 of some agents; others' random words are drawn, and dropped piece by piece."""
        if np.array_equal(agents, np.arange(self.agents)):
            return self._batches(start, stop, None)
        some, place = np.unique(agents, return_inverse=True)
        found = self._batches(start, stop, some)
        in_turn = np.array_equal(place, np.arange(some.size))
        return found if in_turn else jax.tree.map(lambda leaf: leaf[:, place], found)

    def _batches(self, start: int, stop: int, agents: NDArray[Any] | None) -> Tree:
        self.refuse_outside(start, stop)
        if self._repeat is None:
            x, y = self._generate(start, stop, agents)
        elif stop - start >= self._repeat:
            index = np.arange(start, stop) % self._repeat
            x, y = (whole[index] for whole in self._generate(0, self._repeat, agents))
        else:
            first = start % self._repeat
            last = first + stop - start
            parts = [
                self._generate(first, min(last, self._repeat), agents),
                self._generate(0, max(0, last - self._repeat), agents),
            ]
            x, y = (np.concatenate(halves) for halves in zip(*parts, strict=True))
        return Batch(x[:, :, 0], y[:, :, 0]) if self._shape[1] == 1 else Batch(x, y)

    def truth(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return (stop - start, dim) the true parameter w*(t), without the agents' offsets.

        Args:
          start: First round, counted from 0.
          stop: Round after the last.
        """
        rounds = np.arange(start, stop) if self._repeat is None else np.arange(start, stop) % self._repeat
        angle = self._drift * rounds[:, None]
        return np.asarray(np.cos(angle) * self._u + np.sin(angle) * self._v, np.float32)

    def _generate(
        self, start: int, stop: int, agents: NDArray[Any] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return rounds of some agents, in rising order; None: of all."""
        count, batch, dim = self._shape
        x = np.empty((stop - start, count if agents is None else agents.size, batch, dim), np.float32)
        y = np.empty(x.shape[:-1], np.float32)
        truth = self.truth(start, stop)
        table = _normal_quantiles() / np.float32(math.sqrt(dim))
        step = self._block_rounds
        offset = self._offset if self._offset is None or agents is None else self._offset[agents]
        for block in range(start // step, -(-stop // step)):
            first, last = max(start, block * step), min(stop, (block + 1) * step)
            here, skipped = slice(first - start, last - start), first - block * step
            words = _Words(self._generator(FEATURES, block).bit_generator, skipped * math.prod(self._shape))
            if agents is None:
                _look_up(table, words, x[here].reshape(-1))
            else:
                for one_round in x[here]:
                    _look_up_some(table, words, agents, count, one_round)
            value = np.einsum("tabd,td->tab", x[here], truth[here])
            if offset is not None:
                value += np.einsum("tabd,ad->tab", x[here], offset)
            # Noise of a block is drawn from its first round on, whichever round the slice begins with.
            rng = self._generator(LABELS, block)
            if agents is None:
                noise = self._disturbance(rng, (skipped + len(value), count, batch))[skipped:]
            else:
                noise = np.stack([self._disturbance(rng, (count, batch))[agents] for _ in range(last - block * step)])
                noise = noise[skipped:]
            y[here] = self._observe(value + self._noise * noise)
        return x, y

    def _plane(self, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        u, v = self._generator(TRUTH).standard_normal((2, dim))
        u *= math.sqrt(dim) / np.linalg.norm(u)
        if dim == 1:
            return u, np.zeros(1)
        v -= (u @ v) / dim * u
        return u, v * (math.sqrt(dim) / np.linalg.norm(v))

    def _generator(self, purpose: int, block: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence((self._seed, purpose, block))))


class LinearDrift(DriftStream):
    """Linear regression with Gaussian noise. Make it with `linear_drift`."""

    kind = "linear"

    def _disturbance(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    def _observe(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        return value


class LogisticDrift(DriftStream):
    """Logistic regression with labels -1 and +1. Make it with `logistic_drift`."""

    kind = "logistic"

    def _disturbance(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return rng.logistic(size=shape).astype(np.float32)

    def _observe(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(value >= 0, np.float32(1), np.float32(-1))


def linear_drift(
    agents: int,
    dim: int,
    *,
    noise: float = 0.1,
    drift: float = 0.0,
    heterogeneity: float = 0.0,
    batch: int = 1,
    rounds: int | None = None,
    repeat_every: int | None = None,
    seed: int = 0,
) -> DriftStream:
    """Linear regression with a drifting truth: y = <x, w*(t) + heterogeneity o_i> + noise z, z and o_i standard normal.

    Args:
      agents: Number of agents, at least 1.
      dim: Number of features, at least 1.
      noise: Standard deviation of the labels' noise, 0 or more.
      drift: Angle by which w* turns each round, in radians, 0 or more.
      heterogeneity: Scale of the agents' own offsets o_i, 0 or more.
      batch: Samples per agent and round, at least 1.
      rounds: Length of the stream; None: endless.
      repeat_every: Number of rounds after which the stream repeats, so that a long run needs little memory; None:
        never.
      seed: Seed of all draws, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.streams.linear_drift(agents=8, dim=5, rounds=20)
      Stream(linear_drift, 8 agents, 5 features, 20 rounds)
    """
    return LinearDrift(
        agents,
        dim,
        noise=noise,
        drift=drift,
        heterogeneity=heterogeneity,
        batch=batch,
        rounds=rounds,
        repeat_every=repeat_every,
        seed=seed,
    )


def logistic_drift(
    agents: int,
    dim: int,
    *,
    noise: float = 0.1,
    drift: float = 0.0,
    heterogeneity: float = 0.0,
    batch: int = 1,
    rounds: int | None = None,
    repeat_every: int | None = None,
    seed: int = 0,
) -> DriftStream:
    """Logistic regression with a drifting truth: y = sign(<x, w*(t) + heterogeneity o_i> + noise z), z logistic.

    So P(y = 1 | x) = sigmoid(<x, w> / noise), and noise 0 makes the classes separable; labels are -1 and +1.

    Args:
      agents: Number of agents, at least 1.
      dim: Number of features, at least 1.
      noise: Scale of the logistic noise, 0 or more.
      drift: Angle by which w* turns each round, in radians, 0 or more.
      heterogeneity: Scale of the agents' own offsets o_i (standard normal), 0 or more.
      batch: Samples per agent and round, at least 1.
      rounds: Length of the stream; None: endless.
      repeat_every: Number of rounds after which the stream repeats, so that a long run needs little memory; None:
        never.
      seed: Seed of all draws, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.streams.logistic_drift(agents=8, dim=5, drift=0.01)
      Stream(logistic_drift, 8 agents, 5 features, endless)
    """
    return LogisticDrift(
        agents,
        dim,
        noise=noise,
        drift=drift,
        heterogeneity=heterogeneity,
        batch=batch,
        rounds=rounds,
        repeat_every=repeat_every,
        seed=seed,
    )


@functools.cache
def _normal_quantiles() -> NDArray[np.float32]:
    """Return 65,536 equally likely values of a standard normal: features at the speed of a table look-up."""
    from scipy.special import ndtri

    table = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
    return np.asarray(table / table.std(), np.float32)


class _Words:
    """Random numbers of 16 bits, of which each 64-bit word makes four, from number `skip` on."""

    def __init__(self, bits: Any, skip: int) -> None:
        self._bits = bits
        words, odd = divmod(skip, 4)
        bits.random_raw(words, output=False)
        self._left: NDArray[np.uint16] = np.empty(0, np.uint16)
        self.take(odd)

    def take(self, count: int) -> NDArray[np.uint16]:
        """Return the next numbers."""
        missing = -(-(count - self._left.size) // 4)
        if missing > 0:
            fresh = self._bits.random_raw(missing).view(np.uint16)
            self._left = fresh if not self._left.size else np.concatenate([self._left, fresh])
        found, self._left = self._left[:count], self._left[count:].copy()
        return found


def _look_up(table: NDArray[np.float32], words: _Words, out: NDArray[np.float32]) -> None:
    """Fill `out` with draws of the table."""
    index = words.take(out.size)
    for begin in range(0, out.size, BLOCK_VALUES):  # in pieces that stay in the cache: twice as fast
        piece = slice(begin, begin + BLOCK_VALUES)
        np.take(table, index[piece], out=out[piece], mode="clip")


def _look_up_some(
    table: NDArray[np.float32], words: _Words, agents: NDArray[Any], count: int, out: NDArray[np.float32]
) -> None:
    """Fill `out` with the draws of some of `count` agents in one round, having drawn everybody's in pieces."""
    each = math.prod(out.shape[1:])
    some = max(1, PIECE_VALUES // each)
    at = np.searchsorted(agents, np.arange(0, count + some, some))
    for k, first in enumerate(range(0, count, some)):
        index = words.take(min(some, count - first) * each).reshape(-1, *out.shape[1:])
        mine = slice(at[k], at[k + 1])
        out[mine] = table[index[agents[mine] - first]]
