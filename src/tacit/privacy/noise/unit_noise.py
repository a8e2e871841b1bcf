"""Noise of scale one for simulations, cheap enough to draw inside a round.

A counter-based generator in 32-bit integers: agent, round, phase, leaf and coordinate are hashed to a word, and the
word is mapped to a number. There is no state, so a draw does not depend on how rounds are cut into chunks or on which
other agents are simulated. It is *not* cryptographic: peers that guard real data draw from the operating system's
entropy.

Why not `jax.random`: drawing by its threefry costs several times the whole rest of a round (`python -m
benchmarks.noise`). The statistical tests that the words must pass instead are in tests/privacy/test_unit_noise.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tacit.core.contract import Array, Key
from tacit.core.errors import ContractError

_LARGEST = 2**16
"""Phases and leaves are numbered below this."""
_GOLDEN, _ROOT3 = 0x9E3779B9, 0xBB67AE85
"""Odd increments (fractions of the golden ratio and of the root of 3) that take a counter through all 32-bit words."""
_SIGN = 0x80000000


class NoiseWords(NamedTuple):
    """64 bits that belong to one agent, round and phase."""

    first: Array
    """uint32."""
    second: Array
    """uint32."""


def noise_words(agent_key: Key, round_: Array | int, phase: int) -> NoiseWords:
    """Hash an agent's key of a whole run, a round and a phase; for one key no two of these share their words.

    Args:
      agent_key: JAX key of the agent, the same in all rounds.
      round_: Number of the round, from 1 on.
      phase: Index of the phase, from 0 to 65,535.

    Returns:
      The seed of that release's noise.
    """
    _check_number("phase", phase)
    data = jax.random.key_data(agent_key)
    moment = _scramble(jnp.asarray(round_).astype(jnp.uint32), jnp.uint32(phase))
    return _scramble(data[0] ^ moment.first, data[1] ^ moment.second)


def unit_laplace(words: NoiseWords, leaf: int, shape: Sequence[int], dtype: jnp.dtype) -> Array:
    """Draw Laplace noise of scale 1, independent in every coordinate; for simulations only.

    Single precision uses one word per coordinate and reaches 22 scales, double precision two (53 bits) and 36. Both
    start from the same word, so that they agree but for the resolution. A longer first axis leaves the earlier draws
    as they are. Words are the same bits everywhere; their numbers may differ in the last places between programs,
    since a compiler may round a product and a sum together.

    Args:
      words: Seed of the agent's release, from `noise_words`.
      leaf: Number of the array within the release, from 0 to 65,535.
      shape: Shape of the draw.
      dtype: float32 or float64.

    Example:
      >>> import jax
      >>> from tacit.privacy.noise import noise_words, unit_laplace
      >>> unit_laplace(noise_words(jax.random.key(0), round_=1, phase=0), 0, (4,), "float32").shape
      (4,)
    """
    sign, magnitude = _sign_and_exponential(words, leaf, tuple(shape), jnp.dtype(dtype))
    return _with_sign(magnitude, sign).astype(dtype)


def unit_gaussian(words: NoiseWords, leaf: int, shape: Sequence[int], dtype: jnp.dtype) -> Array:
    """Draw Gaussian noise of standard deviation 1, independent in every coordinate; for simulations only.

    The quantile function is applied to the very word from which the Laplace draw is made; draws reach 6.3 deviations in
    single and 8.2 in double precision.

    Args:
      words: Seed of the agent's release, from `noise_words`.
      leaf: Number of the array within the release, from 0 to 65,535.
      shape: Shape of the draw.
      dtype: float32 or float64.
    """
    dtype = jnp.dtype(dtype)
    sign, magnitude = _sign_and_exponential(words, leaf, tuple(shape), dtype)
    if dtype == jnp.float64:
        gaussian = math.sqrt(2) * lax.erf_inv(-jnp.expm1(-magnitude))
    else:
        gaussian = magnitude * jnp.sqrt(
            _polynomial(_HALF_NORMAL_ABOVE, magnitude) / _polynomial(_HALF_NORMAL_BELOW, magnitude)
        )
    return _with_sign(gaussian, sign).astype(dtype)


# -- words -------------------------------------------------------------------------------------------------------------


def _mix(x: Array) -> Array:
    """Permute 32-bit words so that every bit depends on every bit (`lowbias32` of C. Wellons' hash prospector)."""
    x = (x ^ (x >> jnp.uint32(16))) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> jnp.uint32(15))) * jnp.uint32(0x846CA68B)
    mixed: Array = x ^ (x >> jnp.uint32(16))
    return mixed


def _mix_otherwise(x: Array) -> Array:
    """Permute 32-bit words in another way (also found by the hash prospector)."""
    x = (x ^ (x >> jnp.uint32(15))) * jnp.uint32(0xD168AAAD)
    x = (x ^ (x >> jnp.uint32(15))) * jnp.uint32(0xAF723597)
    mixed: Array = x ^ (x >> jnp.uint32(15))
    return mixed


def _scramble(first: Array, second: Array) -> NoiseWords:
    """Permute pairs of words: two steps of a Feistel network, so different pairs stay different."""
    second ^= _mix(first + jnp.uint32(_GOLDEN))
    first ^= _mix_otherwise(second)
    return NoiseWords(first, second)


def random_words(words: NoiseWords, leaf: int, shape: tuple[int, ...], part: int = 0) -> Array:
    """One uniform 32-bit word per coordinate; `part` 0 or 1 gives two independent ones.

    The counter enters before both mixers: with one alone the words of an array would all be different, which random
    ones are not.
    """
    _check_number("leaf", leaf)
    count = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    # Constants for the compiler, since XLA repeats what is done once per agent in the loop over its coordinates.
    own = _scramble(jnp.uint32(2 * leaf + part), jnp.uint32(0))
    first, second = words.first ^ own.first, words.second ^ own.second
    inner = _mix(count * jnp.uint32(_GOLDEN) + first)
    return _mix_otherwise(inner ^ (count * jnp.uint32(_ROOT3) + second))


def _check_number(what: str, value: int) -> None:
    if not 0 <= value < _LARGEST:
        raise ContractError(f"{what} {value} of a release; expected a number from 0 to {_LARGEST - 1}, so use fewer")


# -- numbers -----------------------------------------------------------------------------------------------------------


def _sign_and_exponential(
    words: NoiseWords, leaf: int, shape: tuple[int, ...], dtype: jnp.dtype
) -> tuple[Array, Array]:
    """Sign bit (in its place) and -log of a uniform number in (0, 1) made of the other bits, never of 0."""
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ContractError(f"noise for a leaf of type {dtype}; expected a floating type, so release numbers as such")
    word = random_words(words, leaf, shape)
    sign = word & jnp.uint32(_SIGN)
    top = lax.bitcast_convert_type(word ^ sign, jnp.int32)
    if dtype == jnp.float64:
        more = (random_words(words, leaf, shape, part=1) >> jnp.uint32(11)).astype(jnp.float64)
        return sign, -jnp.log((top.astype(jnp.float64) * 2.0**21 + more + 0.5) * 2.0**-52)
    return sign, _exponential(top.astype(jnp.float32) + jnp.float32(0.5))


def _exponential(value: Array) -> Array:
    """-log(value / 2**31) for 0 < value <= 2**31, within 3e-7 relative; `jnp.log` would look for cases that never come.

    value = 2**e (1 + m) with 1 + m between the roots of 1/2 and 2; log(1 + m) is m times a polynomial.
    """
    bits = lax.bitcast_convert_type(value, jnp.int32)
    exponent = (bits - jnp.int32(0x3F3504F3)) & jnp.int32(-0x800000)  # e * 2**23; the constant is the root of 1/2
    m = lax.bitcast_convert_type(bits - exponent, jnp.float32) - 1
    doublings = (jnp.int32(31 << 23) - exponent).astype(jnp.float32)
    magnitude: Array = doublings * jnp.float32(math.log(2) / 2**23) - m * _polynomial(_LOG, m)
    return magnitude


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Constant term first. Halving (Estrin) instead of Horner's long chain is a third faster here."""
    terms: list[Array] = [jnp.float32(c) for c in coefficients]
    while len(terms) > 1:
        odd = terms[1::2]
        terms = [even + odd[k] * x if k < len(odd) else even for k, even in enumerate(terms[::2])]
        x = x * x
    return terms[0]


def _with_sign(magnitude: Array, sign: Array) -> Array:
    if magnitude.dtype == jnp.float64:
        return jnp.where(sign == 0, magnitude, -magnitude)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(magnitude, jnp.uint32) ^ sign, jnp.float32)


# Least largest relative error, fitted for this module. log(1 + m) / m, for m in [1/sqrt(2) - 1, sqrt(2) - 1]: 1.7e-7.
_LOG = (0.999999945, -0.500003651, 0.333350589, -0.24969909, 0.199001661, -0.172508314, 0.162225756, -0.101068837)
# (g / y)**2 as a quotient, for y in [0, 32 log 2], where P(|N(0, 1)| > g) = exp(-y).
_HALF_NORMAL_ABOVE = (1.57079333, 1.93619324, 0.488297206, 0.0200738347)
_HALF_NORMAL_BELOW = (1.0, 2.23250947, 1.43744508, 0.272195383, 0.0100905699)
"""Relative error of g at most 1e-6."""
