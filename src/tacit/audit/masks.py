"""Audit of masks: the view of one link, and whether masks cancel where they must (Rizk 2023, sec. 4.3.4).

The run of masked messages is the one without masks, so a wire-tapper that knows both data sets knows each message
under either, and hence the mask that must have been added. Two things are tried:

- the link's view: the messages of the victim to one receiver, round by round. Under one Laplace mask of scale b they
  cost at most sum_t ||difference of the two shares||_1 / b. Masks that come again, or are too small, show.
- the receiver's sum: it must be the sum of the true shares to the bit. A wrong sign shows.

The receiver itself learns that exact sum: towards it nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.algorithms import adapt_then_combine
from tacit.audit import attack
from tacit.audit.bounds import Finding, Trials, strongest, tried
from tacit.audit.problem import linear
from tacit.audit.report import CONCLUSIVE, Verdict
from tacit.core.contract import Algorithm, Mechanism
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Topology, complete
from tacit.privacy import on_grid
from tacit.privacy.noise.fixed_point import fixed_point_step
from tacit.simulator.engine import Engine
from tacit.simulator.layout import LinkLayout, lay_out
from tacit.streams import Batch

_AGENTS, _VICTIM, _RECEIVER = 4, 0, 1
"""The receiver hears agents 0, 2 and 3: 0 and 3 share a mask with 2 each, so that the victim has one partner."""
_PRECISION = "float64"


@dataclass(frozen=True, repr=False)
class MaskAudit:
    """Outcome of an attack on masks; made by `audit_masks`."""

    noise_std: float
    """Of the masks, in the unit of the weighed shares."""
    claim: float
    """Epsilon that the link's view may cost at most, for the two data sets that were tried."""
    finding: Finding
    """The strongest test with its finding."""
    confidence: float
    """With which the lower bound holds."""
    exact: bool
    """Whether the receiver's sum was the sum of the true shares, to the bit, in every round and trial."""
    hidden: bool
    """Whether no message was the victim's share as it is."""
    trials: int
    """How many runs were attacked."""
    rounds: int
    """Of each run."""

    def __repr__(self) -> str:
        sums = "exact" if self.exact else "NOT exact"
        found = f"epsilon >= {self.lower_bound:.2f} of {self.claim:.4g} claimed, sums {sums}"
        return f"MaskAudit(noise_std {self.noise_std:g}: {self.verdict}, {found})"

    @property
    def lower_bound(self) -> float:
        """Epsilon of the link's view is at least this, with the stated confidence."""
        return self.finding.epsilon

    @property
    def holds(self) -> bool:
        """Whether masks hide what they should and cancel where they must."""
        return self.exact and self.hidden and self.lower_bound <= self.claim

    @property
    def power(self) -> float:
        """The share of the claim that the attack reaches."""
        return self.lower_bound / self.claim

    @property
    def verdict(self) -> Verdict:
        """Standing of the claim."""
        return "broken" if not self.holds else "holds" if self.power >= CONCLUSIVE else "not conclusive"

    def words(self) -> str:
        """Return the finding in sentences."""
        sums = "exact to the bit" if self.exact else "NOT exact: masks do not cancel"
        open_ = "" if self.hidden else " Some messages left WITHOUT a mask."
        verdict = f"consistent, power {self.power:.2f}" if self.lower_bound <= self.claim else "BROKEN"
        return (
            f"One link's view over {self.rounds} rounds, under masks of standard deviation {self.noise_std:g} in the "
            f"unit of the weighed shares: epsilon >= {self.lower_bound:.3g} with "
            f"{100 * self.confidence:g} % confidence (test: {self.finding.test.statistic}), claimed at most "
            f"{self.claim:.4g}: {verdict}. The receiver's sums are {sums}.{open_}"
        )


def audit_masks(
    mechanism: Mechanism,
    *,
    trials: int = 4000,
    rounds: int = 4,
    coordinates: int = 1,
    constructor: Callable[..., Algorithm] = adapt_then_combine,
    step: float = 0.1,
    confidence: float = 0.999,
    seed: int = 0,
) -> MaskAudit:
    """Attack the masks of a diffusion method in the simulator; the victim's data differ in the first round.

    Args:
      mechanism: `tacit.privacy.local_graph_homomorphic(...)`.
      trials: Runs that are attacked, half of them on either data set.
      rounds: Rounds of each run, from 1 on.
      coordinates: Parameters of the model, from 1 on.
      constructor: Makes the method from an objective, a step and a mechanism.
      step: Step size of the method.
      confidence: Probability with which the lower bound holds.
      seed: Of the runs.

    Returns:
      The finding: the link's view against its claim, and whether the receiver's sums are exact.

    Example:
      Some seconds::

        audit_masks(tacit.privacy.local_graph_homomorphic(noise_std=0.05))

      >>> from tacit.privacy import laplace
      >>> audit_masks(laplace(epsilon=1.0, clip=1.0))
      Traceback (most recent call last):
      tacit.core.errors.ConfigError: mechanism 'laplace' masks nothing; audit local_graph_homomorphic here

    References: Rizk (2023), sec. 4.3.4.
    """
    if mechanism.spread != "masked" or mechanism.mask_scale == 0:
        raise ConfigError(f"mechanism {mechanism.name!r} masks nothing; audit local_graph_homomorphic here")
    other = np.arange(trials) % 2 == 1
    with jax.enable_x64(True):
        plain, masked = (constructor(linear(), step=step, mechanism=m) for m in (on_grid(mechanism.grid), mechanism))
        shares, true_sums = _messages(plain, rounds, coordinates, other[:2], seed)
        sent, received = _messages(masked, rounds, coordinates, other, seed)
    unit = fixed_point_step(mechanism, sent.dtype)
    draws = np.stack([(sent - shares[world]) * unit / mechanism.mask_scale for world in (0, 1)], axis=1)
    scores = {
        "likelihood": attack.likelihood(draws, ["laplace"] * rounds),
        "repeated noise": attack.repeated_noise(draws.reshape(trials, 2, -1), np.zeros((trials, 0))),
    }
    chosen_on = np.arange(trials) % 4 < 2
    lot = Trials(scores, {"first round": np.ones(trials, bool)}, other, chosen_on, ~chosen_on)
    test, _ = strongest(lot, delta=0.0, alpha=1 - confidence, curves=("epsilon-delta",))
    finding = tried(test, lot, delta=0.0, alpha=1 - confidence)
    claim = float(np.abs((shares[0] - shares[1]) * unit).sum() / mechanism.mask_scale)
    truth = true_sums[other.astype(int)]
    mine = shares[other.astype(int)]
    exact, hidden = bool(np.array_equal(received, truth)), not bool(np.any(np.all(sent == mine, axis=2)))
    std = math.sqrt(2) * mechanism.mask_scale
    return MaskAudit(std, claim, finding, confidence, exact, hidden, trials, rounds)


def _messages(
    algorithm: Algorithm, rounds: int, coordinates: int, other: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run trials side by side: (trials, rounds, width) messages of the victim to the receiver, and the sums there."""
    trials = len(other)
    topology = runtime.prepared_topology(algorithm, complete(_AGENTS))
    layout = lay_out(Topology.union([topology] * trials), runtime.link_ends(algorithm), trials)
    x = np.ones((trials, _AGENTS, coordinates))
    y = np.ones((trials, _AGENTS))
    spec = Batch(jax.ShapeDtypeStruct((coordinates,), _PRECISION), jax.ShapeDtypeStruct((), _PRECISION))  # type: ignore[arg-type]
    params = runtime.first_params(algorithm, spec, jnp.dtype(_PRECISION), None)
    engine = Engine(algorithm, layout, Channel(), jnp.dtype(_PRECISION), params, spec)
    network = engine.network(seed, np.zeros(trials * _AGENTS, np.int32))
    loop, buffers = jax.jit(engine.start)(network, params), engine.send_buffers()
    advance = jax.jit(engine.round)
    rows = {sender: _rows(layout.links["peers"], trials, sender) for sender in range(_AGENTS) if sender != _RECEIVER}
    sent, sums = [], []
    for t in range(rounds):
        y[:, _VICTIM] = np.where(other & (t == 0), -1.0, 1.0)
        batch = Batch(jnp.asarray(x.reshape(-1, coordinates)), jnp.asarray(y.reshape(-1)))
        loop, buffers, _ = advance(network, loop, batch, buffers)
        messages = np.asarray(buffers[0]["int64"])
        sent.append(messages[rows[_VICTIM]])
        sums.append(np.sum([messages[row] for row in rows.values()], axis=0))
    return np.stack(sent, axis=1), np.stack(sums, axis=1)


def _rows(links: LinkLayout, trials: int, sender: int) -> NDArray[np.int64]:
    """Row of the message from a sender to the receiver, per trial."""
    graph = links.graph
    edges = np.flatnonzero((graph.senders % _AGENTS == sender) & (graph.receivers % _AGENTS == _RECEIVER))
    edges = edges[np.argsort(graph.receivers[edges])]
    assert len(edges) == trials
    row = np.zeros(graph.edges, np.int64)
    for table in links.into:
        known = table.live & (table.edge < row.size)
        row[table.edge[known]] = table.slot_row[known]
    return row[edges]
