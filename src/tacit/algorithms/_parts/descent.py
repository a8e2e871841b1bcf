"""One step of gradient descent whose outcome may be released: what the methods have in common.

    value(at, start, batch)     what the mechanism noises: the gradient at `at`, the update, or the model after it
    moved(at, start, released)  the model after the step from `start`

Neither touches the state: the next state is made of what was released, so that a record enters a run through the one
release of its round and nothing else. That is what parallel composition over records stands on. A released gradient or
update holds the data's part alone; the regulariser, which depends on the model only, is added afterwards, so that the
sensitivity does not depend on the model's size, not even by rounding. What a mechanism makes of a noisy gradient
(`Mechanism.finish`) it makes of the whole one, as 000 Alg. 3 has it: the regulariser joins between noise and finish.
Both are functions of what was released and of the model, so that neither sensitivity nor account know of them.

The gradient is the mean over the agent's own records, D_k of them where a batch is a whole data set: an agent with
fewer records than others moves further if one is replaced, and gets more noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.batches import counted, of_own_records
from tacit.core.contract import Array, Batch, Mechanism, Noise, Objective, Params, Tree, View
from tacit.core.errors import ConfigError
from tacit.objectives import Euclidean, MirrorMap
from tacit.privacy import gradient_parts


class Step(NamedTuple):
    """A gradient step around a mechanism."""

    mechanism: Mechanism
    """With the sensitivity of what is released: the step size times that of the gradient, where a step is released."""
    value: Callable[[Params, Params, Batch, View], Tree]
    """(where the gradient is taken, where the step starts, batch, view) -> what is to be released."""
    moved: Callable[[Params, Params, Tree, View], Params]
    """(where the gradient is taken, where the step starts, what was released, view) -> where it leads."""
    whole: Callable[[Params, Tree], Tree]
    """(where the gradient is taken, a released gradient) -> with the regulariser's part, as the mechanism leaves it."""


class Unfinished(NamedTuple):
    """A gradient with its noise, to which something is added before the mechanism's `finish`."""

    noisy: Tree
    scale: Array
    sensitivity: Array
    bound: Array | None


def finished_whole(mechanism: Mechanism) -> tuple[Mechanism, Callable[[Tree, Tree | None], Tree]]:
    """Return the mechanism for a gradient's part of data, and what makes the whole of its release and of the rest."""
    finish, distribution = mechanism.finish, mechanism.distribution
    if finish is None or distribution is None:
        return mechanism, added

    def leave(noisy: Tree, noise: Noise) -> Unfinished:
        return Unfinished(noisy, noise.scale, noise.sensitivity, noise.bound)

    def whole(released: Unfinished, rest: Tree | None) -> Tree:
        noise = Noise(distribution, released.scale, released.sensitivity, released.bound)
        return finish(added(released.noisy, rest), noise)

    return mechanism._replace(finish=leave), whole


def added(part: Tree, rest: Tree | None) -> Tree:
    """Return the sum of two parts of a gradient, of which the second may be absent."""
    return part if rest is None else jax.tree.map(jnp.add, part, rest)


def gradient_step(
    objective: Objective,
    rate: Callable[[View], Array],
    mechanism: Mechanism,
    mirror: MirrorMap | None = None,
) -> Step:
    """Return the mirror step by rate * gradient, with noise on the gradient, the update or the model.

    Without a mirror map it is start - rate * gradient. The rate may depend on all that an agent sees: its round, and
    how many neighbours it has.
    """
    geometry = Euclidean() if mirror is None else mirror
    _check_model_noise(mechanism, geometry)
    data, penalty = gradient_parts(objective, mechanism.clip)
    noise, joined = finished_whole(mechanism)

    def rest(at: Params) -> Tree | None:
        return None if penalty is None else penalty(at)

    def scaled(gradient: Tree, view: View) -> Tree:
        gamma = rate(view)
        return jax.tree.map(lambda g: gamma.astype(g.dtype) * g, gradient)

    def minus(start: Params, step: Tree) -> Params:
        return geometry.step(start, step)

    def value(at: Params, start: Params, batch: Batch, view: View) -> Tree:
        gradient = data(at, batch, counted(batch, view))
        if mechanism.perturbs == "gradient":
            return gradient
        if mechanism.perturbs == "update":
            return scaled(gradient, view)
        return minus(start, scaled(added(gradient, rest(at)), view))

    def moved(at: Params, start: Params, released: Tree, view: View) -> Params:
        if mechanism.perturbs == "model":
            return released
        if mechanism.perturbs == "gradient":
            return minus(start, scaled(whole(at, released), view))
        step = released if penalty is None else jax.tree.map(jnp.add, released, scaled(penalty(at), view))
        return minus(start, step)

    def whole(at: Params, released: Tree) -> Tree:
        return joined(released, rest(at))

    if mechanism.perturbs == "gradient":
        return Step(of_own_records(noise, apart=True), value, moved, whole)
    return Step(of_own_records(mechanism, apart=True).amplified(rate), value, moved, whole)


def _check_model_noise(mechanism: Mechanism, geometry: MirrorMap) -> None:
    """Refuse noise on a model after a step that does not bound what a record can change there.

    A projection on a convex set brings points nearer to each other in the l2 norm but not in the l1 norm (erratum of
    002 Lemma 1), so that only an l2 clip bounds the change. Other geometries bound it in no norm.
    """
    clip = mechanism.clip
    if mechanism.distribution is None or mechanism.perturbs != "model":
        return
    remedy = "say perturbs='update' or 'gradient' (then the step comes after the noise)"
    if not isinstance(geometry, Euclidean):
        raise ConfigError(
            f"mechanism {mechanism.name!r} noises the model after a step in {geometry}, where nothing bounds what a "
            f"record changes; {remedy}"
        )
    if geometry.within is not None and clip is not None and clip.norm != "l2":
        raise ConfigError(
            f"mechanism {mechanism.name!r} clips in the {clip.norm} norm and noises the projected model, whose change "
            f"only the l2 norm bounds; clip in l2, or {remedy}"
        )
