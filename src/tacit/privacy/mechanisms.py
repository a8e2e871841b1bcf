"""Mechanisms: one declaration of clip, sensitivity and noise, from which values are drawn and losses are booked.

What one record can change, from the clip bound C, d coordinates and a mean over h records (replacing a record moves the
mean by the difference of two clipped gradients, hence the 2; 000 and 002 take the same):

    clip      l1 change           l2 change
    l2        2 C sqrt(d) / h     2 C / h
    l1        2 C / h             2 C / h
    linf      2 C d / h           2 C sqrt(d) / h

Under adjacency `component` one component of one clipped gradient differs, by at most 2 C / h in either norm. Under
`dataset` all records of an agent differ, so that h does not help. A method that releases more than the gradient itself
(a step, a model) multiplies this by how much it amplifies a gradient (`Mechanism.amplified`).

What is perturbed: the update (the default), the gradient, or the whole model as 002 has it. A model is the worst of
them: its rounding errors grow with its size and add to the sensitivity (docs/privacy.md), so that peers release none.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from tacit.core.contract import Adjacency, Array, Clip, Distribution, Extent, Mechanism, Noise, Tree, View
from tacit.core.errors import ConfigError

Perturbs = Literal["gradient", "update", "model"]
Norm = Literal["l2", "l1", "linf"]


def laplace(
    epsilon: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Adjacency = "record",
) -> Mechanism:
    """Laplace noise of scale sensitivity / epsilon: each release costs a pure `epsilon`.

    `clip` bounds every record's gradient in `norm`; with l2 the l1 sensitivity that counts is sqrt(d) times as large,
    so that l1 is the better choice for sparse gradients.
    """
    target = positive("epsilon", epsilon, "a larger one means less noise")
    return _mechanism("laplace", clip, norm, perturbs, adjacency, target)


def gaussian(
    noise_multiplier: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Adjacency = "record",
) -> Mechanism:
    """Gaussian noise of standard deviation noise_multiplier x l2 sensitivity: each release costs rho = 1 / (2 m^2).

    `tacit privacy plan` finds the multiplier m for a target (epsilon, delta).
    """
    multiplier = positive("noise_multiplier", noise_multiplier, "a larger one means more noise")
    return _mechanism("gaussian", clip, norm, perturbs, adjacency, 1 / multiplier)


def decaying_gaussian(
    noise_multiplier: float,
    decay: float,
    clip: float,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Adjacency = "record",
) -> Mechanism:
    """Gaussian noise whose variance shrinks by `decay` per round (dynamic zCDP, 001 ch. 3): less noise, dearer, later.

    The first round costs rho = 1 / (2 m^2), round t costs decay^-(t-1) times that.
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
    adjacency: Adjacency = "record",
) -> Mechanism:
    """Gaussian noise by the classic calibration, (epsilon, delta) of the first release (Dwork and Roth 2014, App. A).

    Its standard deviation is sensitivity x sqrt(2 ln(1.25 / delta)) / epsilon, which is proven for epsilon below 1 and
    more than is needed. The variance shrinks by `decay` per round, so that round t has epsilon decay^(-(t-1)/2) at the
    same delta; once that reaches 1 the calibration says nothing of a round. What is booked never rests on it: that is
    the noise's own rho, as for any Gaussian noise.
    """
    return _decaying("classic_gaussian", classic_multiplier(epsilon, delta), decay, clip, norm, perturbs, adjacency)


def _decaying(
    name: str, multiplier: float, decay: float, clip: float, norm: Norm, perturbs: Perturbs, adjacency: Adjacency
) -> Mechanism:
    """Return Gaussian noise of multiplier x sensitivity in the first round, whose variance shrinks by `decay`."""
    ratio = positive("decay", decay, "1 keeps the variance as it is")
    if ratio > 1:
        raise ConfigError(f"decay = {decay!r}: expected a number from 0 to 1, by which the variance shrinks per round")
    return _mechanism("gaussian", clip, norm, perturbs, adjacency, 1 / multiplier, name)._replace(decay=ratio)


def bounded_laplace(
    epsilon: float,
    rounds: int,
    clip: float = 0.5,
    norm: Norm = "linf",
    adjacency: Adjacency = "component",
) -> Mechanism:
    """The bounded noise of 000 Alg. 3, for reproducing that text: the gradient is noised, squeezed and normalised.

    Draw Lap(sensitivity / epsilon); outside [-b, b] take b / 2; then each component becomes (g + N + b) / (2 b + 1) and
    the vector is divided by its l2 norm; b = (log T)^2 / epsilon. A regulariser's part joins g after the noise
    (docs/privacy.md). The text counts a component that changes by at most 1, hence the defaults. Errata: noise of
    bounded support is not epsilon-DP (it is booked with its delta > 0), and the squeezed gradient is biased.
    """
    target = positive("epsilon", epsilon, "a larger one means less noise")
    if not (isinstance(rounds, int) and rounds >= 2):
        raise ConfigError(f"rounds = {rounds!r}: expected a whole number from 2 on, the T of b = (log T)^2 / epsilon")
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
    adjacency: Adjacency,
    ratio: float,
    name: str | None = None,
) -> Mechanism:
    bound = positive("clip", clip, "without a clip no sensitivity holds")
    check_one_of(norm=norm, perturbs=perturbs, adjacency=adjacency)
    limit = Clip(bound, norm)
    target: Literal["l1", "l2"] = "l2" if distribution == "gaussian" else "l1"

    def sensitivity(view: View, extent: Extent) -> Array:
        change = largest_change(limit, target, adjacency, extent)
        return jnp.asarray(change, jnp.result_type(float))

    return Mechanism(
        name or distribution,
        distribution,
        sensitivity,
        ratio=ratio,
        clip=limit,
        perturbs=perturbs,
        adjacency=adjacency,
    )


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


def check_one_of(*, norm: str, perturbs: str, adjacency: str) -> None:
    """Refuse a word that none of the settings knows."""
    for what, value, known in (
        ("norm", norm, get_args(Norm)),
        ("perturbs", perturbs, get_args(Perturbs)),
        ("adjacency", adjacency, get_args(Adjacency)),
    ):
        if value not in known:
            raise ConfigError(f"{what} = {value!r}: expected one of {', '.join(known)}")


def positive(name: str, value: float, remedy: str) -> float:
    """Return a setting as a float; refuse one that is not a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} = {value!r}: expected a positive finite number; {remedy}")
    return float(value)


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
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < math.inf:
        raise ConfigError(f"epsilon = {epsilon!r}: expected a positive finite number; a larger one means less noise")
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise ConfigError(f"delta = {delta!r}: expected a number between 0 and 1, such as 1e-5")
