"""Convolutions as matrix products with the patches of an image."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tacit.core.messages import Array


def patches(image: Array, kernel: tuple[int, ...], settings: Mapping[str, Any]) -> Array:
    """Return what a kernel sees at each place: (images, places along each axis, ..., the kernel's places x channels).

    Args:
      image: As `jax.lax.conv_general_dilated` takes it.
      kernel: Shape of the kernel, likewise.
      settings: Of that operation: dimension_numbers, window_strides, padding, lhs_dilation, rhs_dilation.
    """
    numbers = settings["dimension_numbers"]
    last = image.transpose(numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1])
    sides = [kernel[k] for k in numbers.rhs_spec[2:]]
    strides, apart, dilated = settings["window_strides"], settings["rhs_dilation"], settings["lhs_dilation"]
    edges = [(low, high, gap - 1) for (low, high), gap in zip(settings["padding"], dilated, strict=True)]
    padded = jax.lax.pad(last, jnp.zeros((), last.dtype), [(0, 0, 0), *edges, (0, 0, 0)])
    reach = [(side - 1) * gap + 1 for side, gap in zip(sides, apart, strict=True)]
    places = [(n - r) // s + 1 for n, r, s in zip(padded.shape[1:-1], reach, strides, strict=True)]
    parts = []
    for place in itertools.product(*map(range, sides)):
        first = [k * gap for k, gap in zip(place, apart, strict=True)]
        beyond = [f + (n - 1) * s + 1 for f, n, s in zip(first, places, strides, strict=True)]
        parts.append(
            jax.lax.slice(padded, [0, *first, 0], [padded.shape[0], *beyond, padded.shape[-1]], [1, *strides, 1])
        )
    return jnp.concatenate(parts, axis=-1)
