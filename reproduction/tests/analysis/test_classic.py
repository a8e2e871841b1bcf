"""The classic calibration, its sums, and the sum of a schedule of zCDP, against each other and against real runs."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.core.contract import Extent, Links, View
from tacit.core.errors import ConfigError
from tacit.privacy import classic_gaussian, decaying_gaussian
from tacit.privacy.conversions import gaussian_epsilon, loose, tight
from tacit.privacy.mechanisms import classic_multiplier
from tacit.privacy.planning import noise_for, total_rho
from tacit.streams import linear_regression
from tacit_reproduction.analysis.classic import Classic, classic_share, classic_total

fixed = settings(derandomize=True, deadline=None, max_examples=60)


def view(t: int) -> View:
    links = Links(jnp.array([0, 1]), jnp.ones(2, bool), jnp.full(2, 0.5))
    return View(jnp.int32(0), jnp.int32(t), jnp.array(True), jnp.int32(0), links, links)


def test_the_multiplier_is_that_of_the_theorem() -> None:
    assert classic_multiplier(0.5, 1e-5) == pytest.approx(math.sqrt(2 * math.log(125_000)) / 0.5, rel=1e-12)


@fixed
@given(st.floats(1e-3, 0.999), st.floats(1e-9, 1e-2))
def test_the_calibration_keeps_its_word_and_asks_for_more_than_needed(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(1 / classic_multiplier(epsilon, delta), delta) < epsilon


@fixed
@given(st.floats(0.01, 20), st.floats(1e-8, 0.1), st.integers(50, 400), st.floats(0.99, 1))
def test_shares_add_up_to_the_total_round_by_round(epsilon: float, delta: float, releases: int, decay: float) -> None:
    share = classic_share(epsilon, delta, releases, decay)
    rounds = [share.epsilon * decay ** (-n / 2) for n in range(releases)]
    assert math.fsum(rounds) == pytest.approx(epsilon, rel=1e-9)
    assert share.delta * releases == pytest.approx(delta, rel=1e-12)
    assert classic_total(*share, releases, decay) == pytest.approx(Classic(epsilon, delta), rel=1e-12)


def test_noise_of_every_round_is_that_of_its_own_epsilon() -> None:
    mechanism = classic_gaussian(0.2, 1e-6, clip=0.5, decay=0.81)
    extent = Extent(coordinates=9, records=4)
    for t in (1, 2, 5):
        noise = mechanism.noise(view(t), extent)
        assert noise is not None
        own = classic_multiplier(0.2 * 0.9 ** -(t - 1), 1e-6)
        assert float(noise.sensitivity) == pytest.approx(2 * 0.5 / 4)
        assert float(noise.scale / noise.sensitivity) == pytest.approx(own, rel=1e-6)
    constant = classic_gaussian(0.2, 1e-6, clip=0.5)
    assert float(constant.noise(view(9), extent).scale) == pytest.approx(classic_multiplier(0.2, 1e-6) * 0.25, rel=1e-6)
    assert (mechanism.name, mechanism.distribution, mechanism.perturbs) == ("classic_gaussian", "gaussian", "update")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: classic_gaussian(1.0, 1e-5, clip=1.0), "below 1"),
        (lambda: classic_gaussian(0.0, 1e-5, clip=1.0), "positive"),
        (lambda: classic_gaussian(True, 1e-5, clip=1.0), "positive"),
        (lambda: classic_gaussian(0.5, 0.0, clip=1.0), "between 0 and 1"),
        (lambda: classic_gaussian(0.5, 1.0, clip=1.0), "between 0 and 1"),
        (lambda: classic_gaussian(0.5, 1e-5, clip=0.0), "clip"),
        (lambda: classic_gaussian(0.5, 1e-5, clip=1.0, decay=1.5), "decay"),
        (lambda: classic_total(0.5, 1e-5, 3, 0.25), "release 3 has 2"),
        (lambda: classic_share(400.0, 1e-5, 200), "release 200 has 2"),
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


@pytest.mark.parametrize("classic", [pytest.param(False, marks=pytest.mark.slow), True], ids=["zcdp_admm", "dp_admm"])
def test_a_run_books_the_sum_of_all_rounds(classic: bool) -> None:
    """Both recursions, on agents of different degrees: sensitivities differ, what is spent does not."""
    rounds, decay = 12, 0.9
    first = classic_multiplier(0.3, 1e-6) if classic else 5.0
    mechanism = classic_gaussian(0.3, 1e-6, 1.0, decay) if classic else decaying_gaussian(5.0, decay, 1.0)
    method = tacit.algorithms.dp_admm if classic else tacit.algorithms.zcdp_admm
    run = tacit.simulate(
        method(tacit.objectives.absolute(), mechanism=mechanism),
        tacit.graphs.star(4),
        linear_regression(4, 3, 2).stream(),
        rounds=rounds,
        progress=False,
    )
    assert run.privacy.guarantee is not None
    assert run.privacy.guarantee.rho == pytest.approx(total_rho(1 / (2 * first**2), rounds, decay), rel=1e-6)
    assert run.privacy.guarantee.epsilon == pytest.approx(tight(run.privacy.guarantee.rho, 1e-5), rel=1e-9)
    assert np.isfinite(run.models).all()
