"""Noise in exact arithmetic, for the few draws whose rounding floating point cannot decide.

A uniform number has infinitely many bits, of which only those are drawn that a decision needs.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import floor
from typing import Any

from tacit.privacy.noise.entropy import NoiseSource

_GUARD_BITS = 64


class LazyUniform:
    """A real number drawn uniformly from [0, 1), known to lie in [prefix, prefix + 1] / 2^bits."""

    def __init__(self, prefix: int, bits: int, source: NoiseSource) -> None:
        self.prefix, self.bits, self._source = prefix, bits, source

    def extend(self) -> None:
        """Draw 64 more bits; those that are known stay."""
        self.prefix = self.prefix << 64 | int(self._source.words(1)[0])
        self.bits += 64


def rounded_laplace(
    value: float, step: float, scale: float, uniform: LazyUniform, *, negative: bool, bound: float | None
) -> int:
    """Return the whole number nearest to (value + noise) / step.

    The noise is -scale ln U, or its negative; bound / 2 where it is further out than the bound.
    """
    place, limit = Fraction(value) / Fraction(step), None if bound is None else Fraction(bound) / Fraction(step)
    while True:
        if uniform.prefix > 0:
            ctx = _context(uniform.bits)
            size = -ctx.log(_interval(ctx, uniform)) * (ctx.mpf(scale) / ctx.mpf(step))
            low, high = _ends(size)
            if limit is not None and low > limit:
                return floor(place + limit / 2 + Fraction(1, 2))
            if limit is None or high < limit:
                rounded = _decided(place, (-high, -low) if negative else (low, high))
                if rounded is not None:
                    return rounded
        uniform.extend()


def rounded_gaussian(
    value: float, step: float, scale: float, radius: LazyUniform, angle: LazyUniform, *, sine: bool
) -> int:
    """Return the whole number nearest to (value + noise) / step.

    The noise is scale sqrt(-2 ln U) times the cosine or the sine of 2 pi V, with U in `radius` and V in `angle`.
    """
    place = Fraction(value) / Fraction(step)
    while True:
        if radius.prefix > 0:
            ctx = _context(max(radius.bits, angle.bits))
            length = ctx.sqrt(-2 * ctx.log(_interval(ctx, radius))) * (ctx.mpf(scale) / ctx.mpf(step))
            turn = 2 * ctx.pi * _interval(ctx, angle)
            rounded = _decided(place, _ends(length * (ctx.sin(turn) if sine else ctx.cos(turn))))
            if rounded is not None:
                return rounded
        radius.extend()
        angle.extend()


@cache
def _context(bits: int) -> Any:
    """Return interval arithmetic of mpmath, so precise that the unknown bits are what counts."""
    import mpmath

    ctx = mpmath.ctx_iv.MPIntervalContext()
    ctx.prec = bits + _GUARD_BITS
    return ctx


def _interval(ctx: Any, uniform: LazyUniform) -> Any:
    return ctx.mpf([uniform.prefix, uniform.prefix + 1]) / ctx.mpf(2) ** uniform.bits


def _ends(interval: Any) -> tuple[Fraction, Fraction]:
    from mpmath.libmp import to_rational

    low, high = interval._mpi_
    return Fraction(*to_rational(low)), Fraction(*to_rational(high))


def _decided(place: Fraction, noise: tuple[Fraction, Fraction]) -> int | None:
    """Return the nearest whole number if it is the same over the whole interval."""
    low, high = (floor(place + end + Fraction(1, 2)) for end in noise)
    return low if low == high else None
