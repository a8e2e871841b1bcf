"""Noise: exact draws for peers, quick ones for simulations, and masks on a fixed-point grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.privacy.noise.entropy import NoiseSource as NoiseSource
    from tacit.privacy.noise.fixed_point import from_grid as from_grid
    from tacit.privacy.noise.fixed_point import hides as hides
    from tacit.privacy.noise.sampling import grid_step as grid_step
    from tacit.privacy.noise.sampling import release_on_grid as release_on_grid
    from tacit.privacy.noise.unit_noise import NoiseWords as NoiseWords
    from tacit.privacy.noise.unit_noise import noise_words as noise_words
    from tacit.privacy.noise.unit_noise import unit_gaussian as unit_gaussian
    from tacit.privacy.noise.unit_noise import unit_laplace as unit_laplace

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "entropy": "NoiseSource",
        "fixed_point": "from_grid hides",
        "sampling": "grid_step release_on_grid",
        "unit_noise": "NoiseWords noise_words unit_gaussian unit_laplace",
    },
)
