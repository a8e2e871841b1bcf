"""Loss from each agent to each single observer: accounting for methods that are linear in what is released.

Let a release of agent w in round t be its value plus scale_t (C^-1 z_w)_t, with z standard Gaussian noise and C the
identity unless noise is correlated over rounds. Where all messages are known linear functions of all releases, observer
v, who knows its own releases, sees A_v z plus something known: A_v maps the noise of the others to the messages that
reach v. A record of agent u that moves the values of some rounds by delta moves this view as if z_u had moved by
a = C (delta / scale). So towards v the run is a Gaussian mechanism with

    mu(u -> v) = || P_v a ||,      P_v the projection on the row space of A_v,       rho = mu^2 / 2,

and towards an observer of everything with mu = ||a||, the strong figure: no single observer gets more (Cyffers, Even,
Bellet and Massoulie 2022; Bellet et al. 2026). All coordinates of a model have the same map and noise of their own, so
that one coordinate is enough: delta counts by its l2 norm.

Exact for a record that is used once. Of one that is used several times the directions of its deltas are not known;
|<P_v a_s, P_v a_t>| summed over its rounds bounds them, and so does the strong figure.

Values that react to what others released are not covered: docs/privacy.md says what is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import limits
from tacit.core.checks import proportion, whole_number
from tacit.core.errors import ConfigError
from tacit.privacy.conversions import tight

Floats = NDArray[np.float64]

_DEPENDENT, _DOUBTFUL = 1e-12, 1e-8
"""Singular values below this share of the largest are rounding; where to look for such."""


ASSUMPTIONS = (
    "One observer, who pools with no other and with nobody who taps links: two together may learn more than either.",
    "It follows the method, and knows the graph, W, all settings and all data but the record in question.",
    "Graph and W are fixed and no message is lost; all noise is Gaussian, drawn by each agent for itself and kept "
    "secret.",
    "Values do not react: gradients are taken as known, not as functions of models that others' releases have moved. "
    "Where they are, the figure is that of the first-order, non-adaptive view and not a bound: the truth may lie above "
    "it, and never above the strong figure. That nothing is learnt where no message has had time to arrive (0) holds "
    "in any case.",
    "It speaks of the rounds that were looked at, and of messages: more rounds show an observer more, and so do models "
    "that agents publish.",
    "Budgets, ledgers and reports keep the strong figure: against an observer of every message.",
)
"""What the figures of `network_loss` stand on, in sentences."""


class LinearNetwork(NamedTuple):
    """Messages of a network as linear functions of what its n agents release, round by round.

    With r_t the n releases of a round and k numbers of all states together, state_t+1 = transition_t state_t +
    entry_t r_t, and the m messages of a round are from_state_t state_t + from_release_t r_t.

    Args:
      transition: (rounds, k, k).
      entry: (rounds, k, n).
      from_state: (rounds, m, k).
      from_release: (rounds, m, n).
      heard: (n, m), whether an agent hears a message; its own do not count. Messages are numbered by sender.
    """

    transition: Floats
    entry: Floats
    from_state: Floats
    from_release: Floats
    heard: NDArray[np.bool_]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.transition)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.entry.shape[2])

    def distances(self) -> Floats:
        """Return (agents, observers) how many links a message takes from one to the other; inf where it never does."""
        from scipy.sparse.csgraph import shortest_path

        hears = self.heard.reshape(self.agents, self.agents, -1).any(axis=2)
        return np.asarray(shortest_path(np.ascontiguousarray(hears.T, np.float64), unweighted=True))

    def view(self, messages: ArrayLike) -> Floats:
        """Return (rounds * messages, rounds, agents): what each of these messages makes of every release.

        Args:
          messages: Numbers of messages of a round, the same in all rounds.
        """
        chosen = np.asarray(messages, np.int64)
        found = np.zeros((self.rounds, chosen.size, self.rounds, self.agents))
        later = np.zeros((0, self.transition.shape[1]))  # what messages of later rounds make of the state
        for t in reversed(range(self.rounds)):
            found[t + 1 :, :, t] = (later @ self.entry[t]).reshape(self.rounds - t - 1, chosen.size, self.agents)
            found[t, :, t] = self.from_release[t, chosen]
            later = np.concatenate([self.from_state[t, chosen], later @ self.transition[t]])
        return found.reshape(self.rounds * chosen.size, self.rounds, self.agents)


class NetworkLoss(NamedTuple):
    """Loss from each agent to each single observer, and to an observer of everything; made by `network_loss`.

    Args:
      mu: (agents, observers) of Gaussian differential privacy; NaN from an agent to itself.
      strong: (agents,) towards an observer of everything, which accounts and ledgers keep.
      rounds: Rounds that were looked at.
    """

    mu: Floats
    strong: Floats
    rounds: int

    @property
    def rho(self) -> Floats:
        """(agents, observers) loss as zCDP."""
        return self.mu**2 / 2

    def epsilon(self, delta: float) -> Floats:
        """Return (agents, observers) the loss as epsilon, by the rule of the accounts.

        Args:
          delta: Probability with which epsilon may fail, above 0 and below 1.
        """
        return _epsilon(self.mu, delta)

    def strong_epsilon(self, delta: float) -> float:
        """Return the epsilon of the dearest record towards an observer of everything.

        Args:
          delta: Probability with which epsilon may fail, above 0 and below 1.
        """
        return float(_epsilon(self.strong, delta).max())

    def __repr__(self) -> str:
        highest = float(np.nanmax(self.mu, initial=0.0))
        return (
            f"NetworkLoss({len(self.strong)} agents, {self.rounds} rounds, mu to one observer up to {highest:.4g}, "
            f"to all {self.strong.max():.4g})"
        )


def averaging_network(weights: ArrayLike, rounds: int) -> LinearNetwork:
    """Return the network of x(t+1) = W (x(t) + r(t)), in which each agent sends x + r to those that hear it.

    Args:
      weights: W, (agents, agents): W[i, j] is what i makes of j's message; 0 where i does not hear j.
      rounds: Number of rounds, from 1 on.

    Returns:
      The network, for `network_loss`.
    """
    matrix = np.asarray(weights, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ConfigError(f"weights of shape {matrix.shape}: expected a square matrix of finite numbers")
    whole_number("rounds", rounds)
    limits.refuse_beyond(rounds * 4 * matrix.nbytes, f"a network of {len(matrix):,} agents over {rounds:,} rounds")
    same, mixed = (np.repeat(each[None], rounds, axis=0) for each in (np.eye(len(matrix)), matrix))
    heard = (matrix != 0) & ~np.eye(len(matrix), dtype=bool)
    return LinearNetwork(mixed, mixed, same, same, heard)


def network_loss(
    network: LinearNetwork,
    sensitivity: ArrayLike,
    scale: ArrayLike = 1.0,
    *,
    records: Sequence[NDArray[np.int64] | None] | None = None,
    noise_response: ArrayLike | None = None,
) -> NetworkLoss:
    """Return what each single observer learns about a record of each agent, where nothing but noise hides it.

    It holds for one observer that pools with no other, follows the method, and knows graph, weights, settings and all
    data but the record in question; for Gaussian noise; and for values that do not react to what others released.
    Where gradients are taken at models that others have moved it is a first-order figure, not a bound; the strong
    figure beside it is one.

    Args:
      network: What every message makes of every release; of a method with `tacit.audit.linear_network`.
      sensitivity: How far a record moves a release, in the l2 norm: a number, (rounds,) or (rounds, agents).
      scale: Standard deviation of the noise per coordinate, likewise.
      records: Per agent (rounds, places) the numbers of the records in its batches as `Stream.records` gives them, or
        None where no record comes twice; None: no agent has one that does.
      noise_response: First column of C^-1, from which the noise of a round is made: 1, then what is added of the noise
        of one round before, of two, and so on; None: rounds have independent noise.

    Returns:
      The loss from each agent to each observer.

    Example:
      Four agents in a row; the further away, the less is seen:

      >>> import numpy as np
      >>> from tacit.privacy import averaging_network, network_loss
      >>> row = np.array([[2, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 2]]) / 3
      >>> loss = network_loss(averaging_network(row, rounds=20), sensitivity=1.0, scale=2.0)
      >>> [round(float(mu), 3) for mu in loss.mu[0, 1:]], float(loss.strong[0])
      ([0.5, ..., ...], 0.5)
    """
    rounds, agents = network.rounds, network.agents
    moved, spread = (_per_release(*given, rounds, agents) for given in (("sensitivity", sensitivity), ("scale", scale)))
    if not (spread > 0).all():
        raise ConfigError("scale: expected standard deviations above 0; a release without noise hides nothing")
    readings = [None] * agents if records is None else list(records)
    if len(readings) != agents:
        raise ConfigError(f"records of {len(readings)} agents: expected those of {agents}")
    response = _response(noise_response, rounds)
    strategy = np.linalg.inv(response)
    patterns = [_patterns(reading, rounds) for reading in readings]
    _refuse_large(network)
    ratio = moved / spread
    gram = strategy.T @ strategy
    strong = np.array([_largest(gram * np.outer(r, r), pattern) for r, pattern in zip(ratio.T, patterns, strict=True)])
    squared = np.full((agents, agents), np.nan)
    for observer in range(agents):
        others = np.arange(agents) != observer
        view = network.view(np.flatnonzero(network.heard[observer]))[:, :, others] * spread[:, others]
        seen = _row_space(np.einsum("rtn,ts->rsn", view, response, optimize=True))
        for k, agent in enumerate(np.flatnonzero(others)):
            shifts = ratio[:, agent, None] * (strategy.T @ seen[:, k])  # (rounds, rank): P a of each round
            squared[agent, observer] = min(_of_shifts(shifts, patterns[agent]), strong[agent])
    return NetworkLoss(np.sqrt(squared), np.sqrt(strong), rounds)


def _of_shifts(shifts: Floats, patterns: Floats | None) -> float:
    """Return the largest squared loss of a record, from what its release of each round moves."""
    if patterns is None:
        return float(np.max(np.sum(shifts**2, axis=1), initial=0.0))
    return _largest(shifts @ shifts.T, patterns)


def _largest(gram: Floats, patterns: Floats | None) -> float:
    """Return the largest squared loss of a record, from the inner products of its shifts in all rounds."""
    if patterns is None:
        return float(np.max(np.diag(gram)))
    return float(np.max(np.sum((patterns @ np.abs(gram)) * patterns, axis=1), initial=0.0))


def _row_space(view: Floats) -> Floats:
    """Return (rounds, agents, rank) an orthonormal basis of what a view, (rows, rounds, agents), can tell apart."""
    rows, rounds, agents = view.shape
    if rows == 0 or agents == 0:
        return np.zeros((rounds, agents, 0))
    basis, triangle = np.linalg.qr(view.reshape(rows, -1).T)
    size = np.abs(np.diag(triangle))
    if len(basis) < rows or size.min() <= _DOUBTFUL * size.max():
        left, size, _ = np.linalg.svd(triangle)
        basis = basis @ left[:, : int(np.sum(size > _DEPENDENT * size[0]))]
    # A direction too many makes a loss larger, never smaller.
    return np.asarray(basis.reshape(rounds, agents, -1))


def _patterns(records: NDArray[np.int64] | None, rounds: int) -> Floats | None:
    """Return (kinds of records, rounds) how often one stands in each round's batch; None: no record comes twice."""
    if records is None:
        return None
    if len(records) != rounds:
        raise ConfigError(f"records of {len(records)} rounds: expected those of {rounds}")
    round_, place = np.nonzero(records >= 0)
    numbers, which = np.unique(records[round_, place], return_inverse=True)
    counts = np.zeros((len(numbers), rounds))
    np.add.at(counts, (which.reshape(-1), round_), 1.0)
    return np.unique(counts, axis=0)


def _response(response: ArrayLike | None, rounds: int) -> Floats:
    """Return C^-1, (rounds, rounds), of its first column."""
    from scipy.linalg import toeplitz

    given = np.ones(1) if response is None else np.asarray(response, np.float64)
    if given.ndim != 1 or not given.size or not np.isfinite(given).all() or given[0] == 0:
        raise ConfigError(f"noise_response {response!r}: expected numbers from round to round, the first of them not 0")
    column = np.zeros(rounds)
    column[: given.size] = given[:rounds]
    return np.asarray(toeplitz(column, np.zeros(rounds)))


def _per_release(name: str, given: ArrayLike, rounds: int, agents: int) -> Floats:
    numbers = np.asarray(given, np.float64)
    try:
        table = np.broadcast_to(numbers[:, None] if numbers.ndim == 1 else numbers, (rounds, agents))
    except ValueError as error:
        raise ConfigError(
            f"{name} of shape {numbers.shape}: expected a number, ({rounds},) for the rounds, or ({rounds}, {agents}) "
            "for rounds and agents"
        ) from error
    if not (np.isfinite(table) & (table >= 0)).all():
        raise ConfigError(f"{name}: expected finite numbers from 0 on")
    return table


def _refuse_large(network: LinearNetwork) -> None:
    most = int(network.heard.sum(axis=1).max(initial=0))
    wanted = 5 * 8 * most * network.rounds**2 * network.agents  # the view, with its noise, and its basis
    limits.refuse_beyond(
        wanted,
        f"the view of an observer that hears {most:,} of {network.agents:,} agents over {network.rounds:,} rounds "
        "(it grows with the square of the rounds: --rounds takes the first so many)",
    )


def _epsilon(mu: Floats, delta: float) -> Floats:
    proportion("delta", delta)
    return np.array([tight(m * m / 2, delta) if np.isfinite(m) else m for m in mu.ravel()]).reshape(mu.shape)
