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

from tacit.core.contract import Algorithm, Array, Params, Tree
from tacit.core.lifted import own_part
from tacit.graphs import Topology
from tacit.results.live.parts import Drawing, LinksSeen
from tacit.runtime import link_ends
from tacit.simulator.checkpoint import Log
from tacit.simulator.loop_state import LoopState, Network, joined
from tacit.simulator.readings import Charged
from tacit.simulator.shards.programs import Programs
from tacit.simulator.watching.compared import Compared
from tacit.simulator.watching.links import LinkStates, numbered

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
    first, total = numbered(topology.roles, learner)
    names = ["" if role == learner else f"{role} {k}" for role in first for k in range(topology.roles[role])]
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
        loop: LoopState,
    ) -> None:
        """Take what stays the same.

        Args:
          drawing: The network of the first repeat.
          programs: Of the simulation.
          network: Its arrays.
          honest: Learners that do not lie; of the others there are no figures.
          charged: What privacy is charged for.
          loop: The first state.
        """
        self._links = None if programs.split is not None else LinkStates(drawing, programs.engine, network, loop)
        if self._links is not None:
            drawing = drawing._replace(states=self._links.possible)
        self._drawing, self._programs, self._network = drawing, programs, network
        self._honest, self._charged = honest, charged
        self._at: tuple[LoopState, Tree, int, Log] | None = None
        alone = programs.split is None and jax.process_count() == 1 and programs.evaluate == "everyone"
        objective = programs.engine.algorithm.objective
        self._compared = Compared(objective, charged.streams[0], honest, programs.data.dtype) if alone else None
        self._counted, self._attended = 0, np.zeros(honest.size, np.int64)
        """Rounds of which it is known who was there, and in how many of them each was."""

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
        loop, data, index, log = self._at
        if self._programs.split is not None:
            models = self._programs.models(self._network, loop)
            found = {"disagreement": _apart(jax.tree.map(lambda leaf: leaf[0], models))}
            return {name: self._among_all(np.asarray(values, np.float64)) for name, values in found.items()}
        seen = {**self._program(self._network, loop, data, np.int32(index)), **self._comings(int(loop.round), log)}
        return {name: np.where(self._honest, np.asarray(v, np.float64), np.nan) for name, v in seen.items()}

    def links(self) -> LinksSeen:
        """Return what became of the drawing's links in the last round."""
        if self._at is None or self._links is None:
            return LinksSeen({})
        return self._links.after(self._at[0])

    def regret(self, seconds: float, speed: float) -> tuple[float, float, float] | None:
        """Return regret so far of the first repeat against stated models, and its band; None: it cannot be told now."""
        if self._at is None or self._compared is None or not speed:
            return None
        loop, _, _, log = self._at

        def models() -> Params:
            found = self._programs.models(self._network, loop)
            return jax.tree.map(lambda leaf: np.asarray(leaf)[0][self._honest], found)

        return self._compared.after(log.rounds, lambda: float(log.figures()[:, 0, 0].mean()), models, seconds, speed)

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
        return found

    def _comings(self, done: int, log: Log) -> dict[str, Any]:
        """Return who was there in the last round, and in how many rounds each has released, where not all always do."""
        engine, found = self._programs.engine, dict[str, Any]()
        learner = engine.algorithm.learner
        presence = self._presence(self._network, np.int32(done))
        if presence is not None:
            first, self._counted = self._counted, done
            self._attended += np.asarray(self._attendance(self._network, np.int32(first), np.int32(done)))
            if learner in self._network.availability or self._attended.min() < done:
                found = {"presence": presence, "releases": self._attended}
        noted = self._charged.rounds_released(log)
        if noted is not None:
            found["releases"] = noted
        elif any(phase.source == learner and phase.answers is not None for phase in engine.algorithm.phases):
            found["releases"] = np.full(self._honest.size, np.nan)
        return found

    @functools.cached_property
    def _presence(self) -> Callable[[Network, Any], Array | None]:
        return jax.jit(self._there)

    @functools.cached_property
    def _attendance(self) -> Callable[[Network, Any, Any], Array]:
        def counted(network: Network, first: Array, last: Array) -> Array:
            def more(t: Array, count: Array) -> Array:
                there = self._there(network, t)
                assert there is not None
                return count + there

            none = jnp.zeros(self._honest.size, jnp.int32)
            found: Array = jax.lax.fori_loop(first + 1, last + 1, more, none)
            return found

        return jax.jit(counted)

    def _there(self, network: Network, t: Array) -> Array | None:
        """Return who of the first repeat's learners is there in round t; None: all, always."""
        setup = self._programs.engine.setup
        learner, count = setup.algorithm.learner, self._honest.size
        there = setup.there(network, learner, t)
        for name, ends in setup.ends.items():
            if there is None and learner in ends and network.links[name].graph is not None:
                now = setup.links_now(network, name, t)
                there = now.present if ends[1] == learner else now.senders_present
        return None if there is None else there[:count]


def _apart(models: Tree, counted: Any = None) -> Array:
    """Return each model's squared distance from the mean of those that count."""
    leaves = [jnp.asarray(leaf).reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(models)]
    weight = jnp.ones(leaves[0].shape[0]) if counted is None else jnp.asarray(counted, leaves[0].dtype)
    means = [weight @ leaf / weight.sum() for leaf in leaves]
    parts = [jnp.sum(jnp.square(leaf - mean), axis=1) for leaf, mean in zip(leaves, means, strict=True)]
    return sum(parts, start=jnp.zeros(()))
