"""What methods step by: a number, a function of the round, or an optimiser.

Of optimisers this file knows no more than a method needs; the rest is in `tacit.algorithms.optimisers`, which is
imported where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from tacit.algorithms.schedules import StepSize, as_rate
from tacit.core.contract import Algorithm, Array, Mechanism, Params, State, Tree, View
from tacit.core.errors import ConfigError


class Optimiser(Protocol):
    """What an `optax.GradientTransformation` is."""

    @property
    def init(self) -> Callable[[Params], Any]:
        """Parameters -> first memory."""

    @property
    def update(self) -> Callable[..., tuple[Any, Any]]:
        """(gradient, memory, parameters) -> what to add to the parameters, and the next memory."""


LocalStep = StepSize | Optimiser
"""A number, a function of the round t = 1, 2, ..., or an optimiser. A method whose `step` has this type takes all."""


def is_optimiser(step: Any) -> TypeGuard[Optimiser]:
    """Return whether a step is an optimiser, without importing what it is made of."""
    return all(callable(getattr(step, name, None)) for name in ("init", "update"))


def rate_of(step: LocalStep) -> Callable[[View], Array] | Optimiser:
    """Return a step as a function of what an agent sees, and an optimiser as it is."""
    return step if is_optimiser(step) else as_rate(step)  # type: ignore[arg-type]


def before_optimiser(step: LocalStep, mechanism: Mechanism) -> Mechanism:
    """Return the mechanism under which a step is taken: with an optimiser, what is released is the gradient.

    Raises:
      ConfigError: Noise is put on what an optimiser made of the gradient, where nothing bounds what a record changes.
    """
    if not is_optimiser(step) or mechanism.perturbs == "gradient":
        return mechanism
    if mechanism.distribution is None and mechanism.spread == "common":
        return mechanism._replace(perturbs="gradient")
    raise ConfigError(
        f"mechanism {mechanism.name!r} noises the {mechanism.perturbs}, which an optimiser makes of this gradient and "
        "of all before it, so that the clip bounds nothing there; say perturbs='gradient' (the optimiser then works on "
        "what was released, at no further cost), or step by a number"
    )


def refuse_optimiser(step: Any, method: str, reason: str) -> None:
    """Refuse an optimiser as the step of a method that has no use for one.

    Args:
      step: What was given.
      method: Its name.
      reason: Why not, and what to do instead.
    """
    if is_optimiser(step):
        raise ConfigError(f"step of {method} is an optimiser; expected a number, or a function of the round: {reason}")


class Stepping(Protocol):
    """What is known of a step here."""

    @property
    def optimiser(self) -> Optimiser | None:
        """None: it goes by a rate."""

    @property
    def whole(self) -> Callable[[Params, Tree], Tree]:
        """Parameters and a released gradient -> with the regulariser's part."""


def optimised(
    algorithm: Algorithm,
    step: Stepping,
    at: Callable[[State], Params],
    phase: int = 0,
    learns: Callable[[State, View], Array] | None = None,
    trains: Callable[..., tuple[State, Tree]] | None = None,
) -> Algorithm:
    """Return a method whose learners step by an optimiser; without one, the method as it is.

    The emit function of the phase gets the update in the place of what was released, as `Step.moved` expects it.

    Args:
      algorithm: The method, made with that step.
      step: Its step (`tacit.algorithms._parts.descent.gradient_step`); without an optimiser no state has a leaf more.
      at: State of a learner -> parameters at which the gradient was taken.
      phase: Number of the phase that releases the gradient.
      learns: State and view -> whether the learner steps, besides that it is there and has data; None: it does.
      trains: The compute of that phase with the optimiser's memory as a last argument, where it takes local steps by
        it; None: as the phase has it.
    """
    if step.optimiser is None:
        return algorithm
    from tacit.algorithms.optimisers import with_memory

    return with_memory(algorithm, step.optimiser, step.whole, at, phase, learns, trains)
