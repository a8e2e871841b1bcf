"""The classic calibration of Gaussian noise, and the sum of a schedule of zCDP, against theorem and corollary."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError
from tacit.privacy import classic_gaussian
from tacit.privacy.conversions import gaussian_epsilon, loose, tight
from tacit.privacy.mechanisms import classic_multiplier
from tacit.privacy.planning import noise_for, total_rho


def test_the_multiplier_is_that_of_the_theorem() -> None:
    assert classic_multiplier(0.5, 1e-5) == pytest.approx(math.sqrt(2 * math.log(125_000)) / 0.5, rel=1e-12)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(1e-3, 0.999), st.floats(1e-9, 1e-2))
def test_the_calibration_keeps_its_word_and_asks_for_more_than_needed(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(1 / classic_multiplier(epsilon, delta), delta) < epsilon


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: classic_gaussian(1.0, 1e-5, clip=1.0), "below 1"),
        (lambda: classic_gaussian(0.0, 1e-5, clip=1.0), "above 0"),
        (lambda: classic_gaussian(True, 1e-5, clip=1.0), "above 0"),
        (lambda: classic_gaussian(0.5, 0.0, clip=1.0), "above 0 and below 1"),
        (lambda: classic_gaussian(0.5, 1.0, clip=1.0), "above 0 and below 1"),
        (lambda: classic_gaussian(0.5, 1e-5, clip=0.0), "clip"),
        (lambda: classic_gaussian(0.5, 1e-5, clip=1.0, decay=1.5), "decay"),
        (lambda: total_rho(-1.0, 3), "first"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(call, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


def test_a_schedule_s_total_is_the_corollary_s() -> None:
    """Gauthier (2023), corollary of Theorem I: phi_1 (1 - zeta^T) / (zeta^(T-1) - zeta^T), by the loose rule."""
    first, zeta, rounds, delta = 1e-3, 0.99, 300, 1e-5
    printed = first * (1 - zeta**rounds) / (zeta ** (rounds - 1) - zeta**rounds)
    rho = total_rho(first, rounds, zeta)
    assert rho == pytest.approx(printed, rel=1e-12)
    assert rho == pytest.approx(math.fsum(first * zeta**-n for n in range(rounds)), rel=1e-12)
    assert rho == pytest.approx(1.9205, rel=1e-3)  # not the 0.095 that Gauthier (2023), ch. 5 prints: its phi_n grow
    assert loose(rho, delta) == pytest.approx(printed + 2 * math.sqrt(printed * math.log(1 / delta)), rel=1e-12)
    noise = noise_for("gaussian", 4.0, delta, rounds, zeta)
    assert tight(total_rho(1 / (2 * noise**2), rounds, zeta), delta) == pytest.approx(4.0, rel=1e-9)
