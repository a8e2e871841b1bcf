"""Clipping and the clipped gradient."""

from __future__ import annotations

from tests.mutation.mutant import of

MUTANTS = (
    of(
        "privacy/clipping.py",
        "tests/privacy/test_clipping.py",
        [
            (
                "the bound is not lowered by the rounding error",
                "(1 - roundings * widest)",
                "(1 + 0 * roundings * widest)",
                "test_norm_is_never_above_the_bound_and_the_direction_stays",
                "test_the_worst_of_many_is_still_within",
            ),
            (
                "the bound is lowered far too much",
                "_FIXED_ROUNDINGS + len(arrays) + BLOCK * deepest",
                "4e4",
                "test_norm_is_never_above_the_bound_and_the_direction_stays",
                "test_just_inside_and_just_outside",
            ),
            (
                "huge vectors are not brought near 1",
                "1 / far, jnp.where(largest < 1 / far, far, 1.0)",
                "1.0, jnp.where(largest < 1 / far, far, 1.0)",
                "test_many_coordinates",
            ),
            (
                "l2 is computed as l1",
                "share * share)",
                "jnp.abs(share))",
                "test_just_inside_and_just_outside",
                "test_norm_is_never_above_the_bound_and_the_direction_stays",
            ),
            (
                "vectors up to half above the bound pass",
                "norm * largest <= lowered",
                "norm * largest <= 1.5 * lowered",
                "test_just_inside_and_just_outside",
                "test_norm_is_never_above_the_bound_and_the_direction_stays",
            ),
            (
                "vectors inside the bound are scaled",
                "norm * largest <= lowered",
                "norm * largest <= 0.5 * lowered",
                "test_what_is_inside_comes_back_bit_for_bit",
            ),
            (
                "what is not finite is scaled",
                "jnp.where(finite, (share * factor).astype(array.dtype), 0)",
                "(share * factor).astype(array.dtype)",
                "test_what_is_not_finite_becomes_zero_and_is_told",
            ),
            (
                "everything is scaled",
                "jnp.where(inside, array, ",
                "jnp.where(False, array, ",
                "test_what_is_inside_comes_back_bit_for_bit",
            ),
            (
                "linf lets through the finite part of what is not finite",
                "jnp.abs(array) <= limit, jnp.where(finite, array, 0)",
                "jnp.abs(array) <= limit, array",
                "test_what_is_not_finite_becomes_zero_and_is_told",
            ),
            (
                "the bound is rounded to nearest",
                "rounded if float(rounded) <= value else",
                "rounded if True else",
                "test_the_worst_of_many_is_still_within",
            ),
            (
                "absent records count",
                "jnp.asarray(weight) > 0, leaf, 0",
                "jnp.asarray(weight) >= 0, leaf, 0",
                "test_absent_records_contribute_nothing_whatever_they_hold",
            ),
            (
                "a sum instead of a mean",
                "lambda leaf: leaf / jnp.asarray(count, leaf.dtype)",
                "lambda leaf: leaf",
                "test_each_record_is_clipped_and_the_regulariser_is_not",
            ),
            (
                "a mean over the records that are present, whose number is data",
                "records_at_once(one)), count)",
                "records_at_once(one)), jnp.sum(getattr(batch, 'weight', jnp.ones(records_in(batch)))))",
                "test_absent_records_contribute_nothing_whatever_they_hold",
                "test_replacing_one_record_moves_the_gradient_by_at_most_the_sensitivity",
                "test_one_weight_for_all_records",
            ),
            (
                "the regulariser is clipped with the record",
                "if isinstance(loss, Separable) else",
                "if False else",
                "test_each_record_is_clipped_and_the_regulariser_is_not",
            ),
            (
                "the regulariser is left out",
                "return found if penalty is None else",
                "return found if True else",
                "test_each_record_is_clipped_and_the_regulariser_is_not",
            ),
            (
                "the mean is clipped, not each record",
                "        clipped = of_each(of_one(params, record, *key))\n",
                "        clipped = of_one(params, record, *key)\n",
                "test_each_record_is_clipped_and_the_regulariser_is_not",
                "test_opposite_records_reach_the_sensitivity",
            ),
            (
                "one weight for all records is taken apart",
                "0 if jnp.ndim(leaf) else None",
                "0",
                "test_one_weight_for_all_records",
            ),
            (
                "the end of a long vector is left out of the sum",
                "terms = jnp.pad(terms, (0, -terms.size % BLOCK))",
                "terms = terms[: terms.size // BLOCK * BLOCK]",
                "test_many_coordinates",
                "test_the_worst_of_many_is_still_within",
            ),
            (
                "linf forgets the sign",
                "jnp.where(array > 0, limit, -limit)",
                "limit",
                "test_linf_reaches_the_bound_itself_but_not_the_float_above",
                "test_norm_is_never_above_the_bound_and_the_direction_stays",
            ),
            (
                "the lower bound of bounds is gone",
                "_SMALLEST_BOUND <= clip.bound",
                "0 <= clip.bound",
                "test_a_bound_that_means_nothing_is_refused",
            ),
        ],
    )
    + of(
        "privacy/per_record/gradients.py",
        "tests/privacy/test_per_record.py",
        [
            (
                "an absent record of a large model counts",
                "jnp.asarray(weight) > 0",
                "jnp.asarray(weight) >= 0",
                "test_it_is_the_sum_of_gradients_clipped_one_by_one",
            ),
            (
                "a parameter that is used twice is taken for a layer",
                "len(uses) == 1",
                "len(uses) >= 1",
                "test_it_is_the_sum_of_gradients_clipped_one_by_one",
            ),
        ],
    )
    + of(
        "privacy/per_record/norms.py",
        "tests/privacy/test_per_record.py",
        [
            (
                "what a layer saw is summed though it is not finite",
                "jnp.where(self.finite, array * first * second, 0)",
                "array * first * second",
                "test_a_record_without_a_direction_counts_zero_and_spoils_no_other",
            ),
            (
                "the parts of a gradient are compared without their scales",
                "total = total + jnp.square(size.mantissa * lift)",
                "total = total + jnp.square(size.mantissa)",
                "test_no_record_of_any_kind_contributes_more_than_the_bound",
                "test_it_is_the_sum_of_gradients_clipped_one_by_one",
            ),
            (
                "the bound is not lowered",
                "rounded_down(clip.bound * (1 - roundings * eps), dtype)",
                "rounded_down(clip.bound * (1 + roundings * eps), dtype)",
                "test_no_record_of_any_kind_contributes_more_than_the_bound",
            ),
            (
                "a row that is looked up twice counts as two",
                "rows[:, None] == rows[None, :]",
                "jnp.eye(count, dtype=bool)",
                "test_no_record_of_any_kind_contributes_more_than_the_bound",
            ),
        ],
    )
    + of(
        "privacy/per_record/records.py",
        "tests/privacy/test_clipping.py",
        [
            (
                "a batch without places is taken",
                "if places == 0:",
                "if False:",
                "test_the_number_of_places_is_a_shape",
            ),
        ],
    )
)
