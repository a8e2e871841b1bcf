"""Gradient step around a mechanism.

    value(at, start, batch)     what the mechanism noises: the gradient at `at`, the update, or the model after it
    moved(at, start, released)  the model after the step from `start`

Neither touches the state: the next state is made of what was released, so that a record enters a run through the one
release of its round and nothing else. That is what parallel composition over records stands on. Which value is released
is chosen in `perturbation`.

With an optimiser the gradient is what is released, and `moved` takes the update that the optimiser made of it
(`tacit.algorithms.local_step.optimised`).

The gradient is the mean over the agent's own records, D_k of them where a batch is a whole data set: an agent with
fewer records than others moves further if one is replaced, and gets more noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.batches import counted, of_own_records
from tacit.algorithms._parts.perturbation import added, perturbation, whole_gradient
from tacit.algorithms.local_step import LocalStep, Optimiser, before_optimiser, is_optimiser, rate_of
from tacit.core.contract import Array, Batch, Key, Mechanism, Objective, Params, Tree, View
from tacit.core.errors import ConfigError
from tacit.privacy import gradient_parts

if TYPE_CHECKING:
    from tacit.objectives import MirrorMap


class Step(NamedTuple):
    """A gradient step around a mechanism."""

    mechanism: Mechanism
    """With the sensitivity of what is released: the step size times that of the gradient, where a step is released."""
    value: Callable[..., Tree]
    """(where the gradient is taken, where the step starts, batch, view, key, memory of the optimiser) -> what is to be
    released. The key is for objectives that draw in training; without one they are refused. The memory is for local
    steps (`local_steps.local_descent`)."""
    moved: Callable[[Params, Params, Tree, View], Params]
    """(where the gradient is taken, where the step starts, what was released, view) -> where it leads. With an
    optimiser, its update is in the place of what was released."""
    whole: Callable[[Params, Tree], Tree]
    """(where the gradient is taken, a released gradient) -> with the regulariser's part, as the mechanism leaves it."""
    optimiser: Optimiser | None
    """None: the step goes by the rate."""


def descent_of(
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    local_steps: int,
    batch_size: int | None,
    local_epochs: int | None,
) -> Step:
    """Return what an agent does in a round: one step on the batch as it comes or, loaded then, several on parts."""
    if type(local_steps) is int and (local_steps, batch_size, local_epochs) == (1, None, None):
        return gradient_step(objective, rate_of(step), mechanism)
    from tacit.algorithms._parts.local_steps import local_descent, local_work

    return local_descent(objective, step, mechanism, local_work(local_steps, batch_size, local_epochs))


def gradient_step(
    objective: Objective,
    rate: Callable[[View], Array] | Optimiser,
    mechanism: Mechanism,
    mirror: MirrorMap | None = None,
) -> Step:
    """Return the mirror step by rate * gradient, with noise on the gradient, the update or the model.

    Without a mirror map it is start - rate * gradient. The rate may depend on all that an agent sees: its round, and
    how many neighbours it has. An optimiser takes its place (`rate_of`), and the method is then `optimised`.
    """
    if is_optimiser(rate):
        return _by_optimiser(objective, rate, before_optimiser(rate, mechanism), mirror)
    return _by_rate(objective, rate, mechanism, mirror)  # type: ignore[arg-type]


def _by_rate(
    objective: Objective, rate: Callable[[View], Array], mechanism: Mechanism, mirror: MirrorMap | None
) -> Step:
    _check_model_noise(mechanism, mirror)
    step = _straight if mirror is None else mirror.step
    data, penalty = gradient_parts(objective, mechanism.clip)
    place = perturbation(mechanism)
    noise, joined = whole_gradient(mechanism)

    def rest(at: Params) -> Tree | None:
        return None if penalty is None else penalty(at)

    def scaled(gradient: Tree, view: View) -> Tree:
        gamma = rate(view)
        return jax.tree.map(lambda g: gamma.astype(g.dtype) * g, gradient)

    def whole(at: Params, released: Tree) -> Tree:
        return joined(released, rest(at))

    def value(at: Params, start: Params, batch: Batch, view: View, key: Key | None = None, memory: Tree = ()) -> Tree:
        gradient = data(at, batch, counted(batch, view), key)

        def model() -> Params:
            return step(start, scaled(added(gradient, rest(at)), view))

        return place.value(gradient, lambda gradient: scaled(gradient, view), model)

    def moved(at: Params, start: Params, released: Tree, view: View) -> Params:
        def by_gradient(gradient: Tree) -> Params:
            return step(start, scaled(whole(at, gradient), view))

        def by_update(update: Tree) -> Params:
            return step(start, added(update, None if penalty is None else scaled(penalty(at), view)))

        return place.model(released, by_gradient, by_update)

    return Step(place.scaled(of_own_records(noise, apart=True), rate), value, moved, whole, None)


def _by_optimiser(objective: Objective, optimiser: Optimiser, mechanism: Mechanism, mirror: MirrorMap | None) -> Step:
    """The gradient is released, and the step goes by what the optimiser made of it."""
    step = _straight if mirror is None else mirror.step
    gradients = _by_rate(objective, lambda view: jnp.ones(()), mechanism, mirror)

    def moved(at: Params, start: Params, update: Tree, view: View) -> Params:
        return step(start, jax.tree.map(jnp.negative, update))

    return gradients._replace(moved=moved, optimiser=optimiser)


def _straight(start: Params, step: Tree) -> Params:
    """Return where a step leads if nothing bends it."""
    return jax.tree.map(lambda x, s: x - s.astype(x.dtype), start, step)


def _check_model_noise(mechanism: Mechanism, mirror: MirrorMap | None) -> None:
    """Refuse noise on a model after a step that does not bound what a record can change there.

    A projection on a convex set brings points nearer to each other in the l2 norm but not in the l1 norm (erratum of
    Lemma 1 of Li et al.), so that only an l2 clip bounds the change. Other geometries bound it in no norm.
    """
    clip = mechanism.clip
    if mirror is None or mechanism.distribution is None or mechanism.perturbs != "model":
        return
    from tacit.objectives import Euclidean  # most methods have no mirror map

    remedy = "say perturbs='update' or 'gradient' (then the step comes after the noise)"
    if not isinstance(mirror, Euclidean):
        raise ConfigError(
            f"mechanism {mechanism.name!r} noises the model after a step in {mirror}, where nothing bounds what a "
            f"record changes; {remedy}"
        )
    if mirror.within is not None and clip is not None and clip.norm != "l2":
        raise ConfigError(
            f"mechanism {mechanism.name!r} clips in the {clip.norm} norm and noises the projected model, whose change "
            f"only the l2 norm bounds; clip in l2, or {remedy}"
        )
