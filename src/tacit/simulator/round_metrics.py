"""Figures of every round: means over the agents of each repeat, before the round's update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Array, Batch, Clip, Objective, Params
from tacit.core.errors import ConfigError
from tacit.metrics import consensus_distance, message_bits
from tacit.privacy.clipping import clipped_share
from tacit.runtime.convolutions import one_by_one
from tacit.simulator.cohorts import Cohort
from tacit.simulator.layout import RoleLayout
from tacit.simulator.loop_state import Members, joined, slices, where
from tacit.simulator.shards.exchange import total

Noted = Mapping[str, Callable[[Params, Batch], Array]]
"""Name -> a number of one agent's model and batch."""
PRESENT, PRESENT_LOSS = "present", "present_loss"
"""Figures where some may be without a sample: the share of the agents that have one, and their loss over all."""
TAKEN = {"messages", "bits", "consensus", "clipped", "noise_to_signal", PRESENT, PRESENT_LOSS}
"""Names of figures that every run has besides."""


CLIPPED, NOISE_TO_SIGNAL = "clipped", "noise_to_signal"
"""Figures of private runs: the share of the learners' records whose gradient, at the model that predicts, is above the
clip; and the noise that was added over the values released, as norms of all releases of a round."""


def private_clip(algorithm: Algorithm) -> Clip | None:
    """Return the clip of the learners' releases; None where a method promises no privacy."""
    phases = algorithm.phases if algorithm.privacy.private else ()
    return next((p.mechanism.clip for p in phases if p.source == algorithm.learner and p.mechanism.distribution), None)


def all_noted(constraints: Noted, asked: Noted) -> Noted:
    """Return what is noted of a method's constraints and what else was asked for."""
    for name in constraints.keys() & asked.keys():
        raise ConfigError(f"a figure named {name!r} is asked for, but a constraint is called so: give it another name")
    return {**constraints, **asked}


consensus: Callable[[Params], Array] = jax.jit(jax.vmap(consensus_distance))
"""How far the learners' models are apart, in each repeat."""


class RoundMetrics:
    """The loss, the score where the objective has one, one node's loss where it was asked for, and what else was."""

    def __init__(
        self,
        objective: Objective,
        learners: RoleLayout,
        repeats: int,
        node: int | None,
        also: Noted,
        dtype: jnp.dtype,
        clip: Clip | None = None,
        gaps: bool = False,
        honest: np.ndarray | None = None,
        in_turn: bool = False,
    ) -> None:
        self.objective, self.learners, self.repeats, self.node, self.dtype = objective, learners, repeats, node, dtype
        self.also = also
        score = [] if objective.score is None else [objective.score_name]
        self.gaps, self.honest = gaps, None if honest is None else honest[learners.order % learners.agents]
        own = ["loss", *score, *([] if node is None else ["node_loss"]), *([PRESENT, PRESENT_LOSS] if gaps else [])]
        double = sorted(set(also) & (TAKEN | set(own)))
        if double:
            raise ConfigError(f"a figure named {double[0]!r} is asked for, but every run has one: give it another name")
        self.clipped = None if clip is None else clipped_share(objective, clip)
        self.in_turn = in_turn
        """Whether the runs' learners work one after the other."""
        self.names = [*own, *also, *([] if clip is None else [CLIPPED, NOISE_TO_SIGNAL])]

    @property
    def _functions(self) -> list[Callable[[Params, Batch], Array]]:
        """Return what is noted of each agent: the loss, the score, what else was asked for, the share that is cut."""
        score = [] if self.objective.score is None else [self.objective.score]
        return [self.objective.loss, *score, *self.also.values(), *([] if self.clipped is None else [self.clipped])]

    def of_agent(self, model: Params, batch: Batch) -> tuple[Array, ...]:
        """Return what is noted of one agent."""
        return tuple(function(model, batch) for function in self._functions)

    def of_round(
        self, models: list[Params], batch: Batch, members: Sequence[Members], seen: tuple[tuple[Array, ...], ...] = ()
    ) -> Array:
        """Return (figures, repeats) of the learners' models, bucket by bucket, and everybody's batch.

        `seen` is what is noted of each agent, bucket by bucket, where it is known.
        """
        who: Members = joined(list(members))
        # Bucket by bucket, so that XLA shares the work with the gradients of the round.
        parts = list(zip(models, [slices(batch, bucket) for bucket in self.learners.buckets], strict=True))
        if self.in_turn:
            seen = seen or tuple(one_by_one(self.of_agent)(*part) for part in parts)
            noted = iter(joined(list(seen)))
        else:
            noted = (joined([jax.vmap(function)(*part) for part in parts]) for function in self._functions)
        losses = next(noted)
        figures = [self._per_repeat(losses, who)]
        if self.objective.score is not None:
            figures.append(self._mean_score(next(noted).astype(self.dtype), getattr(batch, "weight", None), who))
        if self.node is not None:
            each = (one_by_one if self.in_turn else jax.vmap)(self.objective.loss)
            of_node = each(self._models_of_node(joined(models), self.node, who), batch)
            figures.append(self._per_repeat(of_node, who))
        if self.gaps:
            present = _present(batch.weight)
            figures.append(self._per_repeat(present.astype(self.dtype), who))
            figures.append(self._per_repeat(jnp.where(present, losses, 0), who))
        figures += [self._per_repeat(next(noted).astype(self.dtype), who) for _ in self.also]
        if self.clipped is not None:
            figures.append(self._mean_score(next(noted).astype(self.dtype), getattr(batch, "weight", None), who))
        return jnp.stack(figures)

    def with_noise(self, figures: Array, sizes: Array) -> Array:
        """Add the noise to signal of a private run, given `Tally.sizes`, to the figures of a round."""
        if self.clipped is None:
            return figures
        return jnp.concatenate([figures, jnp.sqrt(sizes[1:] / sizes[:1]).astype(figures.dtype)])

    def of_cohort(self, models: Params, batch: Batch, cohort: Cohort) -> Array:
        """Return (figures, repeats) of the learners that were called, given their models and batches."""
        count = jnp.maximum(cohort.called_in(self.repeats), 1)

        def mean(values: Array) -> Array:
            counted = jnp.where(cohort.called, values.astype(self.dtype), 0)
            return jnp.zeros(self.repeats, self.dtype).at[cohort.repeat].add(counted) / count

        if self.in_turn:
            return jnp.stack([mean(values) for values in one_by_one(self.of_agent)(models, batch)])
        return jnp.stack([mean(jax.vmap(function)(models, batch)) for function in self._functions])

    def _mean_score(self, scores: Array, weight: Array | None, who: Members) -> Array:
        """Mean of the score in each repeat: an agent without a sample in this round is neither right nor wrong."""
        if weight is None:
            return self._per_repeat(scores, who)
        present = _present(weight)
        there = self._per_repeat(present.astype(self.dtype), who)
        return self._per_repeat(jnp.where(present, scores, 0), who) / there

    def _per_repeat(self, values: Array, who: Members) -> Array:
        """Mean over the agents of each repeat of an array in internal order; of the honest ones, where some lie."""
        if self.honest is not None:
            values = jnp.where(self.honest, values, 0) * (self.honest.size / self.honest.sum()).astype(values.dtype)
        if self.learners.shards == 1 and self.repeats == 1:
            return jnp.mean(values)[None]
        if self.learners.shards == 1 and len(self.learners.buckets) == 1:
            return jnp.mean(values.reshape(self.repeats, -1), axis=1)
        return self._sums(who.counted(values), who) / self.learners.agents

    def _sums(self, values: Array, who: Members) -> Array:
        """Return sums over the agents of each repeat."""
        alone = self.repeats == 1
        summed = jnp.sum(values, axis=0)[None] if alone else jax.ops.segment_sum(values, who.repeat, self.repeats)
        found: Array = total(summed, self.learners.shards)
        return found

    def consensus(self, models: Params, members: Sequence[Members]) -> Array:
        """Return (repeats,) the learners' distance from consensus, as `consensus_distance` has it."""
        who: Members = joined(list(members))

        def spread(leaf: Array) -> Array:
            mean = self._sums(who.counted(leaf), who) / self.learners.agents
            apart = jnp.square(leaf - mean[who.repeat]).reshape(leaf.shape[0], -1)
            return self._sums(who.counted(jnp.sum(apart, axis=1)), who) / self.learners.agents

        return sum((spread(leaf) for leaf in jax.tree.leaves(models)), start=jnp.zeros(()))

    def _models_of_node(self, models: Params, node: int, who: Members) -> Params:
        """Give every agent the model of the one node of its repeat."""
        if self.learners.shards > 1:
            chosen = who.counted(who.agent == node)
            return jax.tree.map(lambda m: self._sums(where(chosen, m, jnp.zeros_like(m)), who)[who.repeat], models)
        ids = node + self.learners.agents * np.arange(self.repeats)
        return jax.tree.map(lambda m: m[self.learners.position[ids]][who.repeat], models)


def _present(weight: Array) -> Array:
    """Return (agents,) who has a sample, given everybody's weights."""
    return jnp.any(weight.reshape(weight.shape[0], -1) > 0, axis=1)


def sent_bits(spec: runtime.MessageSpec) -> int:
    """Payload of a phase's message in bits, as it is written; a boolean takes one."""
    leaves = zip(jax.tree.leaves(spec.message), spec.bytes_of_leaves(), strict=True)
    return sum(message_bits(leaf) if packing is None else 8 * size for leaf, (size, packing) in leaves)
