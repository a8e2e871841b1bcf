"""What a peer does to make a declared sensitivity true."""

from __future__ import annotations

from tests.mutation.mutant import of

EACH = "test_each_record_is_held_to_its_part_in_the_norm_of_the_noise"
ALONE = "test_what_keeps_to_its_declaration_is_left_alone"
WHOLE = "test_what_cannot_be_taken_apart_is_held_to_its_part_as_a_whole"
OTHER = "test_a_mean_over_other_records_is_held_to_theirs"
NOTHING = "test_of_what_no_record_may_move_nothing_leaves"
JUDGED = "test_the_change_is_judged_in_the_norm_of_the_noise"

MUTANTS = of(
    "privacy/enforcement.py",
    "tests/peer/test_enforcement.py",
    [
        (
            "a record has the part of the whole batch",
            "limit = sensitivity / 2 * places",
            "limit = sensitivity / 2",
            ALONE,
        ),
        ("a record may be twice as long", "limit = sensitivity / 2 * places", "limit = sensitivity * places", EACH),
        (
            "a whole may be twice as long",
            "_within(value, sensitivity / 2 * records, norm)",
            "_within(value, sensitivity * records, norm)",
            WHOLE,
        ),
        ("records are left as they are", "_within(of_one(record), limit, norm)", "of_one(record)", EACH),
        ("a whole is left as it is", "kept = _within(value, sensitivity / 2 * records, norm)", "kept = value", WHOLE),
        ("a sum instead of a mean", "jnp.sum(leaf, axis=0) / places, each", "jnp.sum(leaf, axis=0), each", ALONE),
        ("Laplace noise is held to l2", '"l2" if mechanism.distribution == "gaussian" else "l1"', '"l2"', EACH),
        ("Gaussian noise is held to l1", '"l2" if mechanism.distribution == "gaussian" else "l1"', '"l1"', EACH),
        (
            "components are held together",
            '    if mechanism.adjacency == "component":\n        return "linf"\n',
            "",
            EACH,
        ),
        ("everything is held to linf", 'if mechanism.adjacency == "component":', "if True:", EACH),
        ("what cannot be taken apart is", "mechanism.mean_over is not None or", "", OTHER),
        (
            "what is a mean over other records is one of one",
            "jnp.ones(()) if mechanism.mean_over is None else mechanism.mean_over(view, extent)",
            "jnp.ones(())",
            OTHER,
        ),
        ("a data set is taken for its records", 'or mechanism.adjacency == "dataset" or', "or", WHOLE),
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
