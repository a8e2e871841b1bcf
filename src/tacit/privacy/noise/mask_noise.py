"""Laplace masks from a key stream, in whole steps of a grid and by comparing integers alone.

Both ends of a pair make a mask for themselves, on machines that may round differently, and must get the same bits. So
nothing here depends on floats: the whole part of an exponential number of mean t has independent binary digits, digit k
being 1 with chance 1 / (1 + exp(2^k / t)), since exp(-n / t) is a product over the digits of n, and each digit is one
word of the stream compared with a threshold. One more word gives the sign. The draw is then, exactly, a Laplace number
of scale t rounded down. Thresholds are cut off at 2^-64, which moves the law by less than 2^-57 in total variation.
"""

from __future__ import annotations

import functools
import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Mechanism
from tacit.core.errors import ConfigError
from tacit.privacy.noise.fixed_point import fixed_point_step

SMALLEST_MASK = 1024
"""Steps of the grid that a mask's scale has at least. Rounding may move two values apart by one step more than they
are, which costs 1 / scale: a thousandth at most. And near the largest values that single precision holds, which are 64
steps apart, a mask still covers sixteen of them. Below that a value's digits show, all but the last few, or all."""
_DIGITS = 60
"""Decimal ones, in which thresholds are worked out: far more than 2^-64 asks for."""


class MaskLaw:
    """Law of one pair's mask on one number: Laplace of a scale, in whole steps of the grid.

    Args:
      scale: Scale of the Laplace law, above 0.
      step: Step of the grid, in the unit of the scale.

    Example:
      >>> import numpy as np
      >>> law = MaskLaw(scale=1.0, step=2.0**-10)
      >>> stream = np.zeros(2 * law.words, np.uint64)  # a peer takes the pair's key stream
      >>> law.draws(stream).shape
      (2,)
    """

    def __init__(self, scale: float, step: float) -> None:
        self._chances = [np.uint64(chance) for chance in _chances(Decimal(scale), Decimal(step))]

    @property
    def words(self) -> int:
        """Words of the key stream that a draw takes."""
        return len(self._chances) + 1

    def draws(self, stream: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Make as many draws as the stream has words for."""
        *digits, signs = stream.reshape(self.words, -1)
        size = np.zeros(signs.shape, np.int64)
        for place, (words, chance) in enumerate(zip(digits, self._chances, strict=True)):
            size |= (words < chance).astype(np.int64) << place
        return np.where(signs >> np.uint64(63), ~size, size)  # ~n is -n - 1: a number below zero, rounded down


def _chances(scale: Decimal, step: Decimal) -> list[int]:
    """Return the chance of each binary digit, the lowest first, in units of 2^-64."""
    exact = Context(prec=_DIGITS)
    found: list[int] = []
    while True:
        power = exact.exp(exact.divide(exact.multiply(Decimal(2 ** len(found)), step), scale))
        chance = int(exact.divide(Decimal(2**64), exact.add(power, Decimal(1))))
        if chance == 0:
            return found
        found.append(chance)


def mask_law(mechanism: Mechanism, integers: Any) -> MaskLaw:
    """Return the law of a mechanism's masks; masks that would hide nothing are refused.

    Args:
      mechanism: One that `hides`.
      integers: Type of the messages, "int32" or "int64".

    Example:
      >>> from tacit.privacy import local_graph_homomorphic
      >>> mask_law(local_graph_homomorphic(1.0), "int32").words  # of the key stream, per draw
      26
    """
    step = fixed_point_step(mechanism, integers)
    check_size(mechanism.mask_scale, step)
    return _law(mechanism.mask_scale, step)


def check_size(scale: float, step: float) -> None:
    """Refuse masks of a scale below 1,024 steps of the grid, in the same unit."""
    if scale < SMALLEST_MASK * step:
        std = math.sqrt(2)
        raise ConfigError(
            f"noise_std = {std * scale:g}: its masks are {scale / step:.3g} steps of a grid of step {step:g} wide and "
            f"hide no more than the last digits of a value; expected at least {SMALLEST_MASK:,} steps: take "
            f"noise_std = {std * SMALLEST_MASK * step:.3g} or larger (and large beside the values that are to be "
            f"hidden), or grid = {scale / SMALLEST_MASK:.3g} or finer"
        )


@functools.lru_cache(maxsize=16)
def _law(scale: float, step: float) -> MaskLaw:
    return MaskLaw(scale, step)
