"""Mechanisms: the declaration of clip, sensitivity and noise under which a value leaves an agent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax.numpy as jnp

from tacit.core.errors import ConfigError, ContractError
from tacit.core.messages import Array, Tree, View

if TYPE_CHECKING:
    from tacit.core.correlation import Correlation

Distribution = Literal["laplace", "gaussian", "bounded_laplace"]
"""Law of the noise."""
Spread = Literal["common", "per_edge", "homomorphic", "masked"]
"""How the noise of a release lies on an agent's links.

- common: one draw, one noisy value for everybody, the agent itself included.
- per_edge: an independent draw for every link, and one for the agent's own copy.
- homomorphic: one draw for all neighbours; what the agent keeps carries it with `own_share`, so that nothing of it is
  left in the (weighed) sum over the network.
- masked: the sender multiplies by W[receiver, sender] and rounds to a fixed-point grid, so that what a receiver adds
  up is a sum of integers, exact in whatever order it is taken. Masks that pairs of the receiver's senders have agreed
  on cancel in it to the bit. The runtime adds them as the message leaves: no agent could draw them alone.
"""
Adjacency = Literal["record", "component", "dataset"]
"""What differs between two neighbouring data sets: one record is replaced; one component of one record's clipped
gradient differs; all records of one agent are replaced."""
Requirement = Literal[
    "strongly_connected",
    "connected_over_time",
    "symmetric",
    "sender_normalised",
    "receiver_normalised",
    "doubly_stochastic",
    "fixed",
    "reliable",
    "hears_itself",
    "several_senders",
]
"""hears_itself: every agent gives its own value a weight above 0. several_senders: no agent hears exactly one
other, whose masks would have nothing to cancel against."""


class Memory(NamedTuple):
    """What an agent keeps of its noise from one release to the next: a secret of the rank of its key."""

    releases: Array
    """Made so far."""
    kept: Tree
    """Per leaf of the value (vectors, ...): sums of past noise, in units of its scale."""

    def __repr__(self) -> str:
        return "Memory(secret)"  # a traceback or a log may show it


class Noise(NamedTuple):
    """One declaration from which the sampler draws and the ledger books.

    Args:
      distribution: Of a draw.
      scale: Of Laplace noise b, of Gaussian noise the standard deviation, per coordinate.
      sensitivity: Largest change between neighbours: in the l1 norm for Laplace noise, in the l2 norm for Gaussian
        noise.
      bound: Bounded Laplace only: a draw outside [-bound, bound] is replaced by bound / 2.
    """

    distribution: Distribution
    scale: Array
    sensitivity: Array
    bound: Array | None = None


class Extent(NamedTuple):
    """Size of a value, known before it is computed; a sensitivity may depend on it.

    Args:
      coordinates: Numbers that the value consists of.
      records: How many records the value is a mean over: 1, or the batch size.
    """

    coordinates: int
    records: int


class Clip(NamedTuple):
    """The bound that makes a sensitivity true: every record's gradient is scaled down to it.

    Args:
      bound: Largest norm of a record's gradient.
      norm: In which it is measured; linf clips each coordinate by itself.
      of: Whose gradient: that of each record, or the mean over all of an agent's records as a whole.
    """

    bound: float
    norm: Literal["l2", "l1", "linf"] = "l2"
    of: Literal["record", "agent"] = "record"


class Mechanism(NamedTuple):
    """The way of a private value to one that may leave: the only place where noise enters.

    Make one with `tacit.privacy.laplace`, `gaussian`, `decaying_gaussian` or `bounded_laplace`. Noise is calibrated to
    a loss of privacy by its `ratio`, whatever the method makes of the gradient, or has a size of its own (`scale`).

    Args:
      name: For tables and messages.
      distribution: None releases the value as it is.
      sensitivity: View and extent -> how far one record can move the value.
      scale: View and sensitivity -> scale of the noise, where it is not calibrated.
      ratio: Sensitivity over scale in round 1 of calibrated noise: what a release costs, whatever the sensitivity is.
      decay: By which the variance of calibrated noise shrinks per round.
      clip: What `compute` must do to each record's gradient; None leaves gradients as they are.
      perturbs: What is released: the gradient, the step made of it, or the model after the step.
      adjacency: What the numbers speak of: see `Adjacency`.
      bound: Bounded Laplace only: in units of the scale.
      finish: Post-processing of the noisy value that belongs to the mechanism.
      spread: How noise lies on the links: see `Spread`.
      own_share: Homomorphic only: view -> the factor with which the agent's own copy carries the draw.
      grid: Masked only: the step of the fixed-point grid; None takes the one of the value's precision.
      mask_scale: Masked only: the scale of one pair's Laplace mask; 0 leaves messages as they are, on the grid.
      requires: What the spread needs of the links that carry it.
      mean_over: How many records the value is a mean over; None: over the places of a batch, record by record.
      apart: Of a mean over so many records: whether it is made of what each of them gives by itself.
      correlation: Of the noise over an agent's own releases; None: every draw is independent.
      delta: At which its epsilon was asked for, and is shown; None: where reports show Gaussian noise.
    """

    name: str
    distribution: Distribution | None = None
    sensitivity: Callable[[View, Extent], Array] | None = None
    scale: Callable[[View, Array], Array] | None = None
    ratio: float | None = None
    decay: float = 1.0
    clip: Clip | None = None
    perturbs: Literal["gradient", "update", "model"] = "model"
    adjacency: Adjacency = "record"
    bound: float | None = None
    finish: Callable[[Tree, Noise], Tree] | None = None
    spread: Spread = "common"
    own_share: Callable[[View], Array] | None = None
    grid: float | None = None
    mask_scale: float = 0.0
    requires: frozenset[Requirement] = frozenset()
    mean_over: Callable[[View, Extent], Array] | None = None
    apart: bool = False
    correlation: Correlation | None = None
    delta: float | None = None

    def __repr__(self) -> str:
        settings = []
        if self.correlation is not None and self.ratio is not None:
            settings.append(f"rho={self.ratio**2 / 2:.6g}, rounds={self.correlation.rounds}")
            settings.append(f"strategy={self.correlation.strategy}")
        elif self.ratio is not None and self.distribution == "gaussian":
            settings.append(f"noise_multiplier={1 / self.ratio:.6g}")
        elif self.ratio is not None:
            settings.append(f"epsilon={self.ratio:.6g}")
        if self.decay != 1:
            settings.append(f"decay={self.decay:g}")
        if self.clip is not None:
            settings.append(f"clip={self.clip.bound:g} {self.clip.norm}{' of the agent' * (self.clip.of == 'agent')}")
        if self.distribution is not None:
            settings.append(f"on {self.perturbs}")
        if self.adjacency != "record":
            settings.append(f"adjacency={self.adjacency}")
        return f"{self.name}({', '.join(settings)})" if settings else self.name

    @property
    def changes_nothing(self) -> bool:
        """Whether values are released as they are."""
        return self.distribution is None and self.spread != "masked"

    @property
    def per_slot(self) -> bool:
        """Whether the released value has a leading axis over the out-slots."""
        return self.spread != "common"

    @property
    def gain(self) -> float:
        """By how much more a record moves all releases of a block than one release, in the noise's norm."""
        return 1.0 if self.correlation is None else self.correlation.norm

    def noise(self, view: View, extent: Extent) -> Noise | None:
        """Return the declaration of one release.

        Args:
          view: Of the agent in this round.
          extent: Size of the value.

        Returns:
          Scale and sensitivity; None where nothing is added.
        """
        if self.distribution is None:
            return None
        assert self.sensitivity is not None  # the constructors see to it
        sensitivity = self.sensitivity(view, extent)
        if self.spread == "per_edge":
            # One release of many copies: in the l1 norm their changes add, in the l2 norm the squares.
            copies = (1 + view.out.degree).astype(jnp.result_type(float))
            sensitivity = sensitivity * (jnp.sqrt(copies) if self.distribution == "gaussian" else copies)
        if (self.ratio is None) == (self.scale is None):
            raise ContractError(
                f"mechanism {self.name!r} has ratio = {self.ratio!r} and scale = {self.scale!r}: expected one of them, "
                "noise that is calibrated or noise of a size of its own"
            )
        if self.ratio is None:
            assert self.scale is not None
            scale = self.scale(view, sensitivity)
        else:
            scale = sensitivity * (self.gain / self.ratio)
            if self.decay != 1:
                scale *= jnp.exp(math.log(self.decay) / 2 * (view.round - 1).astype(jnp.result_type(float)))
        return Noise(self.distribution, scale, sensitivity, None if self.bound is None else self.bound * scale)

    def ratio_in(self, round_: int) -> float | None:
        """Return the cost of calibrated noise in a round: sensitivity over scale, in double precision.

        Args:
          round_: t = 1, 2, ...

        Returns:
          The ratio; None for noise of a size of its own.
        """
        if self.ratio is None:
            return None
        try:
            return self.ratio * math.exp(-math.log(self.decay) / 2 * (round_ - 1))
        except OverflowError:
            return math.inf

    def amplified(self, gain: Callable[[View], Array]) -> Mechanism:
        """Return the mechanism for a value that is more sensitive than a clipped gradient.

        Args:
          gain: View -> factor, e.g. the step size for a value that is a step.
        """
        sensitivity = self.sensitivity
        if sensitivity is None:
            return self
        # A step backwards (a schedule that falls below 0) moves as far as one forwards.
        return self._replace(sensitivity=lambda view, extent: jnp.abs(gain(view)) * sensitivity(view, extent))

    def for_whole_batch(self) -> Mechanism:
        """Return the mechanism for a value in which one record can change the contribution of the others.

        That is so where a state that depends on data enters the computation: a batch of many records helps no more.
        """
        return self.over(lambda view, extent: jnp.ones(()))

    def over(self, records: Callable[[View, Extent], Array], apart: bool = False) -> Mechanism:
        """Return the mechanism for a mean over several records.

        Args:
          records: View and extent -> how many.
          apart: Whether the mean is made of what each record gives by itself.
        """
        sensitivity = self.sensitivity
        if sensitivity is None or self.adjacency == "dataset":
            return self
        if self.adjacency == "component" and not apart:
            raise ConfigError(
                f"mechanism {self.name!r} counts one component of one gradient that changes (adjacency 'component'), "
                "but here a record's gradient goes on to move others, in all components: say adjacency = 'record', or "
                "take one local step on a whole batch, with noise on the gradient or the update"
            )

        def of_mean(view: View, extent: Extent) -> Array:
            return sensitivity(view, extent._replace(records=1)) / records(view, extent)

        return self._replace(sensitivity=of_mean, mean_over=records, apart=apart)


unprotected = Mechanism("unprotected")
"""Releases values as they are, said aloud: every phase names its mechanism."""
