"""Samplers, exact arithmetic and the source of their bits."""

from __future__ import annotations

from tests.mutation.mutant import of

DISTRIBUTION = "tests/privacy/test_sampling_distribution.py"

MUTANTS = (
    *of(
        "privacy/noise/sampling.py",
        "tests/privacy/test_sampling.py",
        [
            ("a zero keeps its sign", "+ 0.0).reshape", "+ -0.0).reshape", "test_a_released_zero_has_no_sign"),
            (
                "the grid is finer than said",
                "math.frexp(scale)[1] - 21",
                "math.frexp(scale)[1] - 22",
                "test_the_grid_depends_on_the_scale_alone",
            ),
            (
                "a seeded source is taken",
                "if source.predictable and not simulation",
                "if False",
                "test_a_seeded_source_is_refused_outside_simulation",
            ),
            (
                "a small U counts as proven",
                "unproven = prefixes < _SMALLEST_PREFIX",
                "unproven = prefixes < 0",
                "test_laplace_at_the_ends_of_the_uniform",
                "test_a_rounding_that_the_prefix_leaves_open_draws_more_bits",
            ),
            (
                "a small U of a pair counts as proven",
                "(radii < _SMALLEST_PREFIX) | (minus_log < _SMALLEST_LOG)",
                "minus_log < _SMALLEST_LOG",
                "test_gaussian_at_the_ends_of_the_uniforms",
            ),
            (
                "a U next to 1 counts as proven",
                " | (minus_log < _SMALLEST_LOG)",
                "",
                "test_a_radius_next_to_zero_is_not_taken_for_zero",
            ),
            (
                "what is unproven is not decided exactly",
                "0.5 - self.error) | self.unproven",
                "0.5 - self.error)",
                "test_laplace_at_the_ends_of_the_uniform",
                "test_gaussian_at_the_ends_of_the_uniforms",
            ),
            (
                "the error of a fast draw is ignored",
                "(to_nearest >= 0.5 - self.error)",
                "(to_nearest >= 0.5)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "noise has one sign",
                "-size, size)",
                "size, size)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "the error bound of Laplace draws is too small",
                "_LAPLACE_ERROR = 2.0**-43",
                "_LAPLACE_ERROR = 2.0**-46",
                "test_floating_point_is_as_accurate_as_the_argument_assumes",
            ),
            (
                "the error bound of Gaussian draws is too small",
                "_GAUSSIAN_ERROR = 2.0**-42",
                "_GAUSSIAN_ERROR = 2.0**-48",
                "test_floating_point_is_as_accurate_as_the_argument_assumes",
            ),
            (
                "what is outside the bound becomes the bound",
                "limit / 2, signed",
                "limit, signed",
                "test_exact_arithmetic_decides_as_floating_point_does",
                f"{DISTRIBUTION}::test_bounded_laplace",
            ),
            (
                "which side of the bound is left to floats",
                "unproven |= np.abs(size - limit) <= error",
                "pass",
                "test_which_side_of_the_bound_a_draw_is_on_is_decided_exactly",
            ),
            (
                "sine and cosine change places at the middle of an odd number",
                "sine=i >= pairs",
                "sine=i > pairs",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "the draws of a pair see different further bits",
                "if pair not in uniforms:",
                "if True:",
                "test_both_draws_of_a_pair_see_the_same_further_bits",
            ),
            (
                "Gaussian noise is 1 % too wide",
                "np.log((radii + 0.5)",
                "1.02 * np.log((radii + 0.5)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "Laplace noise is 1 % too wide",
                "np.log((prefixes + 0.5)",
                "1.01 * np.log((prefixes + 0.5)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "both draws of a pair are the same",
                "length * np.sin(turn)",
                "length * np.cos(turn)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "the value is a little off",
                "places - whole",
                "places - whole + 1e-3",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "values that overflow are taken",
                "allowed = np.abs(array) <= _LARGEST",
                "allowed = ~np.isnan(array)",
                "test_values_that_cannot_be_released_are_refused",
            ),
            (
                "no noise at all is taken",
                "if not 1 / _LARGEST <= scale <= _LARGEST:",
                "if not 0 <= scale <= _LARGEST:",
                "test_scales_that_cannot_protect_are_refused",
            ),
        ],
    ),
    *of(
        "privacy/noise/exact.py",
        "tests/privacy/test_sampling.py",
        [
            (
                "what is outside the bound becomes the bound",
                "floor(place + limit / 2 + Fraction(1, 2))",
                "floor(place + limit + Fraction(1, 2))",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "exact noise has one sign",
                "(-high, -low) if negative",
                "(low, high) if negative",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
            (
                "the lower end decides",
                "return low if low == high else None",
                "return low",
                "test_a_rounding_that_the_prefix_leaves_open_draws_more_bits",
            ),
            (
                "undrawn bits are taken to be zeros",
                "uniform.prefix + 1])",
                "uniform.prefix])",
                "test_a_rounding_that_the_prefix_leaves_open_draws_more_bits",
                "test_intervals_hold_the_true_value",
            ),
            (
                "a further bit overwrites a known one",
                "self.prefix << 64 |",
                "self.prefix << 63 |",
                "test_more_bits_of_a_uniform_leave_the_first_as_they_are",
            ),
            (
                "the angle gets no further bits",
                "        angle.extend()\n",
                "",
                "test_an_angle_that_leaves_the_rounding_open_gets_more_bits_too",
            ),
            (
                "exact rounding is downward",
                "floor(place + end + Fraction(1, 2))",
                "floor(place + end)",
                "test_exact_arithmetic_decides_as_floating_point_does",
            ),
        ],
    ),
    *of(
        "privacy/noise/entropy.py",
        "tests/privacy/test_entropy.py",
        [
            ("every key is zero", "os.urandom(_KEY_BYTES) if", "bytes(_KEY_BYTES) if"),
            ("a seeded source gives the same words again", "self._next_key = stream[:_KEY_BYTES]", "pass"),
            ("the next key is given out", "offset=_KEY_BYTES", "offset=0"),
            (
                "a seeded source does not say so",
                "return self._next_key is not None",
                "return False",
                "tests/privacy/test_sampling.py::test_a_seeded_source_is_refused_outside_simulation",
            ),
            (
                "a source keeps its key",
                "key = os.urandom(_KEY_BYTES) if self._next_key is None else self._next_key",
                "key = self._next_key = self._next_key or os.urandom(_KEY_BYTES)",
            ),
        ],
    ),
)
