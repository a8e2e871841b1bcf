"""Compressors: what of a message's numbers few bytes can say, in the terms of `tacit.core.packing`.

Scales of rounded numbers keep so few binary digits that every multiple is a number of the same type, without rounding:
then what is unpacked is what was packed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import proportion, whole_number
from tacit.core.contract import Array
from tacit.core.errors import ConfigError
from tacit.core.packing import EveryFew, Largest, Packing, Rounded, Signs
from tacit.privacy.noise.unit_noise import NoiseWords, random_words


class Compressor(NamedTuple):
    """One way to round messages."""

    packing: Packing
    rounded: Callable[[Array, NoiseWords, int], Array]
    """(numbers, seed of the message, number of the array) -> numbers that the packing can write."""
    needs_memory: bool = False
    """Whether it leaves out so much that only differences can be sent by it."""
    gamma: float = 1.0
    """With memories, how far an agent moves where nothing else is said: steady on rings with a margin of 2 or more."""


def int8(stochastic: bool = True, block: int = 256) -> Compressor:
    """Whole multiples from -127 to 127 of a scale."""
    return _rounding(Rounded(8, _block(block)), stochastic)


def int4(stochastic: bool = True, block: int = 64) -> Compressor:
    """Whole multiples from -7 to 7 of a scale."""
    return _rounding(Rounded(4, _block(block)), stochastic)


def top_k(share: float = 0.1) -> Compressor:
    """The largest numbers of each array."""
    packing = Largest(_share(share))

    def rounded(x: Array, words: NoiseWords, leaf: int) -> Array:
        chosen = jax.lax.top_k(jnp.abs(x), packing.kept(x.size))[1]
        return jnp.zeros_like(x).at[chosen].set(x[chosen])

    return Compressor(packing, rounded, True, min(1.0, 4 * share))


def every_k(share: float = 0.1) -> Compressor:
    """Every few-th number of each array, from a place drawn anew in every round."""
    stride = max(2, round(1 / _share(share)))

    def rounded(x: Array, words: NoiseWords, leaf: int) -> Array:
        first = random_words(words, leaf, (1,))[0] % jnp.uint32(min(stride, x.size))
        here = jnp.arange(x.size, dtype=jnp.uint32) % jnp.uint32(stride) == first
        return jnp.where(here, x, jnp.zeros((), x.dtype))

    return Compressor(EveryFew(stride), rounded, True, 1 / stride)


def sign(block: int = 256) -> Compressor:
    """Signs, each of the mean size of its block."""
    packing = Signs(_block(block))

    def rounded(x: Array, words: NoiseWords, leaf: int) -> Array:
        rows = _rows(jnp.abs(x), packing.block)
        counts = _rows(jnp.ones_like(x), packing.block)
        size = jnp.sum(rows, axis=1) / jnp.sum(counts, axis=1)
        each = jnp.repeat(size, packing.block)[: x.size]
        return jnp.where(x < 0, -each, each)

    return Compressor(packing, rounded, True, 0.3)


COMPRESSORS: Mapping[str, Callable[..., Compressor]] = MappingProxyType(
    {"int8": int8, "int4": int4, "top_k": top_k, "every_k": every_k, "sign": sign}
)
"""Kind -> its constructor."""


def _rounding(packing: Rounded, stochastic: bool) -> Compressor:
    if not isinstance(stochastic, bool):
        raise ConfigError(f"stochastic = {stochastic!r}: expected true or false")
    digits = packing.bits - 1

    def rounded(x: Array, words: NoiseWords, leaf: int) -> Array:
        rows = _rows(x, packing.block)
        scale = _shortened(jnp.max(jnp.abs(rows), axis=1, keepdims=True) / packing.most, digits)
        ratio = rows / jnp.where(scale > 0, scale, 1)
        if stochastic:
            drawn = random_words(words, leaf, (rows.size,)).reshape(rows.shape) >> 8
            whole = jnp.floor(ratio + drawn.astype(jnp.float32).astype(x.dtype) * 2.0**-24)
        else:
            whole = jnp.round(ratio)
        return (jnp.clip(whole, -packing.most, packing.most) * scale).reshape(-1)[: x.size]

    return Compressor(packing, rounded)


def _shortened(scale: Array, digits: int) -> Array:
    """Return numbers of which the last binary digits are 0; what is too small for that is 0."""
    kind = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}[scale.dtype.itemsize]
    bits = jax.lax.bitcast_convert_type(scale, kind)
    short = jax.lax.bitcast_convert_type(bits >> digits << digits, scale.dtype)
    small = jnp.abs(scale) < float(jnp.finfo(scale.dtype).tiny) * 2**digits  # type: ignore[no-untyped-call]
    return jnp.where(small, jnp.zeros((), scale.dtype), jnp.where(jnp.isfinite(scale), short, scale))


def _rows(x: Array, block: int) -> Array:
    rows = -(-x.size // block)
    return jnp.pad(x, (0, rows * block - x.size)).reshape(rows, block)


def _block(block: int) -> int:
    return whole_number("block", block, "numbers with one scale", least=2, most=2**20)


def _share(share: float) -> float:
    return proportion("share", share, "the part that is sent")
