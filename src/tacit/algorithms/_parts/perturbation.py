"""The value that a mechanism puts noise on: a step's gradient, its update, or the model after it.

Every local step (`descent`, `local_steps`, `proximal`) chooses here. A released gradient or update holds the data's
part alone; the regulariser, which depends on the model only, is added afterwards, so that the sensitivity does not
depend on the model's size, not even by rounding. What a mechanism makes of a noisy gradient (`Mechanism.finish`) it
makes of the whole one, as the dissertation's ch. 2 Alg. 3 has it: the regulariser joins between noise and finish. Both
are functions of what was released and of the model, so that neither sensitivity nor account know of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Mechanism, Noise, Params, Tree, View


class Perturbation(NamedTuple):
    """Place of the noise in a local step."""

    on: Literal["gradient", "update", "model"]

    def value(self, gradient: Tree, update: Callable[[Tree], Tree], model: Callable[[], Params]) -> Tree:
        """Return the value to release: the gradient, the update that it makes, or the model after the step."""
        if self.on == "gradient":
            return gradient
        return update(gradient) if self.on == "update" else model()

    def model(
        self, released: Tree, of_gradient: Callable[[Tree], Params], of_update: Callable[[Tree], Params]
    ) -> Params:
        """Return the model after the step by a released value: of a gradient, of an update, or the value itself."""
        if self.on == "model":
            return released
        return of_gradient(released) if self.on == "gradient" else of_update(released)

    def scaled(self, mechanism: Mechanism, rate: Callable[[View], Array]) -> Mechanism:
        """Return the mechanism of a gradient for the value: updates and models move by `rate` times as much."""
        return mechanism if self.on == "gradient" else mechanism.amplified(rate)


def perturbation(mechanism: Mechanism) -> Perturbation:
    """Return where a mechanism puts its noise."""
    return Perturbation(mechanism.perturbs)


class Unfinished(NamedTuple):
    """A gradient with its noise, to which something is added before the mechanism's `finish`."""

    noisy: Tree
    scale: Array
    sensitivity: Array
    bound: Array | None


def whole_gradient(mechanism: Mechanism) -> tuple[Mechanism, Callable[[Tree, Tree | None], Tree]]:
    """Return the mechanism for the data's part of a gradient, and what makes the whole of its release and of the rest.

    Of a mechanism for updates or models: as it is, and their sum.
    """
    finish, distribution = mechanism.finish, mechanism.distribution
    if finish is None or distribution is None or mechanism.perturbs != "gradient":
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
