"""Mechanisms: one declaration of clip, sensitivity and noise, from which values are drawn and losses are booked.

Largest change by one record, from the clip bound C, d coordinates and a mean over h records (replacing a record moves
the mean by the difference of two clipped gradients, hence the 2, as in the Dissertation and in Li et al.):

    clip      l1 change           l2 change
    l2        2 C sqrt(d) / h     2 C / h
    l1        2 C / h             2 C / h
    linf      2 C d / h           2 C sqrt(d) / h

Under adjacency `component` one component of one clipped gradient differs, by at most 2 C / h in either norm. Under
`dataset` all records of an agent differ, so that h does not help: each record is clipped, or with `agent` their mean as
a whole, which moves by 2 C at most either way. A method that releases more than the gradient itself
(a step, a model) multiplies this by how much it amplifies a gradient (`Mechanism.amplified`).

Noise is put on the update (the default), the gradient, or the whole model as in Li et al. A model is the worst of them:
its rounding errors grow with its size and add to the sensitivity (docs/privacy.md), so that peers release none.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from tacit.core.checks import one_of, positive, proportion, whole_number
from tacit.core.contract import Adjacency, Array, Clip, Distribution, Extent, Mechanism, Noise, Tree, View
from tacit.core.errors import ConfigError

Perturbs = Literal["gradient", "update", "model"]
Norm = Literal["l2", "l1", "linf"]
Unit = Literal["record", "component", "dataset", "agent"]
"""What a constructor takes as `adjacency`: one of `Adjacency`, or "agent": that of "dataset", with the clip on the
agent's whole contribution in the place of each record's."""


def laplace(
    epsilon: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Unit = "record",
) -> Mechanism:
    """Laplace noise of scale (l1 sensitivity) / epsilon: pure differential privacy.

    Each round an agent releases its clipped mean plus independent noise on every coordinate, the same to all
    neighbours; each release is booked at `epsilon` (and rho = epsilon^2 / 2).

    Args:
      epsilon: Pure loss of one release, above 0 and finite; towards 0 the noise grows without bound, and a large one
        leaves hardly any.
      clip: Largest norm of one record's gradient, above 0; larger gradients are scaled down to it, and the noise grows
        in proportion. Runs take 2^-30 to 2^30.
      norm: Norm of the clip: with "l2" the l1 sensitivity that counts is sqrt(d) times the clip's, with "l1" (better
        for sparse gradients) equal to it, with "linf" d times.
      perturbs: What the noise is put on: the update (the step made of a gradient), the gradient, or the whole model,
        which peers do not release.
      adjacency: Unit of the promise: one record (the default), one component of a record's gradient, or an agent's
        whole data set, which no batch size helps: with "dataset" each record is clipped, with "agent" what all of
        them give together.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import laplace
      >>> laplace(epsilon=0.5, clip=1.0, norm="l1").ratio  # sensitivity over scale: the epsilon that is booked
      0.5

    References: Dwork, McSherry, Nissim and Smith (2006).
    """
    target = positive("epsilon", epsilon, "a larger one means less noise")
    return _mechanism("laplace", clip, norm, perturbs, adjacency, target)


def gaussian(
    noise_multiplier: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Unit = "record",
) -> Mechanism:
    """Gaussian noise of standard deviation noise_multiplier x (l2 sensitivity): zero-concentrated privacy (zCDP).

    Each round an agent releases its clipped mean plus independent noise on every coordinate, the same to all
    neighbours; each release is booked at rho = 1 / (2 noise_multiplier^2), and no finite pure epsilon holds.

    Args:
      noise_multiplier: Standard deviation in units of the sensitivity, above 0 and finite; towards 0 there is no
        privacy. `tacit privacy plan` or ``tacit.privacy.planning.noise_for`` finds it for a target (epsilon, delta).
      clip: Largest norm of one record's gradient, above 0; larger gradients are scaled down to it, and the noise grows
        in proportion. Runs take 2^-30 to 2^30.
      norm: Norm of the clip: with "l2" or "l1" the l2 sensitivity is the clip's, with "linf" sqrt(d) times that.
      perturbs: What the noise is put on: the update (the step made of a gradient), the gradient, or the whole model,
        which peers do not release.
      adjacency: Unit of the promise: one record (the default), one component of a record's gradient, or an agent's
        whole data set, which no batch size helps: with "dataset" each record is clipped, with "agent" what all of
        them give together.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import gaussian
      >>> gaussian(noise_multiplier=4.0, clip=1.0).ratio ** 2 / 2  # rho of one release
      0.03125

    References: Bun and Steinke (2016), Prop. 1.6.
    """
    multiplier = positive("noise_multiplier", noise_multiplier, "a larger one means more noise")
    return _mechanism("gaussian", clip, norm, perturbs, adjacency, 1 / multiplier)


def decaying_gaussian(
    noise_multiplier: float,
    decay: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Unit = "record",
) -> Mechanism:
    """Gaussian noise whose variance shrinks by `decay` per round (dynamic zCDP).

    Each round an agent releases its clipped mean plus independent noise, less of it in later rounds; round t is booked
    at rho = decay^-(t-1) / (2 noise_multiplier^2).

    Args:
      noise_multiplier: Standard deviation in round 1 in units of the sensitivity, above 0 and finite.
      decay: Ratio of the variances of consecutive rounds, above 0 and up to 1; 1 is `gaussian`, and near 0 the second
        round has hardly any noise left.
      clip: Largest norm of one record's gradient, above 0; larger gradients are scaled down to it, and the noise grows
        in proportion. Runs take 2^-30 to 2^30.
      norm: Norm of the clip: with "l2" or "l1" the l2 sensitivity is the clip's, with "linf" sqrt(d) times that.
      perturbs: What the noise is put on: the update (the step made of a gradient), the gradient, or the whole model,
        which peers do not release.
      adjacency: Unit of the promise: one record (the default), one component of a record's gradient, or an agent's
        whole data set, which no batch size helps: with "dataset" each record is clipped, with "agent" what all of
        them give together.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import decaying_gaussian
      >>> halved = decaying_gaussian(noise_multiplier=1.0, decay=0.5, clip=1.0)
      >>> [round(halved.ratio_in(t) ** 2 / 2, 6) for t in (1, 2, 3)]  # rho of rounds 1, 2 and 3
      [0.5, 1.0, 2.0]

    References: Gauthier (2023), ch. 3.
    """
    multiplier = positive("noise_multiplier", noise_multiplier, "a larger one means more noise")
    return _decaying("decaying_gaussian", multiplier, decay, clip, norm, perturbs, adjacency)


def classic_gaussian(
    epsilon: float,
    delta: float,
    clip: float,
    decay: float = 1.0,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Unit = "record",
) -> Mechanism:
    """Gaussian noise by the classic calibration to (epsilon, delta) of the first release.

    Each round an agent releases its clipped mean plus independent noise, of standard deviation sensitivity x
    sqrt(2 ln(1.25 / delta)) / epsilon in round 1: more than is needed. Round t has epsilon decay^(-(t-1)/2) at the same
    delta; once that reaches 1 the calibration says nothing of a round. Booked is the noise's own rho, as for
    `decaying_gaussian`.

    Args:
      epsilon: Of the first release at `delta`, above 0 and below 1, where the calibration is proven.
      delta: Above 0 and below 1; a smaller one means (slowly) more noise.
      clip: Largest norm of one record's gradient, above 0; larger gradients are scaled down to it, and the noise grows
        in proportion. Runs take 2^-30 to 2^30.
      decay: Ratio of the variances of consecutive rounds, above 0 and up to 1, which keeps the noise as it is.
      norm: Norm of the clip: with "l2" or "l1" the l2 sensitivity is the clip's, with "linf" sqrt(d) times that.
      perturbs: What the noise is put on: the update (the step made of a gradient), the gradient, or the whole model,
        which peers do not release.
      adjacency: Unit of the promise: one record (the default), one component of a record's gradient, or an agent's
        whole data set, which no batch size helps: with "dataset" each record is clipped, with "agent" what all of
        them give together.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import classic_gaussian
      >>> round(1 / classic_gaussian(epsilon=0.5, delta=1e-5, clip=1.0).ratio, 2)  # noise in units of the sensitivity
      9.69

    References: Dwork and Roth (2014), App. A.
    """
    return _decaying("classic_gaussian", classic_multiplier(epsilon, delta), decay, clip, norm, perturbs, adjacency)


def _decaying(
    name: str, multiplier: float, decay: float, clip: float, norm: Norm, perturbs: Perturbs, adjacency: Unit
) -> Mechanism:
    """Return Gaussian noise of multiplier x sensitivity in the first round, whose variance shrinks by `decay`."""
    ratio = proportion("decay", decay, "by it the variance shrinks per round; 1 keeps it as it is", one=True)
    return _mechanism("gaussian", clip, norm, perturbs, adjacency, 1 / multiplier, name)._replace(decay=ratio)


def bounded_laplace(
    epsilon: float,
    rounds: int,
    clip: float = 0.5,
    norm: Norm = "linf",
    adjacency: Unit = "component",
) -> Mechanism:
    """Laplace noise of bounded support on a gradient that is then squeezed and normalised; for reproductions.

    Each round an agent draws N from Lap(sensitivity / epsilon) for every component of its gradient g, takes b / 2 for a
    draw outside [-b, b], and releases (g + N + b) / (2 b + 1) divided by its l2 norm, where b = (log T)^2 / epsilon. A
    regulariser's part joins g after the noise (docs/privacy.md). Each release is booked at `epsilon` with a delta > 0,
    which a budget must have reserved. Errata: the text calls this epsilon-DP, which no noise of bounded support is,
    and the squeezed gradient is biased.

    Args:
      epsilon: Pure part of the loss of one release, above 0 and finite; towards 0 noise and bound grow.
      rounds: Horizon T of the bound, a whole number from 2 on; a larger one means a wider bound and a smaller delta.
      clip: Largest norm of one record's gradient, above 0; the default 0.5 with "linf" lets a component change by 1.
      norm: Norm of the clip.
      adjacency: Unit of the promise; the text counts one component.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import bounded_laplace
      >>> round(bounded_laplace(epsilon=0.1, rounds=50).bound, 2)  # b in units of the noise's scale
      15.3

    References: Dissertation, Alg. 3.
    """
    target = positive("epsilon", epsilon, "a larger one means less noise")
    whole_number("rounds", rounds, "the T of b = (log T)^2 / epsilon", least=2)
    width = math.log(rounds) ** 2

    def finish(noisy: Tree, noise: Noise) -> Tree:
        bound = noise.bound
        assert bound is not None  # declared below
        squeezed = jax.tree.map(lambda leaf: ((leaf + bound) / (2 * bound + 1)).astype(leaf.dtype), noisy)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(squeezed)))
        safe = jnp.where(norm > 0, norm, 1)
        return jax.tree.map(lambda leaf: (leaf / safe).astype(leaf.dtype), squeezed)

    made = _mechanism("bounded_laplace", clip, norm, "gradient", adjacency, target)
    return made._replace(bound=width, finish=finish)


def _mechanism(
    distribution: Distribution,
    clip: float,
    norm: Norm,
    perturbs: Perturbs,
    adjacency: Unit,
    ratio: float,
    name: str | None = None,
) -> Mechanism:
    bound = positive("clip", clip, "without a clip no sensitivity holds")
    check_words(norm=norm, perturbs=perturbs, adjacency=adjacency)
    relation, limit = of_unit(adjacency, bound, norm)
    target: Literal["l1", "l2"] = "l2" if distribution == "gaussian" else "l1"

    def sensitivity(view: View, extent: Extent) -> Array:
        change = largest_change(limit, target, relation, extent)
        return jnp.asarray(change, jnp.result_type(float))

    return Mechanism(
        name or distribution,
        distribution,
        sensitivity,
        ratio=ratio,
        clip=limit,
        perturbs=perturbs,
        adjacency=relation,
    )


def of_unit(unit: Unit, bound: float, norm: Norm) -> tuple[Adjacency, Clip]:
    """Return what differs between neighbours, and the clip, of what a constructor was told to protect."""
    return ("dataset", Clip(bound, norm, "agent")) if unit == "agent" else (unit, Clip(bound, norm))


def largest_change(clip: Clip, norm: Literal["l1", "l2"], adjacency: Adjacency, extent: Extent) -> float:
    """Return how far the mean of clipped gradients moves between neighbours at most, in a norm."""
    records = 1 if adjacency == "dataset" else extent.records
    spread = 1.0
    if adjacency != "component":
        root = math.sqrt(extent.coordinates)
        if clip.norm == "linf":
            spread = root if norm == "l2" else extent.coordinates
        elif clip.norm == "l2" and norm == "l1":
            spread = root
    return 2 * clip.bound * spread / records


def check_words(*, norm: str, perturbs: str, adjacency: str) -> None:
    """Refuse a word that none of the settings knows."""
    one_of("norm", norm, get_args(Norm))
    one_of("perturbs", perturbs, get_args(Perturbs))
    one_of("adjacency", adjacency, get_args(Unit))


def classic_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise, in units of the sensitivity, whose release is (epsilon, delta) private."""
    check_classic(epsilon, delta)
    if epsilon >= 1:
        raise ConfigError(
            f"epsilon = {epsilon!r}: expected a number below 1, for which the classic calibration is proven; use "
            "gaussian with a noise_multiplier that `tacit privacy plan` finds"
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def check_classic(epsilon: float, delta: float) -> None:
    """Refuse an epsilon or a delta that means nothing."""
    positive("epsilon", epsilon, "a larger one means less noise")
    proportion("delta", delta, "such as 1e-5")
