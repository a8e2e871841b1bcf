"""Figures of every round: means over the agents of each repeat, before the round's update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Algorithm, Array, Batch, Clip, Objective, Params
from tacit.core.errors import ConfigError
from tacit.metrics import consensus_distance
from tacit.privacy.clipping import clipped_share
from tacit.simulator.cohorts import Cohort
from tacit.simulator.layout import RoleLayout
from tacit.simulator.loop_state import joined, slices

Noted = Mapping[str, Callable[[Params, Batch], Array]]
"""Name -> a number of one agent's model and batch."""
PRESENT, PRESENT_LOSS = "present", "present_loss"
"""Figures where some may be without a sample: the share of the agents that have one, and their loss over all."""
TAKEN = {"messages", "bits", "consensus", "clipped", "noise_to_signal", PRESENT, PRESENT_LOSS}
"""Names of figures that every run has besides."""


CLIPPED, NOISE_TO_SIGNAL = "clipped", "noise_to_signal"
"""Figures of private runs: the share of the learners' records whose gradient, at the model that predicts, is above the
clip; and the noise that was added over the values released, as norms of all releases of a round."""

consensus: Callable[[Params], Array] = jax.jit(jax.vmap(consensus_distance))
"""How far the learners' models are apart, in each repeat."""


def private_clip(algorithm: Algorithm) -> Clip | None:
    """Return the clip of the learners' releases; None where a method promises no privacy."""
    phases = algorithm.phases if algorithm.privacy.private else ()
    return next((p.mechanism.clip for p in phases if p.source == algorithm.learner and p.mechanism.distribution), None)


def all_noted(constraints: Noted, asked: Noted) -> Noted:
    """Return what is noted of a method's constraints and what else was asked for."""
    for name in constraints.keys() & asked.keys():
        raise ConfigError(f"a figure named {name!r} is asked for, but a constraint is called so: give it another name")
    return {**constraints, **asked}


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
        self.names = [*own, *also, *([] if clip is None else [CLIPPED, NOISE_TO_SIGNAL])]

    def of_round(self, models: list[Params], batch: Batch, order: Array) -> Array:
        """Return (figures, repeats) of models by bucket, everybody's batch, and the learners' ids in the union."""
        repeat = order // self.learners.agents
        per_repeat = partial(self._per_repeat, repeat)
        # Bucket by bucket, so that XLA shares the work with the gradients of the round.
        parts = list(zip(models, [slices(batch, bucket) for bucket in self.learners.buckets], strict=True))
        losses = joined([jax.vmap(self.objective.loss)(*part) for part in parts])
        figures = [per_repeat(losses)]
        if self.objective.score is not None:
            scores = joined([jax.vmap(self.objective.score)(*part).astype(self.dtype) for part in parts])
            figures.append(self._mean_score(scores, getattr(batch, "weight", None), repeat))
        if self.node is not None:
            of_node = jax.vmap(self.objective.loss)(self._models_of_node(joined(models), self.node, repeat), batch)
            figures.append(per_repeat(of_node))
        if self.gaps:
            present = _present(batch.weight)
            figures.append(per_repeat(present.astype(self.dtype)))
            figures.append(per_repeat(jnp.where(present, losses, 0)))
        for function in self.also.values():
            values = joined([jax.vmap(function)(*part).astype(self.dtype) for part in parts])
            figures.append(per_repeat(values))
        if self.clipped is not None:
            shares = joined([jax.vmap(self.clipped)(*part).astype(self.dtype) for part in parts])
            figures.append(self._mean_score(shares, getattr(batch, "weight", None), repeat))
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

        functions = [self.objective.loss]
        if self.objective.score is not None:
            functions.append(self.objective.score)
        functions += [*self.also.values(), *([] if self.clipped is None else [self.clipped])]
        return jnp.stack([mean(jax.vmap(function)(models, batch)) for function in functions])

    def _mean_score(self, scores: Array, weight: Array | None, repeat: Array) -> Array:
        """Mean of the score in each repeat: an agent without a sample in this round is neither right nor wrong."""
        if weight is None:
            return self._per_repeat(repeat, scores)
        present = _present(weight)
        there = self._per_repeat(repeat, present.astype(self.dtype))
        return self._per_repeat(repeat, jnp.where(present, scores, 0)) / there

    def _per_repeat(self, repeat: Array, values: Array) -> Array:
        """Mean over the agents of each repeat of an array in internal order; of the honest ones, where some lie."""
        if self.honest is not None:
            values = jnp.where(self.honest, values, 0) * (self.honest.size / self.honest.sum()).astype(values.dtype)
        if self.repeats == 1:
            return jnp.mean(values)[None]
        if len(self.learners.buckets) == 1:
            return jnp.mean(values.reshape(self.repeats, -1), axis=1)
        return jax.ops.segment_sum(values, repeat, self.repeats) / self.learners.agents

    def _models_of_node(self, models: Params, node: int, repeat: Array) -> Params:
        """Give every agent the model of the one node of its repeat."""
        ids = node + self.learners.agents * np.arange(self.repeats)
        return jax.tree.map(lambda m: m[self.learners.position[ids]][repeat], models)


def _present(weight: Array) -> Array:
    """Return (agents,) who has a sample, given everybody's weights."""
    return jnp.any(weight.reshape(weight.shape[0], -1) > 0, axis=1)
