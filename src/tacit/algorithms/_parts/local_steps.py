"""Local training of a client: several steps on its own data, of which one value is released.

    w_0 = w;  w_e = w_{e-1} - mu / E_k ghat_k(w_{e-1}), e = 1, ..., E_k                      (Rizk (2023), (3.3), (3.6))

ghat_k is the mean gradient over B_k of the client's records, drawn anew in every step without replacement; with
`batch_size=None` it is over the batch as it comes.

Noise goes on what a client has learnt in a round: on the model that it came to ("model", (2.56)), or on the mean of its
gradients ("gradient", (2.58)-(2.60)), which the step size then scales down together with the noise. ("update" is the
same with noise of the update's own size.) With a clip, every record's gradient is clipped in every local step; what is
released is the mean of these means, and the regulariser, which is no data's, joins at the round's first point. One step
moves by 2 C / B_k if a record is replaced; with several, later gradients are taken elsewhere and may change altogether,
by 2 C. A clip of the agent's whole contribution (`Clip.of`) is of that mean alone, of neither records nor steps. That
the server picks at random whom it calls is not counted in a client's favour.

With an optimiser a local step moves by 1 / E_k of its update, made with a memory that begins as the client's own and is
forgotten; the mean of the gradients is released, and the client's model and memory step once by that. So what enters is
the mean of the gradients, of the same sensitivity, and with the optimiser `optax.sgd(mu)` all is as with the step mu.

Two things may hold a client back: a proximal term, p (w - w_0) added to every gradient, which is a part of what is
released (and of what the clip bounds), and a drift, the same in every local step and known to all, which is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.batches import counted, of_own_records, records_held, rows
from tacit.algorithms._parts.per_client import PerClient, numbers, of_client
from tacit.algorithms._parts.perturbation import added, perturbation, whole_gradient
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.algorithms.local_step import LocalStep, Optimiser, before_optimiser, is_optimiser, optimised
from tacit.algorithms.schedules import as_schedule
from tacit.core.contract import Algorithm, Array, Batch, Key, Mechanism, Objective, Params, State, Tree, View
from tacit.privacy import gradient_parts
from tacit.privacy.clipping import clip


class Training(NamedTuple):
    """A client's work of one round around a mechanism."""

    mechanism: Mechanism
    value: Callable[..., Tree]
    """(key, where to start, data, view, memory of the optimiser, drift) -> what is to be released. The drift is what
    each local step goes along besides its gradient."""
    moved: Callable[[Params, Tree, View], Params]
    """(where it started, what was released, view) -> the client's new model. With an optimiser, its update is in the
    place of what was released."""
    whole: Callable[[Params, Tree], Tree]
    """(where it started, a released gradient) -> with the regulariser's part."""
    optimiser: Optimiser | None
    """None: steps go by a rate."""


def sampled_training(
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    local_steps: PerClient,
    batch_size: PerClient | None,
    proximal: float = 0.0,
) -> Training:
    """Return the training of a client that takes E_k steps on B_k of its records each."""
    optimiser, mechanism = step if is_optimiser(step) else None, before_optimiser(step, mechanism)
    schedule = as_schedule(1.0 if is_optimiser(step) else step)  # type: ignore[arg-type]
    steps = numbers("local_steps", local_steps)
    sizes = None if batch_size is None else numbers("batch_size", batch_size)
    data, penalty = gradient_parts(objective, mechanism.clip, several=True)
    place = perturbation(mechanism)
    noise, joined = whole_gradient(mechanism)
    most_steps, most_records = int(steps.max()), 0 if sizes is None else int(sizes.max())

    def drawn(key: Key, batch: Batch, view: View) -> Batch:
        if sizes is None:
            return batch
        return rows(batch, uniform_cohort(key, records_held(batch, view), most_records, of_client(sizes, view)))

    def rest(at: Params) -> Tree | None:
        return None if penalty is None else penalty(at)

    def moved_within(at: Params, gradient: Tree, share: Array, memory: Tree) -> tuple[Params, Tree]:
        """Take one local step by that share of a whole one."""
        if optimiser is None:
            return jax.tree.map(lambda w, g: w - share.astype(w.dtype) * g, at, gradient), memory
        from tacit.algorithms.optimisers import updated

        update, memory = updated(optimiser, gradient, memory, at)
        return jax.tree.map(lambda w, u: w + share.astype(w.dtype) * u, at, update), memory

    def mean_gradient(key: Key, start: Params, batch: Batch, view: View, memory: Tree, drift: Tree | None) -> Tree:
        """The mean over the local steps of the gradients that they took: (2.58)."""
        own = of_client(steps, view)
        rate = schedule(view.round) / own
        records = counted(batch, view) if sizes is None else of_client(sizes, view)

        def local(e: Array, walk: tuple[Params, Tree, Tree]) -> tuple[Params, Tree, Tree]:
            at, total, memory = walk
            key_here = jax.random.fold_in(key, e)
            # What draws in the loss has a key that no draw of records has.
            drawing = None if objective.training is None else jax.random.fold_in(key_here, 1)
            gradient = _pulled(data(at, drawn(key_here, batch, view), records, drawing), proximal, at, start)
            on = e < own
            moved, memory = moved_within(at, added(added(gradient, rest(at)), drift), rate, memory)
            moved = jax.tree.map(lambda new, old: jnp.where(on, new, old), moved, at)
            return moved, jax.tree.map(lambda t, g: jnp.where(on, t + g, t), total, gradient), memory

        nothing = jax.tree.map(jnp.zeros_like, start)
        _, total, _ = jax.lax.fori_loop(0, most_steps, local, (start, nothing, memory))
        return jax.tree.map(lambda t: t / own.astype(t.dtype), total)

    def stepped(start: Params, whole: Tree, view: View) -> Params:
        rate = schedule(view.round)
        return jax.tree.map(lambda w, g: w - rate.astype(w.dtype) * g, start, whole)

    def value(key: Key, start: Params, batch: Batch, view: View, memory: Tree = (), drift: Tree | None = None) -> Tree:
        gradient = mean_gradient(key, start, batch, view, memory, drift)
        if mechanism.clip is not None and (most_steps > 1 or mechanism.clip.of == "agent"):
            gradient = clip(gradient, mechanism.clip)  # a mean of clipped means is within, but for rounding

        def update(gradient: Tree) -> Tree:
            return jax.tree.map(lambda g: schedule(view.round).astype(g.dtype) * g, gradient)

        return place.value(gradient, update, lambda: stepped(start, added(gradient, rest(start)), view))

    def whole(start: Params, released: Tree) -> Tree:
        return joined(released, rest(start))

    def moved(start: Params, released: Tree, view: View) -> Params:
        if optimiser is not None:
            return jax.tree.map(jnp.add, start, released)

        def by_gradient(gradient: Tree) -> Params:
            return stepped(start, whole(start, gradient), view)

        def by_update(update: Tree) -> Params:
            return jax.tree.map(jnp.subtract, start if penalty is None else stepped(start, rest(start), view), update)

        return place.model(released, by_gradient, by_update)

    averaged = of_own_records(noise, apart=True)
    if most_steps > 1:
        averaged = noise.for_whole_batch()
    elif sizes is not None:
        averaged = noise.over(lambda view, extent: of_client(sizes, view))
    scaled = place.scaled(averaged, lambda view: schedule(view.round))
    return Training(scaled, value, moved, whole, optimiser)


def _pulled(gradient: Tree, proximal: float, at: Params, start: Params) -> Tree:
    """Return a gradient with that of proximal / 2 times the squared distance to where a client started."""
    if not proximal:
        return gradient
    return jax.tree.map(lambda g, w, w0: g + proximal * (w - w0), gradient, at, start)


def locally_optimised(algorithm: Algorithm, training: Training, phase: int = 1) -> Algorithm:
    """Return a method whose clients, of which the state is a model, train by an optimiser; without one, as it is."""
    if training.optimiser is None:
        return algorithm

    def train(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, training.value(key, state.state, batch, view, state.carried)

    made = optimised(algorithm, training, lambda state: state, phase)
    phases = list(made.phases)
    phases[phase] = phases[phase]._replace(compute=train)
    return made._replace(phases=tuple(phases))
