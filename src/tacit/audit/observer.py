"""Audit of network privacy: an attack with the view of one observer.

The observer knows the method, the graph and both data sets; it sees the messages that reach it and its own. Its best
test is linear in them (Neyman and Pearson): with A z what noise makes of these messages and a what the record's release
would be in units of noise, the score is a' A^+ (messages), whose mean moves by ||P a||^2 between the data sets and
whose deviation is ||P a||. The messages are those of ordinary runs, noise and clip included; only the weights of the
score come from the map that the claim is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.audit.bounds import Finding, Trials, strongest, tried
from tacit.audit.linear_network import DTYPE, LinearMethod, Make, Probe, linear_network
from tacit.audit.problem import BEYOND_CLIP, bound_of, linear
from tacit.audit.report import CONCLUSIVE, Verdict
from tacit.core.errors import ConfigError
from tacit.graphs import Graph
from tacit.privacy.conversions import tight
from tacit.streams import Batch, from_function

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class ObserverAudit:
    """Outcome of an attack by one observer; made by `audit_observer`."""

    agent: int
    """Whose record is attacked."""
    observer: int
    """Whose view the attack has."""
    round: int
    """The round whose record differs: the one of which the observer learns most."""
    claim: float
    """Epsilon that is claimed towards this observer."""
    finding: Finding
    """The test with its finding."""
    confidence: float
    """With which the lower bound holds."""

    def __repr__(self) -> str:
        found = f"epsilon >= {self.lower_bound:.3g} of {self.claim:.4g} claimed"
        return f"ObserverAudit({self.agent} -> {self.observer}: {self.verdict}, {found})"

    @property
    def lower_bound(self) -> float:
        """Epsilon towards this observer is at least this, with the stated confidence."""
        return self.finding.epsilon

    @property
    def power(self) -> float:
        """The share of the claim that the attack reaches."""
        return self.lower_bound / self.claim if self.claim else 0.0

    @property
    def verdict(self) -> Verdict:
        """Standing of the claim."""
        if self.lower_bound > self.claim:
            return "broken"
        return "holds" if self.power >= CONCLUSIVE else "not conclusive"


def audit_observer(
    make: Make,
    graph: Graph,
    agent: int,
    observer: int,
    *,
    rounds: int = 4,
    trials: int = 20_000,
    claim: float | None = None,
    delta: float = 1e-5,
    confidence: float = 0.999,
    seed: int = 0,
) -> ObserverAudit:
    """Attack one agent's record with the view of one observer, over many runs of a method.

    Gradients are those of a linear loss, so that they do not react to models: the claim is made for that.

    Args:
      make: From an objective to the method with its settings.
      graph: Links of the agents.
      agent: Whose record is attacked.
      observer: Another agent, whose view the attack has.
      rounds: Rounds of each run, from 1 on.
      trials: Runs that are attacked, about half of them on either data set.
      claim: mu that is claimed towards the observer; None: that of `linear_network(...).loss()`.
      delta: At which epsilon is stated.
      confidence: Probability with which the lower bound holds.
      seed: Of the runs.

    Returns:
      The claim, and the lower bound that the attack shows.

    Example:
      Some seconds::

        noise = tacit.privacy.gaussian(noise_multiplier=0.5, clip=1.0)
        audit_observer(lambda o: tacit.algorithms.online_push_sum(o, mechanism=noise), tacit.graphs.ring(5), 0, 2)
    """
    if agent == observer or not {agent, observer} <= set(range(graph.agents)):
        raise ConfigError(f"agent {agent} and observer {observer}: expected two agents from 0 to {graph.agents - 1}")
    algorithm = make(linear())
    bound = max(bound_of(phase.mechanism) for phase in algorithm.phases if phase.mechanism.distribution is not None)
    zeros = np.zeros((graph.agents, 1))

    def chunk(start: int, stop: int) -> Batch:
        x = np.full((stop - start, graph.agents, 1, 1), BEYOND_CLIP * bound)
        return Batch(x, np.repeat(zeros[None], stop - start, axis=0))

    stream = from_function(chunk, agents=graph.agents)
    method = linear_network(make, linear(), graph, stream, rounds)
    mu = float(method.loss().mu[agent, observer]) if claim is None else claim
    weights, worst = _best_test(method, agent, observer)
    other = np.random.default_rng(seed).random(trials) < 0.5
    spec = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(DTYPE)), stream.batch_spec())
    with jax.enable_x64(True):
        probe = Probe(algorithm, runtime.prepared_topology(algorithm, graph), spec, trials, seed)
        y = np.where(other, -1.0, 1.0)[:, None] * (np.arange(graph.agents) == agent)
        messages = _messages(probe, BEYOND_CLIP * bound, y, worst, rounds)
    scores = np.einsum("rtm,rm->t", messages[:, :, _seen(method, observer)], weights)
    chosen_on = np.arange(trials) % 2 == 0
    lot = Trials({"view": scores}, {"all": np.ones(trials, bool)}, other, chosen_on, ~chosen_on)
    test, _ = strongest(lot, delta=delta, alpha=1 - confidence, curves=("gaussian",))
    finding = tried(test, lot, delta=delta, alpha=1 - confidence)
    return ObserverAudit(agent, observer, worst + 1, tight(mu**2 / 2, delta), finding, confidence)


def _seen(method: LinearMethod, observer: int) -> NDArray[np.int64]:
    """Return the messages of a round that an observer hears or sends."""
    heard = method.network.heard[observer].copy()
    heard.reshape(method.network.agents, -1)[observer] = True
    return np.flatnonzero(heard)


def _best_test(method: LinearMethod, agent: int, observer: int) -> tuple[Floats, int]:
    """Return (rounds, messages) the weights of the best test, and the round (from 0) whose record it tells best."""
    network, seen = method.network, _seen(method, observer)
    view = (network.view(seen) * method.scale).reshape(network.rounds * len(seen), -1)
    shifts = np.zeros((network.rounds, network.rounds, network.agents))
    each = np.arange(network.rounds)
    shifts[each, each, agent] = (method.sensitivity / method.scale)[:, agent]
    weights = np.linalg.lstsq(view.T, shifts.reshape(network.rounds, -1).T, rcond=None)[0]
    worst = int(np.argmax(np.sum((view.T @ weights) ** 2, axis=0)))
    return np.asarray(weights[:, worst], np.float64).reshape(network.rounds, len(seen)), worst


def _messages(probe: Probe, size: float, y: Floats, differs: int, rounds: int) -> Floats:
    """Run the trials side by side: (rounds, trials, messages)."""
    trials, agents = y.shape
    network = probe.network()
    loop, advance = jax.jit(probe.first)(network), jax.jit(probe.round)
    x, found = jnp.full((trials * agents, 1, 1), size), []
    for t in range(rounds):
        batch = Batch(x, jnp.asarray(y.reshape(-1, 1) * (t == differs)))
        loop, messages = advance(network, loop, batch)
        found.append(np.asarray(messages).reshape(trials, -1))
    return np.stack(found)
