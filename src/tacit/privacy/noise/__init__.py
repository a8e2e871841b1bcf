"""Noise: exact draws for peers, quick ones for simulations, and masks on a fixed-point grid."""

from __future__ import annotations

from tacit.privacy.noise.entropy import NoiseSource
from tacit.privacy.noise.fixed_point import from_grid, hides
from tacit.privacy.noise.sampling import grid_step, release_on_grid
from tacit.privacy.noise.unit_noise import NoiseWords, noise_words, unit_gaussian, unit_laplace

__all__ = [
    "NoiseSource",
    "NoiseWords",
    "from_grid",
    "grid_step",
    "hides",
    "noise_words",
    "release_on_grid",
    "unit_gaussian",
    "unit_laplace",
]
