"""What a simulation shows of its network and its agents to those who watch it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Algorithm, Array, Tree
from tacit.core.lifted import own_part
from tacit.graphs import Topology
from tacit.results.live.parts import Drawing
from tacit.runtime import link_ends
from tacit.simulator.checkpoint import Log
from tacit.simulator.loop_state import LoopState, Network, joined
from tacit.simulator.readings import Charged
from tacit.simulator.shards.programs import Programs

MASS = "mass"
"""Field of a state: what a method that splits it holds of the whole."""


def drawn(topology: Topology, algorithm: Algorithm, liars: Iterable[int]) -> Drawing:
    """Return a network, the learners first, with the links that a method uses.

    Args:
      topology: Of one repeat.
      algorithm: The method.
      liars: Learners that lie.
    """
    learner, ends = algorithm.learner, link_ends(algorithm)
    first, total, names = {}, 0, []
    for role in [learner, *(role for role in topology.roles if role != learner)]:
        first[role], size = total, topology.roles[role]
        names += [""] * size if role == learner else [f"{role} {k}" for k in range(size)]
        total += size
    for k in liars:
        names[k] = f"{k} (lies)"
    pairs = [
        (first[source] + links.senders.astype(np.int64), first[target] + links.receivers.astype(np.int64))
        for name, links in topology.links.items()
        if name in ends
        for source, target in [ends[name]]
    ]
    senders, receivers = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    apart = senders != receivers
    together = np.unique(senders[apart] * total + receivers[apart]) if len(pairs) > 1 else None
    if together is not None:
        senders, receivers = np.divmod(together, total)
    else:
        senders, receivers = senders[apart], receivers[apart]
    agents, labels = topology.roles[learner], topology.clusters.get(learner)
    clusters = None if labels is None else labels.astype(np.int64)
    return Drawing(agents, tuple(names), clusters, senders, receivers)


class Seen:
    """Sights of one simulation; `at` says where it is."""

    def __init__(
        self,
        drawing: Drawing,
        programs: Programs,
        network: Network,
        honest: NDArray[np.bool_],
        charged: Charged,
    ) -> None:
        """Take what stays the same.

        Args:
          drawing: The network of the first repeat.
          programs: Of the simulation.
          network: Its arrays.
          honest: Learners that do not lie; of the others there are no figures.
          charged: What privacy is charged for.
        """
        self._drawing, self._programs, self._network = drawing, programs, network
        self._honest, self._charged = honest, charged
        self._at: tuple[LoopState, Tree, int, Log] | None = None

    def at(self, loop: LoopState, data: Tree, index: int, log: Log) -> None:
        """Take the state after a round.

        Args:
          loop: The state.
          data: Rounds of data that hold those of this round.
          index: Its place among them.
          log: Figures so far.
        """
        self._at = loop, data, index, log

    def drawing(self) -> Drawing:
        """Return the network."""
        return self._drawing

    def agents(self) -> Mapping[str, NDArray[np.float64]]:
        """Return figures of the first repeat's learners after the last round."""
        if self._at is None or jax.process_count() > 1:  # all processes would have to take part
            return {}
        loop, data, index, _ = self._at
        if self._programs.split is not None:
            models = self._programs.models(self._network, loop)
            found = {"disagreement": _apart(jax.tree.map(lambda leaf: leaf[0], models))}
            return {name: self._among_all(np.asarray(values, np.float64)) for name, values in found.items()}
        seen = self._program(self._network, loop, data, np.int32(index))
        return {name: np.where(self._honest, np.asarray(v, np.float64), np.nan) for name, v in seen.items()}

    def spent(self) -> tuple[float, NDArray[np.float64] | None]:
        """Return epsilon of the dearest record so far, and of each learner's dearest where that is known."""
        if self._at is None:
            return math.nan, None
        log = self._at[3]
        found = self._charged.spent(log).guarantee
        return math.nan if found is None else found.epsilon, self._charged.of_each(log)

    def _among_all(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.full(self._honest.size, np.nan)
        found[self._honest] = values
        return found

    @functools.cached_property
    def _program(self) -> Callable[..., dict[str, Array]]:
        return jax.jit(self._of_agents)

    def _of_agents(self, network: Network, loop: LoopState, data: Tree, index: Array) -> dict[str, Array]:
        engine, rounds = self._programs.engine, self._programs.data
        learner, who = engine.algorithm.learner, network.position[0]
        agent = joined([members.agent for members in network.members[learner]])
        length = jax.tree.leaves(data)[0].shape[0]
        batch = jax.tree.map(lambda leaf: leaf[who], rounds.batch(data, index % length, agent))
        models = jax.tree.map(lambda leaf: leaf[who], joined(engine.models(network, loop)))
        loss = jax.vmap(engine.algorithm.objective.loss)(models, batch)
        weight = getattr(batch, "weight", None)
        if weight is not None:  # without a sample there is no loss
            loss = jnp.where(jnp.any(weight.reshape(weight.shape[0], -1) > 0, axis=1), loss, jnp.nan)
        found = {"loss": loss, "disagreement": _apart(models, self._honest)}
        masses = [getattr(own_part(state), MASS, None) for state in engine.states(learner, loop)]
        if all(isinstance(mass, jax.Array) and mass.ndim == 1 for mass in masses):
            found[MASS] = joined(masses)[who]
        there = engine.setup.there(network, learner, loop.round)
        if there is not None:
            found["presence"] = there[: who.size]
        return found


def _apart(models: Tree, counted: Any = None) -> Array:
    """Return each model's squared distance from the mean of those that count."""
    leaves = [jnp.asarray(leaf).reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(models)]
    weight = jnp.ones(leaves[0].shape[0]) if counted is None else jnp.asarray(counted, leaves[0].dtype)
    means = [weight @ leaf / weight.sum() for leaf in leaves]
    parts = [jnp.sum(jnp.square(leaf - mean), axis=1) for leaf, mean in zip(leaves, means, strict=True)]
    return sum(parts, start=jnp.zeros(()))
