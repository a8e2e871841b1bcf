"""What a peer does to make a declared sensitivity true."""

from __future__ import annotations

from tests.mutation.mutant import of

EACH = "test_each_record_is_held_to_its_part_in_the_norm_of_the_noise"
ALONE = "test_what_keeps_to_its_declaration_is_left_alone"
WHOLE = "test_what_cannot_be_taken_apart_is_held_to_its_part_as_a_whole"
OTHER = "test_a_mean_over_other_records_is_held_to_theirs"
FEWER = "test_a_mean_over_fewer_records_than_places_is_taken_apart"
NOTHING = "test_of_what_no_record_may_move_nothing_leaves"
JUDGED = "test_the_change_is_judged_in_the_norm_of_the_noise"

MUTANTS = of(
    "privacy/enforcement.py",
    "tests/peer/test_enforcement.py",
    [
        (
            "a record has the part of the whole batch",
            "limit = sensitivity / 2 * records",
            "limit = sensitivity / 2",
            ALONE,
        ),
        ("a record may be twice as long", "limit = sensitivity / 2 * records", "limit = sensitivity * records", EACH),
        (
            "a whole may be twice as long",
            "_within(value, sensitivity / 2 * records, norm)",
            "_within(value, sensitivity * records, norm)",
            WHOLE,
        ),
        ("records are left as they are", "_within(of_one(record), limit, norm)", "of_one(record)", EACH),
        ("a whole is left as it is", "kept = _within(value, sensitivity / 2 * records, norm)", "kept = value", WHOLE),
        (
            "a sum instead of a mean",
            "lambda leaf: leaf / count.astype(leaf.dtype)",
            "lambda leaf: leaf",
            ALONE,
        ),
        ("Laplace noise is held to l2", '"l2" if mechanism.distribution == "gaussian" else "l1"', '"l2"', EACH),
        ("Gaussian noise is held to l1", '"l2" if mechanism.distribution == "gaussian" else "l1"', '"l1"', EACH),
        (
            "components are held together",
            '    if mechanism.adjacency == "component":\n        return "linf"\n',
            "",
            EACH,
        ),
        ("everything is held to linf", 'if mechanism.adjacency == "component":', "if True:", EACH),
        ("what cannot be taken apart is", " or (mean_over is not None and not mechanism.apart)", "", OTHER),
        (
            "what can be taken apart is not",
            "mean_over is not None and not mechanism.apart",
            "mean_over is not None",
            FEWER,
        ),
        (
            "what is a mean over other records is one of one",
            "if mean_over is None else mean_over(view, extent)",
            "if mean_over is None else jnp.ones(())",
            OTHER,
        ),
        (
            "a mean over fewer records is one over the places",
            "if mean_over is None else mean_over(view, extent)",
            "if mean_over is None or mechanism.apart else mean_over(view, extent)",
            FEWER,
        ),
        (
            "records that come twice are a mean over half of them",
            "jnp.maximum(records, present_in(batch))",
            "jnp.asarray(records)",
            FEWER,
        ),
        ("a data set is taken for its records", "whole = dataset or", "whole =", WHOLE),
        ("a data set has the part of all its records", "1 if dataset else places", "places", WHOLE),
        (
            "what no record may move leaves",
            "jnp.where(limit > 0, unit * safe.astype(leaf.dtype), 0)",
            "unit * safe.astype(leaf.dtype)",
            NOTHING,
        ),
        ("nothing was cut", "~(_size(apart, norm) <= NOTICED * sensitivity)", "jnp.zeros((), bool)", EACH),
        ("everything was cut", "~(_size(apart, norm) <= NOTICED * sensitivity)", "jnp.ones((), bool)", ALONE),
        (
            "what is no number was not cut",
            "~(_size(apart, norm) <= NOTICED * sensitivity)",
            "_size(apart, norm) > NOTICED * sensitivity",
            "test_what_is_not_finite_is_told",
        ),
        ("a cut by a hundredth is not told", "NOTICED = 1e-3", "NOTICED = 1e-2", JUDGED),
        ("rounding is a cut", "NOTICED = 1e-3", "NOTICED = 1e-8", JUDGED),
        (
            "in l1 the largest change counts",
            'jnp.sum(whole) if norm == "l1" else',
            'jnp.max(whole) if norm == "l1" else',
            JUDGED,
        ),
        ("in l1 the change is judged in l2", 'jnp.sum(whole) if norm == "l1" else', "", JUDGED),
    ],
)
