"""Local training of a client: several steps on its own data, of which one value is released.

    w_0 = w;  w_e = w_{e-1} - mu / E_k ghat_k(w_{e-1}), e = 1, ..., E_k                      (Rizk (2023), (3.3), (3.6))

ghat_k is the mean gradient over B_k of the client's records, drawn anew in every step without replacement; with
`batch_size=None` it is over the batch as it comes. With `local_epochs` the steps go through all that a round brings,
shuffled in every epoch, B_k records at a time: E_k is then the number of epochs times that of the parts, of which the
last may be smaller.

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

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.batches import counted, of_own_records, records_held, rows
from tacit.algorithms._parts.descent import Step, gradient_step
from tacit.algorithms._parts.per_client import PerClient, numbers, of_client
from tacit.algorithms._parts.perturbation import added, perturbation, whole_gradient
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.algorithms.local_step import LocalStep, Optimiser, before_optimiser, is_optimiser, optimised, rate_of
from tacit.algorithms.schedules import as_schedule
from tacit.core.contract import Algorithm, Array, Batch, Key, Mechanism, Objective, Params, State, Tree, View
from tacit.core.errors import ConfigError
from tacit.privacy import gradient_parts, records_in
from tacit.privacy.clipping import clip


class Training(NamedTuple):
    """A client's work of one round around a mechanism."""

    mechanism: Mechanism
    value: Callable[..., Tree]
    """(key, where to start, data, view, memory of the optimiser, drift, where gradients are taken at first) -> what is
    to be released. The drift is what each local step goes along besides its gradient; the last is where it starts, if
    nothing else is said."""
    moved: Callable[..., Params]
    """(where it started, what was released, view, where gradients were taken at first) -> the client's new model. With
    an optimiser, its update is in the place of what was released."""
    whole: Callable[[Params, Tree], Tree]
    """(where it started, a released gradient) -> with the regulariser's part."""
    optimiser: Optimiser | None
    """None: steps go by a rate."""
    settings: Mapping[str, PerClient | None]
    """Of `Steps`."""


class Steps(NamedTuple):
    """Which records the local steps of a round are on."""

    several: bool
    """Whether a client may take more than one."""
    most: Callable[[Batch], int]
    """Of a batch with so many places, the most that a client takes."""
    own: Callable[[Batch, View], Array]
    """How many this client takes."""
    drawn: Callable[[Key, Array, Batch, View], Batch]
    """(key of the round, number of the step, batch, view) -> its records."""
    records: Callable[[Array, Batch, View], Array]
    """(number of the step, batch, view) -> over how many its mean is."""
    of_clients: np.ndarray | None
    """B_k; None: the batch as it comes."""
    settings: Mapping[str, PerClient | None]
    """What it was made of, by name."""


def local_work(
    local_steps: PerClient, batch_size: PerClient | None, local_epochs: PerClient | None = None, usual: int = 1
) -> Steps:
    """Return what clients go through in a round; `usual` is the default of a method's `local_steps`."""
    settings = {"local_steps": local_steps, "batch_size": batch_size, "local_epochs": local_epochs}
    steps = numbers("local_steps", local_steps)
    sizes = None if batch_size is None else numbers("batch_size", batch_size)
    if local_epochs is not None:
        epochs = numbers("local_epochs", local_epochs)
        if sizes is None or not (isinstance(local_steps, int) and local_steps == usual):
            raise ConfigError(
                f"local_epochs = {local_epochs!r} with local_steps = {local_steps!r} and batch_size = {batch_size!r}: "
                "an epoch goes through all records that a round brings, batch_size of them at a time; say batch_size, "
                "and leave local_steps out"
            )
        return _through_all(epochs, sizes, settings)
    most_records = 0 if sizes is None else int(sizes.max())

    def drawn(key: Key, e: Array, batch: Batch, view: View) -> Batch:
        if sizes is None:
            return batch
        here, own = jax.random.fold_in(key, e), of_client(sizes, view)
        return rows(batch, uniform_cohort(here, records_held(batch, view), most_records, own))

    def records(e: Array, batch: Batch, view: View) -> Array:
        return counted(batch, view) if sizes is None else of_client(sizes, view)

    most = int(steps.max())
    own = lambda batch, view: of_client(steps, view)  # noqa: E731
    return Steps(most > 1, lambda batch: most, own, drawn, records, sizes, settings)


def _through_all(epochs: np.ndarray, sizes: np.ndarray, settings: Mapping[str, PerClient | None]) -> Steps:
    """Return epochs through all that a round brings."""

    def parts(batch: Batch, view: View) -> Array:
        return -(-records_held(batch, view) // of_client(sizes, view))

    def drawn(key: Key, e: Array, batch: Batch, view: View) -> Batch:
        size, held, places = of_client(sizes, view), records_held(batch, view), jnp.arange(records_in(batch))
        epoch, part = e // parts(batch, view), e % parts(batch, view)
        shuffling = jax.random.fold_in(jax.random.fold_in(key, epoch), 2)
        order = jnp.argsort(jnp.where(places < held, jax.random.uniform(shuffling, places.shape), 2.0))
        within = jnp.arange(int(sizes.max()))
        place = part * size + within
        return rows(batch, jnp.where((within < size) & (place < held), order.at[place].get(mode="clip"), -1))

    def records(e: Array, batch: Batch, view: View) -> Array:
        size, held = of_client(sizes, view), records_held(batch, view)
        return jnp.minimum(size, held - e % parts(batch, view) * size)

    return Steps(
        True,
        lambda batch: int(epochs.max()) * -(-records_in(batch) // int(sizes.min())),
        lambda batch, view: of_client(epochs, view) * parts(batch, view),
        drawn,
        records,
        sizes,
        settings,
    )


def sampled_training(
    objective: Objective, step: LocalStep, mechanism: Mechanism, work: Steps, proximal: float = 0.0
) -> Training:
    """Return the training of a client that takes several steps in a round."""
    optimiser, mechanism = step if is_optimiser(step) else None, before_optimiser(step, mechanism)
    schedule = as_schedule(1.0 if is_optimiser(step) else step)  # type: ignore[arg-type]
    data, penalty = gradient_parts(objective, mechanism.clip, several=True)
    place = perturbation(mechanism)
    noise, joined = whole_gradient(mechanism)

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
        own = work.own(batch, view)
        rate = schedule(view.round) / own

        def local(e: Array, walk: tuple[Params, Tree, Tree]) -> tuple[Params, Tree, Tree]:
            at, total, memory = walk
            # What draws in the loss has a key that no draw of records has.
            drawing = None if objective.training is None else jax.random.fold_in(jax.random.fold_in(key, e), 1)
            here, records = work.drawn(key, e, batch, view), work.records(e, batch, view)
            gradient = _pulled(data(at, here, records, drawing), proximal, at, start)
            on = e < own
            moved, memory = moved_within(at, added(added(gradient, rest(at)), drift), rate, memory)
            moved = jax.tree.map(lambda new, old: jnp.where(on, new, old), moved, at)
            return moved, jax.tree.map(lambda t, g: jnp.where(on, t + g, t), total, gradient), memory

        nothing = jax.tree.map(jnp.zeros_like, start)
        _, total, _ = jax.lax.fori_loop(0, work.most(batch), local, (start, nothing, memory))
        return jax.tree.map(lambda t: t / own.astype(t.dtype), total)

    def stepped(start: Params, whole: Tree, view: View) -> Params:
        rate = schedule(view.round)
        return jax.tree.map(lambda w, g: w - rate.astype(w.dtype) * g, start, whole)

    def value(
        key: Key,
        start: Params,
        batch: Batch,
        view: View,
        memory: Tree = (),
        drift: Tree | None = None,
        at: Params | None = None,
    ) -> Tree:
        first = start if at is None else at
        gradient = mean_gradient(key, first, batch, view, memory, drift)
        if mechanism.clip is not None and (work.several or mechanism.clip.of == "agent"):
            gradient = clip(gradient, mechanism.clip)  # a mean of clipped means is within, but for rounding

        def update(gradient: Tree) -> Tree:
            return jax.tree.map(lambda g: schedule(view.round).astype(g.dtype) * g, gradient)

        return place.value(gradient, update, lambda: stepped(start, added(gradient, rest(first)), view))

    def whole(start: Params, released: Tree) -> Tree:
        return joined(released, rest(start))

    def moved(start: Params, released: Tree, view: View, at: Params | None = None) -> Params:
        if optimiser is not None:
            return jax.tree.map(jnp.add, start, released)
        first = start if at is None else at

        def by_gradient(gradient: Tree) -> Params:
            return stepped(start, whole(first, gradient), view)

        def by_update(update: Tree) -> Params:
            return jax.tree.map(jnp.subtract, start if penalty is None else stepped(start, rest(first), view), update)

        return place.model(released, by_gradient, by_update)

    averaged = of_own_records(noise, apart=True)
    sizes = work.of_clients
    if work.several:
        averaged = noise.for_whole_batch()
    elif sizes is not None:
        averaged = noise.over(lambda view, extent: of_client(sizes, view))
    scaled = place.scaled(averaged, lambda view: schedule(view.round))
    return Training(scaled, value, moved, whole, optimiser, work.settings)


def _pulled(gradient: Tree, proximal: float, at: Params, start: Params) -> Tree:
    """Return a gradient with that of proximal / 2 times the squared distance to where a client started."""
    if not proximal:
        return gradient
    return jax.tree.map(lambda g, w, w0: g + proximal * (w - w0), gradient, at, start)


def locally_optimised(algorithm: Algorithm, training: Training, phase: int = 1) -> Algorithm:
    """Return a method whose clients, of which the state is a model, train by an optimiser; without one, as it is."""

    def train(key: Key, state: State, batch: Batch, view: View, memory: Tree) -> tuple[State, Tree]:
        return state, training.value(key, state, batch, view, memory)

    return optimised(algorithm, training, lambda state: state, phase, trains=train)


def local_descent(objective: Objective, step: LocalStep, mechanism: Mechanism, work: Steps) -> Step:
    """Return the step of an agent on a graph: one gradient, or the mean of several that it takes in a round."""
    if not work.several and work.of_clients is None:
        return gradient_step(objective, rate_of(step), mechanism)
    training = sampled_training(objective, step, mechanism, work)

    def value(at: Params, start: Params, batch: Batch, view: View, key: Key, memory: Tree = ()) -> Tree:
        return training.value(key, start, batch, view, memory, at=at)

    def moved(at: Params, start: Params, released: Tree, view: View) -> Params:
        return training.moved(start, released, view, at)

    return Step(training.mechanism, value, moved, training.whole, training.optimiser)
