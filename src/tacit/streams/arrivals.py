"""Streams whose samples come now and then: an agent has a limited number of them, spread over the rounds at random.

The synthetic ones are nonlinear regression on autoregressive processes (Gauthier 2023, sec. 4.4), one for each agent:
x(n) = theta_k x(n-1) + sqrt(1 - theta_k^2) u(n) with u normal of mean mu_k and variance s_k, so that in the long run x
has the variance s_k, the mean mu_k sqrt((1 + theta_k) / (1 - theta_k)) and correlation theta_k^l between values l
apart. It starts in that long run, at a value drawn from it. A sample is made of its last values::

    x = [x(n), x(n-1), x(n-4), x(n-3)],  y = sqrt(x_1^2 + sin^2(pi x_4)) + (0.8 - 0.5 exp(-x_2^2)) x_3 + noise

The lags are in the text's order. Its (4.35) has x_3 inside the parentheses, where 0.8 would be a mere constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.checks import whole_number
from tacit.core.contract import Tree
from tacit.core.errors import ConfigError
from tacit.streams.batch import Batch
from tacit.streams.stream import Stream, leaf_spec


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
        self.arrivals = draw_arrivals(sizes, rounds, rng)
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
        return self.rows(start, stop, np.arange(self.agents))

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Return rounds start..stop-1 of some agents, reading no others'."""
        self.refuse_outside(start, stop)
        assert self.arrivals is not None
        row = self._row[start:stop, agents]
        return Batch(self._x[row], self._y[row], self.arrivals[start:stop, agents].astype(np.float32))


def draw_arrivals(sizes: NDArray[np.int64], rounds: int, rng: np.random.Generator) -> NDArray[np.bool_]:
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
    whole_number("agents", agents)
    limits.refuse_beyond(40 * agents, f"{agents:,} agents")
    if not isinstance(samples, Sequence) or len(samples) == 0:
        raise ConfigError(f"samples={samples!r}: expected one whole number per data group, (500, 1000) for two")
    for group, count in enumerate(samples):
        whole_number(f"samples[{group}]", count)
    limits.refuse_beyond(40 * max(samples) * agents, f"up to {max(samples):,} samples of {agents:,} agents")
    return np.resize(np.array(samples, np.int64), agents)


def check_rounds(rounds: int, agents: int) -> None:
    """Refuse more rounds than a table of them and the agents may have."""
    whole_number("rounds", rounds)
    limits.refuse_beyond(16 * rounds * agents, f"{rounds:,} rounds of {agents:,} agents")


Range = tuple[float, float]
LAGS = np.array([0, 1, 4, 3])
"""How far back each entry of x lies."""
# What a random stream is for: a sweep over one setting leaves all other draws as they are.
CLIENTS, PROCESS, NOISE, ARRIVALS, TEST = range(5)


class AutoregressiveStream(ArrivalStream):
    """Samples of every agent's own autoregressive process. Make it with `autoregressive`.

    Args:
      agents: Number of agents, at least 1.
      samples: Number of samples of an agent, for each data group.
      rounds: Number of rounds, at least the largest of `samples`.
      seed: Seed of all draws, 0 or more.
      theta: Range within (-1, 1) of the processes' correlations, uniform over the agents; so are the ranges below.
      mean: Range of the means that drive the processes.
      variance: Range of the processes' variances, 0 or more.
      noise_variance: Range of the variances of the labels' noise, 0 or more.
    """

    theta: NDArray[np.float64]
    """(agents,) correlation of a process's next value with the last."""
    mean: NDArray[np.float64]
    """(agents,) mu_k, the mean of what drives the process."""
    variance: NDArray[np.float64]
    """(agents,) variance of what drives the process, and of the process."""
    noise_variance: NDArray[np.float64]
    """(agents,) variance of the labels' noise."""

    def __init__(
        self,
        agents: int,
        samples: Sequence[int],
        rounds: int,
        seed: int,
        *,
        theta: Range,
        mean: Range,
        variance: Range,
        noise_variance: Range,
    ) -> None:
        sizes = group_sizes(agents, samples)
        clients = np.random.default_rng([seed, CLIENTS])
        self._seed = seed
        self.theta = clients.uniform(*theta, agents)
        self.mean = clients.uniform(*mean, agents)
        self.variance = clients.uniform(*variance, agents)
        self.noise_variance = clients.uniform(*noise_variance, agents)
        longest = int(sizes.max())
        process = self._processes(np.random.default_rng([seed, PROCESS]), np.arange(agents), longest)
        agent, sample = np.nonzero(np.arange(longest) < sizes[:, None])
        x = process[sample[:, None] + LAGS.max() - LAGS, agent[:, None]]
        super().__init__(
            x,
            self._labels(x, np.random.default_rng([seed, NOISE]), agent),
            sizes,
            rounds,
            np.random.default_rng([seed, ARRIVALS]),
            name="autoregressive",
            description=f"nonlinear regression on {agents} autoregressive processes, {sizes.sum():,} samples "
            f"({', '.join(str(count) for count in samples)} by group) in {rounds} rounds, seed {seed}",
        )

    def test(self, count: int, seed: int = 0) -> Batch:
        """Return fresh samples with noise, each of a process of its own, of agents 0, 1, ... in turn.

        Args:
          count: Number of samples, at least 1.
          seed: Seed of these, 0 or more.
        """
        whole_number("count", count)
        whole_number("seed", seed, least=0)
        rng = np.random.default_rng([self._seed, TEST, seed])
        agent = np.arange(count) % self.agents
        process = self._processes(rng, agent, 1)
        x = process[LAGS.max() - LAGS].T
        return Batch(x, self._labels(x, rng, agent))

    def _processes(self, rng: np.random.Generator, agent: NDArray[np.int64], samples: int) -> NDArray[np.float32]:
        """Return (4 + samples, processes) values of independent processes, those of the agents named."""
        theta, mean = self.theta[agent], self.mean[agent]
        drive = rng.standard_normal((LAGS.max() + samples, len(agent)))
        drive *= np.sqrt(self.variance[agent])
        values = np.empty(drive.shape)
        values[0] = drive[0] + mean * np.sqrt((1 + theta) / (1 - theta))
        drive += mean
        drive *= np.sqrt(1 - np.square(theta))
        for n in range(1, len(values)):
            np.multiply(theta, values[n - 1], out=values[n])
            values[n] += drive[n]
        return values.astype(np.float32)

    def _labels(
        self, x: NDArray[np.float32], rng: np.random.Generator, agent: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        noise = np.sqrt(self.noise_variance).astype(np.float32)[agent] * rng.standard_normal(len(x), np.float32)
        first, second, third, fourth = x.T
        bend = np.sqrt(np.square(first) + np.square(np.sin(np.float32(math.pi) * fourth)))
        return np.asarray(bend + (0.8 - 0.5 * np.exp(-np.square(second))) * third + noise, np.float32)


def autoregressive(
    agents: int,
    *,
    samples: Sequence[int] = (500, 1000, 1500, 2000),
    rounds: int = 2000,
    seed: int = 0,
    theta: Range = (0.2, 0.9),
    mean: Range = (-0.2, 0.2),
    variance: Range = (0.2, 1.2),
    noise_variance: Range = (0.005, 0.03),
) -> AutoregressiveStream:
    """Nonlinear regression on autoregressive processes, one for each agent, with samples that come now and then.

    Agent k belongs to data group k mod `len(samples)`. Its samples come one at a time, in any of the rounds with equal
    chance; its process goes on when it brings a sample, and rests in between. The equations are in the module's head.

    Args:
      agents: Number of agents, at least 1.
      samples: Number of samples of an agent, for each data group.
      rounds: Number of rounds, at least the largest of `samples`.
      seed: Seed of all draws, 0 or more.
      theta: Range within (-1, 1) of the processes' correlations, uniform over the agents; so are the ranges below.
      mean: Range of the means that drive the processes.
      variance: Range of the processes' variances.
      noise_variance: Range of the variances of the labels' noise.

    Example:
      >>> import tacit
      >>> tacit.streams.autoregressive(4, samples=(5, 10), rounds=20)
      Stream(autoregressive, 4 agents, 4 features, 20 rounds)

    References:
      Gauthier (2023), sec. 4.4.1.
    """
    whole_number("seed", seed, least=0)
    for setting, (low, high) in (("variance", variance), ("noise_variance", noise_variance)):
        if not 0 <= low <= high < math.inf:
            raise ConfigError(f"{setting}={(low, high)!r}: expected a range of variances, 0 <= lowest <= highest")
    if not -1 < theta[0] <= theta[1] < 1:
        raise ConfigError(f"theta={theta!r}: expected a range within (-1, 1), or a process has no long run")
    if not -math.inf < mean[0] <= mean[1] < math.inf:
        raise ConfigError(f"mean={mean!r}: expected a range of finite numbers, lowest <= highest")
    return AutoregressiveStream(
        agents, samples, rounds, seed, theta=theta, mean=mean, variance=variance, noise_variance=noise_variance
    )
