"""Releases of a peer: the value plus ideal noise, rounded to a grid that depends on the noise's scale alone.

In floating point, a value plus noise betrays the value through its last bits: some outputs can occur for one value and
never for its neighbour. Here the noise is a real number with infinitely many bits and the sum is rounded once, exactly,
so the release is a function of what the ideal mechanism would have released. Floats only make it fast: where the error
that they can have made leaves the rounding open, exact arithmetic decides. docs/privacy.md has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Distribution
from tacit.core.errors import PrivacyError
from tacit.privacy.noise.entropy import NoiseSource
from tacit.privacy.noise.exact import LazyUniform, rounded_gaussian, rounded_laplace

Floats = NDArray[np.float64]

_BLOCK = 2**15
"""Draws made together: an even number, and few enough for the cache."""
_LARGEST = 2.0**500
"""Values, scales and bounds beyond this, or scales below its inverse, would overflow in units of the step."""

# Bounds on the error of a fast draw, in units of the scale. They hold for prefixes of U from _SMALLEST_PREFIX on and,
# for Gaussian noise, for -ln U from _SMALLEST_LOG on; docs/privacy.md adds them up.
_LAPLACE_ERROR = 2.0**-43
_GAUSSIAN_ERROR = 2.0**-42
_SMALLEST_PREFIX = 2**43
_SMALLEST_LOG = 2.0**-20


def grid_step(scale: float) -> float:
    """Return the grid's step: the power of two from scale / 2^21 (not itself) to scale / 2^20.

    Args:
      scale: Of the noise, above 0.

    Returns:
      The step, in the unit of the scale.

    Example:
      >>> grid_step(1.0) == 2.0**-20
      True
    """
    return math.ldexp(1.0, math.frexp(scale)[1] - 21)


def release_on_grid(
    value: NDArray[Any],
    distribution: Distribution,
    scale: float,
    source: NoiseSource,
    *,
    bound: float | None = None,
    simulation: bool = False,
) -> Floats:
    """Release value + noise, independent in each coordinate, as the nearest multiples of `grid_step(scale)`.

    A multiple that float64 cannot hold is rounded to one that it can; that, like a cast to float32 later, is
    post-processing. Nothing is booked here: `tacit.privacy.ledger.Ledger.release` books first and then draws.

    Args:
      value: Array of float32 or float64, finite and up to 2^500.
      distribution: "laplace", "gaussian" or "bounded_laplace".
      scale: Scale (Laplace) or standard deviation (Gaussian) per coordinate, from 2^-500 to 2^500.
      source: Random bits; a seeded one is taken in simulation only.
      bound: Bounded Laplace only, in the unit of the value: a draw outside [-bound, bound] is replaced by bound / 2.
      simulation: Whether predictable noise will do.

    Returns:
      The noisy value in double precision, of the same shape.

    Raises:
      PrivacyError: An argument is out of its range, or the source is predictable; nothing was drawn.

    Example:
      >>> import numpy as np
      >>> from tacit.privacy.noise import NoiseSource, grid_step, release_on_grid
      >>> noisy = release_on_grid(np.zeros(3), "laplace", 2.0, NoiseSource())
      >>> noisy.shape, bool(np.all(noisy % grid_step(2.0) == 0))
      ((3,), True)

    References: Mironov (2012) on the leak; docs/privacy.md has the argument and the error bounds.
    """
    scale = _validate_scale(scale)
    bound = _validate_bound(bound, distribution)
    if source.predictable and not simulation:
        raise PrivacyError(
            "the noise source was seeded, so its noise can be computed and taken off again; expected NoiseSource(), "
            "which draws from the operating system (a seeded one is for simulation)"
        )
    values = _validate_values(value, scale)
    noise = _Noise(scale, grid_step(scale), bound)
    draw = _gaussian if distribution == "gaussian" else _laplace
    flat = values.reshape(-1)
    released = np.empty(flat.size)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        places = block / noise.step  # exact, step being a power of two; what underflows is far below the error bound
        whole = np.rint(places)
        # One rounding of the exact sum of two whole numbers, hence a function of that sum.
        released[start : start + _BLOCK] = whole + draw(block, places - whole, noise, source)
    # Adding 0 turns -0 into 0: the sign of a zero would tell that of the value.
    return (released * noise.step + 0.0).reshape(values.shape)


class _Noise(NamedTuple):
    scale: float
    step: float
    bound: float | None

    @property
    def ratio(self) -> float:
        """The scale in steps, exactly: from 2^20 up to 2^21."""
        return self.scale / self.step


class _Fast(NamedTuple):
    """Draws in floating point, in units of the step."""

    sums: Floats
    """Fractional part of the value plus the noise."""
    error: float
    """How far each may be from the exact sum."""
    unproven: NDArray[np.bool_]
    """Where that bound does not hold."""

    def undecided(self) -> Iterator[int]:
        """Yield where the error may have changed the rounding."""
        to_nearest = np.abs(self.sums - np.rint(self.sums))
        yield from np.flatnonzero((to_nearest >= 0.5 - self.error) | self.unproven).tolist()


def _laplace(values: Floats, fractions: Floats, noise: _Noise, source: NoiseSource) -> Floats:
    """Return the whole number nearest to (value + noise) / step, less that nearest to value / step."""
    words = source.words(values.size)
    prefixes, negative = (words >> np.uint64(1)).view(np.int64), (words & np.uint64(1)).astype(bool)
    fast = _fast_laplace(fractions, prefixes, negative, noise)
    rounded = np.rint(fast.sums)
    for i in fast.undecided():
        uniform = LazyUniform(int(prefixes[i]), 63, source)
        exact = rounded_laplace(
            values[i], noise.step, noise.scale, uniform, negative=bool(negative[i]), bound=noise.bound
        )
        rounded[i] = exact - int(np.rint(values[i] / noise.step))
    return rounded


def _fast_laplace(fractions: Floats, prefixes: NDArray[np.int64], negative: NDArray[np.bool_], noise: _Noise) -> _Fast:
    size = np.log((prefixes + 0.5) * 2.0**-63) * -noise.ratio
    error = _LAPLACE_ERROR * noise.ratio
    unproven = prefixes < _SMALLEST_PREFIX
    signed = np.where(negative, -size, size)
    if noise.bound is not None:
        limit = noise.bound / noise.step
        unproven |= np.abs(size - limit) <= error
        signed = np.where(size > limit, limit / 2, signed)
    return _Fast(fractions + signed, error, unproven)


def _gaussian(values: Floats, fractions: Floats, noise: _Noise, source: NoiseSource) -> Floats:
    """Return the whole number nearest to (value + noise) / step, less that nearest to value / step."""
    pairs = (values.size + 1) // 2
    words = (source.words(2 * pairs) >> np.uint64(1)).view(np.int64)
    radii, angles = words[:pairs], words[pairs:]
    fast = _fast_gaussian(fractions, radii, angles, noise)
    rounded = np.rint(fast.sums)
    uniforms: dict[int, tuple[LazyUniform, LazyUniform]] = {}  # both draws of a pair must see the same bits
    for i in fast.undecided():
        pair = i % pairs
        if pair not in uniforms:
            uniforms[pair] = (LazyUniform(int(radii[pair]), 63, source), LazyUniform(int(angles[pair]), 63, source))
        exact = rounded_gaussian(values[i], noise.step, noise.scale, *uniforms[pair], sine=i >= pairs)
        rounded[i] = exact - int(np.rint(values[i] / noise.step))
    return rounded


def _fast_gaussian(fractions: Floats, radii: NDArray[np.int64], angles: NDArray[np.int64], noise: _Noise) -> _Fast:
    """Box and Muller's transform: the cosines first, then the sines."""
    minus_log = -np.log((radii + 0.5) * 2.0**-63)
    length = np.sqrt(2 * minus_log) * noise.ratio
    turn = (angles + 0.5) * (2.0**-63 * 2 * math.pi)
    draws = np.concatenate([length * np.cos(turn), length * np.sin(turn)])[: fractions.size]
    unproven = (radii < _SMALLEST_PREFIX) | (minus_log < _SMALLEST_LOG)
    return _Fast(
        fractions + draws, _GAUSSIAN_ERROR * noise.ratio, np.concatenate([unproven, unproven])[: fractions.size]
    )


def _validate_scale(scale: float) -> float:
    scale = float(scale)
    if not 1 / _LARGEST <= scale <= _LARGEST:
        raise PrivacyError(
            f"scale {scale!r} of the noise: expected a number from 2^-500 to 2^500; without noise nothing is private, "
            "and a value that may leave as it is has the mechanism `unprotected`"
        )
    return scale


def _validate_bound(bound: float | None, distribution: Distribution) -> float | None:
    if distribution not in get_args(Distribution):
        raise PrivacyError(f"distribution {distribution!r}: expected one of {', '.join(get_args(Distribution))}")
    if (distribution == "bounded_laplace") != (bound is not None):
        raise PrivacyError(f"bound {bound!r} with {distribution!r}: bounded_laplace needs one, no other has")
    if bound is not None and not 0 < float(bound) <= _LARGEST:
        raise PrivacyError(f"bound {bound!r} of the noise: expected a number above 0 and up to 2^500")
    return None if bound is None else float(bound)


def _validate_values(value: NDArray[Any], scale: float) -> Floats:
    given = np.asarray(value)
    if given.dtype not in (np.float32, np.float64):
        raise PrivacyError(f"a value of type {given.dtype} cannot be released: expected float32 or float64")
    array = given.astype(np.float64)
    allowed = np.abs(array) <= _LARGEST  # false for NaN as well
    if not np.all(allowed):
        raise PrivacyError(
            f"value {array[~allowed][0]} cannot be released with noise of scale {scale!r}: expected finite numbers up "
            "to 2^500; clip gradients, and take a smaller step where the model diverges"
        )
    return array
