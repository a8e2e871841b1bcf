"""What leaves lies on the grid and is rounded as exact arithmetic says."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit.core.contract import Distribution
from tacit.core.errors import PrivacyError
from tacit.privacy.noise import exact, sampling
from tacit.privacy.noise.entropy import NoiseSource
from tacit.privacy.noise.exact import LazyUniform
from tacit.privacy.noise.sampling import grid_step, release_on_grid
from tests.privacy.draws import ALPHA, CONTINUOUS, Scripted, draws, seeded

# --- what it is for ---------------------------------------------------------------------------------------------------


def naive_laplace(value: float, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return value + rng.choice([-1.0, 1.0], count) * np.log(1 - rng.random(count))


def off_grid(outputs: np.ndarray, step: float) -> int:
    steps = outputs / step
    return int(np.sum(steps != np.rint(steps)))


def test_naive_noise_is_told_apart_and_noise_on_the_grid_is_not() -> None:
    """A multiple of 2^-53 is all that 1 + noise can be; 0 + noise nearly always is something else."""
    assert off_grid(naive_laplace(1.0, 10**6), 2.0**-53) == 0
    assert off_grid(naive_laplace(0.0, 10**6), 2.0**-53) > 100_000
    for value in (0.0, 1.0, 1 / 3, 1e-300):
        for distribution in CONTINUOUS:
            released = draws(distribution, 10**6, value=value)
            assert off_grid(released, 2.0**-53) == 0
            assert off_grid(released, grid_step(1.0)) == 0


def test_a_released_zero_has_no_sign() -> None:
    """It would be that of the value: only for a negative one could -0 come out."""
    value = np.asarray([-0.3 * grid_step(1.0)])
    for distribution, words in (("laplace", [2**64 - 1]), ("gaussian", [2**64 - 2**45, 2**62])):
        (released,) = release_on_grid(value, distribution, 1.0, Scripted(*words))  # type: ignore[arg-type]
        assert released == 0
        assert not np.signbit(released)


def test_the_grid_depends_on_the_scale_alone() -> None:
    for scale in (1.0, 1.5, 2.0, 0.1, 3e-7, 2.0**-500, 2.0**500):
        step = grid_step(scale)
        assert math.frexp(step)[0] == 0.5
        assert 2**20 <= scale / step < 2**21
    for value in (0.0, 1e9, -1e-9):
        assert off_grid(draws("laplace", 1000, scale=0.3, value=value), grid_step(0.3)) == 0


# --- exactness --------------------------------------------------------------------------------------------------------


def in_one_go(values: np.ndarray, distribution: Distribution, scale: float, bound: float | None = None) -> np.ndarray:
    return release_on_grid(values, distribution, scale, seeded(5), bound=bound, simulation=True)


@pytest.mark.parametrize(
    ("distribution", "bound"),
    [("laplace", None), ("gaussian", None), ("bounded_laplace", 0.31), ("bounded_laplace", 1e9)],
)
@pytest.mark.parametrize("scale", [1.0, 0.7, 2.0**-400])
def test_exact_arithmetic_decides_as_floating_point_does(
    distribution: Distribution, bound: float | None, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    values = scale * np.concatenate(
        [rng.normal(size=150), 10.0 ** rng.uniform(-30, 20, 151) * rng.choice([-1, 1], 151)]
    )
    limit = None if bound is None else bound * scale
    fast = in_one_go(values, distribution, scale, limit)
    calls = spy(monkeypatch)
    monkeypatch.setattr(sampling, "_LAPLACE_ERROR", 1.0)
    monkeypatch.setattr(sampling, "_GAUSSIAN_ERROR", 1.0)
    slow = in_one_go(values, distribution, scale, limit)
    assert len(calls) == len(values)
    np.testing.assert_array_equal(slow, fast)


def spy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    for name in ("rounded_laplace", "rounded_gaussian"):
        original: Callable[..., int] = getattr(exact, name)

        def noted(*args: Any, _name: str = name, _original: Callable[..., int] = original, **kwargs: Any) -> int:
            calls.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(sampling, name, noted)
    return calls


def ideal(name: str, words: list[int], tail: Fraction) -> list[Any]:
    """Noise of the uniforms 0.word tail, with 200 digits."""
    with mpmath.workdps(200):
        uniforms = [
            (mpmath.mpf(w >> 1) + mpmath.mpf(tail.numerator) / tail.denominator) / mpmath.mpf(2) ** 63 for w in words
        ]
        if name == "laplace":
            return [(1 if w & 1 else -1) * mpmath.log(u) for w, u in zip(words, uniforms, strict=True)]
        r, turn = mpmath.sqrt(-2 * mpmath.log(uniforms[0])), 2 * mpmath.pi * uniforms[1]
        return [r * mpmath.cos(turn), r * mpmath.sin(turn)]


EXTREMES = [1, 2, 3, 2**44 - 1, 2**44, 2**44 + 1, 2**63, 2**64 - 1, 2**64 - 2, 2**63 - 1, 12345678901234567891]


@pytest.mark.parametrize("word", EXTREMES)
@pytest.mark.parametrize("value", [0.0, 1 / 3, -1e12])
def test_laplace_at_the_ends_of_the_uniform(word: int, value: float) -> None:
    """U next to 0, where the prefix alone says little, and next to 1."""
    source = Scripted(word, 2**61)  # further bits: one eighth, not the half that a fast draw takes for granted
    (released,) = release_on_grid(np.asarray([value]), "laplace", 1.0, source)
    (noise,) = ideal("laplace", [word], Fraction(1, 8))
    assert released == nearest(value, noise)


@pytest.mark.parametrize("radius", [*EXTREMES, 2**64 - 2**43, 2**64 - 2**45])
@pytest.mark.parametrize("angle", [0, 2**62, 2**64 - 1, 987654321987654321])
def test_gaussian_at_the_ends_of_the_uniforms(radius: int, angle: int) -> None:
    source = Scripted(radius, angle, *[2**61] * 2)
    released = release_on_grid(np.asarray([0.1, -0.2]), "gaussian", 1.0, source)
    first, second = ideal("gaussian", [radius, angle], Fraction(1, 8))
    assert released.tolist() == [nearest(0.1, first), nearest(-0.2, second)]


def nearest(value: float, noise: Any) -> float:
    step = grid_step(1.0)
    with mpmath.workdps(200):
        return float(mpmath.floor((mpmath.mpf(value) + noise) / step + mpmath.mpf(1) / 2) * mpmath.mpf(step))


def test_a_rounding_that_the_prefix_leaves_open_draws_more_bits() -> None:
    """The value is put so that the sum lies on a boundary, up to the bits of the uniform that are not drawn yet."""
    word = 3 << 40  # the prefix leaves ln U open by 2^-42, a quarter of a millionth of a step
    with mpmath.workdps(60):
        noise = -mpmath.log(mpmath.mpf((word >> 1) + 0.5) / mpmath.mpf(2) ** 63)
        value = float((mpmath.floor(noise / grid_step(1.0)) + mpmath.mpf(1) / 2) * grid_step(1.0) - noise)
    results = set()
    for tail in (0, 2**64 - 1):
        source = Scripted(word, tail)
        (released,) = release_on_grid(np.asarray([value]), "laplace", 1.0, source)
        assert not source.script  # the tail was asked for
        exactly = ideal("laplace", [word], Fraction(tail, 2**64))[0]
        assert released == nearest(value, exactly)
        results.add(released)
    assert len(results) == 2


def test_a_radius_next_to_zero_is_not_taken_for_zero() -> None:
    """In floating point U would be 1 and the noise 0; it is 4e-10, which here carries the sum over a boundary."""
    step = grid_step(1.0)
    value = step / 2 - 2e-10
    (released,) = release_on_grid(np.asarray([value]), "gaussian", 1.0, Scripted(2**64 - 1, 0, 2**61, 2**61))
    noise, _ = ideal("gaussian", [2**64 - 1, 0], Fraction(1, 8))
    assert released == nearest(value, noise) == step


def test_an_angle_that_leaves_the_rounding_open_gets_more_bits_too() -> None:
    """Next to a quarter turn it is the angle that counts, not the radius."""
    radius, angle = 2**63, 2**62 - 2**50
    step = grid_step(1.0)
    with mpmath.workdps(60):
        turn = 2 * mpmath.pi * (mpmath.mpf(angle >> 1) + 0.5) / mpmath.mpf(2) ** 63
        noise = mpmath.sqrt(2 * mpmath.log(2)) * mpmath.cos(turn)
        value = float((mpmath.floor(noise / step) + mpmath.mpf(1) / 2) * step - noise)
    results = []
    for tail in (0, 2**64 - 1):
        source = Scripted(radius, angle, 0, tail)
        results += release_on_grid(np.asarray([value]), "gaussian", 1.0, source).tolist()
        assert not source.script
    assert results[0] == results[1] + step


@pytest.mark.parametrize("negative", [0, 1])
def test_which_side_of_the_bound_a_draw_is_on_is_decided_exactly(negative: int) -> None:
    """The bound is put where the prefix leaves it open, so that the tail decides."""
    word = 2**44 + 24690 + negative
    with mpmath.workdps(60):
        bound = float(-mpmath.log((mpmath.mpf(word >> 1) + 0.5) / mpmath.mpf(2) ** 63))
    for tail, noise in ((0, bound / 2), (2**64 - 1, -bound if negative else bound)):
        source = Scripted(word, tail)
        (released,) = release_on_grid(np.zeros(1), "bounded_laplace", 1.0, source, bound=bound)
        assert not source.script
        assert released == nearest(0.0, noise)


def test_both_draws_of_a_pair_see_the_same_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(sampling, "rounded_gaussian", lambda v, step, s, r, a, sine: seen.append((id(r), id(a))) or 0)
    monkeypatch.setattr(sampling, "_GAUSSIAN_ERROR", 1.0)
    release_on_grid(np.zeros(5), "gaussian", 1.0, NoiseSource())
    assert len(seen) == 5
    assert seen[0] == seen[3] != seen[1] == seen[4]


def test_more_bits_of_a_uniform_leave_the_first_as_they_are() -> None:
    uniform = LazyUniform(12345, 63, Scripted(7, 2**64 - 1))
    uniform.extend()
    assert (uniform.prefix, uniform.bits) == (12345 * 2**64 + 7, 127)
    uniform.extend()
    assert uniform.prefix >> 128 == 12345
    assert uniform.prefix & (2**64 - 1) == 2**64 - 1
    assert uniform.bits == 191


def test_intervals_hold_the_true_value() -> None:
    rng = np.random.default_rng(8)
    for prefix in rng.integers(1, 2**63, 40, np.uint64).tolist():
        uniform = LazyUniform(prefix, 63, NoiseSource())
        ctx = exact._context(63)
        u = exact._interval(ctx, uniform)
        with mpmath.workdps(120):
            for share in (0.0, 0.5, 1.0):
                true = (mpmath.mpf(prefix) + share) / mpmath.mpf(2) ** 63
                turn = 2 * mpmath.pi * true
                pairs = [
                    (ctx.log(u), mpmath.log(true)),
                    (ctx.sqrt(-2 * ctx.log(u)), mpmath.sqrt(-2 * mpmath.log(true))),
                    (ctx.cos(2 * ctx.pi * u), mpmath.cos(turn)),
                    (ctx.sin(2 * ctx.pi * u), mpmath.sin(turn)),
                ]
                for interval, point in pairs:
                    low, high = exact._ends(interval)
                    assert low <= Fraction(*mpmath.libmp.to_rational(point._mpf_)) <= high


def test_floating_point_is_as_accurate_as_the_argument_assumes() -> None:
    """The logarithm to 4 ulp, sine and cosine to 2^-50, over the arguments that occur; whole draws to their bound."""
    rng = np.random.default_rng(9)
    prefixes = np.concatenate(
        [
            rng.integers(2**43, 2**63, 3000),
            (2.0 ** rng.uniform(43, 63, 3000)).astype(np.int64),
            2**63 - 1 - (2.0 ** rng.uniform(0, 60, 3000)).astype(np.int64),
        ]
    )
    turns = rng.permutation(prefixes)
    u, turn = (prefixes + 0.5) * 2.0**-63, (turns + 0.5) * (2.0**-63 * 2 * math.pi)
    logs, cosines, sines = np.log(u), np.cos(turn), np.sin(turn)
    noise = sampling._Noise(1.0, grid_step(1.0), None)
    laplace = sampling._fast_laplace(np.zeros(len(u)), prefixes, np.zeros(len(u), bool), noise)
    gaussian = sampling._fast_gaussian(np.zeros(2 * len(u)), prefixes, turns, noise)
    worst_log = worst_turn = 0.0
    with mpmath.workdps(50):
        for i in range(len(u)):
            worst_log = max(worst_log, float(abs(mpmath.log(mpmath.mpf(u[i])) - logs[i])) / np.spacing(abs(logs[i])))
            for found, function in ((cosines[i], mpmath.cos), (sines[i], mpmath.sin)):
                worst_turn = max(worst_turn, float(abs(function(mpmath.mpf(turn[i])) - found)))
            for shift in (0, 1):  # either end of what the prefix leaves open
                low = -mpmath.log((mpmath.mpf(int(prefixes[i])) + shift) / mpmath.mpf(2) ** 63)
                assert abs(low / noise.step - laplace.sums[i]) < laplace.error
                if not gaussian.unproven[i]:
                    angle = 2 * mpmath.pi * (mpmath.mpf(int(turns[i])) + shift) / mpmath.mpf(2) ** 63
                    for j, function in ((i, mpmath.cos), (i + len(u), mpmath.sin)):
                        assert (
                            abs(mpmath.sqrt(2 * low) * function(angle) / noise.step - gaussian.sums[j]) < gaussian.error
                        )
    assert worst_log <= 4
    assert worst_turn <= 2.0**-50


def test_values_far_larger_than_the_grid() -> None:
    """Beyond 2^53 steps the sum is rounded to a float, once, as a function of the exact sum."""
    value, count = 2.0**40 + 1, 200_000
    released = draws("laplace", count, scale=2.0**-13, value=value)
    assert set(np.unique(released)) <= {value + k * 2.0**-12 for k in range(-400, 400)}
    assert (
        stats.kstest(
            (released - value) * 2**13 + np.random.default_rng(0).uniform(-1, 1, count), _smeared_laplace
        ).pvalue
        > ALPHA
    )
    assert draws("gaussian", 3, scale=1.0, value=1e150).tolist() == [1e150] * 3


def _smeared_laplace(v: np.ndarray) -> np.ndarray:
    """Distribution of Laplace noise rounded to multiples of 2, plus uniform noise on [-1, 1]."""
    k = 2 * np.floor((v + 1) / 2)
    below, above = stats.laplace.cdf(k - 1), stats.laplace.cdf(k + 1)
    return below + (above - below) * (v - (k - 1)) / 2


def test_float32_values_and_shapes() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
    wide = release_on_grid(values.astype(np.float64), "gaussian", 0.1, seeded(), simulation=True)
    narrow = release_on_grid(values, "gaussian", 0.1, seeded(), simulation=True)
    assert narrow.dtype == np.float64
    assert narrow.shape == (3, 4)
    np.testing.assert_array_equal(wide, narrow)
    assert release_on_grid(np.asarray(0.5), "laplace", 1.0, NoiseSource()).shape == ()
    assert release_on_grid(np.zeros((0, 3)), "laplace", 1.0, NoiseSource()).shape == (0, 3)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_seeded_source_is_refused_outside_simulation() -> None:
    with pytest.raises(PrivacyError, match="seeded"):
        release_on_grid(np.zeros(3), "laplace", 1.0, seeded())
    assert seeded().predictable
    assert not NoiseSource().predictable


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 5e-324, 1e-200, 1e200])
def test_scales_that_cannot_protect_are_refused(scale: float) -> None:
    with pytest.raises(PrivacyError, match="scale"):
        release_on_grid(np.zeros(3), "laplace", scale, NoiseSource())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_values_that_cannot_be_released_are_refused(bad: float) -> None:
    with pytest.raises(PrivacyError, match=r"value .*scale 0\.5"):
        release_on_grid(np.asarray([0.0, bad]), "gaussian", 0.5, NoiseSource())


def test_other_refusals() -> None:
    with pytest.raises(PrivacyError, match="int64"):
        release_on_grid(np.zeros(3, np.int64), "laplace", 1.0, NoiseSource())
    with pytest.raises(PrivacyError, match="cauchy"):
        release_on_grid(np.zeros(3), "cauchy", 1.0, NoiseSource())  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="bound None"):
        release_on_grid(np.zeros(3), "bounded_laplace", 1.0, NoiseSource())
    with pytest.raises(PrivacyError, match="no other has"):
        release_on_grid(np.zeros(3), "laplace", 1.0, NoiseSource(), bound=1.0)
    for bound in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(PrivacyError, match="bound"):
            release_on_grid(np.zeros(3), "bounded_laplace", 1.0, NoiseSource(), bound=bound)
