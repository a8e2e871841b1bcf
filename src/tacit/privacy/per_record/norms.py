"""Norm of one record's gradient from the matrices of its layers: never below that of what the record then contributes.

A record's gradient for a layer is P^T G (see `layers`), and its contribution to the sum over the batch is P^T (k G), of
the very P and G that the norm is taken of: no second backward pass, which would round otherwise. P and G are first
divided by powers of two, so that their largest entries are from 1/2 to 1: exact, and nothing overflows. Then with
S = ||P|| ||G||, u = eps / 2, and gamma_n <= n u (1 + n u) for a sum of n products in any order, with or without fused
multiplication, the computed norm N is at least that of P^T G in exact arithmetic for

- one row, P^T G = p g^T: N = ||p|| ||g||, which holds but for the relative error of two norms. This is the usual dense
  layer, at a price of (inputs + outputs) instead of inputs x outputs;
- few rows: N^2 = sum_st (p_s . p_t) (g_s . g_t) + (inputs + outputs + blocks + 8) eps S^2. The terms may cancel, so
  that the error is one of S^2, and is added;
- many rows: N = ||P^T G|| + (rows + 8) eps S, the error of the product, whose entries may cancel as well.

Where there is room for the gradients themselves of all records, N is their norm, and they are what is summed.

The 8 eps cover the rounding of k G. Norms are sums of squares in blocks of 32 (see `clipping`): a relative error of at
most 16 roundings for each of their levels, which lowers the bound like the roundings that are counted here. The sum of
all records' contributions is rounded like any sum, as that of gradients clipped one by one is.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Clip
from tacit.privacy.clipping import BLOCK, blocked_sum, rounded_down
from tacit.privacy.per_record.layers import Layer, Lookup

_SLACK = 8
"""Roundings of a product that are covered besides those of its sums: see above."""
_FIXED = 40
"""Roundings of the total: two square roots and a division at 2 ulp, products; 20 are counted, taken twice."""
_CHEAPER = 4
"""By how much sums over pairs of rows have to be cheaper than the gradient to be taken: they are less precise."""


class Size(NamedTuple):
    """A bound on a norm: mantissa x 2^exponent, so that no product of large or small numbers overflows."""

    mantissa: Array
    exponent: Array
    roundings: int
    """Relative error of the mantissa, in units of eps."""


def power_of_two(exponent: Array, dtype: jnp.dtype) -> Array:
    """Return 2^exponent, exactly, for exponents of normal numbers; those beyond are taken as the last ones."""
    about = np.finfo(dtype)
    bits: Array = (jnp.clip(exponent, about.minexp, about.maxexp - 1) - about.minexp + 1).astype(f"int{about.bits}")
    return jax.lax.bitcast_convert_type(bits << about.nmant, dtype)


class Scale(NamedTuple):
    """The power of two next above the largest entry of some arrays."""

    exponent: Array
    finite: Array
    """Whether that entry is."""

    @classmethod
    def of(cls, arrays: list[Array]) -> Scale:
        """Return the scale of one record's arrays."""
        dtype = arrays[0].dtype
        largest = jnp.zeros((), dtype)
        for array in arrays:
            largest = jnp.maximum(largest, jnp.max(jnp.abs(array), initial=0).astype(dtype))
        finite = jnp.isfinite(largest)
        about = np.finfo(dtype)
        bits = jax.lax.bitcast_convert_type(jnp.where(finite, largest, 1), f"int{about.bits}")
        return cls((bits >> about.nmant).astype(jnp.int32) + about.minexp, finite)

    def divided(self, array: Array) -> Array:
        """Return an array over that power, exactly; zeros where it is not finite."""
        half = self.exponent // 2
        first, second = (power_of_two(-part, array.dtype) for part in (half, self.exponent - half))
        return jnp.where(self.finite, array * first * second, 0)


def norm(arrays: list[Array]) -> tuple[Array, int]:
    """Return the l2 norm of arrays that are scaled, and its relative error in units of eps."""
    total, deepest = jnp.zeros((), arrays[0].dtype), 0
    for array in arrays:
        part, levels = blocked_sum(array * array)
        total, deepest = total + part, max(deepest, levels)
    return jnp.sqrt(total), BLOCK // 2 * deepest + len(arrays)


def roundings_of(arrays: list[jax.ShapeDtypeStruct]) -> int:
    """Return the relative error of the norm of arrays of these shapes, in units of eps."""
    return norm([jnp.zeros(array.shape, array.dtype) for array in arrays])[1]


def of_layer(layer: Layer, seen: Array, said: Array) -> Size:
    """Return the norm of one record's gradient for a layer, of what it saw and what was said of its output, scaled."""
    rows, outputs = layer.matrices(seen, said)
    eps = float(np.finfo(outputs.dtype).eps)
    zero = jnp.int32(0)
    back, second = norm([outputs])
    if isinstance(layer, Lookup):
        count = rows.shape[0]
        same = (rows[:, None] == rows[None, :]).astype(outputs.dtype)
        return Size(*_of_pairs(same, outputs, back * count**0.5, outputs.shape[1], eps), 2 * second)
    front, first = norm([rows])
    most = front * back
    if rows.shape[0] == 1:
        return Size(most, zero, first + second)
    if in_pairs(rows.shape[0], rows.shape[1], outputs.shape[1]):
        alike = product(rows, rows.T)
        return Size(*_of_pairs(alike, outputs, most, rows.shape[1] + outputs.shape[1], eps), first + second)
    formed, third = norm([product(rows.T, outputs)])
    return Size(formed + (rows.shape[0] + _SLACK) * eps * most, zero, max(third, first + second))


def in_pairs(rows: int, inputs: int, outputs: int) -> bool:
    """Whether sums over pairs of rows are so much cheaper than the gradient itself."""
    return _CHEAPER * rows * (inputs + outputs) < inputs * outputs


def _of_pairs(alike: Array, outputs: Array, most: Array, terms: int, eps: float) -> tuple[Array, Array]:
    together, levels = blocked_sum(alike * product(outputs, outputs.T))
    covered = (terms + BLOCK * levels + _SLACK) * eps
    return jnp.sqrt(jnp.maximum(together, 0) + covered * most * most), jnp.int32(0)


def product(a: Array, b: Array) -> Array:
    """Return a matrix product in full precision, on a GPU too."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def factors(sizes: list[Size], present: Array, clip: Clip) -> tuple[list[Array], Array]:
    """Return what each scaled part of one record's gradient is multiplied by, and whether the record is cut.

    `present` is False where a record is absent or not finite: it contributes nothing.
    """
    dtype = jnp.result_type(*(size.mantissa for size in sizes))
    highest = jnp.max(jnp.stack([jnp.where(s.mantissa > 0, s.exponent, -(2**20)) for s in sizes]))
    total = jnp.zeros((), dtype)
    for size in sizes:
        lift = power_of_two(jnp.minimum(size.exponent - highest, 0), dtype)
        total = total + jnp.square(size.mantissa * lift)
    whole = jnp.sqrt(total)
    eps = max(float(np.finfo(size.mantissa.dtype).eps) for size in sizes)
    roundings = _FIXED + len(sizes) + max(size.roundings for size in sizes)
    lowered = rounded_down(clip.bound * (1 - roundings * eps), dtype)
    # From 2^-30 to 2^30 is a bound, and a norm is below 2^64 of its power of two: beyond that it is clear.
    half = jnp.clip(highest, -120, 120) // 2
    rest = jnp.clip(highest, -120, 120) - half
    inside = whole * power_of_two(half, dtype) * power_of_two(rest, dtype) <= lowered
    cut = lowered / jnp.where(whole > 0, whole, 1)
    ok = present & jnp.isfinite(whole)

    def factor(size: Size) -> Array:
        kept = power_of_two(size.exponent, dtype)
        down = cut * power_of_two(jnp.minimum(size.exponent - highest, 0), dtype)
        found: Array = jnp.where(ok & (size.mantissa > 0), jnp.where(inside, kept, down), 0)
        return found

    return [factor(size) for size in sizes], ok & ~inside
